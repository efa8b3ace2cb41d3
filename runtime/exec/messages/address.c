/* Addresses: where the schedule's buffers, buckets and stages lie in this process.
 * SPDX-License-Identifier: Apache-2.0 */
#include "address.h"

#include "communication.h"
#include "ff/arrays.h"
#include "ff/bucket_layout.h"
#include "ff/device_list.h"
#include "ff/instance.h"

void *ff_address_buffer(const struct ff_executor *x, uint32_t buffer)
{
	const struct ff_buffer *b;
	uint32_t host;

	if (buffer == FF_NONE)
		return NULL;
	b = &x->s->buffers[buffer];
	host = x->host_of[b->device];
	return host == FF_NONE ? NULL : x->host[host].memory + b->offset;
}

char *ff_address_bucket(const struct ff_executor *x, uint32_t bucket, uint32_t position)
{
	const struct ff_bucket *b = &x->s->buckets[bucket];
	uint32_t host = x->host_of[b->device[position]];

	return host == FF_NONE ? NULL : x->host[host].memory + b->offset[position];
}

void ff_address_run(const struct ff_bucket *b, uint32_t position, int64_t *first, int64_t *end)
{
	int64_t run = b->bytes / FF_F32_BYTES / b->runs;

	*first = position % b->runs * run;
	*end = *first + run;
}

float *ff_address_array(const struct ff_executor *x, uint32_t bucket, uint32_t position,
		uint32_t array, int64_t *first, int64_t *end)
{
	const struct ff_bucket *b = &x->s->buckets[bucket];
	enum ff_dtype type = x->s->graph->dtype;
	struct ff_bucket_layout l = ff_bucket_arrays(b, x->s->optimizer, type);
	char *at = ff_address_bucket(x, bucket, position);
	bool all = array == FF_ARRAY_GRADIENTS
				   ? !b->scattered
				   : array == FF_ARRAY_WEIGHTS && type == FF_F32 && !b->dropped;
	int64_t offset = array == FF_ARRAY_WEIGHTS ? 0
			 : array == FF_ARRAY_GRADIENTS
					 ? l.gradients
					 : l.states + (array - FF_ARRAY_STATES) * l.run;

	ff_address_run(b, position, first, end);
	if (all) {
		*first = 0;
		*end = b->bytes / FF_F32_BYTES;
	}
	return at ? (float *)(at + offset) : NULL;
}

uint16_t *ff_address_rounded(const struct ff_executor *x, uint32_t bucket, uint32_t position,
		int64_t *first, int64_t *end)
{
	const struct ff_bucket *b = &x->s->buckets[bucket];
	enum ff_dtype type = x->s->graph->dtype;
	char *at = ff_address_bucket(x, bucket, position);

	*first = 0;
	*end = b->bytes / FF_F32_BYTES;
	if (b->dropped)
		ff_address_run(b, position, first, end);
	if (!at || type != FF_BF16)
		return NULL;
	return (uint16_t *)(at + ff_bucket_arrays(b, x->s->optimizer, type).readers);
}

float *ff_address_residual(const struct ff_executor *x, uint32_t bucket, char *at)
{
	return (float *)(at + ff_bucket_arrays(&x->s->buckets[bucket], x->s->optimizer,
					      x->s->graph->dtype)
					      .end);
}

float *ff_address_move_residual(
		const struct ff_executor *x, const struct ff_task *t, const struct ff_piece *p)
{
	uint32_t position = ff_address_position(t->move, p->from);
	char *at = ff_address_buffer(x, t->residual + position);

	return at ? (float *)(at + p->residual) : NULL;
}

uint32_t ff_address_position(const struct ff_move *mv, uint32_t device)
{
	return ff_device_index(mv->device, mv->n_devices, device);
}

void *ff_address_stage(const struct ff_transfer *t, uint32_t position)
{
	return t->task->stage == FF_NONE ? NULL
					 : ff_address_buffer(t->x, t->task->stage + position);
}

void ff_address_ends(const struct ff_transfer *t, struct ff_ends *ret)
{
	const struct ff_schedule *s = t->x->s;
	const struct ff_graph *g = s->graph;
	const struct ff_edge *e = &g->edges[t->task->edge];
	const struct ff_value *v = &g->values[e->value];
	const struct ff_operand *out = &g->nodes[v->producer].out_map[v->port];
	const struct ff_operand *in = &g->nodes[e->node].in_map[e->slot];
	bool forward = ff_task_pass(t->task) == FF_FORWARD;

	ret->source_node = forward ? v->producer : e->node;
	ret->sink_node = forward ? e->node : v->producer;
	ff_task_ends(s, t->task, &ret->source, &ret->sink);
	ret->source_map = forward ? out : in;
	ret->sink_map = forward ? in : out;
}
