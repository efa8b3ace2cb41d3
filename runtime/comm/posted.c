/* Records of what was posted, and the host memory that it passes through.
 * SPDX-License-Identifier: Apache-2.0 */
#include "posted.h"

#include <stddef.h>
#include <stdlib.h>

#include "ff/backend.h"
#include "process/fiber.h"
#include "process/pulse.h"

/* Host memory on the way between devices.  Streams run in order, so all that is posted on one
 * may pass through the same. */
struct ff_bounce {
	struct ff_bounce *next; /* smaller and older */
	size_t bytes;
	_Alignas(max_align_t) char memory[];
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

struct ff_posted *ff_posted_take(struct ff_host_comm *h, size_t bytes, struct ff_error *err)
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
	bool waits = !ff_fiber_is_here(); /* else it is for the executor to say when it waits */
	int code;

	if (waits)
		ff_pulse_wait(h->base.pulse);
	code = p->x.n_devices ? h->run_collective(&h->base, p->messages, &p->x, err)
			      : h->run_exchange(&h->base, p->messages, p->type, p->parcel,
						p->n_parcels, err);
	if (waits)
		ff_pulse_met(h->base.pulse);
	give_back(p);
	return code;
}

/* Room for `bytes`; what was handed out before stays. */
static int bounce_open(struct ff_host_comm *h, bool messages, size_t bytes, char **ret,
		struct ff_error *err)
{
	struct ff_bounce **newest = &h->bounce[messages], *b = *newest;

	if (!b || b->bytes < bytes) {
		size_t most = (size_t)h->most_bytes, room = b ? 2 * b->bytes : 0;

		room = room < most ? room : most;
		room = room > bytes ? room : bytes;
		b = malloc(sizeof(*b) + room);
		if (!b)
			return ff_fail_memory(err);
		b->bytes = room;
		b->next = *newest;
		*newest = b;
	}
	*ret = b->memory;
	return FF_OK;
}

/* The host's pointers in the place of the backend's. */
static int bounce(struct ff_posted *p, struct ff_error *err)
{
	size_t bytes = 0;
	char *memory;
	int code;

	for (uint32_t i = 0; i < p->n_spans; i++)
		bytes = (p->span[i].joined ? bytes : align(bytes)) + p->span[i].bytes;
	code = bounce_open(p->comm, p->messages, bytes, &memory, err);
	bytes = 0;
	for (uint32_t i = 0; i < p->n_spans && code == FF_OK; i++) {
		struct ff_post_span *s = &p->span[i];

		bytes = s->joined ? bytes : align(bytes);
		s->at = memory + bytes;
		if (s->host)
			*s->host = s->at;
		if (s->also)
			*s->also = s->at;
		bytes += s->bytes;
	}
	return code;
}

int ff_posted_post(struct ff_posted *p, const struct ff_channel *on, struct ff_error *err)
{
	const struct ff_backend *b = on->backend;
	int code;

	p->messages = on->messages;
	if (b->memory.of_host)
		return b->stream.call(on->stream, run, p, err);
	code = bounce(p, err);
	for (uint32_t i = 0; i < p->n_spans && code == FF_OK; i++) {
		const struct ff_post_span *s = &p->span[i];

		if (s->down && s->bytes)
			code = b->move.download(on->stream, s->at, s->down, s->bytes, err);
	}
	if (code < 0) {
		give_back(p);
		return code;
	}
	/* where this has run, `p` is spare; but nobody else takes one */
	code = b->stream.call(on->stream, run, p, err);
	for (uint32_t i = 0; i < p->n_spans && code == FF_OK; i++) {
		const struct ff_post_span *s = &p->span[i];

		if (s->up && s->bytes)
			code = b->move.upload(on->stream, s->up, s->at, s->bytes, err);
	}
	return code;
}

void ff_posted_finish(struct ff_host_comm *h)
{
	while (h->all) {
		struct ff_posted *p = h->all;

		h->all = p->next;
		free(p->memory);
		free(p);
	}
	for (int i = 0; i < 2; i++) {
		while (h->bounce[i]) {
			struct ff_bounce *b = h->bounce[i];

			h->bounce[i] = b->next;
			free(b);
		}
	}
}

size_t ff_posted_bounced(const struct ff_host_comm *h)
{
	const struct ff_bounce *b = h->bounce[false];

	return b ? b->bytes : 0;
}
