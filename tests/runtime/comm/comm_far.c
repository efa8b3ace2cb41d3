/* Cases for communication on a backend whose memory the host does not reach.
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm_cases.h"

#include <stdlib.h>

#include "chosen.h"

#define OK(call) ck_assert_msg((call) == FF_OK, "%s", err.text)

/* A comm whose arrays are the host's: they are brought to the device's memory before what is
 * posted, and back behind it, by the same stream. */
struct far {
	struct ff_comm base;
	struct ff_comm *comm;
	struct ff_device *dev;
	void **memory; /* of the case under way */
	uint32_t n;
};

static struct far *self(struct ff_comm *c)
{
	return (struct far *)c;
}

static void *put(struct far *f, const struct ff_channel *on, const void *host)
{
	const struct ff_backend *b = on->backend;
	struct ff_error err;
	void *device;

	OK(b->memory.alloc(f->dev, COMM_ARRAY_BYTES, &device, &err));
	f->memory = realloc(f->memory, (f->n + 1) * sizeof(*f->memory));
	ck_assert_ptr_nonnull(f->memory);
	f->memory[f->n++] = device;
	OK(b->move.upload(on->stream, device, host, COMM_ARRAY_BYTES, &err));
	return device;
}

/* The host's array that has both ends, where they are in place: the one that begins first. */
static char *shared_array(const struct ff_collective *x, uint32_t i)
{
	char *send = (char *)x->send[i], *recv = x->recv[i], *first = send < recv ? send : recv;

	return (send < recv ? recv : send) - first < COMM_ARRAY_BYTES ? first : NULL;
}

/* What of the device's has to come back to where. */
struct returned {
	void *host, *device;
};

static struct returned put_ends(struct far *f, const struct ff_channel *on,
		const struct ff_collective *x, uint32_t i, const void **send, void **recv)
{
	char *shared = shared_array(x, i), *there;

	if (!shared) {
		*send = put(f, on, x->send[i]);
		*recv = put(f, on, x->recv[i]);
		return (struct returned){x->recv[i], *recv};
	}
	there = put(f, on, shared);
	*send = there + ((const char *)x->send[i] - shared);
	*recv = there + ((const char *)x->recv[i] - shared);
	return (struct returned){shared, there};
}

static int far_collective(struct ff_comm *c, const struct ff_channel *on,
		const struct ff_collective *x, struct ff_error *err)
{
	struct far *f = self(c);
	const void **send = calloc(x->n_devices, sizeof(*send));
	void **recv = calloc(x->n_devices, sizeof(*recv));
	struct returned *back = calloc(x->n_devices, sizeof(*back));
	struct ff_collective there = *x;
	int code;

	ck_assert(send && recv && back);
	for (uint32_t i = 0; i < x->n_devices; i++)
		if (x->send[i])
			back[i] = put_ends(f, on, x, i, &send[i], &recv[i]);
	there.send = send;
	there.recv = recv;
	code = f->comm->collective(f->comm, on, &there, err);
	for (uint32_t i = 0; i < x->n_devices && code == FF_OK; i++)
		if (back[i].host)
			code = on->backend->move.download(on->stream, back[i].host, back[i].device,
					COMM_ARRAY_BYTES, err);
	free(send);
	free(recv);
	free(back);
	c->sent_bytes = f->comm->sent_bytes;
	return code;
}

static int far_exchange(struct ff_comm *c, const struct ff_channel *on, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	struct far *f = self(c);
	struct ff_parcel *there = calloc(n + 1, sizeof(*there));
	int code;

	ck_assert_ptr_nonnull(there);
	for (uint32_t i = 0; i < n; i++) {
		there[i] = parcel[i];
		if (parcel[i].send)
			there[i].send = put(f, on, parcel[i].send);
		if (parcel[i].recv)
			there[i].recv = put(f, on, parcel[i].recv);
	}
	code = f->comm->exchange(f->comm, on, type, there, n, err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		if (parcel[i].recv)
			code = on->backend->move.download(on->stream, parcel[i].recv, there[i].recv,
					COMM_ARRAY_BYTES, err);
	free(there);
	c->sent_bytes = f->comm->sent_bytes;
	return code;
}

static int far_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err)
{
	return self(c)->comm->gather(self(c)->comm, own, bytes, all, err);
}

void comm_each_far(struct ff_comm *c, struct ff_random *r, int n, comm_case test)
{
	const struct ff_backend *b = chosen_backend();
	struct far f = {.base = *c, .comm = c};
	struct ff_stream *stream;
	struct ff_error err;

	f.base.collective = far_collective;
	f.base.exchange = far_exchange;
	f.base.gather = far_gather;
	OK(b->device.open(c->rank, &f.dev, &err));
	OK(b->stream.open(f.dev, true, &stream, &err));
	while (n-- > 0) {
		const struct ff_channel on = {b, stream};

		test(&f.base, &on, r);
		OK(b->stream.drain(stream, &err));
		while (f.n)
			b->memory.free(f.dev, f.memory[--f.n]);
	}
	free(f.memory);
	b->stream.close(stream);
	b->device.close(f.dev);
}
