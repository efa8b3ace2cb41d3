/* A node of attention, and what it is by definition.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_ATTENTION_H
#define FF_TEST_ATTENTION_H

#include <check.h>

#include "box_points.h"
#include "ff/builder.h"
#include "ff/philox.h"

enum { QUERY, KEY, VALUE, MASK };

/* A node, its prelude and a box of theirs; whole tensors in the order of their axes. */
struct trial {
	struct ff_random r;
	struct ff_arena arena;
	struct ff_graph graph;
	const struct ff_node *node, *prelude;
	struct ff_region box;
	struct ff_device *dev;
	struct ff_stream *stream;
	int32_t size, shared;
	bool masked;
	double scale;
	double *in[4], *out, *dout;
	double *log_sum, *sum; /* by row: of all keys; of gradient times output */
	uint64_t seed, step;
	uint32_t micro;
	bool training;
	int32_t crowd;    /* heads of many small samples; 0: any shape */
	bool rounds;      /* weights, and slopes, may be rounded before they are multiplied */
	double *terms[4]; /* what the box adds to each, as magnitudes: output, gradients */
};

static inline int64_t volume(const struct ff_operand *o)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < o->rank; i++)
		n *= o->shape[i];
	return n;
}

static inline int64_t index_of(const struct ff_operand *o, const int32_t *at)
{
	int64_t index = 0;

	for (uint32_t i = 0; i < o->rank; i++)
		index = index * o->shape[i] + (o->shape[i] > 1 ? at[i] : 0);
	return index;
}

static inline double *new_array(struct trial *t, int64_t n)
{
	double *v = ff_arena_array(&t->arena, (size_t)n, sizeof(*v));

	ck_assert_ptr_nonnull(v);
	return v;
}

double dot(const struct trial *t, const double *x, int64_t i, const double *y, int64_t k);
/* at: sample, head, query, key */
int64_t query_of(const struct trial *t, const int32_t *at);
int64_t pair_of(const struct trial *t, const int32_t *at);
double score(const struct trial *t, const int32_t *at);
/* Of all keys: the logarithm, and the sum of weights times gradient of output times value. */
void define_rows(struct trial *t);
/* What the box adds to each. */
void define(struct trial *t, double *out, double *din[3]);

#endif
