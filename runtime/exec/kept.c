/* What operators keep from step to step: whole, from the parts that have it, and back.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kept.h"

#include <stdlib.h>
#include <string.h>

#include "exec/messages/address.h"
#include "ff/arrays.h"
#include "replay.h"

/* One part of a value that is kept: where it lies in the whole, and on its device. */
struct piece {
	float *memory; /* NULL: elsewhere */
	struct ff_stream *stream;
	int64_t first, n;
	double share; /* elements of the iteration space for each of its own */
};

/* Of micro-batch `micro`: where all have the same it is that of any. */
static struct piece find_piece(
		const struct ff_executor *x, uint32_t value, uint32_t part, uint32_t micro)
{
	const struct ff_value *v = &x->s->graph->values[value];
	const struct ff_node *n = &x->s->graph->nodes[v->producer];
	uint32_t buffer = x->s->out[(size_t)value * x->s->n_instances + 2 * (size_t)micro][part];
	struct ff_region box, region;
	struct piece p = {.memory = ff_address_buffer(x, buffer)};

	ff_config_box(n, &x->s->config[v->producer], part, &box);
	ff_operand_region(n, &n->out_map[v->port], &box, &region);
	p.first = region.lo[0];
	p.n = ff_region_size(&region, 0);
	p.share = (double)ff_region_volume(&box) / (double)p.n;
	if (p.memory)
		p.stream = x->host[x->host_of[x->s->buffers[buffer].device]].compute;
	return p;
}

static bool is_apart(const struct ff_executor *x, uint32_t value)
{
	return x->s->graph->nodes[x->s->graph->values[value].producer].kept_apart;
}

static int put_piece(struct ff_executor *x, const struct piece *p, const float *whole,
		struct ff_error *err)
{
	int code;

	if (!p->memory)
		return FF_OK;
	code = x->b->move.upload(
			p->stream, p->memory, whole + p->first, (size_t)p->n * sizeof(*whole), err);
	return code < 0 ? code : x->b->stream.drain(p->stream, err);
}

static int put(struct ff_executor *x, uint32_t value, const float *whole, struct ff_error *err)
{
	const struct ff_config *c = &x->s->config[x->s->graph->values[value].producer];
	uint32_t times = is_apart(x, value) ? x->s->strategy->micro_batches : 1;
	int code = FF_OK;

	for (uint32_t p = 0; p < c->n_parts; p++)
		for (uint32_t m = 0; m < times && code == FF_OK; m++) {
			struct piece piece = find_piece(x, value, p, m);

			code = put_piece(x, &piece, whole, err);
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

/* Adds a piece, `share` times what it has. */
static int add_piece(struct ff_executor *x, const struct piece *p, double share, float *whole,
		struct ff_error *err)
{
	float *own;
	int code;

	if (!p->memory)
		return FF_OK;
	own = malloc((size_t)p->n * sizeof(*own));
	if (!own)
		return ff_fail_memory(err);
	code = x->b->move.download(p->stream, own, p->memory, (size_t)p->n * sizeof(*own), err);
	if (code == FF_OK)
		code = x->b->stream.drain(p->stream, err);
	for (int64_t i = 0; i < p->n && code == FF_OK; i++)
		whole[p->first + i] += (float)(share * (double)own[i]);
	free(own);
	return code;
}

/* Of parts that have the same elements the first one counts. */
static int add_alike(struct ff_executor *x, uint32_t value, float *whole, struct ff_error *err)
{
	const struct ff_config *c = &x->s->config[x->s->graph->values[value].producer];
	int code = FF_OK;

	for (uint32_t p = 0; p < c->n_parts && code == FF_OK; p++) {
		struct piece piece = find_piece(x, value, p, 0);
		bool again = false;

		for (uint32_t q = 0; q < p && !again; q++)
			again = find_piece(x, value, q, 0).first == piece.first;
		if (!again)
			code = add_piece(x, &piece, 1, whole, err);
	}
	return code;
}

/* The mean of all, in every micro-batch; of replicas the first counts. */
static int add_apart(struct ff_executor *x, uint32_t value, float *whole, struct ff_error *err)
{
	const struct ff_value *v = &x->s->graph->values[value];
	const struct ff_node *n = &x->s->graph->nodes[v->producer];
	uint32_t cells = ff_config_cells(&x->s->config[v->producer]);
	uint32_t micro_batches = x->s->strategy->micro_batches;
	double all = micro_batches / (double)v->shape[0];
	int code = FF_OK;

	for (uint32_t i = 0; i < n->n_dims; i++)
		all *= n->dim[i].extent;
	for (uint32_t p = 0; p < cells; p++)
		for (uint32_t m = 0; m < micro_batches && code == FF_OK; m++) {
			struct piece piece = find_piece(x, value, p, m);

			code = add_piece(x, &piece, piece.share / all, whole, err);
		}
	return code;
}

/* Parts that keep apart then begin with the mean: what they come to does not depend on it, and a
 * pass without training finds it. */
int ff_executor_kept(struct ff_executor *x, uint32_t value, float *whole, struct ff_error *err)
{
	int32_t n = x->s->graph->values[value].shape[0];
	bool apart = is_apart(x, value);
	int code = ff_replay_wait(x, err);

	memset(whole, 0, (size_t)n * sizeof(*whole));
	if (code == FF_OK)
		code = apart ? add_apart(x, value, whole, err) : add_alike(x, value, whole, err);
	if (code == FF_OK)
		code = x->comm->sum(x->comm, whole, n, err);
	return code == FF_OK && apart ? put(x, value, whole, err) : code;
}

int ff_executor_settle(struct ff_executor *x, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < x->s->graph->n_values && code == FF_OK; i++) {
		float *whole;

		if (!ff_value_is_kept(x->s->graph, i) || !is_apart(x, i))
			continue;
		whole = malloc((size_t)x->s->graph->values[i].shape[0] * sizeof(*whole));
		if (!whole)
			return ff_fail_memory(err);
		code = ff_executor_kept(x, i, whole, err);
		free(whole);
	}
	return code;
}
