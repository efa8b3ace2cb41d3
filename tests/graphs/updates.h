/* Data parallelism with updates where a test wants them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_UPDATES_H
#define FF_TEST_UPDATES_H

#include <check.h>

#include "ff/block.h"
#include "ff/micro.h"
#include "ff/zoo.h"

enum kind {
	FOLLOWING,   /* no config of their own: summed in buckets */
	SHARDED,     /* along the first axis, as ZeRO does */
	REPLICATED,  /* on all who read them */
	ONE_REPLICA, /* on those of one of the replicas that read them */
	SERVER,
	FLAT,      /* each device a run of the bucket */
	DROPPED,   /* likewise, and of weights and gradients no more is there for good */
	SCATTERED, /* of gradients alone */
	GROUPED,   /* flat, cut over pairs of devices */
};

/* What gradients are compressed by meanwhile, how late they are, and in how many micro-batches they
 * are made (0: one); how many replicas compute everything; how many devices have each element of
 * what is sharded, or scattered. */
static const struct ff_codec *codec;
static uint32_t staleness, micro_batches, replicas = 1, copies = 1;
static bool again; /* parameters are gathered again for backward */

/* Data parallelism over `p` devices with an update of the given kind. */
static inline void lower_clipped(enum kind kind, enum ff_dtype type, uint32_t p,
		const struct ff_optimizer *o, bool clip, struct ff_arena *a, struct ff_graph *g,
		struct ff_schedule *ret)
{
	const struct ff_lower_options opt = {.optimizer = o,
			.clip = clip,
			.travel = {.codec = codec, .staleness = staleness}};
	const char *const sets[] = {"layers=1", "hidden=64", "image=8", "classes=16",
			type == FF_BF16 ? "dtype=bfloat16" : "dtype=float32"};
	static struct ff_machine m;
	struct ff_graph micro;
	static struct ff_strategy s;
	struct ff_error err = {0};

	ck_assert_int_eq(ff_zoo_build("mlp", 8, sets, 5, a, g, &err), FF_OK);
	ck_assert_int_eq(ff_machine_load("cpu8", a, &m, &err), FF_OK);
	ck_assert_int_eq(ff_graph_micro(g, micro_batches ? micro_batches : 1, a, &micro, &err),
			FF_OK);
	ck_assert_int_eq(ff_strategy_data_parallel(&micro, p, a, &s, &err), FF_OK);
	s.micro_batches = micro_batches ? micro_batches : 1;
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		struct ff_config *c = &s.config[i];

		if (ff_node_is_computed(g, i) && replicas > 1) {
			c->replicas = (uint16_t)replicas;
			c->replica_stride = (uint16_t)p;
			c->n_parts *= replicas;
		}
		if (!ff_node_is_parameter(g, i) || kind == FOLLOWING)
			continue;
		s.scatter = kind == SCATTERED;
		s.shards = kind == GROUPED ? 2 : kind == SCATTERED && copies > 1 ? p / copies : 0;
		c->flat = kind >= FLAT;
		s.recompute[i] = kind == DROPPED || again;
		if (c->flat)
			continue;
		c->n_parts = kind == SERVER ? 1 : kind == ONE_REPLICA ? p : p * replicas;
		c->degree[0] = (uint16_t)(kind == SHARDED ? p / copies : 1);
		c->replicas = (uint16_t)(c->n_parts / c->degree[0]);
		c->stride[0] = 1;
		c->replica_stride = (uint16_t)c->degree[0];
	}
	ck_assert_msg(ff_lower(g, &m, &s, &opt, a, ret, &err) == FF_OK, "%s", err.text);
	ck_assert_ptr_eq(ret->optimizer, o ? o : ff_optimizer_preset());
}

static inline void lower_updates(enum kind kind, enum ff_dtype type, uint32_t p,
		const struct ff_optimizer *o, struct ff_arena *a, struct ff_graph *g,
		struct ff_schedule *ret)
{
	lower_clipped(kind, type, p, o, false, a, g, ret);
}

/* The one move of a pass at an edge, or NULL. */
static inline const struct ff_move *only_move(
		const struct ff_schedule *s, uint32_t edge, enum ff_pass pass)
{
	const struct ff_move *found = NULL;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		if (ff_task_moves_edge(&s->tasks[i]) && s->tasks[i].edge == edge &&
				ff_task_pass(&s->tasks[i]) == pass) {
			ck_assert_ptr_null(found);
			found = s->tasks[i].move;
		}
	return found;
}

/* One array of what device `d` has of a parameter. */
static inline int64_t array_bytes(const struct ff_value *v, enum kind kind, uint32_t p, uint32_t d)
{
	int64_t rows = v->shape[0], row = FF_F32_BYTES;

	for (uint32_t i = 1; i < v->rank; i++)
		row *= v->shape[i];
	if (kind == SHARDED)
		rows = ff_part_start(v->shape[0], p, d + 1) - ff_part_start(v->shape[0], p, d);
	/* what is read of it in two bytes an element is padded to 64 bytes too */
	return v->dtype == FF_BF16 ? 2 * ff_align64(rows * row / 2) : ff_align64(rows * row);
}

#endif
