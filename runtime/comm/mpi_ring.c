/* Rings of our own between hosts.  In step s a device sends one chunk to its successor and receives
 * another, which it sends on in step s + 1; the first steps reduce what comes with what is there,
 * the others bring what came of it (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009).
 * Chunks go in segments, each of which is sent on as soon as it is there, so that both directions
 * of every link are busy from the first segment to the last, whoever is late.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "mpi.h"
#include "mpi_check.h"

#define AHEAD 16 /* segments that are awaited at once */
#define TAG 1    /* messages have 0 */

/* Segments are numbered through all steps: number k is the (k % per_step)th of the chunk that is
 * received in step k / per_step, and what is sent as number k + per_step. */
struct ring {
	struct ff_comm_mpi *m;
	const struct ff_collective *x;
	uint32_t me, n;
	uint32_t reducing, steps; /* the first steps reduce */
	int64_t size, segment;    /* bytes of an element, elements of a segment */
	int64_t per_step, total, ahead, slots;
	int64_t *count, *offset; /* of chunks, elements */
	MPI_Request *sent;       /* `total` */
	MPI_Request *awaited;    /* `ahead`, in turns */
	char *slot;              /* what is being reduced: of the segments since a step ago */
};

/* ---- what goes where ---- */

/* The chunk that is sent in step s, and received in step s - 1: a device reduces its own last. */
static uint32_t chunk_at(const struct ring *r, int64_t s)
{
	uint32_t lead = r->reducing ? r->n - 1 : 0;

	return (uint32_t)((r->me + lead + 2 * (int64_t)r->n - s) % r->n);
}

static int64_t elements_of(const struct ring *r, uint32_t chunk, int64_t j)
{
	int64_t left = r->count[chunk] - j * r->segment;

	return left < 0 ? 0 : left < r->segment ? left : r->segment;
}

/* Segment j of a chunk of this device's own. */
static const char *own(const struct ring *r, uint32_t chunk, int64_t j)
{
	int64_t at = r->reducing ? r->offset[chunk] : 0;

	return (const char *)r->x->send[r->me] + (at + j * r->segment) * r->size;
}

/* Segment j of a chunk of what all get. */
static char *result(const struct ring *r, uint32_t chunk, int64_t j)
{
	int64_t at = r->x->kind == FF_MOVE_REDUCE_SCATTER ? 0 : r->offset[chunk];

	return (char *)r->x->recv[r->me] + (at + j * r->segment) * r->size;
}

/* Where number k comes. */
static char *place(const struct ring *r, int64_t k)
{
	int64_t s = k / r->per_step;

	if (s < r->reducing)
		return r->slot + k % r->slots * r->segment * r->size;
	return result(r, chunk_at(r, s + 1), k % r->per_step);
}

/* ---- layout ---- */

/* Even ones, the first of which are one longer, of elements that belong together. */
static void part_evenly(struct ring *r, int64_t width)
{
	int64_t all = r->x->count[0] / width, at = 0;

	for (uint32_t i = 0; i < r->n; at += r->count[i++]) {
		r->count[i] = (all / r->n + (i < all % r->n)) * width;
		r->offset[i] = at;
	}
}

static void set_chunks(struct ring *r, int64_t width)
{
	int64_t at = 0;

	if (r->x->kind == FF_MOVE_ALL_REDUCE) {
		part_evenly(r, width);
		return;
	}
	for (uint32_t i = 0; i < r->n; at += r->count[i++]) {
		r->count[i] = r->x->count[i];
		r->offset[i] = r->reducing ? at : r->x->offset[i];
	}
}

static int64_t longest(const struct ff_collective *x)
{
	int64_t most = 0;

	if (x->kind == FF_MOVE_ALL_REDUCE)
		return (x->count[0] + x->n_devices - 1) / x->n_devices;
	for (uint32_t i = 0; i < x->n_devices; i++)
		most = x->count[i] > most ? x->count[i] : most;
	return most;
}

/* A segment that is reduced stays until the successor has it, which has awaited all but a step's
 * and those ahead: so nobody waits for a slot in a circle. */
static void set_lengths(struct ring *r, int64_t width)
{
	int64_t most = longest(r->x) + width - 1; /* chunks have whole widths */

	r->segment = r->m->segment_bytes / r->size / width * width;
	r->segment = r->segment ? r->segment : width;
	r->per_step = (most + r->segment - 1) / r->segment;
	r->total = r->steps * r->per_step;
	/* within a step, so that what is awaited takes no place of what is still to be sent */
	r->ahead = r->per_step < AHEAD ? r->per_step : AHEAD;
	r->slots = r->reducing ? r->per_step + r->ahead : 0;
}

static int make_room(struct ring *r, struct ff_error *err)
{
	size_t requests = (size_t)(r->total + r->ahead) * sizeof(MPI_Request);
	size_t chunks = 2 * r->n * sizeof(int64_t);
	size_t bytes = chunks + requests + (size_t)(r->slots * r->segment * r->size);
	char *room = r->m->room;

	if (bytes > r->m->room_bytes) {
		free(room);
		r->m->room = room = malloc(bytes);
		r->m->room_bytes = room ? bytes : 0;
	}
	if (!room)
		return ff_fail_memory(err);
	r->count = (int64_t *)room;
	r->offset = r->count + r->n;
	r->sent = (MPI_Request *)(room + chunks);
	r->awaited = r->sent + r->total;
	r->slot = room + chunks + requests;
	for (int64_t i = 0; i < r->total + r->ahead; i++)
		r->sent[i] = MPI_REQUEST_NULL;
	return FF_OK;
}

/* ---- steps ---- */

static int wait_for(MPI_Request *request, struct ff_error *err)
{
	return ff_mpi_check(MPI_Wait(request, MPI_STATUS_IGNORE), "MPI_Wait", err);
}

/* Makes ready to receive number k: what lies there has been sent before. */
static int await(struct ring *r, int64_t k, struct ff_error *err)
{
	int64_t s = k / r->per_step, j = k % r->per_step, n, before = -1;
	int code = FF_OK;

	if (s < r->reducing && k >= r->slots)
		before = k - r->slots + r->per_step;
	else if (s == r->reducing && r->reducing)
		before = j; /* sent first of all, from there if in place */
	if (before >= 0)
		code = wait_for(&r->sent[before], err);
	n = elements_of(r, chunk_at(r, s + 1), j);
	if (code < 0 || !n)
		return code;
	return ff_mpi_check(MPI_Irecv(place(r, k), (int)(n * r->size), MPI_BYTE,
					    r->x->device[(r->me + r->n - 1) % r->n], TAG,
					    r->m->world, &r->awaited[k % r->ahead]),
			"MPI_Irecv", err);
}

static int send_on(struct ring *r, int64_t k, const char *from, struct ff_error *err)
{
	int64_t n = elements_of(r, chunk_at(r, k / r->per_step), k % r->per_step);

	if (!n)
		return FF_OK;
	return ff_mpi_check(MPI_Isend(from, (int)(n * r->size), MPI_BYTE,
					    r->x->device[(r->me + 1) % r->n], TAG, r->m->world,
					    &r->sent[k]),
			"MPI_Isend", err);
}

/* Receives number k, reduces it, and sends it on. */
static int take(struct ring *r, int64_t k, struct ff_error *err)
{
	int64_t s = k / r->per_step, j = k % r->per_step;
	uint32_t chunk = chunk_at(r, s + 1);
	int64_t n = elements_of(r, chunk, j);
	char *here = place(r, k);
	int code = wait_for(&r->awaited[k % r->ahead], err);

	if (code < 0)
		return code;
	if (s < r->reducing)
		ff_reduce(r->x->reduce, r->x->type, n, own(r, chunk, j), here);
	if (s + 1 == r->reducing) {
		memcpy(result(r, chunk, j), here, (size_t)(n * r->size));
		here = result(r, chunk, j);
	}
	return s + 1 < r->steps ? send_on(r, k + r->per_step, here, err) : FF_OK;
}

static int run(struct ring *r, struct ff_error *err)
{
	uint32_t first = chunk_at(r, 0);
	int code = FF_OK;

	if (!r->reducing && r->count[r->me])
		memcpy(result(r, r->me, 0), own(r, r->me, 0), (size_t)(r->count[r->me] * r->size));
	for (int64_t k = 0; k < r->ahead && code == FF_OK; k++)
		code = await(r, k, err);
	for (int64_t j = 0; j < r->per_step && code == FF_OK; j++)
		code = send_on(r, j, own(r, first, j), err);
	for (int64_t k = 0; k < r->total && code == FF_OK; k++) {
		code = take(r, k, err);
		if (code == FF_OK && k + r->ahead < r->total)
			code = await(r, k + r->ahead, err);
	}
	for (int64_t k = 0; k < r->total && code == FF_OK; k++)
		code = wait_for(&r->sent[k], err);
	return code;
}

bool ff_mpi_is_ring(const struct ff_comm_mpi *m, const struct ff_collective *x)
{
	int64_t all = 0;

	for (uint32_t i = 0; i < x->n_devices && x->kind != FF_MOVE_ALL_REDUCE; i++)
		all += x->count[i];
	if (x->kind == FF_MOVE_ALL_REDUCE)
		all = x->count[0];
	if (all * ff_dtype_bytes(x->type) <= m->segment_bytes)
		return false;
	for (uint32_t i = 1; i < x->n_devices; i++)
		if (ff_mpi_is_apart(m, x->device[0], x->device[i]))
			return true;
	return false;
}

int ff_mpi_ring(struct ff_comm_mpi *m, const struct ff_collective *x, uint32_t me,
		struct ff_error *err)
{
	bool gathers = x->kind == FF_MOVE_ALL_GATHER;
	int64_t width = gathers ? 1 : ff_reduce_width(x->reduce);
	struct ring r = {.m = m, .x = x, .me = me, .n = x->n_devices};
	int code;

	r.reducing = gathers ? 0 : r.n - 1;
	r.steps = x->kind == FF_MOVE_ALL_REDUCE ? 2 * (r.n - 1) : r.n - 1;
	r.size = ff_dtype_bytes(x->type);
	set_lengths(&r, width);
	if ((code = make_room(&r, err)) < 0)
		return code;
	set_chunks(&r, width);
	return run(&r, err);
}
