/* Transfers: communication tasks as copies, messages and collectives of the
 * devices hosted here.  SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include "address.h"
#include "averaging.h"
#include "collective.h"
#include "ff/instance.h"
#include "load.h"
#include "packing.h"

/* The region of a part's shard on its side of the edge. */
static void shard_region(const struct ff_transfer *t, uint32_t node, const struct ff_operand *map,
		uint32_t part, struct ff_region *ret)
{
	const struct ff_node *n = &t->x->s->graph->nodes[node];
	struct ff_region box;

	ff_config_box(n, &t->x->s->config[node], part, &box);
	ff_operand_region(n, map, &box, ret);
}

/* What both sides of a piece are, as far as they are hosted here. */
struct ends_of_piece {
	void *source, *sink;
	struct ff_region source_region, sink_region;
	const uint8_t *order;
};

/* The piece into its sink, from where `region` of the source lies. */
static void add_arrival(struct ff_transfer *t, const struct ff_piece *p,
		const struct ends_of_piece *e, const void *from, const struct ff_region *region)
{
	t->after[t->n_after++] = (struct ff_copy){
			.source = from,
			.sink = e->sink,
			.order = e->order,
			.source_region = *region,
			.sink_region = e->sink_region,
			.region = p->region,
			.type = t->task->move->type,
			.add = p->add,
			.reduce = t->task->move->reduce,
	};
}

/* The message as it leaves: packed into the stage, or from the shard itself. */
static int pack(struct ff_transfer *t, const struct ff_piece *p, const struct ends_of_piece *e,
		void **from, struct ff_error *err)
{
	int64_t start = 0;

	*from = e->source;
	if (!e->source)
		return FF_OK;
	if (p->send_stage < 0) {
		if (!ff_region_is_run(e->order, &e->source_region, &p->region, &start))
			return ff_fail(err, FF_E_RUN, "a message sent unpacked is not one run");
		*from = (char *)e->source + start * ff_dtype_bytes(t->task->move->type);
		return FF_OK;
	}
	*from = (char *)ff_address_stage(t, ff_address_position(t->task->move, p->from)) +
		p->send_stage;
	t->before[t->n_before++] = (struct ff_copy){
			.source = e->source,
			.sink = *from,
			.order = e->order,
			.source_region = e->source_region,
			.sink_region = p->region,
			.region = p->region,
			.type = t->task->move->type,
	};
	return FF_OK;
}

/* A compressed message as it leaves: it says what the source and what was not sent before come to.
 * Where the source cannot be read as it lies it is added to the latter first. */
static void *encode(struct ff_transfer *t, const struct ff_piece *p, const struct ends_of_piece *e)
{
	const struct ff_move *mv = t->task->move;
	uint32_t at = ff_address_position(mv, p->from);
	int64_t start, n = ff_region_volume(&p->region);
	struct ff_coding c = {.codec = mv->codec, .n = ff_coded_elements(p)};

	if (!e->source)
		return NULL;
	c.message = (char *)ff_address_stage(t, at) + p->send_stage;
	c.residual = ff_address_move_residual(t->x, t->task, p);
	if (n == c.n && ff_region_is_run(e->order, &e->source_region, &p->region, &start))
		c.values = (float *)e->source + start;
	else
		t->before[t->n_before++] = (struct ff_copy){
				.source = e->source,
				.sink = c.residual,
				.order = e->order,
				.source_region = e->source_region,
				.sink_region = p->region,
				.region = p->region,
				.type = mv->type,
				.add = true,
				.reduce = mv->reduce,
		};
	t->encoded[t->n_encoded++] = c;
	return c.message;
}

/* Where it arrives, and becomes the sink or is added to it; or else what it says lies behind it. */
static void *decode(struct ff_transfer *t, const struct ff_piece *p, const struct ends_of_piece *e)
{
	const struct ff_move *mv = t->task->move;
	struct ff_coding c = {.codec = mv->codec, .n = ff_coded_elements(p)};

	if (!e->sink)
		return NULL;
	c.message = (char *)ff_address_stage(t, ff_address_position(mv, p->to)) + p->recv_stage;
	if (ff_region_equal(&p->region, &e->sink_region)) {
		c.values = e->sink;
		c.add = p->add;
		t->decoded[t->n_decoded++] = c;
		return c.message;
	}
	c.values = (float *)((char *)c.message + ff_align64(ff_codec_bytes(c.codec, c.n)));
	t->aside[t->n_aside++] = c;
	add_arrival(t, p, e, c.values, &p->region);
	return c.message;
}

/* Where it arrives: in the stage, to be unpacked, or in the shard itself. */
static int unpack(struct ff_transfer *t, const struct ff_piece *p, const struct ends_of_piece *e,
		void **to, struct ff_error *err)
{
	int64_t start = 0;

	*to = e->sink;
	if (!e->sink)
		return FF_OK;
	if (p->recv_stage < 0) {
		if (p->add || !ff_region_is_run(e->order, &e->sink_region, &p->region, &start))
			return ff_fail(err, FF_E_RUN,
					"a message received in place is not one run to overwrite");
		*to = (char *)e->sink + start * ff_dtype_bytes(t->task->move->type);
		return FF_OK;
	}
	*to = (char *)ff_address_stage(t, ff_address_position(t->task->move, p->to)) +
	      p->recv_stage;
	add_arrival(t, p, e, *to, &p->region);
	return FF_OK;
}

/* One piece between two devices: packed, sent, received, unpacked, each step
 * where the device that takes it is hosted and needs it. */
static int add_message(struct ff_transfer *t, const struct ff_piece *p,
		const struct ends_of_piece *e, struct ff_error *err)
{
	const struct ff_codec *c = t->task->move->codec;
	int64_t count = ff_region_volume(&p->region);
	void *from, *to;

	if (c) {
		from = encode(t, p, e);
		to = decode(t, p, e);
		count = ff_codec_bytes(c, ff_coded_elements(p)) / ff_dtype_bytes(c->type);
	} else if (pack(t, p, e, &from, err) < 0 || unpack(t, p, e, &to, err) < 0) {
		return FF_E_RUN;
	}
	t->parcel[t->n_parcels++] = (struct ff_parcel){
			.from = p->from, .to = p->to, .send = from, .recv = to, .count = count};
	return FF_OK;
}

/* Pieces in their order, those that add (`add`) or those that overwrite. */
static int add_pieces(
		struct ff_transfer *t, const struct ff_ends *e, bool add, struct ff_error *err)
{
	const struct ff_move *mv = t->task->move;
	int code = FF_OK;

	for (uint32_t i = 0; i < mv->n_pieces && code == FF_OK; i++) {
		const struct ff_piece *p = &mv->piece[i];
		struct ends_of_piece x = {.order = e->source_map->order};

		x.source = ff_address_buffer(t->x, e->source[p->source]);
		x.sink = ff_address_buffer(t->x, e->sink[p->sink]);
		if (p->add != add || (!x.source && !x.sink))
			continue;
		shard_region(t, e->source_node, e->source_map, p->source, &x.source_region);
		shard_region(t, e->sink_node, e->sink_map, p->sink, &x.sink_region);
		if (p->from == p->to)
			add_arrival(t, p, &x, x.source, &x.source_region);
		else
			code = add_message(t, p, &x, err);
	}
	return code;
}

static void add_fills(struct ff_transfer *t, const struct ff_ends *e)
{
	const struct ff_move *mv = t->task->move;

	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		void *sink = ff_address_buffer(t->x, e->sink[mv->sink[i]]);
		struct ff_region r;

		if (!mv->fill[i] || !sink)
			continue;
		shard_region(t, e->sink_node, e->sink_map, mv->sink[i], &r);
		t->fill[t->n_fills++] = (struct ff_fill){sink, ff_region_volume(&r)};
	}
}

static int build_messages(struct ff_transfer *t, struct ff_error *err)
{
	const struct ff_move *mv = t->task->move;
	struct ff_arena *a = &t->x->arena;
	struct ff_ends e;
	int code;

	t->fill = ff_arena_array(a, mv->n_sinks, sizeof(*t->fill));
	t->before = ff_arena_array(a, mv->n_pieces, sizeof(*t->before));
	t->after = ff_arena_array(a, mv->n_pieces, sizeof(*t->after));
	t->parcel = ff_arena_array(a, mv->n_pieces, sizeof(*t->parcel));
	if (!t->fill || !t->before || !t->after || !t->parcel)
		return ff_fail_memory(err);
	if (mv->codec) {
		t->encoded = ff_arena_array(a, mv->n_pieces, sizeof(*t->encoded));
		t->aside = ff_arena_array(a, mv->n_pieces, sizeof(*t->aside));
		t->decoded = ff_arena_array(a, mv->n_pieces, sizeof(*t->decoded));
		if (!t->encoded || !t->aside || !t->decoded)
			return ff_fail_memory(err);
	}
	ff_address_ends(t, &e);
	add_fills(t, &e);
	code = add_pieces(t, &e, false, err);
	return code < 0 ? code : add_pieces(t, &e, true, err);
}

int ff_transfer_build(struct ff_executor *x, const struct ff_task *task, struct ff_transfer **ret,
		struct ff_error *err)
{
	struct ff_transfer *t = ff_arena_alloc(&x->arena, sizeof(*t));

	if (!t)
		return ff_fail_memory(err);
	t->x = x;
	t->task = task;
	*ret = t;
	if (ff_task_moves_bucket(task)) {
		const struct ff_bucket *b = &x->s->buckets[task->bucket];

		return b->averaged ? ff_averaging_build(t, err)
		       : b->codec  ? ff_packing_build(t, err)
				   : ff_sync_build(t, err);
	}
	if (task->move->kind == FF_MOVE_LOAD)
		return ff_load_build(t, err);
	return ff_move_is_messages(task->move->kind) ? build_messages(t, err)
						     : ff_collective_build(t, err);
}

static int issue_network(
		const struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err)
{
	const struct ff_channel on = {
			t->x->b, stream, stream != t->x->transfers && stream == t->x->messages};
	const struct ff_move *mv = t->task->move;
	struct ff_comm *c = t->x->comm;
	int code = FF_OK;

	for (uint32_t i = 0; i < t->n_grouped && code == FF_OK; i++)
		code = c->collective(c, &on, &t->grouped[i], err);
	if (t->n_grouped)
		return code;
	if (!ff_move_is_messages(mv->kind))
		return c->collective(c, &on, &t->collective, err);
	if (!t->n_parcels)
		return FF_OK;
	return c->exchange(c, &on, mv->codec ? mv->codec->type : mv->type, t->parcel, t->n_parcels,
			err);
}

int ff_transfer_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err)
{
	const struct ff_backend *b = t->x->b;
	const struct ff_move *mv = t->task->move;
	int code = FF_OK;

	if (mv->kind == FF_MOVE_LOAD)
		return ff_load_issue(t, stream, err);
	if (t->averaging)
		return ff_averaging_issue(t, stream, err);
	if (t->packing)
		return ff_packing_issue(t, stream, err);
	for (uint32_t i = 0; i < t->n_fills && code == FF_OK; i++)
		code = b->move.fill(stream, t->fill[i].memory, mv->type, t->fill[i].n,
				ff_reduce_identity(mv->reduce, mv->type), err);
	for (uint32_t i = 0; i < t->n_before && code == FF_OK; i++)
		code = b->move.copy(stream, &t->before[i], err);
	for (uint32_t i = 0; i < t->n_encoded && code == FF_OK; i++)
		code = b->math.encode(stream, &t->encoded[i], err);
	if (code == FF_OK)
		code = issue_network(t, stream, err);
	for (uint32_t i = 0; i < t->n_aside && code == FF_OK; i++)
		code = b->math.decode(stream, &t->aside[i], err);
	for (uint32_t i = 0; i < t->n_after && code == FF_OK; i++)
		code = b->move.copy(stream, &t->after[i], err);
	for (uint32_t i = 0; i < t->n_decoded && code == FF_OK; i++)
		code = b->math.decode(stream, &t->decoded[i], err);
	return code;
}
