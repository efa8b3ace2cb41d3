/* Reductions: how partial results of one element, written by several parts, become
 * the element.  Each is commutative and, up to rounding, associative.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_REDUCE_H
#define FF_REDUCE_H

#include "ff/dtype.h"

enum ff_reduce {
	FF_REDUCE_SUM,
	FF_REDUCE_MAX,
	/* log(sum of exp(x)) of what each part has seen, as two neighbouring float32 m and
	 * r: the largest x, and the sum of exp(x - m) over all others, so that the result
	 * is m + log(1 + r).  As one number it would round to the magnitude of the largest
	 * x, and a loss near zero would drown in that (Milakov and Gimelshein, "Online
	 * normalizer calculation for softmax", 2018, carry 1 + r). */
	FF_REDUCE_LOG_SUM_EXP,
	/* Mean and variance of what each part has seen, as four neighbouring float32: how many
	 * there were, their mean, the sum of the squares of their distances from it, and what is
	 * added up.  Sums of squares themselves would lose a variance that is small beside the
	 * mean (Chan, Golub and LeVeque, "Updating Formulae and a Pairwise Algorithm for
	 * Computing Sample Variances", 1979). */
	FF_REDUCE_MOMENTS,
	/* The largest of what each part has seen, and how many are as large, as two neighbouring
	 * float32. */
	FF_REDUCE_TIES,
};
#define FF_REDUCE_COUNT 5
const char *ff_reduce_name(enum ff_reduce op); /* "sum", "max", "log-sum-exp", "moments", "ties" */

/* Neighbouring elements that only have a meaning together: no region parts them. */
static inline uint32_t ff_reduce_width(enum ff_reduce op)
{
	return op == FF_REDUCE_LOG_SUM_EXP || op == FF_REDUCE_TIES ? 2
	       : op == FF_REDUCE_MOMENTS                           ? 4
								   : 1;
}
/* Whether elements of type `t` are reduced by `op`: float32 by all, int32 (whose sums
 * wrap around) and bfloat16 by sum and max, uint8 by none. */
bool ff_reduce_takes(enum ff_reduce op, enum ff_dtype t);
/* The bits of every element of nothing (of a type that is not reduced: 0): reducing
 * with it changes nothing. */
uint32_t ff_reduce_identity(enum ff_reduce op, enum ff_dtype t);
/* sink = sink op source, `n` elements of type `t` each; n is a multiple of the width.
 * A bfloat16 result is that of float32 arithmetic, rounded once. */
void ff_reduce(enum ff_reduce op, enum ff_dtype t, int64_t n, const void *source, void *sink);

#endif
