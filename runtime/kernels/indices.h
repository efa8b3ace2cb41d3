/* Which elements of an axis, or of a whole sample, kernels of both backends take from where.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_INDICES_H
#define FF_RUNTIME_INDICES_H

#include "ff/backend.h"
#include "ff/strided.h"

/* The copy of a slice that `w` is a part of: forward from input to output, or back. */
void ff_strided_slice(const struct ff_work *w, struct ff_strided *ret);

/* A gather as it lies: `outer` times rows of `inner` neighbours, `rows` of the input and `n` of
 * the output. */
struct ff_gather {
	int64_t outer, inner, rows, n;
};
void ff_gather_fill(const struct ff_work *w, struct ff_gather *ret);
/* How many numbers ff_gather_table() writes. */
static inline int64_t ff_gather_numbers(const struct ff_gather *g)
{
	return 2 * g->n + g->rows + 1;
}
/* For each row of the output that of the input; then, for the gradient, by row of the input where
 * its rows of the output begin in the list behind (rows + 1 numbers); then that list, ascending. */
void ff_gather_table(const struct ff_work *w, const struct ff_gather *g, int32_t *ret);

/* A pad as it lies: a copy between what is there on both sides, forward or back. */
struct ff_padding {
	enum ff_dtype type;
	enum ff_pass pass;
	int64_t fill; /* forward: elements of the output, where some are outside the input; or 0 */
	uint8_t order[FF_MAX_RANK];
	struct ff_region in, out; /* in the output's coordinates */
};
void ff_padding_fill(const struct ff_work *w, struct ff_padding *ret);
/* `p` must outlive it. */
struct ff_copy ff_padding_copy(const struct ff_padding *p, const struct ff_kernel_io *io);

/* Whether each sample has numbers of its own: their axis is no dim of samples then. */
static inline bool ff_constant_each(const struct ff_work *w)
{
	return w->node->dim[0].label != FF_DIM_SAMPLE;
}

/* What a part of a constant has of one sample, or of all if each has its own, as it lies, of the
 * type it computes in; how many elements. */
int64_t ff_constant_sample(const struct ff_work *w);
void ff_constant_fill(const struct ff_work *w, void *ret);

#endif
