/* Where shards of a flow lie in memory.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_SHARDS_H
#define FF_TESTS_SHARDS_H

#include "flow.h"

static inline struct ff_region region_of(
		const struct flow *f, uint32_t node, const struct ff_operand *o, uint32_t part)
{
	const struct ff_node *n = &f->s.graph->nodes[node];
	struct ff_region box, r;

	ff_config_box(n, &f->s.config[node], part, &box);
	ff_operand_region(n, o, &box, &r);
	return r;
}

static inline struct ff_region in_region(const struct flow *f, uint32_t edge, uint32_t part)
{
	const struct ff_edge *e = &f->s.graph->edges[edge];

	return region_of(f, e->node, &f->s.graph->nodes[e->node].in_map[e->slot], part);
}

static inline struct ff_region out_region(const struct flow *f, uint32_t value, uint32_t part)
{
	const struct ff_value *v = &f->s.graph->values[value];

	return region_of(f, v->producer, &f->s.graph->nodes[v->producer].out_map[v->port], part);
}

/* A shard in memory. */
struct shard {
	double *at;
	int64_t size; /* of an element */
	const uint8_t *order;
	struct ff_region r;
};

/* Of a value, or of its gradient. */
static inline enum ff_dtype type_of(const struct flow *f, uint32_t value, bool gradient)
{
	const struct ff_value *v = &f->s.graph->values[value];

	return gradient && v->kind == FF_VALUE_PARAMETER ? FF_F32 : v->dtype;
}

static inline struct shard shard_at(const struct flow *f, uint32_t buffer, uint32_t value,
		bool gradient, const struct ff_region *r)
{
	const struct ff_buffer *b = &f->s.buffers[buffer];
	int64_t size = ff_dtype_bytes(type_of(f, value, gradient));

	ck_assert_uint_lt(buffer, f->s.n_buffers);
	ck_assert_int_ge(b->bytes, ff_region_volume(r) * size);
	return (struct shard){f->memory[b->device] + b->offset, size,
			f->s.graph->values[value].order, *r};
}

static inline double *find(const struct shard *s, const int32_t *at)
{
	return &s->at[ff_region_offset(s->order, &s->r, at) * s->size];
}

#endif
