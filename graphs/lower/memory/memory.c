/* The memory plan: who holds what when, and where.  Two buffers may share
 * memory only if all uses of one are certain to be over when the other's first
 * task starts, which clocks tell.  SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <string.h>

#include "clocks.h"
#include "ff/bucket_layout.h"
#include "layout.h"

uint32_t ff_buffer_new(struct ff_lowering *l, uint32_t device, int64_t bytes)
{
	uint32_t id = l->r.n_buffers, task = l->r.n_tasks - 1;

	if (!ff_device_is_lowered(l, device))
		return FF_NONE;
	l->r.n_buffers++;
	l->r.buffers[id] = (struct ff_buffer){.device = device,
			.first = task,
			.last = task,
			.bucket = FF_NONE,
			.within = FF_NONE,
			.bytes = ff_align64(bytes)};
	l->life[id].born = *ff_clock_before(l, task, device);
	return id;
}

uint32_t ff_buffer_pin(struct ff_lowering *l, uint32_t device, uint32_t bucket, int64_t bytes,
		int64_t offset)
{
	uint32_t id = l->r.n_buffers;

	if (!ff_device_is_lowered(l, device))
		return FF_NONE;
	l->r.n_buffers++;
	l->r.buffers[id] = (struct ff_buffer){.device = device,
			.bucket = bucket,
			.within = FF_NONE,
			.offset = offset,
			.bytes = ff_align64(bytes)};
	return id;
}

void ff_buffer_use(struct ff_lowering *l, uint32_t buffer)
{
	uint32_t task = l->r.n_tasks - 1;
	const struct ff_task *t = &l->r.tasks[task];
	const uint16_t *list;
	uint16_t one;
	uint32_t n = ff_task_devices(t, &list, &one), at;
	enum ff_lane_class lane = ff_task_lane(l, t);
	const struct ff_clock *done;

	if (buffer != FF_NONE && l->r.buffers[buffer].within != FF_NONE)
		buffer = l->r.buffers[buffer].within;
	if (buffer == FF_NONE || l->r.buffers[buffer].bucket != FF_NONE)
		return;
	l->r.buffers[buffer].last = task;
	at = ff_device_index(list, n, l->r.buffers[buffer].device);
	done = &l->clocks.done[l->clocks.first[task] + at];
	l->life[buffer].last.done[lane] = done->done[lane];
}

void ff_buffer_keep(struct ff_lowering *l, uint32_t buffer)
{
	memset(&l->life[buffer].last, 0xff, sizeof(l->life[buffer].last));
	l->r.buffers[buffer].last = FF_NONE;
}

/* Behind its buckets a device has what operators keep, then what is compressed. */
static void place_kept(struct ff_lowering *l, int64_t *used)
{
	for (uint32_t i = 0; i < l->r.n_buffers; i++) {
		struct ff_buffer *b = &l->r.buffers[i];

		if (b->bucket != FF_KEPT)
			continue;
		b->offset = used[b->device];
		b->last = FF_NONE;
		used[b->device] += b->bytes;
	}
	for (uint32_t d = 0; d < l->m->n_devices; d++) {
		l->r.packed_offset[d] = used[d];
		used[d] += l->r.packed_bytes[d];
	}
}

/* Behind the workspace: weights, gradients and states of every bucket, then what else stays. */
static int place_fixed(struct ff_lowering *l, int64_t *used, struct ff_error *err)
{
	memcpy(used, l->r.workspace_bytes, l->m->n_devices * sizeof(*used));
	for (uint32_t i = 0; i < l->r.n_buckets; i++) {
		struct ff_bucket *b = &l->r.buckets[i];
		int64_t *offset = ff_arena_array(l->a, b->n_devices, sizeof(*offset));

		if (!offset)
			return ff_fail_memory(err);
		for (uint32_t d = 0; d < b->n_devices; d++) {
			offset[d] = used[b->device[d]];
			used[b->device[d]] += ff_bucket_memory(b, l->r.optimizer, l->g->dtype);
		}
		b->offset = offset;
	}
	place_kept(l, used);
	return FF_OK;
}

/* Buffers of parameters: from offsets in the bucket to offsets in memory. */
static void move_pinned(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->r.n_buffers; i++) {
		struct ff_buffer *b = &l->r.buffers[i];
		const struct ff_bucket *k;

		if (b->bucket == FF_NONE || b->bucket == FF_KEPT || b->within != FF_NONE ||
				l->r.buckets[b->bucket].dropped)
			continue;
		k = &l->r.buckets[b->bucket];
		b->last = FF_NONE;
		b->offset += k->offset[ff_device_index(k->device, k->n_devices, b->device)];
	}
}

/* Shards of scattered and dropped buckets, once what they are parts of has its place. */
static void move_parts(struct ff_lowering *l)
{
	for (uint32_t i = 0; i < l->r.n_buffers; i++) {
		struct ff_buffer *b = &l->r.buffers[i];
		const struct ff_buffer *all = b->within == FF_NONE ? b : &l->r.buffers[b->within];

		if (all == b)
			continue;
		b->first = all->first;
		b->last = all->last;
		b->offset += all->offset;
	}
}

/* What an operator's parts carry moves while it is computed. */
static bool is_of_node(const struct ff_lowering *l, const struct ff_task *t)
{
	return ff_task_computes_part(t) ||
	       (ff_task_moves_edge(t) && ff_edge_is_carried(l->g, t->edge));
}

/* Tasks of one operator's pass, or of one redistribution, count as one step. */
static bool same_step(const struct ff_lowering *l, const struct ff_task *a, const struct ff_task *b)
{
	bool same = a->phase == b->phase && a->node == b->node && a->micro == b->micro;

	if (is_of_node(l, a) && is_of_node(l, b))
		return same;
	return same && !a->move == !b->move && a->compute == b->compute && a->edge == b->edge;
}

/* The most that is in use on each device in any step. */
static int find_peaks(struct ff_lowering *l, const int64_t *base, struct ff_error *err)
{
	uint32_t n = l->r.n_buffers, tasks = l->r.n_tasks, live = 0, step = 0;
	uint32_t *next = ff_arena_array(l->scratch, n, sizeof(*next));
	uint32_t *dying = ff_arena_array(l->scratch, tasks, sizeof(*dying));
	int64_t *used = ff_arena_array(l->scratch, l->m->n_devices, sizeof(*used));

	if (!next || !dying || !used)
		return ff_fail_memory(err);
	memcpy(used, base, l->m->n_devices * sizeof(*used));
	memcpy(l->r.live_bytes, base, l->m->n_devices * sizeof(*used));
	memset(dying, 0xff, tasks * sizeof(*dying));
	/* buffers stand in the order of their first tasks, pinned ones before all */
	for (uint32_t t = 0; t < tasks; t++) {
		for (; live < n && (l->r.buffers[live].bucket != FF_NONE ||
						   l->r.buffers[live].first <= t);
				live++) {
			const struct ff_buffer *b = &l->r.buffers[live];

			if (b->bucket != FF_NONE)
				continue;
			used[b->device] += b->bytes;
			if (used[b->device] > l->r.live_bytes[b->device])
				l->r.live_bytes[b->device] = used[b->device];
			if (b->last == FF_NONE)
				continue;
			next[live] = dying[b->last];
			dying[b->last] = live;
		}
		if (t + 1 < tasks && same_step(l, &l->r.tasks[t], &l->r.tasks[t + 1]))
			continue;
		for (; step <= t; step++)
			for (uint32_t i = dying[step]; i != FF_NONE; i = next[i])
				used[l->r.buffers[i].device] -= l->r.buffers[i].bytes;
	}
	return FF_OK;
}

int ff_memory_place(struct ff_lowering *l, struct ff_error *err)
{
	int64_t *base = ff_arena_array(l->scratch, l->m->n_devices, sizeof(*base));
	int code;

	if (!base)
		return ff_fail_memory(err);
	code = place_fixed(l, base, err);
	if (code < 0)
		return code;
	move_pinned(l);
	memcpy(l->r.memory_bytes, base, l->m->n_devices * sizeof(*base));
	code = find_peaks(l, base, err);
	if (code == FF_OK)
		code = ff_layout_place(l, base, err);
	move_parts(l);
	return code;
}
