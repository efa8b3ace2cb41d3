/* Loads: sinks that are filled from the data set.  Either a thread of its own fills one of two
 * slots of host memory while the step before runs, and a load is an upload from there; or the
 * host fills them in the stream's order.  SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "communication.h"
#include "data/prefetch.h"
#include "ff/cli.h"

static size_t load_bytes(const struct ff_transfer *t)
{
	const struct ff_move *mv = t->task->move;

	return (size_t)(ff_region_volume(&mv->region) * ff_dtype_bytes(mv->type));
}

int ff_load_build(struct ff_transfer *t, struct ff_error *err)
{
	struct ff_ends e;

	(void)err;
	ff_address_ends(t, &e);
	t->load = t->sink = ff_address_buffer(t->x, e.sink[t->task->move->sink[0]]);
	return FF_OK;
}

/* The task's transfer if it is a load that has anything to fill. */
static struct ff_transfer *load_of(const struct ff_executor *x, uint32_t task)
{
	struct ff_transfer *t = x->bound[task].transfer;

	return t && t->sink && load_bytes(t) ? t : NULL;
}

/* The elements of its micro-batch, by their place in the batch. */
static int fill(const struct ff_transfer *t, const struct ff_batch *pass, void *shard,
		struct ff_error *err)
{
	const struct ff_executor *x = t->x;
	int32_t before = (int32_t)t->task->micro * x->s->graph->batch;
	struct ff_region region = t->task->move->region;

	region.lo[0] += before;
	region.hi[0] += before;
	return ff_dataset_fill(x->data, pass->training, pass->step,
			ff_edge_source(x->s->graph, t->task->edge), &region, shard, err);
}

/* ---- host memory ---- */

static int take_memory(const struct ff_executor *x, size_t bytes, void **ret, struct ff_error *err)
{
	if (!bytes)
		return FF_OK;
	if (x->b->memory.pin)
		return x->b->memory.pin(x->host[0].dev, bytes, ret, err);
	*ret = malloc(bytes);
	return *ret ? FF_OK : ff_fail_memory(err);
}

static void give_memory(const struct ff_executor *x, void *memory)
{
	if (memory && x->b->memory.pin)
		x->b->memory.unpin(x->host[0].dev, memory);
	else
		free(memory);
}

/* One for all loads: the stream is at one of them at a time. */
static int open_stage(struct ff_executor *x, struct ff_error *err)
{
	size_t most = 0;
	int code;

	for (uint32_t i = 0; i < x->s->n_tasks && !x->b->memory.of_host; i++) {
		const struct ff_transfer *t = load_of(x, i);

		if (t && load_bytes(t) > most)
			most = load_bytes(t);
	}
	code = take_memory(x, most, &x->load_stage, err);
	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK && most; i++)
		if (load_of(x, i))
			load_of(x, i)->load = x->load_stage;
	return code;
}

/* ---- prefetch ---- */

/* By the thread: all that the pass loads here, one behind the other. */
static int fill_slot(void *arg, const struct ff_batch *pass, struct ff_error *err)
{
	const struct ff_executor *x = arg;
	struct ff_samples *samples = x->prefetched->slot + ff_batch_slot(pass->step);
	int code = ff_dataset_valid(x->data, pass->training, pass->step, samples->valid, err);

	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK; i++) {
		const struct ff_transfer *t = load_of(x, i);

		if (t && (pass->training || x->bound[i].forward))
			code = fill(t, pass, samples->memory + t->prefetched, err);
	}
	return code;
}

static int open_slots(struct ff_executor *x, struct ff_error *err)
{
	size_t bytes = 0;
	int code = FF_OK;

	x->prefetched = ff_arena_alloc(&x->arena, sizeof(*x->prefetched));
	if (!x->prefetched)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < x->s->n_tasks; i++) {
		struct ff_transfer *t = load_of(x, i);

		if (!t)
			continue;
		t->prefetched = bytes;
		bytes += (load_bytes(t) + 63) / 64 * 64;
	}
	for (uint32_t i = 0; i < FF_SLOTS && code == FF_OK; i++) {
		void *memory = NULL;

		code = take_memory(x, bytes, &memory, err);
		x->prefetched->slot[i].memory = memory;
	}
	return code < 0 ? code : ff_prefetch_create(fill_slot, x, &x->prefetched->prefetch, err);
}

/* Where the samples have to be copied to the device anyway, somebody else may as well have
 * fetched them; where the host can write them to their place, that is one copy less. */
static int choose(const struct ff_executor *x, bool *prefetch, struct ff_error *err)
{
	*prefetch = x->opt.prefetch == FF_PREFETCH_PRESET ? !x->b->memory.of_host
							  : x->opt.prefetch == FF_PREFETCH_ON;
	if (x->opt.prefetch != FF_PREFETCH_PRESET)
		return FF_OK;
	return ff_cli_switch("FF_PREFETCH", prefetch, err);
}

int ff_load_open(struct ff_executor *x, struct ff_error *err)
{
	bool prefetch;
	int code = choose(x, &prefetch, err);

	if (code < 0 || !x->n_hosts)
		return code;
	return prefetch ? open_slots(x, err) : open_stage(x, err);
}

void ff_load_close(struct ff_executor *x)
{
	if (x->prefetched) {
		ff_prefetch_destroy(x->prefetched->prefetch);
		for (uint32_t i = 0; i < FF_SLOTS; i++)
			give_memory(x, x->prefetched->slot[i].memory);
	}
	give_memory(x, x->load_stage);
}

/* ---- passes ---- */

int ff_load_begin(struct ff_executor *x, bool last, struct ff_error *err)
{
	const struct ff_batch now = {x->step, x->training}, next = {x->step + 1, x->training};
	int code;

	if (!x->prefetched)
		return ff_dataset_valid(x->data, x->training, x->step, x->losses.valid, err);
	code = ff_prefetch_take(x->prefetched->prefetch, &now, last ? NULL : &next, err);
	if (code == FF_OK)
		memcpy(x->losses.valid, x->prefetched->slot[ff_batch_slot(x->step)].valid,
				sizeof(x->losses.valid));
	return code;
}

static int load(void *arg, struct ff_error *err)
{
	const struct ff_transfer *t = arg;
	const struct ff_batch pass = {t->x->step, t->x->training};

	return fill(t, &pass, t->load, err);
}

int ff_load_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err)
{
	const struct ff_executor *x = t->x;
	int code;

	if (!t->sink || !load_bytes(t))
		return FF_OK;
	if (x->prefetched)
		return x->b->move.upload(stream, t->sink,
				x->prefetched->slot[ff_batch_slot(x->step)].memory + t->prefetched,
				load_bytes(t), err);
	code = x->b->stream.call(stream, load, t, err);
	if (code < 0 || t->load == t->sink)
		return code;
	return x->b->move.upload(stream, t->sink, t->load, load_bytes(t), err);
}
