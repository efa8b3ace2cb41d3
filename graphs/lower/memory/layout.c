/* Layout: the place of every buffer in its device's memory.  Largest first, each at its
 * lowest free offset (the greedy-by-size rule of Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020).
 *
 * Which buffers may live at the same time is told by their clocks.  To ask only those
 * that can, a device's tasks are numbered and cut into bins: a buffer is in the bins
 * from its first task to the first task on each lane that is certain to begin after
 * its last use; no two without a bin in common live at once.  Those that share a bin
 * with one are those that are in its first, and those that begin in its others.
 *
 * Devices that do the same get the same layout, found once, each from its own base on.
 * SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

#include "clocks.h"
#include "ff/grow.h"

#define BIN_TASKS 32
#define CHUNK 256    /* buffers of a chunk, at most */
#define NEAR_SHARE 8 /* where less than so much of all may be near, it is looked at for itself */

/* A buffer of the device at hand. */
struct item {
	int64_t bytes;
	uint32_t buffer;
	uint32_t first, end; /* bins */
};

/* A buffer that has its place. */
struct placed {
	int64_t from, to;
	struct ff_life life;
};

/* Some of those that have their places, one behind another by offset. */
struct chunk {
	int64_t to; /* where the last of them ends */
	uint32_t n;
	struct placed at[CHUNK];
};

/* Bytes that are taken. */
struct span {
	int64_t from, to;
};

struct chain {
	uint32_t buffer, next;
};

/* One device while its buffers are placed. */
struct device {
	struct ff_lowering *l;
	uint32_t *number;                        /* by task: among the device's tasks */
	uint32_t *lane[FF_DEVICE_LANES];         /* tasks on its lanes */
	struct ff_clock *known[FF_DEVICE_LANES]; /* what is known to be done when they start */
	uint32_t n_lane[FF_DEVICE_LANES], n_tasks;
	struct item *item;
	uint32_t n_items;
	/* By bin: chains of placed buffers that are in it, that begin in it. */
	struct bin {
		uint32_t first, n;
	} * in, *begin;
	struct chain *chain;
	uint32_t n_chain, cap_chain;
	/* All that is placed, by offset, in chunks: what is looked at lies together, and what comes
	 * between others moves few. */
	struct chunk *chunks;
	uint32_t *order; /* of chunks */
	uint32_t n_chunks, n_placed;
	struct span *near; /* those that may live with the one at hand */
};

static bool clock_reached(const struct ff_clock *now, const struct ff_clock *what)
{
	bool reached = true;

	for (int k = 0; k < FF_DEVICE_LANES; k++)
		reached &= what->done[k] <= now->done[k];
	return reached;
}

/* The first task of the device, by number, that begins when `last` is certainly over. */
static uint32_t over_at(const struct device *d, const struct ff_clock *last)
{
	uint32_t at = 0;

	for (int k = 0; k < FF_DEVICE_LANES; k++) {
		uint32_t low = 0, high = d->n_lane[k];

		if (!d->n_lane[k])
			continue; /* nothing begins there */
		while (low < high) {
			uint32_t mid = (low + high) / 2;

			if (clock_reached(&d->known[k][mid], last))
				high = mid;
			else
				low = mid + 1;
		}
		if (low == d->n_lane[k])
			return d->n_tasks;
		if (at < d->number[d->lane[k][low]])
			at = d->number[d->lane[k][low]];
	}
	return at;
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	return x->buffer < y->buffer ? -1 : 1;
}

static int push(struct device *d, struct bin *bin, uint32_t buffer, struct ff_error *err)
{
	int code = ff_grow(&d->chain, d->n_chain, &d->cap_chain, sizeof(*d->chain), err);

	if (code < 0)
		return code;
	d->chain[d->n_chain] = (struct chain){buffer, bin->first};
	bin->first = d->n_chain++;
	bin->n++;
	return FF_OK;
}

static int put_in_bins(struct device *d, const struct item *x, struct ff_error *err)
{
	int code = push(d, &d->begin[x->first], x->buffer, err);

	for (uint32_t k = x->first; k < x->end && code == FF_OK; k++)
		code = push(d, &d->in[k], x->buffer, err);
	return code;
}

static bool may_meet(const struct ff_life *x, const struct ff_life *y)
{
	return !clock_reached(&x->born, &y->last) && !clock_reached(&y->born, &x->last);
}

/* How many placed buffers share a bin with `item`. */
static uint32_t count_near(const struct device *d, const struct item *item)
{
	uint32_t n = d->in[item->first].n;

	for (uint32_t b = item->first + 1; b < item->end; b++)
		n += d->begin[b].n;
	return n;
}

/* Spans of the buffers in a bin's chain that may live with `buffer`, as the next of d->near. */
static uint32_t add_near(struct device *d, const struct bin *bin, uint32_t buffer, uint32_t n)
{
	const struct ff_life *life = d->l->life;

	/* without a chain nothing is placed yet */
	for (uint32_t i = bin->n ? bin->first : FF_NONE; i != FF_NONE; i = d->chain[i].next) {
		uint32_t other = d->chain[i].buffer;
		const struct ff_buffer *b = &d->l->r.buffers[other];

		if (may_meet(&life[other], &life[buffer]))
			d->near[n++] = (struct span){b->offset, b->offset + b->bytes};
	}
	return n;
}

/* Placed buffers that may live with `item`. */
static uint32_t list_near(struct device *d, const struct item *item)
{
	uint32_t n = add_near(d, &d->in[item->first], item->buffer, 0);

	for (uint32_t b = item->first + 1; b < item->end; b++)
		n = add_near(d, &d->begin[b], item->buffer, n);
	return n;
}

/* Lets span `x` sink from place `i` of a heap of `n`, lowest first. */
static void sink(struct span *heap, uint32_t n, uint32_t i, struct span x)
{
	for (uint32_t k = 2 * i + 1; k < n; k = 2 * i + 1) {
		k += k + 1 < n && heap[k + 1].from < heap[k].from;
		if (heap[k].from >= x.from)
			break;
		heap[i] = heap[k];
		i = k;
	}
	heap[i] = x;
}

/* Lowest offset from `base` on where `bytes` are free, `n` being taken.  Spans come out of a heap
 * as they are asked for: those that lie behind the room found are never sorted. */
static int64_t find_gap(struct span *taken, uint32_t n, int64_t bytes, int64_t base)
{
	int64_t at = base;

	for (uint32_t i = n / 2; i-- > 0;)
		sink(taken, n, i, taken[i]);
	while (n && taken[0].from < at + bytes) {
		at = taken[0].to > at ? taken[0].to : at;
		n--;
		sink(taken, n, 0, taken[n]);
	}
	return at;
}

/* The same of all that is placed, which is by offset, of what may live with `item`. */
static int64_t find_room(const struct device *d, const struct item *item, int64_t base)
{
	struct ff_life life = d->l->life[item->buffer];
	int64_t at = base;

	for (uint32_t k = 0; k < d->n_chunks; k++) {
		const struct chunk *c = &d->chunks[d->order[k]];

		if (c->at[0].from >= at + item->bytes)
			break;
		if (c->to <= at)
			continue;
		for (uint32_t i = 0; i < c->n && c->at[i].from < at + item->bytes; i++)
			if (c->at[i].to > at && may_meet(&c->at[i].life, &life))
				at = c->at[i].to;
	}
	return at;
}

/* Of what is placed, where few may be near those alone are looked at. */
static int64_t find_offset(struct device *d, const struct item *item, int64_t base)
{
	if (count_near(d, item) > d->n_placed / NEAR_SHARE)
		return find_room(d, item, base);
	return find_gap(d->near, list_near(d, item), item->bytes, base);
}

/* The chunk that what is placed at `offset` belongs in: the last that begins no later. */
static uint32_t find_chunk(const struct device *d, int64_t offset)
{
	uint32_t low = 0, high = d->n_chunks;

	while (high - low > 1) {
		uint32_t mid = (low + high) / 2;

		if (d->chunks[d->order[mid]].at[0].from > offset)
			high = mid;
		else
			low = mid;
	}
	return low;
}

static void measure_chunk(struct chunk *c)
{
	c->to = c->at[0].to;
	for (uint32_t i = 1; i < c->n; i++)
		c->to = c->at[i].to > c->to ? c->at[i].to : c->to;
}

/* The upper half of a full chunk becomes the next one. */
static void split_chunk(struct device *d, uint32_t k)
{
	struct chunk *low = &d->chunks[d->order[k]], *high = &d->chunks[d->n_chunks];

	high->n = CHUNK / 2;
	low->n -= high->n;
	memcpy(high->at, low->at + low->n, high->n * sizeof(*high->at));
	measure_chunk(low);
	measure_chunk(high);
	memmove(d->order + k + 2, d->order + k + 1, (d->n_chunks - k - 1) * sizeof(*d->order));
	d->order[k + 1] = d->n_chunks++;
}

static void keep_sorted(struct device *d, const struct item *item, int64_t offset)
{
	const struct placed x = {offset, offset + item->bytes, d->l->life[item->buffer]};
	struct chunk *c;
	uint32_t k = find_chunk(d, offset), i;

	if (d->chunks[d->order[k]].n == CHUNK) {
		split_chunk(d, k);
		k = find_chunk(d, offset);
	}
	c = &d->chunks[d->order[k]];
	for (i = c->n++; i > 0 && c->at[i - 1].from > offset; i--)
		c->at[i] = c->at[i - 1];
	c->at[i] = x;
	c->to = x.to > c->to ? x.to : c->to;
	d->n_placed++;
}

/* Whether the device needs more than it may, and no one wants to hear how much. */
static bool is_over(const struct device *d, uint32_t device)
{
	const struct ff_lower_options *o = d->l->opt;

	return o && o->limit && d->l->r.memory_bytes[device] > o->limit[device];
}

static int place_items(struct device *d, uint32_t device, int64_t base, struct ff_error *err)
{
	int64_t *memory = &d->l->r.memory_bytes[device];
	uint32_t bins = d->n_tasks / BIN_TASKS + 1;
	int code = FF_OK;

	for (uint32_t i = 0; i < bins; i++)
		d->in[i] = d->begin[i] = (struct bin){FF_NONE, 0};
	d->n_chain = d->n_placed = 0;
	d->n_chunks = 1;
	d->order[0] = 0;
	d->chunks[0].n = 0;
	d->chunks[0].to = 0;
	qsort(d->item, d->n_items, sizeof(*d->item), compare_items);
	for (uint32_t i = 0; i < d->n_items && code == FF_OK && !is_over(d, device); i++) {
		const struct item *x = &d->item[i];
		int64_t offset = find_offset(d, x, base);

		d->l->r.buffers[x->buffer].offset = offset;
		keep_sorted(d, x, offset);
		if (offset + x->bytes > *memory)
			*memory = offset + x->bytes;
		code = put_in_bins(d, x, err);
	}
	return code;
}

/* ---- the device's tasks and buffers ---- */

/* Slices of arrays by device: `start[device]`. */
struct sliced {
	uint32_t *start, *id;
};

static int allocate_slices(
		struct ff_lowering *l, uint32_t n, struct sliced *s, struct ff_error *err)
{
	s->start = ff_arena_array(l->scratch, (size_t)l->m->n_devices + 1, sizeof(*s->start));
	s->id = ff_arena_array(l->scratch, n, sizeof(*s->id));
	return s->start && s->id ? FF_OK : ff_fail_memory(err);
}

/* The longest slice. */
static uint32_t longest(const struct ff_lowering *l, const struct sliced *s)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < l->m->n_devices; i++)
		if (s->start[i + 1] - s->start[i] > most)
			most = s->start[i + 1] - s->start[i];
	return most;
}

/* Room for the tasks and buffers of one device, the one that has most. */
static int allocate(struct device *d, const struct sliced *tasks, const struct sliced *buffers,
		struct ff_error *err)
{
	struct ff_lowering *l = d->l;
	struct ff_arena *a = l->scratch;
	uint32_t n = longest(l, tasks), n_buffers = longest(l, buffers);
	uint32_t n_chunks = n_buffers / (CHUNK / 2) + 1; /* all but one are half full */

	d->number = ff_arena_array(a, l->r.n_tasks, sizeof(*d->number));
	for (int k = 0; k < FF_DEVICE_LANES; k++) {
		d->lane[k] = ff_arena_array(a, n, sizeof(**d->lane));
		d->known[k] = ff_arena_array(a, n, sizeof(**d->known));
		if (!d->lane[k] || !d->known[k])
			return ff_fail_memory(err);
	}
	d->item = ff_arena_array(a, n_buffers, sizeof(*d->item));
	d->in = ff_arena_array(a, n / BIN_TASKS + 1, sizeof(*d->in));
	d->begin = ff_arena_array(a, n / BIN_TASKS + 1, sizeof(*d->begin));
	d->near = ff_arena_array(a, n_buffers, sizeof(*d->near));
	d->chunks = ff_arena_array(a, n_chunks, sizeof(*d->chunks));
	d->order = ff_arena_array(a, n_chunks, sizeof(*d->order));
	return d->number && d->item && d->in && d->begin && d->near && d->chunks && d->order
			       ? FF_OK
			       : ff_fail_memory(err);
}

/* From counts to where slices start. */
static void sum_starts(uint32_t *start, uint32_t n)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i <= n; i++) {
		uint32_t count = start[i];

		start[i] = sum;
		sum += count;
	}
}

static void slice_tasks(const struct ff_lowering *l, struct sliced *s)
{
	const uint16_t *list;
	uint16_t one;

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < l->r.n_tasks; i++) {
			uint32_t n = ff_task_devices(&l->r.tasks[i], &list, &one);

			for (uint32_t k = 0; k < n; k++)
				if (round)
					s->id[s->start[list[k]]++] = i;
				else
					s->start[list[k]]++;
		}
		if (!round)
			sum_starts(s->start, l->m->n_devices);
	}
	memmove(s->start + 1, s->start, l->m->n_devices * sizeof(*s->start));
	s->start[0] = 0;
}

static void slice_buffers(const struct ff_lowering *l, struct sliced *s)
{
	for (uint32_t i = 0; i < l->r.n_buffers; i++)
		s->start[l->r.buffers[i].device] += l->r.buffers[i].bucket == FF_NONE;
	sum_starts(s->start, l->m->n_devices);
	for (uint32_t i = 0; i < l->r.n_buffers; i++)
		if (l->r.buffers[i].bucket == FF_NONE)
			s->id[s->start[l->r.buffers[i].device]++] = i;
	memmove(s->start + 1, s->start, l->m->n_devices * sizeof(*s->start));
	s->start[0] = 0;
}

static void number_tasks(struct device *d, uint32_t device, const uint32_t *id, uint32_t n)
{
	memset(d->n_lane, 0, sizeof(d->n_lane));
	d->n_tasks = n;
	for (uint32_t i = 0; i < n; i++) {
		enum ff_lane_class k = ff_task_lane(d->l, &d->l->r.tasks[id[i]]);

		d->number[id[i]] = i;
		d->known[k][d->n_lane[k]] = *ff_clock_before(d->l, id[i], device);
		d->lane[k][d->n_lane[k]++] = id[i];
	}
}

static void list_items(struct device *d, const uint32_t *id, uint32_t n)
{
	d->n_items = n;
	for (uint32_t i = 0; i < n; i++) {
		const struct ff_buffer *b = &d->l->r.buffers[id[i]];
		uint32_t first = d->number[b->first], end = over_at(d, &d->l->life[id[i]].last);

		d->item[i] = (struct item){b->bytes, id[i], first / BIN_TASKS,
				(end > first ? end - 1 : first) / BIN_TASKS + 1};
	}
}

/* Whether the buffers of two devices have the same sizes and lives, one by one. */
static bool alike(const struct ff_lowering *l, const uint32_t *a, const uint32_t *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct ff_life *x = &l->life[a[i]], *y = &l->life[b[i]];

		if (l->r.buffers[a[i]].bytes != l->r.buffers[b[i]].bytes ||
				memcmp(x, y, sizeof(*x)) != 0)
			return false;
	}
	return true;
}

/* The layout of an earlier device with buffers as this one's; false: none has. */
static bool copy_layout(struct ff_lowering *l, uint32_t device, const int64_t *base,
		const struct sliced *buffers)
{
	const uint32_t *start = buffers->start, *mine = buffers->id + start[device];
	uint32_t n = start[device + 1] - start[device], i = 0;

	while (i < device && (start[i + 1] - start[i] != n ||
					     !alike(l, buffers->id + start[i], mine, n)))
		i++;
	if (i == device)
		return false;
	for (uint32_t k = 0; k < n; k++)
		l->r.buffers[mine[k]].offset = l->r.buffers[buffers->id[start[i] + k]].offset +
					       base[device] - base[i];
	l->r.memory_bytes[device] = l->r.memory_bytes[i] + base[device] - base[i];
	return true;
}

int ff_layout_place(struct ff_lowering *l, const int64_t *base, struct ff_error *err)
{
	struct device d = {.l = l};
	struct sliced tasks = {0}, buffers = {0};
	int code = allocate_slices(l, l->clocks.n, &tasks, err);

	if (code == FF_OK)
		code = allocate_slices(l, l->r.n_buffers, &buffers, err);
	if (code < 0)
		return code;
	slice_tasks(l, &tasks);
	slice_buffers(l, &buffers);
	code = allocate(&d, &tasks, &buffers, err);
	for (uint32_t i = 0; i < l->m->n_devices && code == FF_OK && (!i || !is_over(&d, i - 1));
			i++) {
		const uint32_t *t = tasks.start + i, *b = buffers.start + i;

		if (!ff_device_is_lowered(l, i) || copy_layout(l, i, base, &buffers))
			continue;
		number_tasks(&d, i, tasks.id + t[0], t[1] - t[0]);
		list_items(&d, buffers.id + b[0], b[1] - b[0]);
		code = place_items(&d, i, base[i], err);
	}
	free(d.chain);
	return code;
}
