/* Posting what the host carries out.  SPDX-License-Identifier: Apache-2.0 */
#include "post.h"

#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "ff/backend.h"
#include "parcels.h"

#define MOST_BYTES ((int64_t)64 << 20)

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

/* A copy of `x` and of its arrays, with room for so many spans. */
static struct ff_posted *copy_collective(struct ff_host_comm *h, const struct ff_collective *x,
		size_t spans, struct ff_error *err)
{
	size_t n = x->n_devices, counts = x->kind == FF_MOVE_ALL_REDUCE ? 1 : n;
	size_t each = 2 * sizeof(void *) + 2 * sizeof(int64_t) + sizeof(uint16_t);
	struct ff_posted *p =
			ff_posted_take(h, n * each + spans * sizeof(struct ff_post_span), err);
	int64_t *count, *offset;
	uint16_t *device;

	if (!p)
		return NULL;
	p->n_spans = 0;
	p->span = p->memory;
	p->send = (void **)(p->span + spans);
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

static int post_whole(struct ff_host_comm *h, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err)
{
	struct ff_posted *p = copy_collective(h, x, 2 * (size_t)x->n_devices, err);

	if (!p)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < x->n_devices; i++) {
		/* of the others a chunk is, which the host has apart */
		bool in_place = x->kind == FF_MOVE_ALL_REDUCE && x->send[i] == x->recv[i];
		size_t send, recv;

		if (!h->base.hosts(&h->base, x->device[i]))
			continue;
		lengths(x, i, &send, &recv);
		if (!in_place)
			p->span[p->n_spans++] = (struct ff_post_span){
					.down = x->send[i], .bytes = send, .host = &p->send[i]};
		p->span[p->n_spans++] = (struct ff_post_span){.down = in_place ? x->send[i] : NULL,
				.up = x->recv[i],
				.bytes = recv,
				.host = &p->recv[i],
				.also = in_place ? &p->send[i] : NULL};
	}
	return ff_posted_post(p, on, err);
}

/* ---- in rounds ---- */

/* Elements of each device's array, or chunk, that go at once: the same on all ranks. */
static int64_t elements_at_once(const struct ff_host_comm *h, const struct ff_collective *x)
{
	int64_t arrays = x->kind == FF_MOVE_ALL_REDUCE ? 2 : (int64_t)x->n_devices + 1;
	int64_t width = x->kind == FF_MOVE_ALL_GATHER ? 1 : ff_reduce_width(x->reduce), here = 0, n;

	for (uint32_t i = 0; i < x->n_devices; i++)
		here += h->base.hosts(&h->base, x->device[i]);
	here = here ? here : 1;
	n = h->most_bytes / (arrays * here * ff_dtype_bytes(x->type)) / width * width;
	return n > width ? n : width;
}

static int64_t longest(const struct ff_collective *x)
{
	int64_t n = x->count[0];

	for (uint32_t i = 1; i < x->n_devices && x->kind != FF_MOVE_ALL_REDUCE; i++)
		n = x->count[i] > n ? x->count[i] : n;
	return n;
}

static int64_t clamp(int64_t count, int64_t from, int64_t most)
{
	int64_t left = count > from ? count - from : 0;

	return left < most ? left : most;
}

/* One device's: every other end is one array, as it is of one's own chunk; this one lies in the
 * backend's memory chunk by chunk, and in the host's without gaps. */
static void add_chunks(struct ff_posted *p, const struct ff_collective *x, uint32_t i, int64_t from)
{
	bool gather = x->kind == FF_MOVE_ALL_GATHER;
	int64_t size = ff_dtype_bytes(x->type), at = 0;
	const char *send = x->send[i];
	char *recv = x->recv[i];
	size_t own = (size_t)(p->x.count[i] * size);

	p->span[p->n_spans++] = gather ? (struct ff_post_span){.down = send + from * size,
							 .bytes = own,
							 .host = &p->send[i]}
				       : (struct ff_post_span){.up = recv + from * size,
							 .bytes = own,
							 .host = &p->recv[i]};
	for (uint32_t k = 0; k < x->n_devices; at += x->count[k++]) {
		int64_t there = ((gather ? x->offset[k] : at) + from) * size;

		p->span[p->n_spans++] = (struct ff_post_span){.down = gather ? NULL : send + there,
				.up = gather ? recv + there : NULL,
				.bytes = (size_t)(p->x.count[k] * size),
				.host = k        ? NULL
					: gather ? &p->recv[i]
						 : &p->send[i],
				.joined = k > 0};
	}
}

static void add_arrays(struct ff_posted *p, const struct ff_collective *x, uint32_t i, int64_t from)
{
	int64_t size = ff_dtype_bytes(x->type);
	bool in_place = x->send[i] == x->recv[i];
	const char *send = (const char *)x->send[i] + from * size;
	char *recv = (char *)x->recv[i] + from * size;
	size_t bytes = (size_t)(p->x.count[0] * size);

	if (!in_place)
		p->span[p->n_spans++] = (struct ff_post_span){
				.down = send, .bytes = bytes, .host = &p->send[i]};
	p->span[p->n_spans++] = (struct ff_post_span){.down = in_place ? send : NULL,
			.up = recv,
			.bytes = bytes,
			.host = &p->recv[i],
			.also = in_place ? &p->send[i] : NULL};
}

/* Of every array, or chunk, `most` elements behind the first `from`. */
static int post_round(struct ff_host_comm *h, const struct ff_channel *on,
		const struct ff_collective *x, int64_t from, int64_t most, struct ff_error *err)
{
	bool reduce = x->kind == FF_MOVE_ALL_REDUCE;
	size_t n = x->n_devices;
	struct ff_posted *p = copy_collective(h, x, n * (n + 1), err);
	int64_t *count, *offset, at = 0;

	if (!p)
		return FF_E_NOMEM;
	count = (int64_t *)p->x.count;
	offset = (int64_t *)p->x.offset;
	for (uint32_t i = 0; i < (reduce ? 1 : n); i++) {
		count[i] = clamp(x->count[i], from, most);
		offset[i] = at;
		at += count[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		if (!h->base.hosts(&h->base, x->device[i]))
			continue;
		if (reduce)
			add_arrays(p, x, i, from);
		else
			add_chunks(p, x, i, from);
	}
	return ff_posted_post(p, on, err);
}

static int post_collective(struct ff_comm *c, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err)
{
	struct ff_host_comm *h = (struct ff_host_comm *)c;
	int64_t most, n;
	int code = FF_OK;

	if (x->kind != FF_MOVE_ALL_GATHER && !ff_reduce_takes(x->reduce, x->type))
		return ff_fail(err, FF_E_RUN, "elements of type %s are not reduced by %s",
				ff_dtype_name(x->type), ff_reduce_name(x->reduce));
	for (uint32_t i = 0; i < x->n_devices; i++)
		if (c->hosts(c, x->device[i]))
			c->sent_bytes += ff_ring_bytes(x, i);
	n = longest(x);
	most = elements_at_once(h, x);
	if (on->backend->memory.of_host || n <= most)
		return post_whole(h, on, x, err);
	for (int64_t from = 0; from < n && code == FF_OK; from += most)
		code = post_round(h, on, x, from, most, err);
	return code;
}

/* ---- exchanges ---- */

/* What goes in rounds.  Both ends of a parcel cut it alike, though no rank knows all parcels: host
 * memory has an equal share for every device elsewhere, whoever sends something, and that one for
 * every parcel between it and here, which both know.  So an end that is through with its rounds is
 * through with all that it shares with others. */
struct rounds {
	const struct ff_host_comm *h;
	enum ff_dtype type;
	const struct ff_parcel *parcel;
	uint32_t n;
	int64_t share;     /* bytes; 0: all goes at once */
	uint32_t *between; /* parcels, by the device elsewhere; last, those that stay here */
};

static uint32_t *between(const struct rounds *r, const struct ff_parcel *p)
{
	const struct ff_comm *c = &r->h->base;

	return &r->between[!c->hosts(c, p->from) ? p->from
			   : !c->hosts(c, p->to) ? p->to
						 : c->n_devices];
}

static int rounds_open(struct rounds *r, struct ff_error *err)
{
	uint32_t elsewhere = r->h->base.n_ranks > 1 ? r->h->base.n_devices - 1 : 0;

	/* what stays here is in it twice */
	r->share = r->h->most_bytes / (elsewhere ? elsewhere : 2);
	r->share = r->share ? r->share : 1;
	r->between = calloc(r->h->base.n_devices + 1, sizeof(*r->between));
	if (!r->between)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < r->n; i++)
		++*between(r, &r->parcel[i]);
	return FF_OK;
}

/* Elements of a parcel in each round. */
static int64_t elements_each(const struct rounds *r, const struct ff_parcel *p)
{
	int64_t n;

	if (!r->share)
		return p->count ? p->count : 1;
	n = r->share / (*between(r, p) * ff_dtype_bytes(r->type));
	return n ? n : 1;
}

static int64_t count_rounds(const struct rounds *r)
{
	int64_t most = 1;

	for (uint32_t i = 0; i < r->n; i++) {
		int64_t each = elements_each(r, &r->parcel[i]);
		int64_t n = (r->parcel[i].count + each - 1) / each;

		most = n > most ? n : most;
	}
	return most;
}

/* What goes of it in this round. */
static void add_parcel(struct ff_posted *p, const struct rounds *r, const struct ff_parcel *whole,
		int64_t round)
{
	const struct ff_comm *c = &r->h->base;
	int64_t size = ff_dtype_bytes(r->type), each = elements_each(r, whole);
	int64_t at = round * each < whole->count ? round * each : whole->count;
	struct ff_parcel *q = &p->parcel[p->n_parcels++];
	size_t bytes;

	*q = *whole;
	q->count = clamp(whole->count, at, each);
	bytes = (size_t)(q->count * size);
	if (c->hosts(c, q->from)) {
		q->send = (const char *)q->send + at * size;
		p->span[p->n_spans++] = (struct ff_post_span){
				.down = q->send, .bytes = bytes, .host = (void **)&q->send};
	}
	if (c->hosts(c, q->to)) {
		q->recv = (char *)q->recv + at * size;
		p->span[p->n_spans++] = (struct ff_post_span){
				.up = q->recv, .bytes = bytes, .host = &q->recv};
	}
}

static int post_parcels(struct ff_host_comm *h, const struct ff_channel *on, const struct rounds *r,
		int64_t round, struct ff_error *err)
{
	size_t n = r->n;
	struct ff_posted *p = ff_posted_take(
			h, n * (sizeof(struct ff_parcel) + 2 * sizeof(struct ff_post_span)), err);

	if (!p)
		return FF_E_NOMEM;
	p->x = (struct ff_collective){0};
	p->type = r->type;
	p->n_parcels = 0;
	p->n_spans = 0;
	p->span = p->memory;
	p->parcel = (struct ff_parcel *)(p->span + 2 * n);
	for (uint32_t i = 0; i < r->n; i++)
		add_parcel(p, r, &r->parcel[i], round);
	return ff_posted_post(p, on, err);
}

static int post_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	struct ff_host_comm *h = (struct ff_host_comm *)c;
	struct rounds r = {.h = h, .type = type, .parcel = parcel, .n = n};
	int code = ff_parcels_count(c, type, parcel, n, err);

	if (code == FF_OK && !on->backend->memory.of_host)
		code = rounds_open(&r, err);
	for (int64_t i = 0, rounds = code < 0 ? 0 : count_rounds(&r); i < rounds && code == FF_OK;
			i++)
		code = post_parcels(h, on, &r, i, err);
	free(r.between);
	return code;
}

/* ---- the comm ---- */

static void give_up(struct ff_comm *c)
{
	((struct ff_host_comm *)c)->given_up = true;
}

void ff_host_comm_init(struct ff_host_comm *h)
{
	pthread_mutex_init(&h->lock, NULL);
	h->most_bytes = MOST_BYTES;
	h->base.takes_messages = true;
	h->base.give_up = give_up;
	h->base.collective = post_collective;
	h->base.exchange = post_exchange;
}

void ff_host_comm_finish(struct ff_host_comm *h)
{
	ff_posted_finish(h);
	pthread_mutex_destroy(&h->lock);
}

void ff_host_comm_limit(struct ff_comm *c, int64_t most_bytes)
{
	((struct ff_host_comm *)c)->most_bytes = most_bytes;
}

size_t ff_host_comm_bounced(const struct ff_comm *c)
{
	return ff_posted_bounced((const struct ff_host_comm *)c);
}
