/* Random graphs and legal strategies for property tests.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_SIMULATOR_RANDOM_H
#define FF_TESTS_SIMULATOR_RANDOM_H

#include <math.h>

#include "ff/strategy.h"
#include "hand.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint32_t draw(uint64_t *state, uint32_t n)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % n;
}

static inline uint32_t random_conv(
		uint64_t *state, struct ff_builder *b, const char *name, uint32_t in, bool keep)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_CONV2D);
	int32_t k = 1 + 2 * (int32_t)draw(state, 2);
	a.conv2d.out_channels = keep ? 4 : 2 * (1 + (int32_t)draw(state, 4));
	a.conv2d.kernel[0] = a.conv2d.kernel[1] = k;
	a.conv2d.pad[0] = a.conv2d.pad[1] = k / 2;
	if (!keep) {
		a.conv2d.stride[0] = a.conv2d.stride[1] = 1 + (int32_t)draw(state, 2);
		a.conv2d.groups = 1 + (int32_t)draw(state, 2);
	}
	return ff_builder_add(b, FF_OP_CONV2D, name, &a, &in, 1);
}

/* A branch of two convolutions joined by add or concat, a pool, a strided or
 * grouped convolution, and a small classifier. */
static inline void random_graph(uint64_t *state, struct ff_arena *arena, struct ff_graph *g)
{
	struct ff_error err;
	struct ff_builder *b;
	int32_t batch = 1 + (int32_t)draw(state, 6), size = 6 + (int32_t)draw(state, 5);
	ck_assert_int_eq(ff_builder_create("random", arena, &b, &err), FF_OK);
	union ff_attrs x = {.input = {.rank = 4, .shape = {batch, 3, size, size}}};
	union ff_attrs y = {.input = {.rank = 1, .shape = {batch}, .dtype = FF_I32, .classes = 5}};
	union ff_attrs concat = {.concat = {.axis = 1}}, flat = ff_attrs_preset(FF_OP_RESHAPE);
	union ff_attrs pool = ff_attrs_preset(FF_OP_POOL2D), fc = ff_attrs_preset(FF_OP_LINEAR);
	uint32_t in[2], image = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = random_conv(state, b, "left", image, true);
	in[1] = random_conv(state, b, "right", image, true);
	in[0] = draw(state, 2) ? ff_builder_add(b, FF_OP_CONCAT, "join", &concat, in, 2)
			       : ff_builder_add(b, FF_OP_ADD, "join", NULL, in, 2);
	in[0] = ff_builder_add(b, FF_OP_RELU, "relu", NULL, in, 1);
	pool.pool2d.mode = draw(state, 2) ? FF_POOL_MAX : FF_POOL_AVG;
	pool.pool2d.kernel[0] = pool.pool2d.kernel[1] = 3;
	pool.pool2d.stride[0] = pool.pool2d.stride[1] = 1 + (int32_t)draw(state, 2);
	pool.pool2d.pad[0] = pool.pool2d.pad[1] = (int32_t)draw(state, 2);
	in[0] = ff_builder_add(b, FF_OP_POOL2D, "pool", &pool, in, 1);
	in[0] = random_conv(state, b, "conv", in[0], false);
	flat.reshape = (struct ff_reshape_attrs){.rank = 2, .shape = {0, -1}};
	in[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, in, 1);
	fc.linear.out_features = 5;
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, in, 2);
	ck_assert_msg(ff_builder_finish(b, g, &err) == FF_OK, "%s", err.text);
}

/* Any degrees, on any devices in any order. */
static inline void random_strategy(uint64_t *state, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *arena, struct ff_strategy *s)
{
	ck_assert_int_eq(ff_strategy_single(g, 0, arena, s, NULL), FF_OK);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_config *c = &s->config[i], at = {.n_parts = 0};
		uint32_t seen = 0;
		if (!c->n_parts)
			continue;
		while (ff_config_next_degrees(&g->nodes[i], n_devices, &at))
			if (!draw(state, ++seen))
				*c = at;
		uint16_t *device = ff_arena_array(arena, n_devices, sizeof(*device));
		for (uint32_t d = 0; d < n_devices; d++) {
			uint32_t k = draw(state, d + 1);
			device[d] = device[k];
			device[k] = (uint16_t)d;
		}
		c->device = device;
	}
}

#endif
