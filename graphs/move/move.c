/* Moves: the parts of one component as messages or as a collective, with their
 * stages and what they cost to carry.  SPDX-License-Identifier: Apache-2.0 */
#include "move.h"

#include <stdlib.h>
#include <string.h>

/* Parts of one side in the order of their devices. */
static int list_parts(struct ff_scene *s, int side, const uint16_t **ret, uint32_t *n,
		struct ff_error *err)
{
	uint16_t *part = ff_arena_array(s->arena, s->n_parts[side], sizeof(*part));

	if (!part)
		return ff_fail_memory(err);
	*n = 0;
	for (uint32_t i = 0; i < s->n_devices; i++)
		if (s->at[side][s->device[i]] != FF_NO_PART)
			part[(*n)++] = s->at[side][s->device[i]];
	*ret = part;
	return FF_OK;
}

static int list_all(struct ff_scene *s, struct ff_move *mv, struct ff_error *err)
{
	mv->n_devices = s->n_devices;
	mv->device = ff_arena_copy(s->arena, s->device, s->n_devices, sizeof(*s->device));
	if (!mv->device)
		return ff_fail_memory(err);
	if (list_parts(s, 0, &mv->source, &mv->n_sources, err) < 0)
		return FF_E_NOMEM;
	return list_parts(s, 1, &mv->sink, &mv->n_sinks, err);
}

static void count_message(const struct ff_scene *s, const struct ff_pair *p, int64_t bytes,
		struct ff_tally *from, struct ff_tally *to)
{
	bool inside = s->m->node_of[p->from] == s->m->node_of[p->to];

	from->traffic.n_sent++;
	to->traffic.n_received++;
	*(inside ? &from->traffic.sent_inside : &from->traffic.sent_outside) += bytes;
	*(inside ? &to->traffic.received_inside : &to->traffic.received_outside) += bytes;
}

/* Where one lies in its sender's stage and in its receiver's, and in what the former has not sent.
 */
struct places {
	int64_t send, receive, residual;
};

/* As it is: from the shard or a stage, into the shard or a stage. */
static void count_plain(const struct ff_scene *s, const struct ff_pair *p, struct ff_tally *from,
		struct ff_tally *to, struct places *ret)
{
	count_message(s, p, p->bytes, from, to);
	if (!p->whole_source) {
		ret->send = from->send_stage;
		from->send_stage += ff_align64(p->bytes);
		from->copied += p->bytes;
	}
	if (p->add || !p->whole_sink) {
		ret->receive = to->receive_stage;
		to->receive_stage += ff_align64(p->bytes);
		*(p->add ? &to->added : &to->copied) += p->bytes;
	}
}

/* Compressed.  What is encoded is of whole steps of the codec: a run of the source that is not is
 * added to what was not sent of it, behind which are zeros.  What is decoded goes to the sink at
 * once if it is all of it. */
static void count_coded(const struct ff_scene *s, const struct ff_pair *p, struct ff_tally *from,
		struct ff_tally *to, struct places *ret)
{
	int64_t all = ff_align64(p->bytes), bytes = ff_codec_bytes(s->codec, all / FF_F32_BYTES);

	count_message(s, p, bytes, from, to);
	*ret = (struct places){from->send_stage, to->receive_stage, from->traffic.encoded};
	from->traffic.encoded += all;
	from->send_stage += ff_align64(bytes);
	from->added += p->whole_source && all == p->bytes ? 0 : p->bytes;
	to->traffic.decoded += all;
	to->receive_stage += ff_align64(bytes);
	if (p->all_sink)
		return;
	to->receive_stage += all;
	*(p->add ? &to->added : &to->copied) += p->bytes;
}

void ff_move_count(struct ff_scene *s, const struct ff_pair *p, struct ff_piece *piece)
{
	struct ff_tally *from = &s->tally[p->from], *to = &s->tally[p->to];
	struct places at = {-1, -1, 0};

	if (p->from == p->to)
		*(p->add ? &to->added : &to->copied) += p->bytes;
	else if (s->codec)
		count_coded(s, p, from, to, &at);
	else
		count_plain(s, p, from, to, &at);
	if (piece)
		*piece = (struct ff_piece){.source = p->source,
				.sink = p->sink,
				.from = p->from,
				.to = p->to,
				.add = p->add,
				.region = p->region,
				.send_stage = at.send,
				.recv_stage = at.receive,
				.residual = at.residual};
}

static int compare_pairs(const void *a, const void *b)
{
	const struct ff_pair *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int sum_up(struct ff_scene *s, struct ff_move *mv, struct ff_error *err)
{
	int64_t *stage = ff_arena_array(s->arena, mv->n_devices, sizeof(*stage));
	struct ff_traffic *traffic = ff_arena_array(s->arena, mv->n_devices, sizeof(*traffic));

	if (!stage || !traffic)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_tally *t = &s->tally[mv->device[i]];
		const struct ff_traffic *x = &t->traffic;
		int64_t sent = x->sent_inside + x->sent_outside;

		stage[i] = t->send_stage + t->receive_stage;
		traffic[i] = *x;
		mv->network_bytes += sent;
		mv->busiest_bytes = larger(mv->busiest_bytes,
				larger(sent, x->received_inside + x->received_outside));
		mv->copied_bytes = larger(mv->copied_bytes, t->copied);
		mv->added_bytes = larger(mv->added_bytes, t->added);
	}
	mv->stage_bytes = stage;
	mv->traffic = traffic;
	return FF_OK;
}

/* Along the axes from the innermost on, as long as both have all that the other has. */
static int64_t count_run(const struct ff_scene *s, const struct ff_move *mv)
{
	const struct ff_placement *place = s->side[0].place;
	struct ff_region from, to;
	int64_t run = s->size;

	if (!mv->n_sources || !mv->n_sinks)
		return 0;
	ff_placement_region(place, mv->source[0], &from);
	ff_placement_region(s->side[1].place, mv->sink[0], &to);
	for (uint32_t i = place->rank; i-- > 0;) {
		int32_t a = ff_region_size(&from, place->order[i]);
		int32_t b = ff_region_size(&to, place->order[i]);

		run *= a < b ? a : b;
		if (a != b)
			break;
	}
	return run;
}

/* Zeroes what the sinks need; counts as copying. */
static int list_fills(struct ff_scene *s, struct ff_move *mv, struct ff_error *err)
{
	bool *list = ff_arena_array(s->arena, mv->n_sinks, sizeof(*list));

	if (!list)
		return ff_fail_memory(err);
	mv->fill = list;
	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		struct ff_region r;

		list[i] = s->fill[mv->sink[i]];
		if (!list[i])
			continue;
		ff_placement_region((s->whole ? s->whole : &s->side[1])->place, mv->sink[i], &r);
		s->tally[s->side[1].device[mv->sink[i]]].copied += ff_region_volume(&r) * s->size;
	}
	return FF_OK;
}

int ff_move_messages(struct ff_scene *s, uint32_t n, struct ff_pair *pair, struct ff_move *ret,
		struct ff_error *err)
{
	struct ff_piece *piece = s->pieces ? ff_arena_array(s->arena, n, sizeof(*piece)) : NULL;

	if (s->pieces && !piece)
		return ff_fail_memory(err);
	if (list_all(s, ret, err) < 0 || list_fills(s, ret, err) < 0)
		return FF_E_NOMEM;
	ret->run_bytes = count_run(s, ret);
	if (piece && n)
		qsort(pair, n, sizeof(*pair), compare_pairs);
	for (uint32_t i = 0; piece && i < n; i++)
		ff_move_count(s, &pair[i], &piece[i]);
	/* what is received lies behind what is sent */
	for (uint32_t i = 0; piece && i < n; i++)
		if (piece[i].recv_stage >= 0)
			piece[i].recv_stage += s->tally[piece[i].to].send_stage;
	ret->piece = piece;
	ret->n_pieces = piece ? n : 0;
	if (sum_up(s, ret, err) < 0)
		return FF_E_NOMEM;
	ret->codec = ret->network_bytes ? s->codec : NULL;
	return FF_OK;
}

/* What of the whole each device has before a gather, or gets from a scatter. */
static int list_chunks(struct ff_scene *s, struct ff_move *mv, struct ff_error *err)
{
	bool scatter = mv->kind == FF_MOVE_REDUCE_SCATTER;
	const uint8_t *order = s->side[0].place->order;
	struct ff_piece *piece = ff_arena_array(
			s->pieces ? s->arena : s->scratch, mv->n_devices, sizeof(*piece));
	int64_t next = 0, start;
	bool in_order = true, even = true;

	if (!piece)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		struct ff_piece *p = &piece[i];
		bool run;

		*p = (struct ff_piece){.source = mv->source[i],
				.sink = mv->sink[i],
				.from = mv->device[i],
				.to = mv->device[i],
				.add = mv->accumulate,
				.send_stage = -1,
				.recv_stage = -1};
		ff_placement_region(
				s->side[scatter].place, scatter ? p->sink : p->source, &p->region);
		mv->chunk_bytes = larger(mv->chunk_bytes, ff_region_volume(&p->region) * s->size);
		run = ff_region_is_run(order, &mv->region, &p->region, &start);
		in_order = in_order && run && start == next;
		even = even && (!i || next == i * ff_region_volume(&p->region));
		if (scatter)
			mv->send_staged = mv->send_staged || !run || start != next;
		else
			mv->recv_staged = mv->recv_staged || !run;
		next += ff_region_volume(&p->region);
	}
	mv->regular = even && (scatter || mv->recv_staged || in_order);
	mv->n_pieces = mv->n_devices;
	mv->piece = piece;
	return FF_OK;
}

int ff_move_collective(struct ff_scene *s, enum ff_move_kind kind, const struct ff_region *whole,
		struct ff_move *ret, struct ff_error *err)
{
	int64_t bytes = ff_region_volume(whole) * s->size, rounds = s->n_devices - 1;
	int64_t *stage = ff_arena_array(s->arena, s->n_devices, sizeof(*stage));
	bool *fill = ff_arena_array(s->arena, s->n_devices, sizeof(*fill));
	bool scatter = kind == FF_MOVE_REDUCE_SCATTER, reduce = kind == FF_MOVE_ALL_REDUCE;

	if (!stage || !fill || list_all(s, ret, err) < 0)
		return ff_fail_memory(err);
	ret->kind = kind;
	ret->region = *whole;
	ret->run_bytes = count_run(s, ret);
	ret->network_bytes = rounds * bytes * (reduce ? 2 : 1);
	ret->recv_staged = ret->accumulate;
	ret->fill = fill;
	ret->stage_bytes = stage;
	if (reduce)
		ret->chunk_bytes = (ff_region_volume(whole) + rounds) / (rounds + 1) * s->size;
	else if (list_chunks(s, ret, err) < 0)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < ret->n_devices; i++) {
		int64_t own = scatter ? ff_region_volume(&ret->piece[i].region) * s->size : bytes;
		int64_t receive = ret->recv_staged ? own : 0, send = ret->send_staged ? bytes : 0;

		stage[i] = ff_align64(send) + ff_align64(receive);
		/* what is received is unpacked, or added */
		ret->copied_bytes =
				larger(ret->copied_bytes, send + (ret->accumulate ? 0 : receive));
		ret->added_bytes = larger(ret->added_bytes, ret->accumulate ? receive : 0);
	}
	if (!s->pieces) {
		ret->piece = NULL;
		ret->n_pieces = 0;
	}
	return FF_OK;
}
