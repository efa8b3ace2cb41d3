/* Random nodes for tests of kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_DRAWN_H
#define FF_TEST_DRAWN_H

#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/work.h"
#include "naive.h"

/* One node, one part of it, and all its tensors. */
struct trial {
	struct ff_random r;
	struct ff_arena arena;
	struct ff_graph graph;
	const struct ff_node *node;
	struct ff_work work;
	struct naive naive;
	struct ff_device *dev;
	struct ff_stream *stream;
	void *saved; /* what forward left for backward */
	void *kept[FF_MAX_KEPT];
	double *before; /* what lies where a gradient is to be made of it, or NULL */
	bool ties;      /* inputs from few values, so that maxima meet */
	bool positive;
	bool inside; /* inputs between -1 and 1 */
};

static inline int32_t draw(struct trial *t, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(&t->r, (uint32_t)(hi - lo + 1));
}

static inline bool coin(struct trial *t)
{
	return ff_random_below(&t->r, 2);
}

/* A graph with a node of any settings, called "node": a loss, or another with a loss behind it. */
void build_loss(struct trial *t, struct ff_builder *b);
void build_point_loss(struct trial *t, struct ff_builder *b, enum ff_op op);
void build_other(struct trial *t, struct ff_builder *b, enum ff_op op);

#endif
