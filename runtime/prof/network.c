/* Messages and collectives among the devices of one node, and of several.
 * SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <stdlib.h>

#include "../agree.h"
#include "ff/nodes.h"

#define KINDS 5
#define SIZES 9 /* 1 KiB to 64 MiB, each four times the one before */
#define SMALLEST 1024
#define TOO_LONG_US 300000 /* the next size would take too long */

/* One operation among the first `spread.each` devices of the first nodes that have as many. */
struct bench {
	struct ff_prof *p;
	enum ff_move_kind kind;
	bool ping; /* there and back between two devices */
	struct ff_spread spread;
	uint32_t ranks, own; /* how many; this rank's position, or FF_NONE */
	int64_t bytes;
	void *memory[2];
	uint16_t *device;
	void **send, **recv;
	int64_t *count, *offset;
	struct ff_parcel *parcel;
	uint32_t n_parcels;
};

static int run_collective(struct bench *b, struct ff_error *err)
{
	struct ff_comm *c = b->p->comm;
	const struct ff_channel on = {b->p->backend, b->p->stream};
	const struct ff_collective x = {.kind = b->kind,
			.type = FF_F32,
			.n_devices = b->ranks,
			.device = b->device,
			.send = (const void *const *)b->send,
			.recv = b->recv,
			.count = b->count,
			.offset = b->offset};

	return c->collective(c, &on, &x, err);
}

static int run(void *arg, struct ff_error *err)
{
	struct bench *b = arg;
	const struct ff_channel on = {b->p->backend, b->p->stream};
	struct ff_comm *c = b->p->comm;
	int code;

	if (b->own == FF_NONE)
		return FF_OK;
	if (!ff_move_is_messages(b->kind))
		return run_collective(b, err);
	if (!b->ping)
		return c->exchange(c, &on, FF_F32, b->parcel, b->n_parcels, err);
	code = c->exchange(c, &on, FF_F32, &b->parcel[0], 1, err);
	return code == FF_OK ? c->exchange(c, &on, FF_F32, &b->parcel[1], 1, err) : code;
}

/* One number of each, so that the devices begin together: hosts leave a barrier one after
 * another, and a device that waits for another inside what is timed would count that. */
static int meet(void *arg, struct ff_error *err)
{
	struct bench *b = arg;
	struct bench small = *b;
	int64_t count = 1;

	small.kind = FF_MOVE_ALL_REDUCE;
	small.count = &count;
	return b->own != FF_NONE ? run_collective(&small, err) : FF_OK;
}

static int allocate(struct bench *b, int64_t most, struct ff_error *err)
{
	size_t n = b->ranks, parcels = b->kind == FF_MOVE_ALL_TO_ALL ? n * (n - 1) : n;

	b->device = calloc(n, sizeof(*b->device));
	b->send = calloc(n, sizeof(*b->send));
	b->recv = calloc(n, sizeof(*b->recv));
	b->count = calloc(n, sizeof(*b->count));
	b->offset = calloc(n, sizeof(*b->offset));
	b->parcel = calloc(parcels, sizeof(*b->parcel));
	for (int i = 0; i < 2; i++) {
		/* pages that are there, values that are harmless */
		int code = b->p->backend->alloc(b->p->dev, (size_t)most, &b->memory[i], err);

		if (code < 0)
			return code;
	}
	return b->device && b->send && b->recv && b->count && b->offset && b->parcel
			       ? FF_OK
			       : ff_fail_memory(err);
}

/* Devices of ours on a node. */
static uint32_t count_on(const struct ff_prof *p, uint32_t node)
{
	const struct ff_machine_node *n = &p->machine.nodes[node];
	uint32_t ranks = p->comm->n_ranks;

	if (n->first >= ranks)
		return 0;
	return n->first + n->count < ranks ? n->count : ranks - n->first;
}

static void choose(struct bench *b)
{
	const struct ff_machine *m = &b->p->machine;
	uint32_t n = 0;

	b->own = FF_NONE;
	for (uint32_t i = 0; i < m->n_nodes && n < b->ranks; i++)
		for (uint32_t k = 0; count_on(b->p, i) >= b->spread.each && k < b->spread.each;
				k++) {
			b->device[n] = (uint16_t)(m->nodes[i].first + k);
			if (b->device[n] == b->p->comm->rank)
				b->own = n;
			n++;
		}
}

static void release(struct bench *b)
{
	free(b->device);
	free(b->send);
	free(b->recv);
	free(b->count);
	free(b->offset);
	free(b->parcel);
	for (int i = 0; i < 2; i++)
		if (b->memory[i])
			b->p->backend->free(b->p->dev, b->memory[i]);
}

/* Each sends so much to its successor, or in all to as many successors as there are; messages lie
 * one behind the other. */
static void set_parcels(struct bench *b, int64_t elements)
{
	uint32_t most = b->kind == FF_MOVE_ALL_TO_ALL && b->ranks > 2 ? b->ranks - 1 : 1;
	int64_t part = elements > most ? elements / most : 1;

	b->n_parcels = 0;
	for (uint32_t i = 0; i < b->ranks; i++)
		for (uint32_t k = 0; k < most; k++)
			b->parcel[b->n_parcels++] = (struct ff_parcel){b->device[i],
					b->device[(i + k + 1) % b->ranks],
					(const float *)b->memory[0] + (int64_t)k * part,
					(float *)b->memory[1] + (int64_t)k * part, part};
}

static void set_size(struct bench *b, int64_t bytes)
{
	int64_t elements = bytes / (int64_t)sizeof(float), at = 0;

	b->bytes = bytes;
	for (uint32_t i = 0; i < b->ranks; i++) {
		b->count[i] = elements / b->ranks + (i < elements % b->ranks);
		b->offset[i] = at;
		at += b->count[i];
	}
	set_parcels(b, elements);
	if (b->kind == FF_MOVE_ALL_REDUCE)
		b->count[0] = elements;
	if (b->own != FF_NONE) {
		b->send[b->own] = b->memory[0];
		/* gradients are summed in place, activations are not */
		b->recv[b->own] = b->memory[b->kind != FF_MOVE_ALL_REDUCE];
	}
}

static int measure(struct ff_prof *p, enum ff_move_kind kind, struct ff_spread spread, bool ping,
		struct ff_point *point, uint32_t *n, struct ff_error *err)
{
	struct bench b = {.p = p,
			.kind = kind,
			.spread = spread,
			.ranks = spread.nodes * spread.each,
			.ping = ping};
	struct ff_timed what = {.run = run, .arg = &b, .slowest = true};
	what.before = p->comm->in_stream ? meet : NULL;
	int64_t size = SMALLEST;
	int code = ff_agree_code(
			p->comm, allocate(&b, (int64_t)SMALLEST << 2 * (SIZES - 1), err), err);

	*n = 0;
	if (code == FF_OK)
		choose(&b);
	for (uint32_t i = 0; i < SIZES && code == FF_OK && !p->end; i++, size *= 4) {
		struct ff_timing t;

		if (ff_prof_is_beyond(p, size, *n) || (*n && point[*n - 1].us > TOO_LONG_US))
			break;
		set_size(&b, size);
		code = ff_prof_time(p, &what, &t, err);
		if (code < 0)
			break;
		point[(*n)++] = (struct ff_point){
				(double)size, ping ? t.median_us / 2 : t.median_us, t.disturbed};
	}
	release(&b);
	return code;
}

static int measure_link(struct ff_prof *p, struct ff_error *err)
{
	struct ff_point point[SIZES];
	uint32_t n;
	int code = measure(
			p, FF_MOVE_POINT_TO_POINT, (struct ff_spread){1, 2}, true, point, &n, err);

	if (code == FF_OK && !p->end)
		ff_costs_set_link(p->costs, ff_prof_fit(point, n));
	return code;
}

static int measure_kind(struct ff_prof *p, enum ff_move_kind kind, struct ff_spread spread,
		struct ff_error *err)
{
	double bytes[SIZES], us[SIZES];
	struct ff_comm_cost cost = {.kind = kind,
			.ranks = spread.nodes * spread.each,
			.nodes = spread.nodes,
			.bytes = bytes,
			.us = us};
	struct ff_point point[SIZES];
	int code = measure(p, kind, spread, false, point, &cost.n, err);

	if (code < 0 || p->end)
		return code;
	for (uint32_t i = 0; i < cost.n; i++) {
		bytes[i] = point[i].bytes;
		us[i] = point[i].us;
		cost.disturbed += point[i].disturbed > 0;
	}
	return ff_costs_put_comm(p->costs, &cost, err);
}

/* Whether a figure is to be measured: it is not there, or was disturbed and is to be
 * measured again. */
static bool wanted(const struct ff_prof *p, bool known, uint32_t disturbed)
{
	return !known || (p->opt->again && disturbed);
}

/* Among several devices of several nodes it matters who sends to whom, and among two devices
 * all are the only other one. */
static bool means_something(enum ff_move_kind kind, struct ff_spread s)
{
	if (kind == FF_MOVE_POINT_TO_POINT)
		return s.nodes == 1 || s.each == 1;
	return kind != FF_MOVE_ALL_TO_ALL || s.nodes * s.each > 2;
}

static int measure_spread(struct ff_prof *p, struct ff_spread s, struct ff_error *err)
{
	static const enum ff_move_kind kinds[KINDS] = {FF_MOVE_POINT_TO_POINT, FF_MOVE_ALL_REDUCE,
			FF_MOVE_ALL_GATHER, FF_MOVE_REDUCE_SCATTER, FF_MOVE_ALL_TO_ALL};
	uint32_t ranks = s.nodes * s.each;
	int code = FF_OK;

	for (int k = 0; k < KINDS && code == FF_OK && !p->end; k++) {
		const struct ff_comm_cost *known =
				ff_costs_comm(p->costs, kinds[k], ranks, s.nodes);

		if (!means_something(kinds[k], s) ||
				!wanted(p, known, known ? known->disturbed : 0))
			continue;
		if (p->comm->rank == 0)
			ff_progress_show(&p->progress, 0, (ff_clock_us() - p->start_us) * 1e-6,
					"%s of %u devices%s", ff_move_name(kinds[k]), ranks,
					s.nodes > 1 ? " of several nodes" : "");
		code = measure_kind(p, kinds[k], s, err);
		if (code == FF_OK)
			code = ff_prof_save(p, false, err);
	}
	return code;
}

/* Nodes that have so many devices of ours at least. */
static uint32_t nodes_with(const struct ff_prof *p, uint32_t each)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->machine.n_nodes; i++)
		n += count_on(p, i) >= each;
	return n;
}

/* Groups of all sizes within a node, then of equally many devices on several. */
int ff_prof_network(struct ff_prof *p, struct ff_error *err)
{
	struct ff_rate link = ff_costs_link(p->costs);
	int code = FF_OK;

	if (nodes_with(p, 2) && wanted(p, link.bytes_per_us > 0, link.disturbed))
		code = measure_link(p, err);
	for (uint32_t nodes = 1; nodes_with(p, 1) >= nodes; nodes++)
		for (uint32_t each = 1; nodes_with(p, each) >= nodes && code == FF_OK && !p->end;
				each++)
			if (nodes * each > 1)
				code = measure_spread(p, (struct ff_spread){nodes, each}, err);
	return code;
}
