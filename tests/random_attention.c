/* Random graphs: attention over rows, of which queries, keys and values are made.
 * SPDX-License-Identifier: Apache-2.0 */
#include "random_maker.h"

static int32_t between(struct maker *m, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(m->r, (uint32_t)(hi - lo + 1));
}

static const struct value *turn(struct maker *m, const struct value *x, int32_t size)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_ROPE);

	a.rope.head_dim = size;
	a.rope.base = between(m, 2, 9);
	return random_add(m, FF_OP_ROPE, &a, &x, 1, x);
}

static const struct value *project(struct maker *m, const struct value *x, int32_t features)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
	struct value out = *x;

	a.linear.out_features = out.shape[2] = features;
	return random_add(m, FF_OP_LINEAR, &a, &x, 1, &out);
}

/* The rows of images are their channels. */
static const struct value *rows_of(struct maker *m, const struct value *x)
{
	union ff_attrs a = {.reshape = {.rank = 3, .shape = {0, 0, -1}}};
	struct value out = *x;

	out.rank = 3;
	for (uint32_t i = 3; i < x->rank; i++)
		out.shape[2] *= x->shape[i];
	return x->rank == 3 ? x : random_add(m, FF_OP_RESHAPE, &a, &x, 1, &out);
}

/* Bounded, so that no row looks at one key alone. */
void random_attention(struct maker *m)
{
	static const int32_t sizes[] = {1, 2, 8, 4}; /* 8: libraries have attention of that */
	int32_t size = sizes[between(m, 0, 3)], key_heads = between(m, 1, 2),
		shared = between(m, 1, 2);
	const struct value *x = random_pick(m), *in[3];
	union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION);

	if (x->rank < 3)
		return;
	x = rows_of(m, x);
	a.attention.head_dim = size;
	a.attention.causal = between(m, 0, 1);
	a.attention.scale = 0.5 * between(m, 0, 1);
	a.attention.dropout = size == 2 ? 0.25 : size == 4 ? 0.5 : 0;
	x = random_add(m, FF_OP_TANH, NULL, &x, 1, x);
	in[0] = project(m, x, key_heads * shared * size);
	in[1] = in[2] = project(m, x, key_heads * size);
	if (between(m, 0, 3))
		in[2] = project(m, x, key_heads * size);
	for (int i = 0; size % 2 == 0 && i < 2; i++)
		in[i] = turn(m, in[i], size);
	random_add(m, FF_OP_ATTENTION, &a, in, 3, in[0]);
}
