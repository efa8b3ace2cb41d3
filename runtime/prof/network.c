/* Messages and collectives among the devices of one node, and of several.
 * SPDX-License-Identifier: Apache-2.0 */
#include "prof.h"

#include <stdlib.h>

#include "process/agree.h"
#include "stopwatch.h"

#define KINDS 5
#define SIZES 9 /* 1 KiB to 64 MiB, each four times the one before */
#define SMALLEST 1024
#define AROUND 4           /* bytes that are touched for one of a message, to the next */
#define AHEAD 65536        /* bytes that go ahead of a message between nodes */
#define TOO_LONG_US 300000 /* the next size would take too long */

/* One operation among as many of the first devices of each of the first nodes that have so many.
 * What goes one way is timed there and back. */
struct bench {
	struct ff_prof *p;
	struct ff_comm_shape shape;
	uint32_t me; /* this rank's place among them; FF_NONE: it has none */
	void *memory[2];
	uint16_t *device;
	void **send, **recv;
	int64_t *count, *offset;
	struct ff_parcel *parcel;
	uint32_t n_parcels;
	struct bench *ahead; /* what goes before it; NULL: nothing */
};

static int run_collective(struct bench *b, struct ff_error *err)
{
	struct ff_comm *c = b->p->comm;
	const struct ff_channel on = {b->p->backend, b->p->stream};
	const struct ff_collective x = {.kind = b->shape.kind,
			.type = FF_F32,
			.n_devices = b->shape.ranks,
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

	if (b->me == FF_NONE)
		return FF_OK;
	if (!ff_move_is_messages(b->shape.kind))
		return run_collective(b, err);
	if (!b->shape.one_way)
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

	small.shape.kind = FF_MOVE_ALL_REDUCE;
	small.count = &count;
	return b->me == FF_NONE ? FF_OK : run_collective(&small, err);
}

/* Links that are shaped let pass at once what they have saved up while nothing passed, and in a
 * step one message follows another; nor does any device wait for another then. */
static int run_ahead(void *arg, struct ff_error *err)
{
	struct bench *b = arg;

	return run(b->ahead, err);
}

static int allocate(struct bench *b, int64_t most, struct ff_error *err)
{
	size_t n = b->shape.ranks;
	size_t parcels = b->shape.kind == FF_MOVE_ALL_TO_ALL ? n * (n - 1) : n;

	b->device = calloc(n, sizeof(*b->device));
	b->send = calloc(n, sizeof(*b->send));
	b->recv = calloc(n, sizeof(*b->recv));
	b->count = calloc(n, sizeof(*b->count));
	b->offset = calloc(n, sizeof(*b->offset));
	b->parcel = calloc(parcels, sizeof(*b->parcel));
	for (int i = 0; i < 2; i++) {
		/* pages that are there, values that are harmless */
		int code = b->p->backend->memory.alloc(b->p->dev, (size_t)most, &b->memory[i], err);

		if (code < 0)
			return code;
	}
	return b->device && b->send && b->recv && b->count && b->offset && b->parcel
			       ? FF_OK
			       : ff_fail_memory(err);
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
			b->p->backend->memory.free(b->p->dev, b->memory[i]);
}

/* Ranks of one node. */
static uint32_t count_on(const struct ff_layout *l, uint32_t node)
{
	return l->first[node + 1] - l->first[node];
}

/* Which devices take part: `device`, node by node. */
static void set_devices(struct bench *b)
{
	const struct ff_layout *l = &b->p->layout;
	uint32_t each = b->shape.ranks / b->shape.nodes, n = 0;

	b->me = FF_NONE;
	for (uint32_t i = 0; i < l->n_nodes && n < b->shape.ranks; i++)
		for (uint32_t k = 0; count_on(l, i) >= each && k < each; k++) {
			b->device[n] = (uint16_t)(l->first[i] + k);
			if (b->device[n] == b->p->comm->rank)
				b->me = n;
			n++;
		}
}

/* From number `from` of the devices to number `to`, the `k`th of its messages: only those are
 * listed that end here. */
static void add_parcel(struct bench *b, uint32_t from, uint32_t to, uint32_t k, int64_t elements)
{
	int64_t at = k * elements;

	if (b->me != from && b->me != to)
		return;
	b->parcel[b->n_parcels++] = (struct ff_parcel){b->device[from], b->device[to],
			b->me == from ? (const float *)b->memory[0] + at : NULL,
			b->me == to ? (float *)b->memory[1] + at : NULL, elements};
}

/* Each sends so much to its successor, which of several nodes is the same device of the next, or
 * in all to as many successors as there are; messages lie one behind the other. */
static void set_parcels(struct bench *b, int64_t elements)
{
	uint32_t ranks = b->shape.ranks, nodes = b->shape.nodes;
	bool to_all = b->shape.kind == FF_MOVE_ALL_TO_ALL && ranks > 2;
	uint32_t most = to_all ? ranks - 1 : 1;
	uint32_t step = to_all || nodes == 1 ? 1 : ranks / nodes;
	int64_t part = elements > most ? elements / most : 1;

	b->n_parcels = 0;
	for (uint32_t i = 0; i < ranks; i++)
		for (uint32_t k = 0; k < most; k++)
			add_parcel(b, i, (i + step + k) % ranks, k, part);
}

static void set_size(struct bench *b, int64_t bytes)
{
	int64_t elements = bytes / (int64_t)sizeof(float), at = 0;
	uint32_t ranks = b->shape.ranks;
	bool reduces = b->shape.kind == FF_MOVE_ALL_REDUCE;

	for (uint32_t i = 0; i < ranks; i++) {
		b->count[i] = elements / ranks + (i < elements % ranks);
		b->offset[i] = at;
		at += b->count[i];
	}
	set_parcels(b, elements);
	if (reduces)
		b->count[0] = elements;
	if (b->me != FF_NONE) {
		b->send[b->me] = b->memory[0];
		/* gradients are summed in place, activations are not */
		b->recv[b->me] = b->memory[!reduces];
	}
}

static int prepare(struct bench *b, int64_t most, struct ff_error *err)
{
	int code = ff_agree_code(b->p->comm, allocate(b, most, err), err);

	if (code == FF_OK)
		set_devices(b);
	return code;
}

static int measure_size(struct bench *b, struct ff_timed *what, int64_t size, struct ff_timing *ret,
		struct ff_error *err)
{
	int64_t step = b->p->states.reuse_bytes[0];

	set_size(b, size);
	/* Between two messages passes what makes the second, at most a step; what is sent has just
	 * been written. */
	what->reuse_bytes = AROUND * size < step ? AROUND * size : step;
	what->hot[0] = (struct ff_hot){b->memory[0], size};
	return ff_prof_time(b->p, what, ret, err);
}

/* What rounds measured at one size. */
struct rounds {
	struct ff_timing of[FF_PROF_ROUNDS];
};

/* Each size that is asked for; after the first round those of the first. */
static int measure_sizes(struct bench *b, struct ff_timed *what, uint32_t round,
		struct rounds *seen, struct ff_point *point, uint32_t *n, struct ff_error *err)
{
	uint32_t most = round ? *n : SIZES;
	int64_t size = SMALLEST;
	int code = FF_OK;

	for (uint32_t i = 0; i < most && code == FF_OK && !b->p->end; i++, size *= 4) {
		struct ff_timing t;

		if (!round && (ff_prof_is_beyond(b->p, size, i) ||
					      (i && point[i - 1].us > TOO_LONG_US)))
			break;
		if ((code = measure_size(b, what, size, &seen[i].of[round], err)) < 0)
			break;
		t = ff_prof_middle(seen[i].of, round + 1);
		point[i] = (struct ff_point){(double)size,
				b->shape.one_way ? t.median_us / 2 : t.median_us, t.disturbed};
		*n += !round;
	}
	return code;
}

/* What nodes are joined by is slower than what others do to a node's memory. */
static int measure(struct ff_prof *p, struct ff_comm_shape shape, struct ff_point *point,
		uint32_t *n, struct ff_error *err)
{
	uint32_t rounds = shape.nodes > 1 ? 1 : p->rounds;
	struct bench ahead = {.p = p, .shape = shape};
	struct bench b = {.p = p, .shape = shape, .ahead = &ahead};
	struct rounds seen[SIZES];
	struct ff_timed what = {.run = run,
			.arg = &b,
			.slowest = true,
			.most = ff_samples_of(FF_SAMPLES, rounds)};
	int code = prepare(&b, (int64_t)SMALLEST << 2 * (SIZES - 1), err);

	ahead.shape.one_way = false; /* both are done at once, and begin together */
	if (code == FF_OK)
		code = prepare(&ahead, AHEAD, err);
	if (code == FF_OK)
		set_size(&ahead, AHEAD);
	what.before = shape.nodes > 1 ? run_ahead : p->comm->in_stream ? meet : NULL;
	*n = 0;
	for (uint32_t round = 0; round < rounds && code == FF_OK; round++)
		code = measure_sizes(&b, &what, round, seen, point, n, err);
	release(&b);
	release(&ahead);
	return code;
}

/* Whether a figure is to be measured: it is not there, or was disturbed and is to be
 * measured again. */
static bool wanted(const struct ff_prof *p, bool known, uint32_t disturbed)
{
	return !known || (p->opt->again && disturbed);
}

static void tell(struct ff_prof *p, const struct ff_comm_shape *s)
{
	if (p->comm->rank == 0)
		ff_progress_show(&p->progress, 0, (ff_clock_us() - p->start_us) * 1e-6,
				"%s of %u devices of %u nodes", ff_move_name(s->kind), s->ranks,
				s->nodes);
}

/* A table, if it is wanted; what goes one way inside a node is the link as well. */
static int measure_shape(struct ff_prof *p, struct ff_comm_shape shape, struct ff_error *err)
{
	const struct ff_comm_cost *known = ff_costs_comm(p->costs, shape);
	double bytes[SIZES], us[SIZES];
	struct ff_comm_cost cost = {.shape = shape, .bytes = bytes, .us = us};
	struct ff_point point[SIZES];
	bool link = shape.one_way && shape.nodes == 1;
	int code;

	if (!wanted(p, known, known ? known->disturbed : 0))
		return FF_OK;
	tell(p, &shape);
	code = measure(p, shape, point, &cost.n, err);
	if (code < 0 || p->end)
		return code;
	for (uint32_t i = 0; i < cost.n; i++) {
		bytes[i] = point[i].bytes;
		us[i] = point[i].us;
		cost.disturbed += point[i].disturbed > 0;
	}
	if (link)
		ff_costs_set_link(p->costs, ff_prof_fit(point, cost.n));
	code = ff_costs_put_comm(p->costs, &cost, err);
	return code == FF_OK ? ff_prof_save(p, false, err) : code;
}

static int measure_group(struct ff_prof *p, uint32_t ranks, uint32_t nodes, struct ff_error *err)
{
	static const enum ff_move_kind kinds[KINDS] = {FF_MOVE_POINT_TO_POINT, FF_MOVE_ALL_REDUCE,
			FF_MOVE_ALL_GATHER, FF_MOVE_REDUCE_SCATTER, FF_MOVE_ALL_TO_ALL};
	const struct ff_comm_shape pair = {FF_MOVE_POINT_TO_POINT, ranks, nodes, true};
	int code = ranks == 2 ? measure_shape(p, pair, err) : FF_OK;

	/* among two, all to all is what messages are */
	for (int k = 0; k < (ranks > 2 ? KINDS : KINDS - 1) && code == FF_OK && !p->end; k++)
		code = measure_shape(p, (struct ff_comm_shape){kinds[k], ranks, nodes, false}, err);
	return code;
}

/* Doubles, with the most as the last one. */
static uint32_t next_of(uint32_t i, uint32_t most)
{
	return i < most && 2 * i > most ? most : 2 * i;
}

/* The most devices that each of so many nodes has. */
static uint32_t most_of_each(const struct ff_layout *l, uint32_t nodes)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < l->n_nodes; i++) {
		uint32_t n = 0;

		for (uint32_t k = 0; k < l->n_nodes; k++)
			n += count_on(l, k) >= count_on(l, i);
		if (n >= nodes && count_on(l, i) > most)
			most = count_on(l, i);
	}
	return most;
}

/* All groups inside the largest node, and over nodes as many devices of each as powers of two, and
 * as so many nodes have. */
int ff_prof_network(struct ff_prof *p, struct ff_error *err)
{
	const struct ff_layout *l = &p->layout;
	uint32_t most = most_of_each(l, 1);
	int code = FF_OK;

	for (uint32_t ranks = 2; ranks <= most && code == FF_OK && !p->end; ranks++)
		code = measure_group(p, ranks, 1, err);
	for (uint32_t nodes = 2; nodes <= l->n_nodes; nodes = next_of(nodes, l->n_nodes)) {
		most = most_of_each(l, nodes);
		for (uint32_t each = 1; each <= most && code == FF_OK && !p->end;
				each = next_of(each, most))
			code = measure_group(p, nodes * each, nodes, err);
	}
	return code;
}

struct ff_rate ff_prof_network_line(const struct ff_prof *p)
{
	const struct ff_comm_cost *t = ff_costs_comm(
			p->costs, (struct ff_comm_shape){FF_MOVE_POINT_TO_POINT, 2, 2, true});
	struct ff_rate line = {.bytes_per_us = 0};
	double us;

	if (!t)
		return line;
	line.latency_us = t->us[0];
	us = t->us[t->n - 1] - t->us[0];
	line.bytes_per_us = t->bytes[t->n - 1] / (us > 0 ? us : t->us[0]);
	return line;
}
