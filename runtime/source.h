/* A source of samples, behind ff_dataset: what the IDX reader and the synthetic
 * generator have in common.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SOURCE_H
#define FF_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"
#include "ff/region.h"

/* What the graph wants of a sample. */
struct ff_sample_shape {
	int64_t elements; /* of one sample, all axes but the first */
	uint32_t rank;    /* of those axes */
	int32_t shape[FF_MAX_RANK];
	int32_t classes;
};

/* An input of int32 ids. */
struct ff_ids {
	uint32_t node; /* inputs draw different ids */
	int32_t classes;
	int64_t elements; /* of one sample */
};

struct ff_source {
	int64_t samples[2]; /* for testing, for training */
	/* `n` values of one sample from its row-major element `first` on, to
	 * out[0], out[step], out[2 * step] ... */
	void (*line)(const struct ff_source *s, bool train, int64_t sample, int64_t first,
			int32_t n, float *out, int64_t step);
	int32_t (*label)(const struct ff_source *s, bool train, int64_t sample);
	/* Row-major element `at` of one sample's ids; NULL: it has none. */
	int32_t (*id)(const struct ff_source *s, bool train, int64_t sample,
			const struct ff_ids *ids, int64_t at);
	void (*close)(struct ff_source *s);
};

/* Samples in a folder with the four IDX files, gz or not. */
int ff_idx_open(const char *folder, const struct ff_sample_shape *shape, struct ff_source **ret,
		struct ff_error *err);
/* `samples` for training and a quarter as many for testing, rounded up: a
 * prototype for each class plus noise of the same strength; of ids the class's, but
 * for one in four. */
int ff_synthetic_open(int64_t samples, const struct ff_sample_shape *shape, uint64_t seed,
		struct ff_source **ret, struct ff_error *err);

#endif
