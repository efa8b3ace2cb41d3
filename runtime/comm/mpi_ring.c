/* Rings of our own between hosts.  In step s a device sends one chunk to its successor and receives
 * another, which it sends on in step s + 1; the first steps reduce what comes with what is there,
 * the others bring what came of it (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009).
 * Chunks go in segments, each of which is sent on as soon as it is there, so that both directions
 * of every link are busy from the first segment to the last, whoever is late.
 * SPDX-License-Identifier: Apache-2.0 */
#include "mpi_ring.h"

#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "mpi_calls.h"

#define AHEAD 16 /* segments that are awaited at once */

/* Segments are numbered through all steps: number k is the (k % per_step)th of the chunk that is
 * received in step k / per_step, and what is sent as number k + per_step. */
struct ring {
	struct ff_mpi_stream *s;
	const struct ff_collective *x;
	struct ff_chunks chunks;
	uint32_t me, n;
	uint32_t reducing, steps; /* the first steps reduce */
	int64_t segment;          /* elements */
	int64_t per_step, total, ahead, slots;
	MPI_Request *sent;    /* `total` */
	MPI_Request *awaited; /* `ahead`, in turns */
	char *slot;           /* what is being reduced: of the segments since a step ago */
};

/* ---- what goes where ---- */

/* The chunk that is sent in step s, and received in step s - 1: a device reduces its own last. */
static uint32_t chunk_at(const struct ring *r, int64_t s)
{
	uint32_t lead = r->reducing ? r->n - 1 : 0;

	return (uint32_t)((r->me + lead + 2 * (int64_t)r->n - s) % r->n);
}

/* Bytes of segment j. */
static int bytes_of(const struct ring *r, uint32_t chunk, int64_t j)
{
	return (int)(ff_chunks_part(&r->chunks, chunk, j * r->segment, r->segment) *
			r->chunks.size);
}

static const char *own(const struct ring *r, uint32_t chunk, int64_t j)
{
	return ff_chunks_own(&r->chunks, chunk, j * r->segment);
}

static char *result(const struct ring *r, uint32_t chunk, int64_t j)
{
	return ff_chunks_result(&r->chunks, chunk, j * r->segment);
}

/* Where number k comes. */
static char *place(const struct ring *r, int64_t k)
{
	int64_t s = k / r->per_step;

	if (s < r->reducing)
		return r->slot + k % r->slots * r->segment * r->chunks.size;
	return result(r, chunk_at(r, s + 1), k % r->per_step);
}

/* ---- layout ---- */

/* A segment that is reduced stays until the successor has it, which has awaited all but a step's
 * and those ahead: so nobody waits for a slot in a circle. */
static void set_lengths(struct ring *r)
{
	int64_t width = r->chunks.width;

	r->segment = r->s->m->segment_bytes / r->chunks.size / width * width;
	r->segment = r->segment ? r->segment : width;
	r->per_step = (r->chunks.longest + r->segment - 1) / r->segment;
	r->total = r->steps * r->per_step;
	/* within a step, so that what is awaited takes no place of what is still to be sent */
	r->ahead = r->per_step < AHEAD ? r->per_step : AHEAD;
	r->slots = r->reducing ? r->per_step + r->ahead : 0;
}

static int make_room(struct ring *r, struct ff_error *err)
{
	size_t requests = (size_t)(r->total + r->ahead) * sizeof(MPI_Request);
	size_t bytes = requests + (size_t)(r->slots * r->segment * r->chunks.size);
	char *room = r->s->room;

	if (bytes > r->s->room_bytes) {
		free(room);
		r->s->room = room = malloc(bytes);
		r->s->room_bytes = room ? bytes : 0;
	}
	if (!room)
		return ff_fail_memory(err);
	r->sent = (MPI_Request *)room;
	r->awaited = r->sent + r->total;
	r->slot = room + requests;
	for (int64_t i = 0; i < r->total + r->ahead; i++)
		r->sent[i] = MPI_REQUEST_NULL;
	return FF_OK;
}

/* ---- steps ---- */

/* Makes ready to receive number k: what lies there has been sent before. */
static int await(struct ring *r, int64_t k, struct ff_error *err)
{
	int64_t s = k / r->per_step, j = k % r->per_step, before = -1;
	int bytes = bytes_of(r, chunk_at(r, s + 1), j), code = FF_OK;

	if (s < r->reducing && k >= r->slots)
		before = k - r->slots + r->per_step;
	else if (s == r->reducing && r->reducing)
		before = j; /* sent first of all, from there if in place */
	if (before >= 0)
		code = ff_mpi_wait(r->s->m, &r->sent[before], err);
	if (code < 0 || !bytes)
		return code;
	return ff_mpi_receive(r->s, place(r, k), bytes, r->x->device[(r->me + r->n - 1) % r->n],
			FF_MPI_RING, &r->awaited[k % r->ahead], err);
}

static int send_on(struct ring *r, int64_t k, const char *from, struct ff_error *err)
{
	int bytes = bytes_of(r, chunk_at(r, k / r->per_step), k % r->per_step);

	if (!bytes)
		return FF_OK;
	return ff_mpi_send(r->s, from, bytes, r->x->device[(r->me + 1) % r->n], FF_MPI_RING,
			&r->sent[k], err);
}

/* Receives number k, reduces it, and sends it on. */
static int take(struct ring *r, int64_t k, struct ff_error *err)
{
	int64_t s = k / r->per_step, j = k % r->per_step;
	uint32_t chunk = chunk_at(r, s + 1);
	int bytes = bytes_of(r, chunk, j);
	char *here = place(r, k);
	int code = ff_mpi_wait(r->s->m, &r->awaited[k % r->ahead], err);

	if (code < 0)
		return code;
	if (s < r->reducing)
		ff_reduce(r->x->reduce, r->x->type, bytes / r->chunks.size, own(r, chunk, j), here);
	if (s + 1 == r->reducing) {
		memcpy(result(r, chunk, j), here, (size_t)bytes);
		here = result(r, chunk, j);
	}
	return s + 1 < r->steps ? send_on(r, k + r->per_step, here, err) : FF_OK;
}

static int run(struct ring *r, struct ff_error *err)
{
	uint32_t first = chunk_at(r, 0);
	int code = FF_OK;

	if (!r->reducing)
		ff_chunks_keep_own(&r->chunks);
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
		code = ff_mpi_wait(r->s->m, &r->sent[k], err);
	return code;
}

int ff_mpi_ring(struct ff_mpi_stream *s, const struct ff_collective *x, uint32_t me,
		struct ff_error *err)
{
	struct ring r = {.s = s, .x = x, .me = me, .n = x->n_devices};
	int code = ff_chunks_init(&r.chunks, x, me, err);

	r.reducing = x->kind == FF_MOVE_ALL_GATHER ? 0 : r.n - 1;
	r.steps = x->kind == FF_MOVE_ALL_REDUCE ? 2 * (r.n - 1) : r.n - 1;
	if (code == FF_OK) {
		set_lengths(&r);
		code = make_room(&r, err);
	}
	if (code == FF_OK)
		code = run(&r, err);
	ff_chunks_finish(&r.chunks);
	return code;
}
