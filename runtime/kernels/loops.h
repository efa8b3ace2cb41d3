/* Loops over elements of which several arrays have each or, by a stride of 0, share some:
 * broadcasts and the sums that are their gradients.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_LOOPS_H
#define FF_RUNTIME_LOOPS_H

#include "ff/work.h"

enum { FF_LOOP_X, FF_LOOP_Y, FF_LOOP_Z, FF_LOOP_READ }; /* what is read */

/* Nested loops, outermost first; strides in elements.  The first `kept` go through what is
 * written, which is dense; what the others come by becomes one element of it.  Kernels of
 * devices take it as it is: without padding. */
struct ff_loops {
	uint32_t rank, kept;
	int64_t n[FF_MAX_RANK], stride[FF_LOOP_READ][FF_MAX_RANK];
};

/* Loops of a node of two operands that `w` is a part of: those that write its output (`sink` -1)
 * from x and y, or the gradient of an operand from x, y and z, the output's. */
void ff_loops_binary(const struct ff_work *w, int sink, struct ff_loops *ret);

/* Loops over the elements of a part of a node's two inputs of one shape, as the first, x, lies. */
void ff_loops_alike(const struct ff_work *w, struct ff_loops *ret);

/* Loops of a reduce_* that `w` is a part of: from x, the input, to the output; or to the gradient
 * of the input from z, the output's, and y, the output. */
void ff_loops_reduce(const struct ff_work *w, bool backward, struct ff_loops *ret);
/* Of a reduce_max, whose prelude writes neighbours (the largest, and how many): to one element for
 * each two of them from x, the input, which share it as those of y do; from x, the prelude's, to
 * the output; and to the gradient of the input from x, it, y, the prelude's, and z, the output's.
 */
void ff_loops_statistics(const struct ff_work *w, struct ff_loops *ret);
void ff_loops_largest(const struct ff_work *w, bool backward, struct ff_loops *ret);
/* Loops of an expand: from x, what is expanded, to the output; or to its gradient from z, the
 * output's. */
void ff_loops_expand(const struct ff_work *w, bool backward, struct ff_loops *ret);
/* How many elements of the whole input become one of the output. */
int64_t ff_reduce_count(const struct ff_node *n);

/* Of a matmul: between a shard of operand `side` (0, 1; 2: the output) and that as matrices one
 * behind the other, one for each of the output's: to them, or from x, them, to the shard, where
 * matrices that share one are added up. */
void ff_loops_matrices(const struct ff_work *w, uint32_t side, bool back, struct ff_loops *ret);
/* Whether it copies all elements as they lie. */
static inline bool ff_loops_still(const struct ff_loops *l)
{
	return l->kept == l->rank && (!l->rank || (l->rank == 1 && l->stride[FF_LOOP_X][0] == 1));
}

static inline int64_t ff_loops_volume(const struct ff_loops *l, uint32_t first, uint32_t end)
{
	int64_t n = 1;

	for (uint32_t i = first; i < end; i++)
		n *= l->n[i];
	return n;
}

#endif
