/* What a move says of itself, counted anew: its devices, pieces, bytes and stages.
 * SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

static int64_t bytes_of(const struct world *w, const struct ff_region *r)
{
	return ff_region_volume(r) * ff_dtype_bytes(w->source.operand.dtype);
}

static uint32_t place_in(const struct ff_move *mv, uint32_t device)
{
	uint32_t i = 0;

	while (i < mv->n_devices && mv->device[i] != device)
		i++;
	ck_assert_uint_lt(i, mv->n_devices);
	return i;
}

/* Devices ascend; sources and sinks stand in their order, and none is idle. */
void check_parts(const struct world *w, const struct ff_move *mv, uint32_t *sunk)
{
	bool used[DEVICES] = {0};

	for (uint32_t d = 1; d < mv->n_devices; d++)
		ck_assert_uint_lt(mv->device[d - 1], mv->device[d]);
	for (int side = 0; side < 2; side++) {
		const struct placing *p = side ? &w->sink : &w->source;
		const uint16_t *part = side ? mv->sink : mv->source;
		uint32_t n = side ? mv->n_sinks : mv->n_sources;

		for (uint32_t i = 0; i < n; i++) {
			ck_assert_uint_lt(part[i], p->n_parts);
			ck_assert_int_gt(ff_region_volume(&p->region[part[i]]), 0);
			used[place_in(mv, p->device[part[i]])] = true;
			if (i)
				ck_assert_uint_lt(p->device[part[i - 1]], p->device[part[i]]);
			if (side)
				ck_assert_uint_eq(sunk[part[i]]++, mv->joins);
		}
	}
	for (uint32_t d = 0; d < mv->n_devices; d++)
		ck_assert(used[d]);
}

/* Of equal replicas the nearest: on the sink's device, else in its node. */
static void check_nearest(const struct world *w, const struct ff_piece *p)
{
	uint32_t node = w->m.node_of[p->to];

	for (uint32_t q = p->source % w->source.cells; q < w->source.n_parts;
			q += w->source.cells) {
		ck_assert(w->source.device[q] != p->to || p->from == p->to);
		ck_assert(w->m.node_of[w->source.device[q]] != node ||
				w->m.node_of[p->from] == node);
	}
}

struct tally {
	int64_t stage, copied, added;
	struct ff_traffic t;
};

static void tally_piece(const struct world *w, const struct ff_move *mv, const struct ff_piece *p,
		struct tally *tally)
{
	struct tally *from = &tally[place_in(mv, p->from)], *to = &tally[place_in(mv, p->to)];
	bool inside = w->m.node_of[p->from] == w->m.node_of[p->to];
	int64_t bytes = bytes_of(w, &p->region), start;

	if (p->from == p->to) {
		ck_assert(p->send_stage < 0 && p->recv_stage < 0);
		*(p->add ? &to->added : &to->copied) += bytes;
		return;
	}
	from->t.n_sent++;
	to->t.n_received++;
	*(inside ? &from->t.sent_inside : &from->t.sent_outside) += bytes;
	*(inside ? &to->t.received_inside : &to->t.received_outside) += bytes;
	if (p->send_stage >= 0) {
		ck_assert_int_le(p->send_stage + bytes, mv->stage_bytes[place_in(mv, p->from)]);
		from->stage += ff_align64(bytes);
		from->copied += bytes;
	} else {
		ck_assert(ff_region_is_run(
				w->order, &w->source.region[p->source], &p->region, &start));
	}
	if (p->recv_stage >= 0) {
		ck_assert_int_le(p->recv_stage + bytes, mv->stage_bytes[place_in(mv, p->to)]);
		to->stage += ff_align64(bytes);
		*(p->add ? &to->added : &to->copied) += bytes;
	} else {
		ck_assert(!p->add);
		ck_assert(ff_region_is_run(w->order, &w->sink.region[p->sink], &p->region, &start));
	}
}

/* No two pieces lie in one place of a stage. */
static void check_stage_overlaps(const struct world *w, const struct ff_move *mv, uint32_t device)
{
	int64_t at[2 * DEVICES * DEVICES], end[2 * DEVICES * DEVICES];
	uint32_t n = 0;

	for (uint32_t i = 0; i < mv->n_pieces; i++) {
		const struct ff_piece *p = &mv->piece[i];
		int64_t bytes = bytes_of(w, &p->region);

		for (int receive = 0; receive < 2; receive++) {
			int64_t stage = receive ? p->recv_stage : p->send_stage;

			if (stage < 0 || (receive ? p->to : p->from) != device)
				continue;
			ck_assert_int_eq(stage % 64, 0);
			for (uint32_t k = 0; k < n; k++)
				ck_assert(stage >= end[k] || stage + bytes <= at[k]);
			at[n] = stage;
			end[n++] = stage + bytes;
		}
	}
}

/* Element by element of the box that two shards share when both begin at its corner: how many lie
 * behind each other in both. */
static void check_run(const struct world *w, const struct ff_move *mv)
{
	struct ff_region side[2], box;
	int64_t run = 0, volume;

	if (!mv->n_sources || !mv->n_sinks) {
		ck_assert_int_eq(mv->run_bytes, 0);
		return;
	}
	side[0] = w->source.region[mv->source[0]];
	side[1] = mv->sliced ? w->sent[mv->sink[0]] : w->sink.region[mv->sink[0]];
	box = side[0];
	for (uint32_t i = 0; i < box.rank; i++) {
		for (int k = 0; k < 2; k++) {
			side[k].hi[i] -= side[k].lo[i];
			side[k].lo[i] = 0;
		}
		box.lo[i] = 0;
		box.hi[i] = side[0].hi[i] < side[1].hi[i] ? side[0].hi[i] : side[1].hi[i];
	}
	for (volume = ff_region_volume(&box); run < volume; run++) {
		int32_t at[FF_MAX_RANK] = {0};
		int64_t rest = run;

		for (uint32_t i = box.rank; i-- > 0;) {
			at[w->order[i]] = (int32_t)(rest % box.hi[w->order[i]]);
			rest /= box.hi[w->order[i]];
		}
		if (ff_region_offset(w->order, &side[0], at) != run ||
				ff_region_offset(w->order, &side[1], at) != run)
			break;
	}
	ck_assert_int_eq(mv->run_bytes, run * ff_dtype_bytes(mv->type));
}

void check_messages(const struct world *w, const struct ff_move *mv)
{
	struct tally tally[DEVICES] = {0};
	int64_t network = 0, busiest = 0, copied = 0, added = 0;

	for (uint32_t i = 0; i < mv->n_pieces; i++) {
		const struct ff_piece *p = &mv->piece[i], *before = p - 1;

		ck_assert_uint_eq(p->from, w->source.device[p->source]);
		ck_assert_uint_eq(p->to, w->sink.device[p->sink]);
		ck_assert(!i || p->from > before->from ||
				(p->from == before->from && p->to > before->to));
		check_nearest(w, p);
		tally_piece(w, mv, p, tally);
	}
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		if (mv->fill[i])
			tally[place_in(mv, w->sink.device[mv->sink[i]])].copied +=
					bytes_of(w, &w->sink.region[mv->sink[i]]);
	for (uint32_t d = 0; d < mv->n_devices; d++) {
		const struct ff_traffic *t = &tally[d].t;
		int64_t sent = t->sent_inside + t->sent_outside;
		int64_t received = t->received_inside + t->received_outside;

		check_stage_overlaps(w, mv, mv->device[d]);
		ck_assert_int_eq(tally[d].stage, mv->stage_bytes[d]);
		ck_assert_mem_eq(t, &mv->traffic[d], sizeof(*t));
		network += sent;
		busiest = sent > busiest ? sent : busiest;
		busiest = received > busiest ? received : busiest;
		copied = tally[d].copied > copied ? tally[d].copied : copied;
		added = tally[d].added > added ? tally[d].added : added;
	}
	ck_assert_int_eq(mv->network_bytes, network);
	ck_assert_int_eq(mv->busiest_bytes, busiest);
	ck_assert_int_eq(mv->copied_bytes, copied);
	ck_assert_int_eq(mv->added_bytes, added);
	check_run(w, mv);
}

void check_collective(const struct world *w, const struct ff_move *mv)
{
	bool gather = mv->kind == FF_MOVE_ALL_GATHER, scatter = mv->kind == FF_MOVE_REDUCE_SCATTER;
	int64_t whole = bytes_of(w, &mv->region), others = mv->n_devices - 1, chunk = 0, at = 0,
		start;

	check_run(w, mv);
	ck_assert_uint_gt(mv->n_devices, 1);
	ck_assert_int_eq(mv->network_bytes, others * whole * (gather || scatter ? 1 : 2));
	ck_assert_uint_eq(mv->n_pieces, gather || scatter ? mv->n_devices : 0);
	ck_assert(mv->recv_staged || !mv->accumulate);
	for (uint32_t i = 0; i < mv->n_pieces; i++) {
		const struct ff_region *r = &mv->piece[i].region;
		bool run = ff_region_is_run(w->order, &mv->region, r, &start);

		ck_assert_uint_eq(mv->piece[i].from, mv->device[i]);
		if (gather && !mv->recv_staged)
			ck_assert(run);
		if (scatter && !mv->send_staged)
			ck_assert(run && start == at);
		at += ff_region_volume(r);
		chunk = bytes_of(w, r) > chunk ? bytes_of(w, r) : chunk;
	}
	/* each element is one device's */
	ck_assert(!mv->n_pieces || at == ff_region_volume(&mv->region));
	if (!mv->n_pieces)
		chunk = (ff_region_volume(&mv->region) + others) / (others + 1) *
			ff_dtype_bytes(mv->type);
	ck_assert_int_eq(mv->chunk_bytes, chunk);
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		int64_t own = scatter ? bytes_of(w, &mv->piece[i].region) : whole;

		ck_assert_int_eq(mv->stage_bytes[i],
				(mv->send_staged ? ff_align64(whole) : 0) +
						(mv->recv_staged ? ff_align64(own) : 0));
	}
}
