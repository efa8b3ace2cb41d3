/* An account of a device's memory, by kind.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/held.h"
#include "ff/bucket_layout.h"

#include <string.h>

enum { ACTIVATION, BUFFER };

const char *ff_held_name(enum ff_held_kind k)
{
	static const char *const names[FF_HELD_COUNT] = {
			[FF_HELD_WEIGHTS] = "weights",
			[FF_HELD_GRADIENTS] = "gradients",
			[FF_HELD_STATES] = "optimizer states",
			[FF_HELD_ACTIVATIONS] = "activations",
			[FF_HELD_BUFFERS] = "buffers",
			[FF_HELD_WORKSPACE] = "workspace",
			[FF_HELD_GAPS] = "gaps",
	};

	return names[k];
}

static bool has_device(const struct ff_bucket *b, uint32_t device)
{
	for (uint32_t i = 0; i < b->n_devices; i++)
		if (b->device[i] == device)
			return true;
	return false;
}

static void add_bucket(const struct ff_schedule *s, const struct ff_bucket *b,
		int64_t bytes[FF_HELD_COUNT])
{
	enum ff_dtype type = s->graph->dtype;
	struct ff_bucket_layout l = ff_bucket_arrays(b, s->optimizer, type);
	int64_t readers = type == FF_F32 ? 0 : l.lists - l.readers;

	bytes[FF_HELD_WEIGHTS] += l.gradients + readers;
	bytes[FF_HELD_GRADIENTS] += l.states - l.gradients;
	bytes[FF_HELD_STATES] += s->optimizer->states * l.run;
	bytes[FF_HELD_GRADIENTS] += ff_bucket_memory(b, s->optimizer, type) - l.lists;
}

void ff_held_always(const struct ff_schedule *s, uint32_t device, int64_t bytes[FF_HELD_COUNT])
{
	memset(bytes, 0, FF_HELD_COUNT * sizeof(*bytes));
	bytes[FF_HELD_WORKSPACE] = s->workspace_bytes[device];
	bytes[FF_HELD_BUFFERS] = s->packed_bytes[device];
	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct ff_bucket *b = &s->buckets[i];

		if (!has_device(b, device))
			continue;
		if (i == s->clip)
			bytes[FF_HELD_BUFFERS] +=
					ff_bucket_memory(b, s->optimizer, s->graph->dtype);
		else
			add_bucket(s, b, bytes);
	}
	for (uint32_t i = 0; i < s->n_buffers; i++)
		if (s->buffers[i].bucket == FF_KEPT && s->buffers[i].device == device)
			bytes[FF_HELD_STATES] += s->buffers[i].bytes;
}

static void mark(const uint32_t *list, uint32_t n, uint8_t *kind)
{
	for (uint32_t i = 0; list && i < n; i++)
		if (list[i] != FF_NONE)
			kind[list[i]] = ACTIVATION;
}

/* Which buffers hold activations or their gradients; all others are of transfers. */
static void mark_activations(const struct ff_schedule *s, uint8_t *kind)
{
	const struct ff_graph *g = s->graph;

	memset(kind, BUFFER, s->n_buffers);
	for (uint32_t v = 0; v < g->n_values; v++) {
		uint32_t node = g->values[v].producer;

		for (uint32_t i = 0; i < s->n_instances && ff_node_is_computed(g, node); i++) {
			size_t at = (size_t)v * s->n_instances + i;

			mark(s->out[at], s->config[node].n_parts, kind);
			mark(s->dout[at], s->config[node].n_parts, kind);
		}
	}
	for (uint32_t e = 0; e < g->n_edges; e++) {
		uint32_t node = ff_node_leader(g, g->edges[e].node);

		if (ff_node_is_parameter(g, ff_edge_source(g, e)))
			continue;
		for (uint32_t i = 0; i < s->n_instances; i++) {
			size_t at = (size_t)e * s->n_instances + i;

			mark(s->in[at], s->config[node].n_parts, kind);
			mark(s->din[at], s->config[node].n_parts, kind);
		}
	}
}

/* What comes is added where it comes and taken off behind where it goes; sums do the rest. */
int ff_held_over_tasks(const struct ff_schedule *s, uint32_t device, struct ff_arena *a,
		int64_t *ret[2], struct ff_error *err)
{
	int64_t *held[2] = {ff_arena_array(a, (size_t)s->n_tasks + 1, sizeof(int64_t)),
			ff_arena_array(a, (size_t)s->n_tasks + 1, sizeof(int64_t))};
	uint8_t *kind = ff_arena_array(a, s->n_buffers, sizeof(*kind));

	if (!held[0] || !held[1] || !kind)
		return ff_fail_memory(err);
	mark_activations(s, kind);
	for (uint32_t i = 0; i < s->n_buffers; i++) {
		const struct ff_buffer *b = &s->buffers[i];

		if (b->bucket != FF_NONE || b->within != FF_NONE || b->device != device)
			continue;
		held[kind[i]][b->first] += b->bytes;
		if (b->last != FF_NONE && b->last < s->n_tasks)
			held[kind[i]][b->last + 1] -= b->bytes;
	}
	for (uint32_t k = 0; k < 2; k++)
		for (uint32_t t = 1; t < s->n_tasks; t++)
			held[k][t] += held[k][t - 1];
	ret[0] = held[0];
	ret[1] = held[1];
	return FF_OK;
}
