/* What operators keep from step to step: whole, from the parts that have it, and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "executor.h"

#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "replay.h"

/* One part of a value that is kept: where it lies in the whole, and on its device. */
struct piece {
	float *memory; /* NULL: elsewhere */
	struct ff_stream *stream;
	int64_t first, n;
};

static struct piece find_piece(const struct ff_executor *x, uint32_t value, uint32_t part)
{
	const struct ff_value *v = &x->s->graph->values[value];
	const struct ff_node *n = &x->s->graph->nodes[v->producer];
	uint32_t buffer = x->s->out[(size_t)value * x->s->n_instances][part];
	struct ff_region box, region;
	struct piece p = {.memory = ff_address_buffer(x, buffer)};

	ff_config_box(n, &x->s->config[v->producer], part, &box);
	ff_operand_region(n, &n->out_map[v->port], &box, &region);
	p.first = region.lo[0];
	p.n = ff_region_size(&region, 0);
	if (p.memory)
		p.stream = x->host[x->host_of[x->s->buffers[buffer].device]].compute;
	return p;
}

static int put(struct ff_executor *x, uint32_t value, const float *whole, struct ff_error *err)
{
	uint32_t producer = x->s->graph->values[value].producer;
	int code = FF_OK;

	for (uint32_t p = 0; p < x->s->config[producer].n_parts && code == FF_OK; p++) {
		struct piece piece = find_piece(x, value, p);

		if (!piece.memory)
			continue;
		code = x->b->upload(piece.stream, piece.memory, whole + piece.first,
				(size_t)piece.n * sizeof(*whole), err);
		if (code == FF_OK)
			code = x->b->drain(piece.stream, err);
	}
	return code;
}

int ff_executor_init_kept(struct ff_executor *x, struct ff_error *err)
{
	const struct ff_graph *g = x->s->graph;
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_values && code == FF_OK; i++) {
		int32_t n = g->values[i].shape[0];
		float *whole;

		if (!ff_value_is_kept(g, i))
			continue;
		whole = calloc((size_t)n, sizeof(*whole));
		if (!whole)
			return ff_fail_memory(err);
		for (int32_t k = 0; g->values[i].fan_in == FF_FAN_ONE && k < n; k++)
			whole[k] = 1;
		code = put(x, i, whole, err);
		free(whole);
	}
	return code;
}

int ff_executor_put_kept(
		struct ff_executor *x, uint32_t value, const float *whole, struct ff_error *err)
{
	int code = ff_replay_wait(x, err);

	return code < 0 ? code : put(x, value, whole, err);
}

/* Of parts that have the same elements the first one counts; the others add zeros. */
int ff_executor_kept(struct ff_executor *x, uint32_t value, float *whole, struct ff_error *err)
{
	const struct ff_value *v = &x->s->graph->values[value];
	int code = ff_replay_wait(x, err);

	memset(whole, 0, (size_t)v->shape[0] * sizeof(*whole));
	for (uint32_t p = 0; p < x->s->config[v->producer].n_parts && code == FF_OK; p++) {
		struct piece piece = find_piece(x, value, p);
		bool again = false;

		for (uint32_t q = 0; q < p && !again; q++)
			again = find_piece(x, value, q).first == piece.first;
		if (!piece.memory || again)
			continue;
		code = x->b->download(piece.stream, whole + piece.first, piece.memory,
				(size_t)piece.n * sizeof(*whole), err);
		if (code == FF_OK)
			code = x->b->drain(piece.stream, err);
	}
	return code < 0 ? code : x->comm->sum(x->comm, whole, v->shape[0], err);
}
