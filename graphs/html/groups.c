/* Devices whose timelines and memories are equal.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ff/name_fold.h"
#include "parts.h"

/* Spans that all groups of a page may have together: of about 25 bytes each. */
#define MOST_SPANS 120000

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

static void hash_devices(const struct ff_html *h, uint64_t *hash, uint64_t *spans)
{
	const struct ff_schedule *s = h->schedule;

	for (uint32_t d = 0; d < s->machine->n_devices; d++)
		hash[d] = ff_hash_mix((uint64_t)s->memory_bytes[d],
				s->machine->nodes[s->machine->node_of[d]].kind);
	/* a sum: spans of different devices stand in between, in any order */
	for (uint32_t k = 0; k < h->n_timelines; k++)
		for (uint32_t i = 0; i < h->timeline[k].n; i++) {
			const struct ff_span *span = &h->timeline[k].spans[i];

			hash[span->device] += ff_hash_mix(k, hash_span(s, span));
			spans[span->device]++;
		}
}

int ff_html_group(const struct ff_html *h, struct ff_arena *a, struct ff_html_groups *ret,
		struct ff_error *err)
{
	uint32_t n = h->schedule->machine->n_devices;
	uint64_t *hash = ff_arena_array(a, n, sizeof(*hash));
	uint64_t *spans = ff_arena_array(a, n, sizeof(*spans)), all = 0;
	struct ff_html_groups g = {.first = ff_arena_array(a, n, sizeof(*g.first)),
			.of = ff_arena_array(a, n, sizeof(*g.of))};
	struct ff_table table = {.arena = a};

	if (!hash || !spans || !g.first || !g.of)
		return ff_fail_memory(err);
	hash_devices(h, hash, spans);
	for (uint32_t d = 0; d < n; d++) {
		uint32_t at, i = ff_table_first(&table, hash[d], &at);

		if (i == FF_NONE) {
			i = g.n++;
			g.first[i] = d;
			if (ff_table_put(&table, hash[d], i) < 0)
				return ff_fail_memory(err);
			all += spans[d];
			g.told += g.told + 1 == g.n && (all <= MOST_SPANS || !g.told);
		}
		g.of[d] = i;
	}
	*ret = g;
	return FF_OK;
}

const char *ff_html_devices(const struct ff_html *h, const struct ff_html_groups *g, uint32_t group,
		struct ff_arena *a)
{
	uint32_t devices = h->schedule->machine->n_devices, n = 0;
	uint32_t *own = ff_arena_array(a, devices, sizeof(*own));
	char text[160];

	if (!own)
		return NULL;
	for (uint32_t d = 0; d < devices; d++)
		if (g->of[d] == group)
			own[n++] = d;
	ff_fold_numbers(own, n, text, sizeof(text));
	return ff_arena_strdup(a, text);
}
