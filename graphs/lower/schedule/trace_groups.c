/* Devices whose timelines and memory are equal.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/name_fold.h"
#include "ff/trace.h"

/* What a device does: its spans in their order, as others see them. */
static uint64_t hash_span(const struct ff_schedule *s, const struct ff_span *span)
{
	const struct ff_task *t = &s->tasks[span->task];
	uint64_t h = ff_hash_mix(t->compute, ff_task_pass(t)), bits[2];

	memcpy(bits, (const double[]){span->start_us, span->finish_us}, sizeof(bits));
	h = ff_hash_mix(h, bits[0]);
	h = ff_hash_mix(h, bits[1]);
	h = ff_hash_mix(h, (uint64_t)t->micro << 1 | !t->move);
	/* other devices have other buckets, which are as large */
	if (t->bucket != FF_NONE)
		return ff_hash_mix(h, (uint64_t)s->buckets[t->bucket].bytes);
	return ff_hash_mix(h, t->node);
}

static void hash_devices(const struct ff_schedule *s, const struct ff_timeline *timeline,
		uint32_t n_timelines, uint64_t *hash, uint64_t *spans)
{
	for (uint32_t d = 0; d < s->machine->n_devices; d++)
		hash[d] = ff_hash_mix((uint64_t)s->memory_bytes[d],
				s->machine->nodes[s->machine->node_of[d]].kind);
	/* a sum: spans of different devices stand in between, in any order */
	for (uint32_t k = 0; k < n_timelines; k++)
		for (uint32_t i = 0; i < timeline[k].n; i++) {
			const struct ff_span *span = &timeline[k].spans[i];

			hash[span->device] += ff_hash_mix(k, hash_span(s, span));
			spans[span->device]++;
		}
}

static int list_devices(uint32_t n, struct ff_trace_groups *g, struct ff_arena *a)
{
	uint32_t *own = ff_arena_array(a, n, sizeof(*own));
	char text[160];

	g->devices = ff_arena_array(a, g->n, sizeof(*g->devices));
	if (!own || !g->devices)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < g->n; i++) {
		uint32_t k = 0;

		for (uint32_t d = g->first[i]; d < n; d++)
			if (g->of[d] == i)
				own[k++] = d;
		ff_fold_numbers(own, k, text, sizeof(text));
		g->devices[i] = ff_arena_strdup(a, text);
		if (!g->devices[i])
			return FF_E_NOMEM;
	}
	return FF_OK;
}

int ff_trace_group(const struct ff_schedule *s, const struct ff_timeline *timeline,
		uint32_t n_timelines, struct ff_arena *a, struct ff_trace_groups *ret,
		struct ff_error *err)
{
	uint32_t n = s->machine->n_devices;
	uint64_t *hash = ff_arena_array(a, n, sizeof(*hash));
	uint64_t *spans = ff_arena_array(a, n, sizeof(*spans));
	struct ff_trace_groups g = {.first = ff_arena_array(a, n, sizeof(*g.first)),
			.of = ff_arena_array(a, n, sizeof(*g.of)),
			.spans = ff_arena_array(a, n, sizeof(*g.spans))};
	struct ff_table table = {.arena = a};

	if (!hash || !spans || !g.first || !g.of || !g.spans)
		return ff_fail_memory(err);
	hash_devices(s, timeline, n_timelines, hash, spans);
	for (uint32_t d = 0; d < n; d++) {
		uint32_t at, i = ff_table_first(&table, hash[d], &at);

		if (i == FF_NONE) {
			i = g.n++;
			g.first[i] = d;
			g.spans[i] = spans[d];
			if (ff_table_put(&table, hash[d], i) < 0)
				return ff_fail_memory(err);
		}
		g.of[d] = i;
	}
	if (list_devices(n, &g, a) < 0)
		return ff_fail_memory(err);
	*ret = g;
	return FF_OK;
}
