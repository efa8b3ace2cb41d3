/* Random graphs so small that all their strategies can be tried.
 * SPDX-License-Identifier: Apache-2.0 */
#include "random_graph.h"

#include <string.h>

#include "ff/builder.h"
#include "random_maker.h"

static int32_t between(struct maker *m, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(m->r, (uint32_t)(hi - lo + 1));
}

/* Images or vectors; four samples, which most micro-batches divide, as often as all else. */
static void add_data(struct maker *m)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	struct value data = {.rank = between(m, 0, 2) ? 2 : 4};

	data.shape[0] = between(m, 0, 1) ? 4 : between(m, 1, 3);
	for (uint32_t i = 1; i < data.rank; i++)
		data.shape[i] = between(m, 1, data.rank == 2 ? 8 : 4);
	a.input.rank = (int32_t)data.rank;
	memcpy(a.input.shape, data.shape, sizeof(data.shape));
	random_add(m, FF_OP_INPUT, &a, NULL, 0, &data);
}

/* Of a value that nobody reads. */
static void add_loss(struct maker *m, const struct value *v, uint32_t i)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	uint32_t in[2] = {v->node};

	a.input.rank = (int32_t)v->rank;
	memcpy(a.input.shape, v->shape, sizeof(v->shape));
	in[1] = ff_builder_add(
			m->b, FF_OP_INPUT, ff_arena_printf(m->a, "targets%u", i), &a, NULL, 0);
	ff_builder_add(m->b, between(m, 0, 1) ? FF_OP_MSE : FF_OP_BCE_WITH_LOGITS,
			ff_arena_printf(m->a, "loss%u", i), NULL, in, 2);
}

/* Of vectors, which are the classes' then. */
static void add_classes(struct maker *m, const struct value *v, uint32_t i)
{
	union ff_attrs labels = ff_attrs_preset(FF_OP_INPUT);
	uint32_t in[2] = {v->node};

	labels.input.rank = 1;
	labels.input.shape[0] = v->shape[0];
	labels.input.dtype = FF_I32;
	labels.input.classes = v->shape[1];
	in[1] = ff_builder_add(
			m->b, FF_OP_INPUT, ff_arena_printf(m->a, "labels%u", i), &labels, NULL, 0);
	ff_builder_add(m->b, FF_OP_SOFTMAX_CROSS_ENTROPY, ff_arena_printf(m->a, "loss%u", i), NULL,
			in, 2);
}

static int draw(struct ff_random *r, enum ff_dtype type, uint32_t max_ops, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	struct maker m = {.r = r, .a = a};
	int code = ff_builder_create("small", a, &m.b, err);
	uint32_t n;

	if (code < 0)
		return code;
	ff_builder_set_dtype(m.b, type);
	m.batch_norms = between(&m, 0, 1);
	add_data(&m);
	for (uint32_t i = 1 + ff_random_below(r, max_ops); i-- > 0;)
		random_any(&m);
	n = m.n;
	for (uint32_t i = 0; i < n; i++) {
		const struct value *v = &m.value[i];

		if (v->used)
			continue;
		if (v->rank == 2 && between(&m, 0, 1))
			add_classes(&m, v, i);
		else
			add_loss(&m, v, i);
	}
	return ff_builder_finish(m.b, ret, err);
}

/* Where there is nothing to train, or more losses than a graph has, another is drawn. */
int random_small_graph(struct ff_random *r, enum ff_dtype type, uint32_t max_ops,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	int code = FF_E_INPUT;

	for (int tries = 0; tries < 1000 && code == FF_E_INPUT; tries++)
		code = draw(r, type, max_ops, a, ret, err);
	return code;
}
