/* Data sets.  The order of samples depends on the seed and the epoch alone.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATASET_H
#define FF_DATASET_H

#include "ff/graph.h"

struct ff_dataset;

/* "synthetic[:SAMPLES]" (learnable random classes), or a folder with IDX files
 * train-images-idx3-ubyte[.gz] and so on.  Shapes and number of classes must
 * fit the graph's inputs (the float32 one and the int32 labels that the loss reads),
 * else FF_E_INPUT.  Other int32 inputs are ids below their classes, which only
 * synthetic data has: an input's are those of the sample's class, but for one in
 * four; a graph of ids needs no float32 input.  Pixels are scaled to [0, 1], then normalised by the
 * training set's mean and standard deviation.  `g` must outlive it. */
int ff_dataset_open(const char *spec, const struct ff_graph *g, uint64_t seed,
		struct ff_dataset **ret, struct ff_error *err);
void ff_dataset_close(struct ff_dataset *d);
int64_t ff_dataset_samples(const struct ff_dataset *d, bool train);
/* Steps of an epoch: whole batches in training (the rest is dropped), rounded up in testing. */
int64_t ff_dataset_steps(const struct ff_dataset *d, bool train);
/* Fills a dense shard of `region` of input `node` for global batch `step`
 * (training: shuffled anew each epoch; testing: in order, samples behind the
 * last have label and ids -1). */
void ff_dataset_fill(const struct ff_dataset *d, bool train, uint64_t step, uint32_t node,
		const struct ff_region *region, void *shard);
/* Labels of global batch `step` that count, which are all but those of -1. */
int64_t ff_dataset_valid(const struct ff_dataset *d, bool train, uint64_t step);

#endif
