/* Posting what the host carries out.  SPDX-License-Identifier: Apache-2.0 */
#include "post.h"

#include <stdlib.h>
#include <string.h>

#include "ff/backend.h"
#include "pulse.h"

/* Host memory on the way between devices.  Streams run in order, so all that is posted
 * may pass through the same. */
struct ff_bounce {
	struct ff_bounce *next; /* smaller and older */
	size_t bytes;
	_Alignas(max_align_t) char memory[];
};

/* Backend memory that host memory stands in for: brought down before, up afterwards. */
struct span {
	const void *down; /* or NULL */
	void *up;         /* or NULL */
	size_t bytes;
	void **host, **also; /* the pointers that are to point there; `also` may be NULL */
};

/* What was posted, until the stream has passed it.  One that a failed stream skips stays
 * in the list of all until the comm goes. */
struct ff_posted {
	struct ff_posted *next, *next_spare;
	struct ff_host_comm *comm;
	struct ff_collective x; /* n_devices 0: an exchange */
	enum ff_dtype type;
	uint32_t n_parcels, n_spans;
	struct ff_parcel *parcel;
	struct span *span;
	void **send, **recv; /* the collective's */
	void *memory;        /* what all these point to */
	size_t bytes;
};

static size_t align(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* ---- records ---- */

static void give_back(struct ff_posted *p)
{
	pthread_mutex_lock(&p->comm->lock);
	p->next_spare = p->comm->spare;
	p->comm->spare = p;
	pthread_mutex_unlock(&p->comm->lock);
}

/* A record with so many bytes of memory. */
static struct ff_posted *take(struct ff_host_comm *h, size_t bytes, struct ff_error *err)
{
	struct ff_posted *p;
	void *grown;

	pthread_mutex_lock(&h->lock);
	p = h->spare;
	if (p) {
		h->spare = p->next_spare;
	} else if ((p = calloc(1, sizeof(*p)))) {
		p->comm = h;
		p->next = h->all;
		h->all = p;
	}
	pthread_mutex_unlock(&h->lock);
	if (!p || bytes <= p->bytes) {
		if (!p)
			ff_fail_memory(err);
		return p;
	}
	grown = realloc(p->memory, bytes);
	if (!grown) {
		give_back(p);
		ff_fail_memory(err);
		return NULL;
	}
	p->memory = grown;
	p->bytes = bytes;
	return p;
}

static int run(void *arg, struct ff_error *err)
{
	struct ff_posted *p = arg;
	struct ff_host_comm *h = p->comm;
	int code;

	ff_pulse_wait(h->base.pulse);
	code = p->x.n_devices ? h->run_collective(&h->base, &p->x, err)
			      : h->run_exchange(&h->base, p->type, p->parcel, p->n_parcels, err);
	ff_pulse_met(h->base.pulse);
	give_back(p);
	return code;
}

/* Room for `bytes`; what was handed out before stays. */
static int bounce_open(struct ff_host_comm *h, size_t bytes, char **ret, struct ff_error *err)
{
	struct ff_bounce *b = h->bounce;

	if (!b || b->bytes < bytes) {
		size_t room = b && 2 * b->bytes > bytes ? 2 * b->bytes : bytes;

		b = malloc(sizeof(*b) + room);
		if (!b)
			return ff_fail_memory(err);
		b->bytes = room;
		b->next = h->bounce;
		h->bounce = b;
	}
	*ret = b->memory;
	return FF_OK;
}

/* The host's pointers in the place of the backend's. */
static int bounce(struct ff_posted *p, struct ff_error *err)
{
	size_t bytes = 0;
	char *at;
	int code;

	for (uint32_t i = 0; i < p->n_spans; i++)
		bytes += align(p->span[i].bytes);
	code = bounce_open(p->comm, bytes, &at, err);
	for (uint32_t i = 0; i < p->n_spans && code == FF_OK; i++) {
		*p->span[i].host = at;
		if (p->span[i].also)
			*p->span[i].also = at;
		at += align(p->span[i].bytes);
	}
	return code;
}

static int post(struct ff_posted *p, const struct ff_channel *on, struct ff_error *err)
{
	const struct ff_backend *b = on->backend;
	int code;

	if (b->host_memory)
		return b->call(on->stream, run, p, err);
	code = bounce(p, err);
	for (uint32_t i = 0; i < p->n_spans && code == FF_OK; i++) {
		const struct span *s = &p->span[i];

		if (s->down)
			code = b->download(on->stream, *s->host, s->down, s->bytes, err);
	}
	if (code < 0) {
		give_back(p);
		return code;
	}
	/* where this has run, `p` is spare; but nobody else takes one */
	code = b->call(on->stream, run, p, err);
	for (uint32_t i = 0; i < p->n_spans && code == FF_OK; i++) {
		const struct span *s = &p->span[i];

		if (s->up)
			code = b->upload(on->stream, s->up, *s->host, s->bytes, err);
	}
	return code;
}

/* ---- collectives ---- */

/* The lengths of a device's arrays. */
static void lengths(const struct ff_collective *x, uint32_t i, size_t *send, size_t *recv)
{
	int64_t size = ff_dtype_bytes(x->type), whole = 0;

	if (x->kind == FF_MOVE_ALL_REDUCE)
		whole = x->count[0];
	for (uint32_t k = 0; k < x->n_devices && x->kind != FF_MOVE_ALL_REDUCE; k++)
		whole += x->count[k];
	*send = (size_t)(size * (x->kind == FF_MOVE_ALL_GATHER ? x->count[i] : whole));
	*recv = (size_t)(size * (x->kind == FF_MOVE_REDUCE_SCATTER ? x->count[i] : whole));
}

/* A copy of `x` and of its arrays. */
static struct ff_posted *copy_collective(
		struct ff_host_comm *h, const struct ff_collective *x, struct ff_error *err)
{
	size_t n = x->n_devices, counts = x->kind == FF_MOVE_ALL_REDUCE ? 1 : n;
	size_t each = 2 * sizeof(struct span) + 2 * sizeof(void *) + 2 * sizeof(int64_t) +
		      sizeof(uint16_t);
	struct ff_posted *p = take(h, n * each, err);
	int64_t *count, *offset;
	uint16_t *device;

	if (!p)
		return NULL;
	p->span = p->memory;
	p->send = (void **)(p->span + 2 * n);
	p->recv = p->send + n;
	count = (int64_t *)(p->recv + n);
	offset = count + n;
	device = (uint16_t *)(offset + n);
	memcpy(p->send, x->send, n * sizeof(*p->send));
	memcpy(p->recv, x->recv, n * sizeof(*p->recv));
	memcpy(count, x->count, counts * sizeof(*count));
	if (x->kind == FF_MOVE_ALL_GATHER)
		memcpy(offset, x->offset, n * sizeof(*offset));
	memcpy(device, x->device, n * sizeof(*device));
	p->x = (struct ff_collective){x->kind, x->type, x->reduce, x->n_devices, device,
			(const void *const *)p->send, p->recv, count, offset};
	return p;
}

static int post_collective(struct ff_comm *c, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err)
{
	struct ff_posted *p;

	if (x->kind != FF_MOVE_ALL_GATHER && !ff_reduce_takes(x->reduce, x->type))
		return ff_fail(err, FF_E_RUN, "elements of type %s are not reduced by %s",
				ff_dtype_name(x->type), ff_reduce_name(x->reduce));
	p = copy_collective((struct ff_host_comm *)c, x, err);
	if (!p)
		return FF_E_NOMEM;
	p->n_spans = 0;
	for (uint32_t i = 0; i < x->n_devices; i++) {
		bool here = c->hosts(c, x->device[i]), in_place = x->send[i] == x->recv[i];
		size_t send, recv;

		if (!here)
			continue;
		c->sent_bytes += ff_ring_bytes(x, i);
		lengths(x, i, &send, &recv);
		if (!in_place)
			p->span[p->n_spans++] =
					(struct span){x->send[i], NULL, send, &p->send[i], NULL};
		p->span[p->n_spans++] = (struct span){in_place ? x->send[i] : NULL, x->recv[i],
				recv, &p->recv[i], in_place ? &p->send[i] : NULL};
	}
	return post(p, on, err);
}

/* ---- exchanges ---- */

static int post_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	struct ff_posted *p = take((struct ff_host_comm *)c,
			n * (sizeof(*parcel) + 2 * sizeof(struct span)), err);

	if (!p)
		return FF_E_NOMEM;
	p->x = (struct ff_collective){0};
	p->type = type;
	p->n_parcels = n;
	p->n_spans = 0;
	p->span = p->memory;
	p->parcel = (struct ff_parcel *)(p->span + 2 * (size_t)n);
	for (uint32_t i = 0; i < n; i++) {
		struct ff_parcel *q = &p->parcel[i];
		size_t bytes = (size_t)(parcel[i].count * ff_dtype_bytes(type));

		*q = parcel[i];
		if (c->hosts(c, q->from)) {
			c->sent_bytes += (int64_t)bytes;
			p->span[p->n_spans++] = (struct span){
					q->send, NULL, bytes, (void **)&q->send, NULL};
		}
		if (c->hosts(c, q->to))
			p->span[p->n_spans++] = (struct span){NULL, q->recv, bytes, &q->recv, NULL};
	}
	return post(p, on, err);
}

/* ---- the comm ---- */

void ff_host_comm_init(struct ff_host_comm *h)
{
	pthread_mutex_init(&h->lock, NULL);
	h->base.collective = post_collective;
	h->base.exchange = post_exchange;
}

void ff_host_comm_finish(struct ff_host_comm *h)
{
	while (h->all) {
		struct ff_posted *p = h->all;

		h->all = p->next;
		free(p->memory);
		free(p);
	}
	while (h->bounce) {
		struct ff_bounce *b = h->bounce;

		h->bounce = b->next;
		free(b);
	}
	pthread_mutex_destroy(&h->lock);
}
