/* Communication of devices that all live in this process: plain loops, reduced
 * in the order of the devices.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "post.h"

static bool local_hosts(const struct ff_comm *c, uint32_t device)
{
	return device < c->n_devices;
}

static void all_reduce(const struct ff_collective *x)
{
	size_t bytes = (size_t)(x->count[0] * ff_dtype_bytes(x->type));
	void *first = x->recv[0];

	if (first != x->send[0])
		memcpy(first, x->send[0], bytes);
	for (uint32_t i = 1; i < x->n_devices; i++)
		ff_reduce(x->reduce, x->type, x->count[0], x->send[i], first);
	for (uint32_t i = 1; i < x->n_devices; i++)
		memcpy(x->recv[i], first, bytes);
}

/* Unless it is there already. */
static void copy(void *to, const void *from, size_t bytes)
{
	if (to != from)
		memcpy(to, from, bytes);
}

static void all_gather(const struct ff_collective *x)
{
	int64_t size = ff_dtype_bytes(x->type);

	for (uint32_t to = 0; to < x->n_devices; to++)
		for (uint32_t from = 0; from < x->n_devices; from++)
			copy((char *)x->recv[to] + x->offset[from] * size, x->send[from],
					(size_t)(x->count[from] * size));
}

static void reduce_scatter(const struct ff_collective *x)
{
	int64_t size = ff_dtype_bytes(x->type), at = 0;

	for (uint32_t to = 0; to < x->n_devices; at += x->count[to++] * size) {
		const char *own = (const char *)x->send[to] + at;
		/* in place what is there is the first */
		uint32_t first = own == x->recv[to] ? to : 0;

		copy(x->recv[to], (const char *)x->send[first] + at, (size_t)(x->count[to] * size));
		for (uint32_t from = 0; from < x->n_devices; from++)
			if (from != first)
				ff_reduce(x->reduce, x->type, x->count[to],
						(const char *)x->send[from] + at, x->recv[to]);
	}
}

static int local_collective(struct ff_comm *c, bool messages, const struct ff_collective *x,
		struct ff_error *err)
{
	(void)c, (void)messages, (void)err;
	if (x->kind == FF_MOVE_ALL_REDUCE)
		all_reduce(x);
	else if (x->kind == FF_MOVE_ALL_GATHER)
		all_gather(x);
	else
		reduce_scatter(x);
	return FF_OK;
}

static int local_exchange(struct ff_comm *c, bool messages, enum ff_dtype type,
		const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	(void)c, (void)messages, (void)err;
	for (uint32_t i = 0; i < n; i++)
		memcpy(parcel[i].recv, parcel[i].send,
				(size_t)(parcel[i].count * ff_dtype_bytes(type)));
	return FF_OK;
}

static int local_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err)
{
	(void)c, (void)err;
	memcpy(all, own, bytes);
	return FF_OK;
}

static int local_sum(struct ff_comm *c, float *v, int64_t n, struct ff_error *err)
{
	(void)c, (void)v, (void)n, (void)err;
	return FF_OK;
}

static int local_barrier(struct ff_comm *c, struct ff_error *err)
{
	(void)c, (void)err;
	return FF_OK;
}

static int local_share(struct ff_comm *c, uint32_t n, const uint16_t *device, void *v, size_t bytes,
		struct ff_error *err)
{
	(void)c, (void)n, (void)device, (void)v, (void)bytes, (void)err;
	return FF_OK;
}

static void local_destroy(struct ff_comm *c)
{
	struct ff_host_comm *h = (struct ff_host_comm *)c; /* base comes first */

	ff_host_comm_finish(h);
	free(h);
}

int ff_comm_local(uint32_t n_devices, struct ff_comm **ret, struct ff_error *err)
{
	struct ff_host_comm *h = malloc(sizeof(*h));

	if (!h)
		return ff_fail_memory(err);
	*h = (struct ff_host_comm){
			.base = {.name = "local",
					.n_devices = n_devices,
					.hosts = local_hosts,
					.gather = local_gather,
					.sum = local_sum,
					.barrier = local_barrier,
					.share = local_share,
					.destroy = local_destroy,
					.n_ranks = 1},
			.run_collective = local_collective,
			.run_exchange = local_exchange,
	};
	ff_host_comm_init(h);
	*ret = &h->base;
	return FF_OK;
}
