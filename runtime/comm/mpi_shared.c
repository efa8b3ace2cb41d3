/* Collectives among ranks of one host, in memory that they share.  Each device owns a chunk, as in
 * a ring; chunks go in slices.  A device lays down its slices for the others, reduces what the
 * others laid down for it, in the order of the ring, where the first of them lies, and all copy
 * what came of it from there.  Every element is written to memory and read from there once each
 * way, by many at once.  SPDX-License-Identifier: Apache-2.0 */
#include "mpi_shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "chunks.h"
#include "mpi_calls.h"
#include "process/idle.h"

#define LINE 64                /* bytes that processors share at least */
#define DEVICE_BYTES (1 << 17) /* of slices that a device lays down at once */
#define TRIES 16               /* names that others may have taken */
#define PATIENT 2000           /* looks before others may have the core */
#define HASTY 50               /* likewise of a thread that has other things to do */

/* How far a device has come, in slices since the memory was made. */
struct progress {
	_Atomic uint64_t laid; /* it has laid down its slices, and is done with those before */
	_Atomic uint64_t done; /* and reduced its own */
	char apart[LINE - 2 * sizeof(uint64_t)];
};

struct ff_mpi_shared {
	struct ff_mpi_shared *next;
	struct progress *progress; /* of n devices; slots behind it */
	char *slot;
	size_t bytes, slot_bytes;
	uint64_t laid; /* slices by now: even and odd ones have slots of their own */
	uint32_t n;
	uint16_t device[];
};

/* ---- memory ---- */

static size_t slot_bytes_of(uint32_t n)
{
	size_t bytes = (size_t)DEVICE_BYTES / n / LINE * LINE;

	return bytes ? bytes : LINE;
}

/* A file under a name that nobody has: pids meet where containers share /dev/shm.  `name` is empty
 * where there is none. */
static int create_file(char *name, size_t size)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t bits[2];
		int file;

		if (getrandom(bits, sizeof(bits), 0) != sizeof(bits))
			break;
		snprintf(name, size, "/ffsoap-%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
		file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (file >= 0)
			return file;
		if (errno != EEXIST)
			break;
	}
	*name = '\0';
	return -1;
}

/* Makes the memory under a name that is told to the others and then forgotten. */
static int create(char *name, size_t size, size_t bytes, void **ret, struct ff_error *err)
{
	int file = create_file(name, size);

	/* what is missing is found now, not when it is written */
	if (file >= 0 && !posix_fallocate(file, 0, (off_t)bytes))
		*ret = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0)
		close(file);
	if (*ret == MAP_FAILED)
		return ff_fail(err, FF_E_RUN,
				"cannot make %zu bytes of memory that ranks share, in /dev/shm",
				bytes);
	return FF_OK;
}

static int attach(const char *name, size_t bytes, void **ret, struct ff_error *err)
{
	int file = shm_open(name, O_RDWR, 0600);

	if (file >= 0) {
		*ret = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		close(file);
	}
	if (*ret == MAP_FAILED)
		return ff_fail(err, FF_E_RUN,
				"cannot reach the memory that ranks share on this host");
	return FF_OK;
}

static int send(struct ff_mpi_stream *on, const void *v, int bytes, int to, struct ff_error *err)
{
	MPI_Request request;
	int code = ff_mpi_send(on, v, bytes, to, FF_MPI_SHARED, &request, err);

	return code < 0 ? code : ff_mpi_wait(on->m, &request, err);
}

static int receive(struct ff_mpi_stream *on, void *v, int bytes, int from, struct ff_error *err)
{
	MPI_Request request;
	int code = ff_mpi_receive(on, v, bytes, from, FF_MPI_SHARED, &request, err);

	return code < 0 ? code : ff_mpi_wait(on->m, &request, err);
}

/* The first one hears how all others fare, itself `own`, and tells them the worst. */
static int agree(struct ff_mpi_stream *on, const struct ff_mpi_shared *s, uint32_t me, int own,
		int *worst, struct ff_error *err)
{
	int code = FF_OK, theirs;

	*worst = own;
	if (me) {
		code = send(on, &own, sizeof(own), s->device[0], err);
		return code < 0 ? code : receive(on, worst, sizeof(*worst), s->device[0], err);
	}
	for (uint32_t i = 1; i < s->n && code == FF_OK; i++) {
		code = receive(on, &theirs, sizeof(theirs), s->device[i], err);
		*worst = code == FF_OK && theirs < *worst ? theirs : *worst;
	}
	for (uint32_t i = 1; i < s->n && code == FF_OK; i++)
		code = send(on, worst, sizeof(*worst), s->device[i], err);
	return code;
}

static int tell_name(struct ff_mpi_stream *on, const struct ff_mpi_shared *s, uint32_t me,
		char *name, int bytes, struct ff_error *err)
{
	int code = me ? receive(on, name, bytes, s->device[0], err) : FF_OK;

	for (uint32_t i = 1; i < s->n && !me && code == FF_OK; i++)
		code = send(on, name, bytes, s->device[i], err);
	return code;
}

/* All have it, or none.  All are there before it has a name, so that a job which is killed while
 * some are still on their way leaves none.  Nobody waits inside a call that all must make: messages
 * may have to go on meanwhile. */
static int map(struct ff_mpi_stream *on, struct ff_mpi_shared *s, uint32_t me, struct ff_error *err)
{
	char name[64] = "";
	void *memory = MAP_FAILED;
	int code = FF_OK, worst, said = agree(on, s, me, FF_OK, &worst, err);

	if (said == FF_OK && me == 0)
		code = create(name, sizeof(name), s->bytes, &memory, err);
	if (said == FF_OK)
		said = tell_name(on, s, me, name, sizeof(name), err);
	if (said == FF_OK && me > 0)
		code = attach(name, s->bytes, &memory, err);
	if (said == FF_OK)
		said = agree(on, s, me, code, &worst, err);
	if (me == 0 && *name)
		shm_unlink(name);
	if (said == FF_OK && code == FF_OK && worst < 0)
		said = ff_fail(err, FF_E_RUN, "another rank of this host has no shared memory");
	code = code < 0 ? code : said;
	if (code < 0 && memory != MAP_FAILED)
		munmap(memory, s->bytes);
	if (code == FF_OK)
		s->progress = memory;
	return code;
}

static int find(struct ff_mpi_stream *on, const struct ff_collective *x, uint32_t me,
		struct ff_mpi_shared **ret, struct ff_error *err)
{
	size_t n = x->n_devices, bytes = n * sizeof(*x->device);
	struct ff_mpi_shared *s;
	int code;

	for (s = on->shared; s; s = s->next) {
		if (s->n == n && !memcmp(s->device, x->device, bytes)) {
			*ret = s;
			return FF_OK;
		}
	}
	s = calloc(1, sizeof(*s) + bytes);
	if (!s)
		return ff_fail_memory(err);
	s->n = x->n_devices;
	memcpy(s->device, x->device, bytes);
	s->slot_bytes = slot_bytes_of(s->n);
	s->bytes = n * sizeof(*s->progress) + 2 * n * n * s->slot_bytes;
	if ((code = map(on, s, me, err)) < 0) {
		free(s);
		return code;
	}
	s->slot = (char *)(s->progress + n);
	s->next = on->shared;
	on->shared = s;
	*ret = s;
	return FF_OK;
}

void ff_mpi_shared_close(struct ff_mpi_stream *on)
{
	while (on->shared) {
		struct ff_mpi_shared *s = on->shared;

		on->shared = s->next;
		munmap(s->progress, s->bytes);
		free(s);
	}
}

/* ---- slices ---- */

struct sharing {
	struct ff_comm_mpi *m;
	struct ff_mpi_shared *s;
	const struct ff_collective *x;
	uint32_t me, n;
	struct ff_chunks chunks;
	int64_t slice; /* elements */
};

/* What `from` lays down for `to`. */
static char *slot(const struct sharing *h, uint32_t from, uint32_t to)
{
	size_t at = ((h->s->laid % 2) * h->n + from) * h->n + to;

	return h->s->slot + at * h->s->slot_bytes;
}

/* Where what comes of a device's slice lies: of sums, where the first term did. */
static char *outcome(const struct sharing *h, uint32_t owner)
{
	return slot(h, h->x->kind == FF_MOVE_ALL_GATHER ? owner : (owner + 1) % h->n, owner);
}

static uint32_t behind(const struct sharing *h, uint32_t i)
{
	return (h->me + i) % h->n;
}

/* Messages to other hosts may still be on their way, by MPI's doing. */
static int wait_for(struct sharing *h, _Atomic uint64_t *counter, struct ff_error *err)
{
	int most = ff_idle_may_block() ? PATIENT : HASTY, looks = 0, code = FF_OK;

	while (code == FF_OK && atomic_load_explicit(counter, memory_order_acquire) < h->s->laid) {
		if (++looks < most)
			continue;
		looks = 0;
		code = ff_mpi_look(h->m, err);
		ff_idle();
	}
	return code;
}

static int64_t bytes_of(const struct sharing *h, uint32_t chunk, int64_t at)
{
	return ff_chunks_part(&h->chunks, chunk, at, h->slice) * h->chunks.size;
}

static void lay_down(struct sharing *h, int64_t at)
{
	bool gathers = h->x->kind == FF_MOVE_ALL_GATHER;

	for (uint32_t i = gathers ? h->n : 1; i <= h->n - !gathers; i++) {
		uint32_t to = behind(h, i);

		memcpy(slot(h, h->me, to), ff_chunks_own(&h->chunks, to, at),
				(size_t)bytes_of(h, to, at));
	}
	atomic_store_explicit(&h->s->progress[h->me].laid, h->s->laid, memory_order_release);
}

static int reduce(struct sharing *h, int64_t at, struct ff_error *err)
{
	int64_t n = ff_chunks_part(&h->chunks, h->me, at, h->slice);
	char *sum = outcome(h, h->me);
	int code = FF_OK;

	for (uint32_t i = 1; i < h->n && code == FF_OK; i++) {
		code = wait_for(h, &h->s->progress[behind(h, i)].laid, err);
		if (code == FF_OK && i > 1)
			ff_reduce(h->x->reduce, h->x->type, n, slot(h, behind(h, i), h->me), sum);
	}
	if (code < 0)
		return code;
	ff_reduce(h->x->reduce, h->x->type, n, ff_chunks_own(&h->chunks, h->me, at), sum);
	memcpy(ff_chunks_result(&h->chunks, h->me, at), sum, (size_t)(n * h->chunks.size));
	atomic_store_explicit(&h->s->progress[h->me].done, h->s->laid, memory_order_release);
	return FF_OK;
}

static int bring(struct sharing *h, int64_t at, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 1; i < h->n && code == FF_OK; i++) {
		uint32_t from = behind(h, i);
		struct progress *p = &h->s->progress[from];

		code = wait_for(h, h->x->kind == FF_MOVE_ALL_GATHER ? &p->laid : &p->done, err);
		if (code == FF_OK)
			memcpy(ff_chunks_result(&h->chunks, from, at), outcome(h, from),
					(size_t)bytes_of(h, from, at));
	}
	return code;
}

int ff_mpi_shared_run(struct ff_mpi_stream *on, const struct ff_collective *x, uint32_t me,
		struct ff_error *err)
{
	bool gathers = x->kind == FF_MOVE_ALL_GATHER;
	struct sharing h = {.m = on->m, .x = x, .me = me, .n = x->n_devices};
	int code = ff_chunks_init(&h.chunks, x, me, err);

	if (code == FF_OK)
		code = find(on, x, me, &h.s, err);
	if (code == FF_OK) {
		h.slice = (int64_t)h.s->slot_bytes / h.chunks.size / h.chunks.width *
			  h.chunks.width;
		if (gathers)
			ff_chunks_keep_own(&h.chunks);
	}
	for (int64_t at = 0; code == FF_OK && at < h.chunks.longest; at += h.slice) {
		h.s->laid++;
		lay_down(&h, at);
		if (!gathers)
			code = reduce(&h, at, err);
		if (code == FF_OK && x->kind != FF_MOVE_REDUCE_SCATTER)
			code = bring(&h, at, err);
	}
	ff_chunks_finish(&h.chunks);
	return code;
}
