/* Transfers that are collectives.  SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include "address.h"
#include "ff/block.h"
#include "ff/bucket_layout.h"

static int alloc_arrays(struct ff_transfer *t, void ***send, void ***recv, int64_t **count,
		int64_t **offset, struct ff_error *err)
{
	const struct ff_move *mv = t->task->move;
	uint32_t n = mv->n_devices;
	struct ff_arena *a = &t->x->arena;

	*send = ff_arena_array(a, n, sizeof(**send));
	*recv = ff_arena_array(a, n, sizeof(**recv));
	*count = ff_arena_array(a, n, sizeof(**count));
	*offset = ff_arena_array(a, n, sizeof(**offset));
	if (!*send || !*recv || !*count || !*offset)
		return ff_fail_memory(err);
	t->collective = (struct ff_collective){
			.kind = mv->kind,
			.type = mv->type,
			.reduce = mv->reduce,
			.n_devices = n,
			.device = mv->device,
			.send = (const void *const *)*send,
			.recv = *recv,
			.count = *count,
			.offset = *offset,
	};
	return FF_OK;
}

/* Where device number `i` of a bucket has all that is sent or gathered: in the bucket, or, if its
 * gradients are scattered, or its weights dropped, in a buffer; and where it has its own. */
static void sync_ends(const struct ff_transfer *t, uint32_t i, char **all, char **own)
{
	const struct ff_schedule *s = t->x->s;
	const struct ff_bucket *b = &s->buckets[t->task->bucket];
	struct ff_bucket_layout layout = ff_bucket_arrays(b, s->optimizer, s->graph->dtype);
	bool gathers = t->task->move->kind == FF_MOVE_ALL_GATHER;
	char *at = ff_address_bucket(t->x, t->task->bucket, i);

	if (!at)
		return;
	at += gathers ? layout.readers : layout.gradients;
	*all = *own = at;
	if (gathers ? b->dropped : b->scattered)
		*all = ff_address_buffer(t->x, gathers ? t->task->stage + i
						       : ff_bucket_gradients(b, t->task->micro)[i]);
	else if (b->flat)
		*own += i % b->runs * (layout.run / FF_F32_BYTES) *
			ff_dtype_bytes(t->collective.type);
}

/* Gradients of a scattered bucket come to a buffer that held something else before: what no
 * backward writes there is cleared. */
static void clear_gaps(struct ff_transfer *t, float *all)
{
	const struct ff_schedule *s = t->x->s;
	const struct ff_bucket *b = &s->buckets[t->task->bucket];
	int64_t at = 0;

	for (uint32_t k = 0; k <= b->n_shards; k++) {
		const struct ff_shard *shard = &s->shards[b->first_shard + k];
		bool last = k == b->n_shards;
		int64_t next = (last ? b->bytes : shard->offset) / FF_F32_BYTES;

		if (next > at)
			t->fill[t->n_fills++] = (struct ff_fill){all + at, next - at};
		at = last ? next : next + ff_region_volume(&shard->region);
	}
}

/* What earlier micro-batches have left in a device's run is summed with this one's. */
static void add_earlier(struct ff_transfer *t, float *own, float *chunk, int64_t n)
{
	static const uint8_t order[] = {0};
	const struct ff_region run = {.rank = 1, .hi = {(int32_t)n}};

	t->before[t->n_before++] = (struct ff_copy){.source = own,
			.sink = chunk,
			.order = order,
			.source_region = run,
			.sink_region = run,
			.region = run,
			.type = FF_F32,
			.add = true,
			.reduce = FF_REDUCE_SUM};
}

/* Of devices `first`, `first` + `step` and so on of the bucket's collective `all`; they are there
 * in this order. */
static int add_group(struct ff_transfer *t, uint32_t first, uint32_t step, uint32_t n,
		struct ff_error *err)
{
	const struct ff_collective *all = &t->collective;
	struct ff_arena *a = &t->x->arena;
	uint16_t *device = ff_arena_array(a, n, sizeof(*device));
	const void **send = ff_arena_array(a, n, sizeof(*send));
	void **recv = ff_arena_array(a, n, sizeof(*recv));
	bool hosted = false;

	if (!device || !send || !recv)
		return ff_fail_memory(err);
	for (uint32_t k = 0; k < n; k++) {
		uint32_t i = first + k * step;

		device[k] = all->device[i];
		send[k] = all->send[i];
		recv[k] = all->recv[i];
		hosted |= recv[k] != NULL;
	}
	if (!hosted)
		return FF_OK;
	t->grouped[t->n_grouped++] = (struct ff_collective){.kind = all->kind,
			.type = all->type,
			.reduce = all->reduce,
			.n_devices = n,
			.device = device,
			.send = send,
			.recv = recv,
			.count = all->count,
			.offset = all->offset};
	return FF_OK;
}

/* Each group's, or that of each run, whose devices are one in each group. */
static int build_groups(struct ff_transfer *t, const struct ff_bucket *b, struct ff_error *err)
{
	bool across = t->task->move->among.across;
	uint32_t groups = ff_bucket_groups(b), n = across ? b->runs : groups;
	int code = FF_OK;

	t->grouped = ff_arena_array(&t->x->arena, n, sizeof(*t->grouped));
	if (!t->grouped)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		code = across ? add_group(t, i, b->runs, groups, err)
			      : add_group(t, i * b->runs, 1, b->runs, err);
	return code;
}

/* All in place, but for scattered and dropped buckets: of a flat bucket a device's run is its
 * chunk. */
int ff_sync_build(struct ff_transfer *t, struct ff_error *err)
{
	const struct ff_schedule *s = t->x->s;
	const struct ff_bucket *b = &s->buckets[t->task->bucket];
	struct ff_bucket_layout layout = ff_bucket_arrays(b, s->optimizer, s->graph->dtype);
	bool gathers = t->task->move->kind == FF_MOVE_ALL_GATHER,
	     across = t->task->move->among.across;
	bool clears = b->scattered && !gathers && !across;
	size_t gaps = clears ? (size_t)(b->n_shards + 1) * t->x->n_hosts : 0;
	int64_t *count, *offset;
	void **send, **recv;
	int code = alloc_arrays(t, &send, &recv, &count, &offset, err);

	t->fill = ff_arena_array(&t->x->arena, gaps, sizeof(*t->fill));
	t->before = ff_arena_array(&t->x->arena, clears ? t->x->n_hosts : 0, sizeof(*t->before));
	if (code < 0 || !t->fill || !t->before)
		return code < 0 ? code : ff_fail_memory(err);
	for (uint32_t i = 0; i < b->n_devices; i++) {
		char *all = NULL, *own = NULL;

		count[i] = layout.run / FF_F32_BYTES;
		offset[i] = i % b->runs * count[i];
		sync_ends(t, i, &all, &own);
		send[i] = gathers || across ? own : all;
		recv[i] = gathers ? all : own;
		if (all && clears)
			clear_gaps(t, (float *)(void *)all);
		if (all && clears && t->task->micro > 0)
			add_earlier(t, (float *)(void *)own, (float *)(void *)all + offset[i],
					count[i]);
	}
	return ff_bucket_groups(b) > 1 && b->flat ? build_groups(t, b, err) : FF_OK;
}

/* A dense array of a region. */
struct array {
	void *at;
	const struct ff_region *region;
};

/* Chunk `region` from one array to another. */
static struct ff_copy copy_of(const struct ff_move *mv, const uint8_t *order, struct array from,
		struct array to, const struct ff_region *region)
{
	return (struct ff_copy){
			.source = from.at,
			.sink = to.at,
			.order = order,
			.source_region = *from.region,
			.sink_region = *to.region,
			.region = *region,
			.type = mv->type,
	};
}

/* Out of the stage into the shard. */
static void add_arrival(
		struct ff_transfer *t, const uint8_t *order, struct array stage, struct array shard)
{
	struct ff_copy *c = &t->after[t->n_after++];

	*c = copy_of(t->task->move, order, stage, shard, stage.region);
	c->add = t->task->move->accumulate;
}

/* Where the chunks lie that a stage or a whole shard is made of, in elements. */
static int chunk_offsets(const struct ff_transfer *t, const uint8_t *order, int64_t *count,
		int64_t *offset, struct ff_error *err)
{
	const struct ff_move *mv = t->task->move;
	int64_t at = 0;

	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_region *r = &mv->piece[i].region;

		count[i] = ff_region_volume(r);
		offset[i] = at;
		at += count[i];
		if (mv->kind == FF_MOVE_ALL_GATHER && !mv->recv_staged &&
				!ff_region_is_run(order, &mv->region, r, &offset[i]))
			return ff_fail(err, FF_E_RUN, "a chunk gathered in place is not one run");
	}
	return FF_OK;
}

/* One hosted device's end: what it packs, sends, receives and unpacks. */
static void add_end(struct ff_transfer *t, uint32_t i, const uint8_t *order, void *source,
		void *sink, void **send, void **recv)
{
	const struct ff_move *mv = t->task->move;
	const struct ff_collective *c = &t->collective;
	bool scatter = mv->kind == FF_MOVE_REDUCE_SCATTER, gather = mv->kind == FF_MOVE_ALL_GATHER;
	const struct ff_region *whole = &mv->region;
	const struct ff_region *own = scatter || gather ? &mv->piece[i].region : whole;
	const struct ff_region *received = scatter ? own : whole;
	int64_t size = ff_dtype_bytes(mv->type);
	char *stage = ff_address_stage(t, i);

	send[i] = source;
	recv[i] = sink;
	if (mv->send_staged) {
		for (uint32_t k = 0; k < mv->n_devices; k++) {
			const struct ff_region *chunk = &mv->piece[k].region;

			t->before[t->n_before++] = copy_of(mv, order, (struct array){source, whole},
					(struct array){stage + c->offset[k] * size, chunk}, chunk);
		}
		send[i] = stage;
		stage += ff_align64(ff_region_volume(whole) * size);
	}
	if (mv->recv_staged) {
		recv[i] = stage;
		for (uint32_t k = 0; gather && k < mv->n_devices; k++)
			add_arrival(t, order,
					(struct array){stage + c->offset[k] * size,
							&mv->piece[k].region},
					(struct array){sink, whole});
		if (!gather)
			add_arrival(t, order, (struct array){stage, received},
					(struct array){sink, received});
	}
}

int ff_collective_build(struct ff_transfer *t, struct ff_error *err)
{
	const struct ff_move *mv = t->task->move;
	size_t copies = (size_t)mv->n_devices * t->x->n_hosts;
	int64_t *count, *offset;
	void **send, **recv;
	struct ff_ends e;
	int code = alloc_arrays(t, &send, &recv, &count, &offset, err);

	if (code < 0)
		return code;
	t->before = ff_arena_array(&t->x->arena, copies, sizeof(*t->before));
	t->after = ff_arena_array(&t->x->arena, copies, sizeof(*t->after));
	if (!t->before || !t->after)
		return ff_fail_memory(err);
	count[0] = ff_region_volume(&mv->region);
	ff_address_ends(t, &e);
	if (mv->kind != FF_MOVE_ALL_REDUCE &&
			(code = chunk_offsets(t, e.source_map->order, count, offset, err)) < 0)
		return code;
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		char *sink = ff_address_buffer(t->x, e.sink[mv->sink[i]]);
		void *source = mv->joins ? sink : ff_address_buffer(t->x, e.source[mv->source[i]]);

		if (source && mv->joins)
			source = sink + offset[i] * ff_dtype_bytes(mv->type);
		if (source)
			add_end(t, i, e.source_map->order, source, sink, send, recv);
	}
	return FF_OK;
}
