/* Data sets.  The order of samples depends on the seed and the epoch alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATASET_H
#define FF_DATASET_H

#include "ff/graph.h"
#include "ff/paths.h"

struct ff_dataset;

/* `spec` is FORMAT[,OPTION=VALUE]...:WHAT, or a path from which the format is known
 * (docs/formats.md).  FF_E_INPUT unless it has samples for every input of the graph, of the right
 * shape and with no more classes.  `g` must outlive it. */
int ff_dataset_open(const char *spec, const struct ff_graph *g, uint64_t seed,
		struct ff_dataset **ret, struct ff_error *err);
/* FF_E_INPUT if one of `out` is a file of the data set.  A `spec` that is NULL or matches nothing
 * has no files. */
int ff_dataset_spares(
		const char *spec, const struct ff_path *out, uint32_t n_out, struct ff_error *err);
void ff_dataset_close(struct ff_dataset *d);
/* The number of samples; for testing it may be 0. */
int64_t ff_dataset_samples(const struct ff_dataset *d, bool train);
/* Steps of an epoch: in training whole batches only, the rest of the shuffled order is dropped; in
 * testing rounded up. */
int64_t ff_dataset_steps(const struct ff_dataset *d, bool train);
/* A hash of the numbers of samples, and of the first, middle and last sample for training and for
 * testing.  Errors as ff_dataset_fill. */
int ff_dataset_fingerprint(const struct ff_dataset *d, uint64_t *ret, struct ff_error *err);
/* Fills a dense shard of `region` of input `node` for global batch `step`.  Training shuffles the
 * samples anew each epoch; testing takes them in order.  After the last sample labels are ignored
 * ones, ids are -1, float targets are NaN, and all else is 0.  FF_E_IO: a file cannot be read.
 * FF_E_INPUT: a label is no class, or a value is no number. */
int ff_dataset_fill(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, void *shard, struct ff_error *err);
/* ret[i], by loss of the graph: how many targets of global batch `step` count: labels that it does
 * not ignore, or float targets that are numbers.  Errors as ff_dataset_fill. */
int ff_dataset_valid(const struct ff_dataset *d, bool train, uint64_t step, int64_t *ret,
		struct ff_error *err);

#endif
