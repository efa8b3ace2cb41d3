/* One node and one box of it, for tests of kernels against definitions that go through the points
 * of that box (points.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_TRIAL_H
#define FF_TEST_TRIAL_H

#include "box_points.h"
#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/work.h"

#define MAX_IN 3
#define MAX_OUT 4
#define LARGE UINT64_MAX /* stream of a trial with work for many threads */

/* One node, one box of it, and whole tensors in the order of their axes. */
struct trial {
	struct ff_random r;
	struct ff_arena arena;
	struct ff_graph graph;
	const struct ff_node *node;
	struct ff_work work;
	struct ff_device *dev;
	struct ff_stream *stream;
	double *in[MAX_IN], *din[MAX_IN], *out[MAX_OUT], *dout[MAX_OUT];
};

static inline int32_t draw(struct trial *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(&t->r, (uint32_t)(hi - lo + 1));
}

static inline int64_t index_of(const struct ff_operand *o, const int32_t *at)
{
	int64_t i = 0;

	for (uint32_t k = 0; k < o->rank; k++)
		i = i * o->shape[k] + at[k];
	return i;
}

static inline int64_t volume(const struct ff_operand *o)
{
	int64_t n = 1;

	for (uint32_t k = 0; k < o->rank; k++)
		n *= o->shape[k];
	return n;
}

/* Functions of two elements; reductions. */
bool points_binary(enum ff_op op);
bool points_reduce(enum ff_op op);
/* Attributes that fit `shape`, which may be changed to fit them; `other`: the second input's. */
void points_attrs(struct trial *t, enum ff_op op, int32_t rank, int32_t *shape, int32_t *other,
		union ff_attrs *a);
/* Adds what the point `at` of the iteration space computes, forward and backward. */
void points_define(struct trial *t, const int32_t *at);

#endif
