/* What was not sent yet of gradients that are compressed: beside all-reduced ones in their buckets,
 * of those that are moved with each message.  SPDX-License-Identifier: Apache-2.0 */
#include "residuals.h"

#include <stdlib.h>
#include <string.h>

#include "exec/core/whole.h"
#include "exec/messages/address.h"

/* Where one device keeps some of a gradient. */
struct place {
	const struct ff_value *value;
	struct ff_region region;
	uint32_t device;
	float *memory; /* NULL: elsewhere */
};

typedef int (*visit_fn)(
		struct ff_executor *x, const struct place *p, float *whole, struct ff_error *err);

static int visit_shard(struct ff_executor *x, const struct ff_shard *shard, struct place *p,
		visit_fn visit, float *whole, struct ff_error *err)
{
	const struct ff_bucket *b = &x->s->buckets[shard->bucket];
	int code = FF_OK;

	p->region = shard->region;
	for (uint32_t k = 0; k < b->n_devices && b->codec && code == FF_OK; k++) {
		char *at = ff_address_bucket(x, shard->bucket, k);

		p->device = b->device[k];
		p->memory = at ? ff_address_residual(x, shard->bucket, at) +
							    shard->offset / FF_F32_BYTES
			       : NULL;
		code = visit(x, p, whole, err);
	}
	return code;
}

static int visit_move(struct ff_executor *x, const struct ff_task *t, struct place *p,
		visit_fn visit, float *whole, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < t->move->n_pieces && code == FF_OK; i++) {
		const struct ff_piece *piece = &t->move->piece[i];

		if (piece->from == piece->to)
			continue;
		p->region = piece->region;
		p->device = piece->from;
		p->memory = ff_address_move_residual(x, t, piece);
		code = visit(x, p, whole, err);
	}
	return code;
}

/* What one of the replicas keeps, in an order that is the same on all ranks. */
static int visit_all(struct ff_executor *x, uint32_t node, uint32_t replica, visit_fn visit,
		float *whole, struct ff_error *err)
{
	const struct ff_graph *g = x->s->graph;
	struct place p = {.value = &g->values[g->nodes[node].out]};
	int code = FF_OK;

	for (uint32_t i = 0; i < x->s->n_shards && code == FF_OK; i++)
		if (x->s->shards[i].node == node && ff_region_volume(&x->s->shards[i].region) &&
				x->s->buckets[x->s->shards[i].bucket].replica == replica)
			code = visit_shard(x, &x->s->shards[i], &p, visit, whole, err);
	for (uint32_t i = 0; i < x->s->n_tasks && replica == 0 && code == FF_OK; i++) {
		const struct ff_task *t = &x->s->tasks[i];

		if (t->residual != FF_NONE && ff_edge_source(g, t->edge) == node)
			code = visit_move(x, t, &p, visit, whole, err);
	}
	return code;
}

static int add(struct ff_executor *x, const struct place *p, float *whole, struct ff_error *err)
{
	if (!p->memory)
		return FF_OK;
	return ff_whole_add(x,
			&(struct ff_held){p->value, &p->region, 0, ff_region_volume(&p->region),
					p->memory, x->host[x->host_of[p->device]].compute},
			1, whole, err);
}

int ff_residuals_add(struct ff_executor *x, uint32_t node, float *whole, struct ff_error *err)
{
	return visit_all(x, node, 0, add, whole, err);
}

/* How many hold the same of a parameter. */
static uint32_t replicas_of(const struct ff_executor *x, uint32_t node)
{
	for (uint32_t i = 0; i < x->s->n_shards; i++)
		if (x->s->shards[i].node == node)
			return x->s->buckets[x->s->shards[i].bucket].replicas;
	return 0;
}

/* Takes what is left of the whole. */
static int take(struct ff_executor *x, const struct place *p, float *left, struct ff_error *err)
{
	size_t bytes = (size_t)ff_region_volume(&p->region) * FF_F32_BYTES;
	struct ff_stream *stream;
	float *staging;
	int code = FF_OK;

	if (p->memory) {
		stream = x->host[x->host_of[p->device]].compute;
		staging = malloc(bytes + 1);
		if (!staging)
			return ff_fail_memory(err);
		ff_whole_take(p->value, &p->region, left, staging);
		code = x->b->move.upload(stream, p->memory, staging, bytes, err);
		if (code == FF_OK)
			code = x->b->stream.drain(stream, err);
		free(staging);
	}
	ff_whole_clear(p->value, &p->region, left);
	return code;
}

int ff_residuals_put(struct ff_executor *x, uint32_t node, const float *whole, struct ff_error *err)
{
	const struct ff_value *v = &x->s->graph->values[x->s->graph->nodes[node].out];
	uint32_t replicas = replicas_of(x, node);
	size_t n = (size_t)ff_value_volume(v);
	float *left = malloc(n * sizeof(*left));
	int code = FF_OK;

	if (!left)
		return ff_fail_memory(err);
	for (uint32_t r = 0; r < replicas && code == FF_OK; r++) {
		memcpy(left, whole, n * sizeof(*left));
		code = visit_all(x, node, r, take, left, err);
	}
	free(left);
	return code;
}
