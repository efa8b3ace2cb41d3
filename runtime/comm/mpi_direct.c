/* Short collectives between hosts, which take as long as their messages follow each other, whatever
 * these carry: all send to each owner of a chunk, who reduces it, and it sends what came of it to
 * all. That is two messages one behind the other, where a ring has two a device (Thakur,
 * Rabenseifner, Gropp, IJHPCA 2005).  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_direct.h"

#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "mpi_calls.h"

struct direct {
	struct ff_mpi_stream *s;
	const struct ff_collective *x;
	struct ff_chunks chunks;
	uint32_t me, n;
	MPI_Request *request; /* 2n */
	int n_requests;
	char *slot; /* n - 1: this device's chunk, as those behind it have it */
};

static int bytes_of(const struct direct *d, uint32_t chunk)
{
	return (int)(d->chunks.count[chunk] * d->chunks.size);
}

static uint32_t behind(const struct direct *d, uint32_t i)
{
	return (d->me + i) % d->n;
}

/* This device's chunk as the `i`th device behind has it, i > 0. */
static char *slot(const struct direct *d, uint32_t i)
{
	return d->slot + (size_t)(i - 1) * (size_t)bytes_of(d, d->me);
}

/* ---- messages ---- */

/* Empty ones are not sent: both ends know. */
static int receive(struct direct *d, uint32_t from, void *to, uint32_t chunk, struct ff_error *err)
{
	if (!bytes_of(d, chunk))
		return FF_OK;
	return ff_mpi_receive(d->s, to, bytes_of(d, chunk), d->x->device[from], FF_MPI_DIRECT,
			&d->request[d->n_requests++], err);
}

static int send(struct direct *d, uint32_t to, const void *from, uint32_t chunk,
		struct ff_error *err)
{
	if (!bytes_of(d, chunk))
		return FF_OK;
	return ff_mpi_send(d->s, from, bytes_of(d, chunk), d->x->device[to], FF_MPI_DIRECT,
			&d->request[d->n_requests++], err);
}

static int wait_all(struct direct *d, struct ff_error *err)
{
	int n = d->n_requests;

	d->n_requests = 0;
	return ff_mpi_wait_all(d->s->m, n, d->request, err);
}

/* ---- the two halves ---- */

static void reduce_own(struct direct *d)
{
	const struct ff_collective *x = d->x;
	int64_t n = d->chunks.count[d->me];

	for (uint32_t i = 2; i < d->n; i++)
		ff_reduce(x->reduce, x->type, n, slot(d, i), slot(d, 1));
	ff_reduce(x->reduce, x->type, n, ff_chunks_own(&d->chunks, d->me, 0), slot(d, 1));
	memcpy(ff_chunks_result(&d->chunks, d->me, 0), slot(d, 1), (size_t)bytes_of(d, d->me));
}

static int reduce(struct direct *d, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 1; i < d->n && code == FF_OK; i++)
		code = receive(d, behind(d, i), slot(d, i), d->me, err);
	for (uint32_t i = 1; i < d->n && code == FF_OK; i++)
		code = send(d, behind(d, i), ff_chunks_own(&d->chunks, behind(d, i), 0),
				behind(d, i), err);
	if (code == FF_OK)
		code = wait_all(d, err);
	if (code == FF_OK)
		reduce_own(d);
	return code;
}

static int bring(struct direct *d, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 1; i < d->n && code == FF_OK; i++)
		code = receive(d, behind(d, i), ff_chunks_result(&d->chunks, behind(d, i), 0),
				behind(d, i), err);
	for (uint32_t i = 1; i < d->n && code == FF_OK; i++)
		code = send(d, behind(d, i), ff_chunks_result(&d->chunks, d->me, 0), d->me, err);
	return code < 0 ? code : wait_all(d, err);
}

static int run(struct direct *d, struct ff_error *err)
{
	bool gathers = d->x->kind == FF_MOVE_ALL_GATHER;
	int code = FF_OK;

	if (gathers || d->n == 1)
		ff_chunks_keep_own(&d->chunks);
	if (!gathers && d->n > 1)
		code = reduce(d, err);
	if (code == FF_OK && d->x->kind != FF_MOVE_REDUCE_SCATTER)
		code = bring(d, err);
	return code;
}

int ff_mpi_direct(struct ff_mpi_stream *s, const struct ff_collective *x, uint32_t me,
		struct ff_error *err)
{
	struct direct d = {.s = s, .x = x, .me = me, .n = x->n_devices};
	size_t requests = 2 * (size_t)d.n * sizeof(*d.request);
	int code = ff_chunks_init(&d.chunks, x, me, err);

	if (code == FF_OK) {
		d.request = malloc(requests + d.n * (size_t)bytes_of(&d, me));
		d.slot = (char *)d.request + requests;
		code = d.request ? run(&d, err) : ff_fail_memory(err);
	}
	free(d.request);
	ff_chunks_finish(&d.chunks);
	return code;
}
