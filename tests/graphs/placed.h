/* Random graphs that share parameters, and random strategies with replicas and with
 * parameters updated elsewhere than where they are read.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_PLACED_H
#define FF_TESTS_PLACED_H

#include "ff/builder.h"
#include "simulator/drawn.h"

#define PLACED_DEVICES 8

/* Steps that share their convolution, then steps that share their linear layer, each
 * now and then with a weight of its own. */
static inline void draw_tied_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *g)
{
	int32_t batch = 1 + (int32_t)ff_random_below(r, 5),
		width = 1 + (int32_t)ff_random_below(r, 3);
	union ff_attrs x = {.input = {.rank = 4, .shape = {batch, width, 3, 3}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {batch}, .dtype = FF_I32, .classes = 3}};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs conv = ff_attrs_preset(FF_OP_CONV2D), fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_error err = {0};
	struct ff_builder *b;
	uint32_t at, in[2];

	ck_assert_int_eq(ff_builder_create("tied", a, &b, &err), FF_OK);
	conv.conv.out_channels = width;
	conv.conv.kernel[0] = conv.conv.kernel[1] = 3;
	for (int i = 0; i < 2; i++)
		conv.conv.pad[0][i] = conv.conv.pad[1][i] = 1;
	fc.linear.out_features = 9 * width;
	at = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	for (uint32_t step = 0, n = 4 + ff_random_below(r, 4); step < n; step++) {
		bool image = step < n / 2;
		const char *tied[2] = {ff_random_below(r, 4) ? (image ? "conv.w" : "fc.w") : NULL,
				ff_random_below(r, 4) ? (image ? "conv.b" : "fc.b") : NULL};

		if (step == n / 2)
			at = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, &at, 1);
		in[0] = at;
		at = ff_builder_add_tied(b, image ? FF_OP_CONV2D : FF_OP_LINEAR,
				ff_arena_printf(a, "step%u", step), image ? &conv : &fc, &at, 1,
				tied);
		in[1] = at;
		if (ff_random_below(r, 3) == 0)
			at = ff_builder_add(b, FF_OP_ADD, ff_arena_printf(a, "add%u", step), NULL,
					in, 2);
	}
	fc.linear.out_features = 3;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "logits", &fc, &at, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, g, &err) == FF_OK, "%s", err.text);
}

static inline const uint16_t *draw_devices(struct ff_random *r, struct ff_arena *a)
{
	uint16_t *list = ff_arena_array(a, PLACED_DEVICES, sizeof(*list));
	bool ordered = ff_random_below(r, 2);

	for (uint32_t i = 0; i < PLACED_DEVICES; i++) {
		uint32_t k = ordered ? i : ff_random_below(r, i + 1);

		list[i] = list[k];
		list[k] = (uint16_t)i;
	}
	return list;
}

/* A config of a parameter's own: sharded along its first axis, replicated, on one
 * device, or anything. */
static inline void draw_own(struct ff_random *r, const struct ff_node *n, struct ff_arena *a,
		struct ff_config *c)
{
	uint32_t kind = ff_random_below(r, 4), room = 1 + ff_random_below(r, PLACED_DEVICES);

	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t extent = (uint32_t)n->dim[d].extent, most = extent < room ? extent : room;

		if (kind == 0 && d == 0)
			c->degree[d] = (uint16_t)most;
		else if (kind == 3)
			c->degree[d] = (uint16_t)(1 + ff_random_below(r, most));
		room /= c->degree[d];
	}
	c->n_parts = 1;
	for (uint32_t d = 0; d < n->n_dims; d++)
		c->n_parts *= c->degree[d];
	c->replicas = (uint16_t)(kind == 1 ? room : kind == 3 ? 1 + ff_random_below(r, room) : 1);
	c->n_parts *= c->replicas;
	c->list = draw_devices(r, a);
}

/* What random_strategy draws; some nodes computed several times, some like the node
 * before that is cut alike, some parameters with a config of their own. */
static inline void draw_placed(struct ff_random *r, const struct ff_graph *whole,
		struct ff_arena *a, struct ff_strategy *s)
{
	bool own = ff_random_below(r, 3) != 0, alike = ff_random_below(r, 2);
	struct ff_graph *g = ff_arena_alloc(a, sizeof(*g));

	draw_strategy(r, whole, 1 + ff_random_below(r, PLACED_DEVICES), a, s, g);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_config *c = &s->config[i];

		s->priority[i] = (int32_t)ff_random_below(r, 3);
		if (c->n_parts) { /* replicas are drawn here */
			c->n_parts = ff_config_cells(c);
			c->replicas = 1;
		}
		if (ff_node_is_parameter(g, i) && own && ff_random_below(r, 2)) {
			*c = (struct ff_config){.replicas = 1, .degree = {1, 1, 1, 1, 1, 1, 1, 1}};
			draw_own(r, &g->nodes[i], a, c);
		} else if (c->n_parts && ff_random_below(r, 3) == 0) {
			c->replicas = (uint16_t)(1 +
						 ff_random_below(r, PLACED_DEVICES / c->n_parts));
			c->n_parts *= c->replicas;
			c->list = draw_devices(r, a);
		}
		for (uint32_t k = i; alike && c->n_parts && k-- > 0;)
			if (s->config[k].n_parts && g->nodes[k].op == g->nodes[i].op &&
					g->nodes[i].op != FF_OP_PARAMETER) {
				struct ff_error err;
				struct ff_config was = *c;

				*c = s->config[k];
				if (ff_config_check(&g->nodes[i], c, PLACED_DEVICES, &err) < 0)
					*c = was;
				break;
			}
	}
	random_scattered(r, g, a, s);
}

#endif
