/* An account of the memory of the device that needs most.  SPDX-License-Identifier: Apache-2.0 */
#include "held.h"

#include <string.h>

#include "ff/config.h"

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

static void mark(const uint32_t *list, uint32_t n, uint8_t *values)
{
	for (uint32_t i = 0; list && i < n; i++)
		if (list[i] != FF_NONE)
			values[list[i]] = 1;
}

/* Which buffers hold activations or their gradients; all others are of transfers. */
static void mark_values(const struct ff_schedule *s, uint8_t *values)
{
	const struct ff_graph *g = s->graph;

	for (uint32_t v = 0; v < g->n_values; v++) {
		uint32_t node = g->values[v].producer;

		for (uint32_t i = 0; i < s->n_instances && ff_node_is_computed(g, node); i++) {
			size_t at = (size_t)v * s->n_instances + i;

			mark(s->out[at], s->config[node].n_parts, values);
			mark(s->dout[at], s->config[node].n_parts, values);
		}
	}
	for (uint32_t e = 0; e < g->n_edges; e++) {
		uint32_t node = ff_node_leader(g, g->edges[e].node);

		if (ff_node_is_parameter(g, ff_edge_source(g, e)))
			continue;
		for (uint32_t i = 0; i < s->n_instances; i++) {
			size_t at = (size_t)e * s->n_instances + i;

			mark(s->in[at], s->config[node].n_parts, values);
			mark(s->din[at], s->config[node].n_parts, values);
		}
	}
}

static bool has_device(const struct ff_bucket *b, uint32_t device)
{
	for (uint32_t i = 0; i < b->n_devices; i++)
		if (b->device[i] == device)
			return true;
	return false;
}

static void add_buckets(const struct ff_schedule *s, uint32_t device, struct ff_held *h)
{
	enum ff_dtype type = s->graph->dtype;

	for (uint32_t i = 0; i < s->n_buckets; i++) {
		const struct ff_bucket *b = &s->buckets[i];
		struct ff_bucket_layout l = ff_bucket_arrays(b, s->optimizer, type);
		int64_t readers = type == FF_F32 ? 0 : l.end - l.readers;

		if (!has_device(b, device))
			continue;
		if (i == s->clip) {
			h->bytes[FF_HELD_BUFFERS] += ff_bucket_memory(b, s->optimizer, type);
			continue;
		}
		h->bytes[FF_HELD_WEIGHTS] += l.gradients + readers;
		h->bytes[FF_HELD_GRADIENTS] += l.states - l.gradients;
		h->bytes[FF_HELD_STATES] += s->optimizer->states * l.run;
		h->bytes[FF_HELD_GRADIENTS] += ff_bucket_memory(b, s->optimizer, type) - l.end;
	}
}

/* The most that the device's buffers hold at once, by kind, task by task. */
static int add_peak(const struct ff_schedule *s, uint32_t device, struct ff_arena *scratch,
		struct ff_held *h, struct ff_error *err)
{
	uint8_t *values = ff_arena_array(scratch, s->n_buffers, sizeof(*values));
	uint32_t *next = ff_arena_array(scratch, s->n_buffers, sizeof(*next));
	uint32_t *dying = ff_arena_array(scratch, s->n_tasks, sizeof(*dying));
	int64_t used[2] = {0, 0}, most[2] = {0, 0};
	uint32_t live = 0;

	if (!values || !next || !dying)
		return ff_fail_memory(err);
	mark_values(s, values);
	memset(dying, 0xff, s->n_tasks * sizeof(*dying));
	for (uint32_t t = 0; t < s->n_tasks; t++) {
		for (; live < s->n_buffers &&
				(s->buffers[live].bucket != FF_NONE || s->buffers[live].first <= t);
				live++) {
			const struct ff_buffer *b = &s->buffers[live];

			if (b->bucket != FF_NONE || b->within != FF_NONE || b->device != device)
				continue;
			used[values[live]] += b->bytes;
			if (b->last == FF_NONE)
				continue;
			next[live] = dying[b->last];
			dying[b->last] = live;
		}
		if (used[0] + used[1] > most[0] + most[1])
			memcpy(most, used, sizeof(most));
		for (uint32_t i = dying[t]; i != FF_NONE; i = next[i])
			used[values[i]] -= s->buffers[i].bytes;
	}
	h->bytes[FF_HELD_BUFFERS] += most[0];
	h->bytes[FF_HELD_ACTIVATIONS] += most[1];
	return FF_OK;
}

int ff_held_find(const struct ff_schedule *s, struct ff_arena *scratch, struct ff_held *ret,
		struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(scratch);
	struct ff_held h = {.device = 0};
	int code;

	for (uint32_t i = 1; i < s->machine->n_devices; i++)
		if (s->memory_bytes[i] > s->memory_bytes[h.device])
			h.device = i;
	h.all_bytes = s->memory_bytes[h.device];
	h.bytes[FF_HELD_WORKSPACE] = s->workspace_bytes[h.device];
	h.bytes[FF_HELD_BUFFERS] = s->packed_bytes[h.device];
	add_buckets(s, h.device, &h);
	for (uint32_t i = 0; i < s->n_buffers; i++)
		if (s->buffers[i].bucket == FF_KEPT && s->buffers[i].device == h.device)
			h.bytes[FF_HELD_STATES] += s->buffers[i].bytes;
	code = add_peak(s, h.device, scratch, &h, err);
	ff_arena_rewind(scratch, mark);
	if (code < 0)
		return code;
	h.bytes[FF_HELD_GAPS] = h.all_bytes;
	for (uint32_t k = 0; k < FF_HELD_GAPS; k++)
		h.bytes[FF_HELD_GAPS] -= h.bytes[k];
	*ret = h;
	return FF_OK;
}
