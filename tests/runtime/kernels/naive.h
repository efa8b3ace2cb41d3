/* Every operator straight from its definition, in double precision, on whole
 * tensors: what kernels of a part are compared with.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_NAIVE_H
#define FF_TEST_NAIVE_H

#include "ff/work.h"

#define NAIVE_INPUTS 20

/* Arrays are whole tensors, row-major in the order of the axes.  Only what the
 * iteration box of `w` contributes is written; outputs start at zero. */
struct naive {
	const struct ff_work *w;
	const double *in[NAIVE_INPUTS], *dout; /* data, then parameters */
	double *out, *din[NAIVE_INPUTS];
	uint64_t seed, step;
	bool training;
	int64_t valid; /* labels that are not -1 */
};

/* What a batch norm has kept before, of all channels. */
#define NAIVE_KEPT_MEAN 0.25
#define NAIVE_KEPT_VARIANCE 2.0

/* Of a batch norm or its prelude: which of the statistics are those of channel c of sample s, by
 * s channels + c. */
int64_t naive_moments(const struct ff_node *n, int64_t plane);
int64_t naive_volume(uint32_t rank, const int32_t *shape);
/* Index of `at` in a whole tensor. */
int64_t naive_index(const struct ff_operand *o, const int32_t *at);
/* Moves `at` to the next position of `r`, last axis fastest; false at the end. */
bool naive_next(const struct ff_region *r, int32_t *at);
/* Goes to the first position of `r`, if there is one. */
bool naive_first(const struct ff_region *r, int32_t at[FF_MAX_DIMS]);
/* Iterates over a region: `at` is an array of FF_MAX_DIMS. */
#define NAIVE_EACH(at, region)                                                                     \
	for (int32_t at[FF_MAX_DIMS], more_##at = naive_first(region, at); more_##at;              \
			more_##at = naive_next(region, at))

/* Forward and backward in one go: out and din are all written. */
void naive_run(const struct naive *x);

/* Of what goes along axes with windows (naive_windows.c). */
void naive_conv(const struct naive *x);
void naive_conv_transpose(const struct naive *x);
void naive_pool(const struct naive *x);
void naive_resize(const struct naive *x);
void naive_response(const struct naive *x);

#endif
