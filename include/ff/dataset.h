/* Data sets.  The order of samples depends on the seed and the epoch alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATASET_H
#define FF_DATASET_H

#include "ff/graph.h"
#include "ff/paths.h"

struct ff_dataset;

/* `spec` is FORMAT[,OPTION=VALUE]...:WHAT, or a path that tells its format (docs/formats.md lists
 * them).  It has samples for every input of the graph, of its shape and with as many classes at
 * most, else FF_E_INPUT.  `g` must outlive it. */
int ff_dataset_open(const char *spec, const struct ff_graph *g, uint64_t seed,
		struct ff_dataset **ret, struct ff_error *err);
/* FF_E_INPUT where one of `out` is a file of the data set.  A `spec` that nothing is found for, or
 * NULL, has none. */
int ff_dataset_spares(
		const char *spec, const struct ff_path *out, uint32_t n_out, struct ff_error *err);
void ff_dataset_close(struct ff_dataset *d);
/* For testing there may be none. */
int64_t ff_dataset_samples(const struct ff_dataset *d, bool train);
/* Steps of an epoch: whole batches in training (of the epoch's order the rest is dropped),
 * rounded up in testing. */
int64_t ff_dataset_steps(const struct ff_dataset *d, bool train);
/* A hash of how many samples there are and of some of them: of the first, the middle and the last
 * for training and for testing.  Errors as ff_dataset_fill's. */
int ff_dataset_fingerprint(const struct ff_dataset *d, uint64_t *ret, struct ff_error *err);
/* Fills a dense shard of `region` of input `node` for global batch `step`.  Samples are shuffled
 * anew each epoch in training, and in order in testing.  Samples behind the last have labels that
 * are ignored, ids of -1, float targets of NaN, and else zeros.  FF_E_IO where a file cannot be
 * read (any more), FF_E_INPUT where it holds what is no class, or no number where the network
 * reads one. */
int ff_dataset_fill(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, void *shard, struct ff_error *err);
/* By loss of the graph, so many of `ret`: targets of global batch `step` that count, which are
 * labels but for those that it ignores; of float targets all numbers.  Errors are
 * ff_dataset_fill's. */
int ff_dataset_valid(const struct ff_dataset *d, bool train, uint64_t step, int64_t *ret,
		struct ff_error *err);

#endif
