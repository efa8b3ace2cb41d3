/* Gradients that wait until they are applied: as they move up, and whole.
 * SPDX-License-Identifier: Apache-2.0 */
#include "waiting.h"

#include <stdlib.h>
#include <string.h>

#include "exec/core/whole.h"
#include "exec/messages/address.h"
#include "exec/messages/transfer.h"
#include "ff/block.h"
#include "ff/bucket_layout.h"
#include "ff/instance.h"

#define ROW 16 /* elements: lengths are multiples of 64 bytes */

/* `n` elements, one behind the other. */
static struct ff_copy copy_of(const char *from, char *to, int64_t n)
{
	static const uint8_t order[] = {0, 1};
	struct ff_region all = {.rank = 2, .hi = {(int32_t)(n / ROW), ROW}};

	return (struct ff_copy){.source = from,
			.sink = to,
			.order = order,
			.source_region = all,
			.sink_region = all,
			.region = all,
			.type = FF_F32};
}

/* The first of the arrays that `buffer` is one of, and how far they are apart. */
static char *first_of(const struct ff_executor *x, uint32_t buffer, int64_t *apart)
{
	const struct ff_buffer *b = &x->s->buffers[buffer];

	*apart = b->bucket == FF_KEPT ? b->bytes / x->s->travel.staleness
				      : x->s->buckets[b->bucket].bytes;
	return ff_address_buffer(x, buffer);
}

/* The oldest is due, the others move up. */
static int bind_copies(struct ff_executor *x, char *first, int64_t apart, char *due,
		struct ff_bound_task *j, struct ff_error *err)
{
	j->addition = ff_arena_array(&x->arena, x->s->travel.staleness, sizeof(*j->addition));
	if (!j->addition)
		return ff_fail_memory(err);
	for (uint32_t age = x->s->travel.staleness; age-- > 0;) {
		j->addition[j->n_additions++] =
				copy_of(first + age * apart, due, apart / FF_F32_BYTES);
		due = first + age * apart;
	}
	return FF_OK;
}

int ff_waiting_bind(struct ff_executor *x, const struct ff_task *t, struct ff_bound_task *j,
		struct ff_error *err)
{
	const struct ff_schedule *s = x->s;
	const uint32_t *const *din;
	int64_t apart;
	char *first;

	if (t->bucket != FF_NONE) {
		const struct ff_bucket *b = &s->buckets[t->bucket];
		uint32_t position = 0;

		while (b->device[position] != t->device)
			position++;
		first = ff_address_bucket(x, t->bucket, position);
		return bind_copies(x, first + ff_bucket_waiting(b, s->optimizer, s->graph->dtype),
				b->bytes,
				first + ff_bucket_arrays(b, s->optimizer, s->graph->dtype)
								.gradients,
				j, err);
	}
	din = &s->din[(size_t)t->edge * s->n_instances];
	first = first_of(x, din[0][t->part], &apart);
	return bind_copies(x, first, apart, ff_address_buffer(x, din[ff_schedule_due(s)][t->part]),
			j, err);
}

/* ---- where they are applied ---- */

bool ff_waiting_is_shown(const struct ff_executor *x)
{
	for (uint32_t i = 0; i < x->s->n_tasks; i++)
		if (x->s->tasks[i].move && x->s->tasks[i].move->codec)
			return false;
	return true;
}

/* Whether a task brings gradients to where they are applied. */
static bool brings(const struct ff_schedule *s, const struct ff_task *t)
{
	if (!t->move || ff_task_pass(t) != FF_BACKWARD)
		return false;
	if (t->bucket != FF_NONE)
		return t->bucket != s->clip;
	return ff_node_is_parameter(s->graph, ff_edge_source(s->graph, t->edge));
}

/* The copy that a delay begins with, of gradients of another age. */
static int copy_due(struct ff_executor *x, const struct ff_bound_task *j, uint32_t age,
		struct ff_error *err)
{
	struct ff_copy c = j->addition[0];

	c.source = j->addition[x->s->travel.staleness - 1 - age].source;
	return x->b->move.copy(j->stream, &c, err);
}

int ff_waiting_show(struct ff_executor *x, uint32_t age, struct ff_error *err)
{
	int64_t sent = x->comm->sent_bytes;
	int code = FF_OK;

	if (x->shown == age + 1)
		return FF_OK;
	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK; i++) {
		const struct ff_task *t = &x->s->tasks[i];
		struct ff_bound_task *j = &x->bound[i];

		if (!j->here || (t->compute != FF_COMPUTE_DELAY && !brings(x->s, t)))
			continue;
		code = t->compute == FF_COMPUTE_DELAY
				       ? copy_due(x, j, age, err)
				       : ff_transfer_issue(j->transfer, j->stream, err);
		if (code == FF_OK)
			code = x->b->stream.drain(j->stream, err);
	}
	x->comm->sent_bytes = sent; /* of steps */
	x->shown = code < 0 ? 0 : age + 1;
	return code;
}

/* ---- whole ---- */

/* What the reader at an edge makes of a parameter's gradient. */
struct maker {
	uint32_t edge;
	const struct ff_node *node;
	const struct ff_config *config;
	uint32_t slot;
};

static struct ff_region region_of(const struct maker *m, uint32_t part)
{
	struct ff_region box, region;

	ff_config_box(m->node, m->config, part, &box);
	ff_operand_region(m->node, &m->node->in_map[m->slot], &box, &region);
	return region;
}

/* A part's, of so long ago; NULL where another has it, or nobody. */
static float *array_of(const struct ff_executor *x, const struct maker *m, uint32_t part,
		uint32_t age, struct ff_stream **stream)
{
	uint32_t buffer = x->s->din[(size_t)m->edge * x->s->n_instances][part];
	int64_t apart;
	char *first;

	if (buffer == FF_NONE || x->host_of[x->s->buffers[buffer].device] == FF_NONE)
		return NULL;
	*stream = x->host[x->host_of[x->s->buffers[buffer].device]].compute;
	first = first_of(x, buffer, &apart);
	return (float *)(first + age * apart);
}

/* Number `u` of those that read the value; false where it adds to what another one writes. */
static bool find_maker(const struct ff_executor *x, const struct ff_value *v, uint32_t u,
		struct maker *ret)
{
	const struct ff_graph *g = x->s->graph;
	uint32_t edge = ff_value_use(g, v, u);
	const struct ff_edge *e = &g->edges[edge];

	*ret = (struct maker){edge, &g->nodes[e->node], &x->s->config[e->node], e->slot};
	return !x->s->accumulate[edge];
}

int ff_waiting_add(struct ff_executor *x, uint32_t node, uint32_t age, float *whole,
		struct ff_error *err)
{
	const struct ff_value *v = &x->s->graph->values[x->s->graph->nodes[node].out];
	int code = FF_OK;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		struct maker m;

		/* of replicas, one is counted */
		for (uint32_t p = 0; find_maker(x, v, u, &m) && p < ff_config_cells(m.config) &&
				     code == FF_OK;
				p++) {
			struct ff_stream *stream;
			const float *array = array_of(x, &m, p, age, &stream);
			struct ff_region r = region_of(&m, p);

			if (array)
				code = ff_whole_add(x,
						&(struct ff_held){v, &r, 0, ff_region_volume(&r),
								array, stream},
						1, whole, err);
		}
	}
	return code;
}

/* Whether no cell before it has the same elements. */
static bool is_first(const struct maker *m, uint32_t cell, const struct ff_region *r)
{
	for (uint32_t p = 0; p < cell; p++) {
		struct ff_region other = region_of(m, p);

		if (!memcmp(other.lo, r->lo, r->rank * sizeof(*r->lo)) &&
				!memcmp(other.hi, r->hi, r->rank * sizeof(*r->hi)))
			return false;
	}
	return true;
}

static int put_part(struct ff_executor *x, const struct ff_value *v, const struct maker *m,
		uint32_t part, uint32_t age, const float *whole, struct ff_error *err)
{
	struct ff_region r = region_of(m, part);
	size_t bytes = (size_t)ff_region_volume(&r) * FF_F32_BYTES;
	struct ff_stream *stream;
	float *array = array_of(x, m, part, age, &stream), *staging;
	int code;

	if (!array || !bytes)
		return FF_OK;
	staging = calloc(1, bytes);
	if (!staging)
		return ff_fail_memory(err);
	if (whole && is_first(m, part % ff_config_cells(m->config), &r))
		ff_whole_take(v, &r, whole, staging);
	code = x->b->move.upload(stream, array, staging, bytes, err);
	if (code == FF_OK)
		code = x->b->stream.drain(stream, err);
	free(staging);
	return code;
}

int ff_waiting_put(struct ff_executor *x, uint32_t node, uint32_t age, const float *whole,
		struct ff_error *err)
{
	const struct ff_value *v = &x->s->graph->values[x->s->graph->nodes[node].out];
	int code = FF_OK;

	x->shown = 0;
	for (uint32_t u = 0; u < v->n_uses; u++) {
		struct maker m;

		if (!find_maker(x, v, u, &m))
			continue;
		for (uint32_t p = 0; p < m.config->n_parts && code == FF_OK; p++)
			code = put_part(x, v, &m, p, age, whole, err);
		whole = NULL; /* the others have nothing */
	}
	return code;
}
