/* Collectives by hosts, over MPI: within each in shared memory, and between the devices of equal
 * place in theirs by rings, so that less crosses the network than in a ring of all (Thakur,
 * Rabenseifner, Gropp, IJHPCA 2005).  The stages are those of runtime/cuda/nccl/nccl_nodes.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include "mpi_nodes.h"

#include <stdlib.h>

/* A collective, and its stages one after another. */
struct stages {
	struct ff_comm_mpi *m;
	const struct ff_collective *x;
	ff_mpi_run *run;
	struct ff_spread spread;
	uint32_t node, local; /* this rank's, and its place there */
	int64_t size, part;   /* elements: of an array a device's of a node; of chunks one */
	void *memory;         /* of what follows */
	uint16_t *device;
	const void **send;
	void **recv;
	int64_t *count, *offset;
};

static bool chunks_are_even(const struct ff_collective *x)
{
	for (uint32_t i = 0; i < x->n_devices; i++)
		if (x->count[i] != x->count[0] ||
				(x->kind == FF_MOVE_ALL_GATHER && x->offset[i] != i * x->count[0]))
			return false;
	return true;
}

bool ff_mpi_has_stages(
		const struct ff_comm_mpi *m, const struct ff_collective *x, struct ff_spread *ret)
{
	bool regular = x->kind == FF_MOVE_ALL_REDUCE || chunks_are_even(x);

	return m->by_nodes && ff_spread_find(m->host_of, x->n_devices, x->device, ret) &&
	       ff_spread_has_stages(*ret, x->kind, x->reduce, x->count[0], regular);
}

static int open_stages(struct stages *s, struct ff_error *err)
{
	size_t n = s->x->n_devices;

	s->memory = malloc(n * (2 * sizeof(void *) + 2 * sizeof(int64_t) + sizeof(uint16_t)));
	if (!s->memory)
		return ff_fail_memory(err);
	s->send = s->memory;
	s->recv = (void **)(s->send + n);
	s->count = (int64_t *)(s->recv + n);
	s->offset = s->count + n;
	s->device = (uint16_t *)(s->offset + n);
	return FF_OK;
}

/* One stage: `n` devices from the `first` on, `step` apart, this rank the `me`th of them, with
 * `count` elements each, or of all; what they gather lies `apart` elements apart. */
struct stage {
	enum ff_move_kind kind;
	uint32_t first, step, n, me;
	int64_t count, apart;
	const char *send;
	char *recv;
};

static int run(const struct stages *s, const struct stage *t, struct ff_error *err)
{
	const struct ff_collective sub = {t->kind, s->x->type, s->x->reduce, t->n, s->device,
			s->send, s->recv, s->count, s->offset};

	for (uint32_t i = 0; i < t->n; i++) {
		s->device[i] = s->x->device[t->first + i * t->step];
		s->send[i] = i == t->me ? t->send : NULL;
		s->recv[i] = i == t->me ? t->recv : NULL;
		s->count[i] = t->count;
		s->offset[i] = i * t->apart;
	}
	return s->run(s->m, &sub, err);
}

static int inside(const struct stages *s, enum ff_move_kind kind, const char *send, char *recv,
		struct ff_error *err)
{
	const struct stage t = {kind, s->node * s->spread.each, 1, s->spread.each, s->local,
			s->part, s->part, send, recv};

	return run(s, &t, err);
}

static int across(const struct stages *s, enum ff_move_kind kind, const char *send, char *recv,
		struct ff_error *err)
{
	const struct stage t = {kind, s->local, s->spread.each, s->spread.nodes, s->node, s->part,
			s->spread.each * s->part, send, recv};

	return run(s, &t, err);
}

/* The rest is less than one element a device of a node. */
static int all_reduce(const struct stages *s, const char *send, char *recv, struct ff_error *err)
{
	int64_t whole = s->part * s->spread.each, rest = s->x->count[0] - whole;
	char *own = recv + s->local * s->part * s->size;
	uint32_t n = s->x->n_devices, me = s->node * s->spread.each + s->local;
	const struct stage last = {FF_MOVE_ALL_REDUCE, 0, 1, n, me, rest, 0, send + whole * s->size,
			recv + whole * s->size};
	int code = inside(s, FF_MOVE_REDUCE_SCATTER, send, own, err);

	if (code == FF_OK)
		code = across(s, FF_MOVE_ALL_REDUCE, own, own, err);
	if (code == FF_OK)
		code = inside(s, FF_MOVE_ALL_GATHER, own, recv, err);
	return code == FF_OK && rest ? run(s, &last, err) : code;
}

static int all_gather(const struct stages *s, const char *send, char *recv, struct ff_error *err)
{
	int64_t chunk = s->part * s->size;
	int code = across(s, FF_MOVE_ALL_GATHER, send, recv + s->local * chunk, err);

	for (uint32_t i = 0; i < s->spread.nodes && code == FF_OK; i++) {
		char *node = recv + (int64_t)i * s->spread.each * chunk;

		code = inside(s, FF_MOVE_ALL_GATHER, node + s->local * chunk, node, err);
	}
	return code;
}

static int reduce_scatter(
		const struct stages *s, const char *send, char *recv, struct ff_error *err)
{
	int64_t chunk = s->part * s->size;
	char *sums = malloc((size_t)(s->spread.nodes * chunk) + 1);
	int code = sums ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < s->spread.nodes && code == FF_OK; i++)
		code = inside(s, FF_MOVE_REDUCE_SCATTER, send + (int64_t)i * s->spread.each * chunk,
				sums + i * chunk, err);
	if (code == FF_OK)
		code = across(s, FF_MOVE_REDUCE_SCATTER, sums, recv, err);
	free(sums);
	return code;
}

int ff_mpi_stages(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_spread spread, ff_mpi_run *run_one, struct ff_error *err)
{
	struct stages s = {.m = m, .x = x, .run = run_one, .spread = spread};
	int code = open_stages(&s, err);

	s.node = me / spread.each;
	s.local = me % spread.each;
	s.size = ff_dtype_bytes(x->type);
	s.part = x->kind == FF_MOVE_ALL_REDUCE ? x->count[0] / spread.each : x->count[0];
	if (code == FF_OK)
		code = (x->kind == FF_MOVE_ALL_REDUCE           ? all_reduce
				: x->kind == FF_MOVE_ALL_GATHER ? all_gather
								: reduce_scatter)(
				&s, x->send[me], x->recv[me], err);
	free(s.memory);
	return code;
}
