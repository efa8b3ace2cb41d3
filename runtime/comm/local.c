/* Communication of devices that all live in this process: plain loops, reduced
 * in the order of the devices.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ring.h"

static bool local_hosts(const struct ff_comm *c, uint32_t device)
{
	return device < c->n_devices;
}

static void count_ring(struct ff_comm *c, enum ff_ring kind, const struct ff_collective *x)
{
	for (uint32_t i = 0; i < x->n_devices; i++)
		c->sent_bytes += ff_ring_bytes(kind, x, i);
}

static int local_all_reduce(struct ff_comm *c, const struct ff_collective *x, struct ff_error *err)
{
	float *first = x->recv[0];
	int64_t n = x->count[0];

	(void)err;
	if (first != x->send[0])
		memcpy(first, x->send[0], (size_t)n * sizeof(float));
	for (uint32_t i = 1; i < x->n_devices; i++)
		ff_reduce(x->reduce, n, x->send[i], first);
	for (uint32_t i = 1; i < x->n_devices; i++)
		memcpy(x->recv[i], first, (size_t)n * sizeof(float));
	count_ring(c, FF_RING_ALL_REDUCE, x);
	return FF_OK;
}

static int local_all_gather(struct ff_comm *c, const struct ff_collective *x, struct ff_error *err)
{
	(void)err;
	for (uint32_t to = 0; to < x->n_devices; to++)
		for (uint32_t from = 0; from < x->n_devices; from++)
			memcpy((float *)x->recv[to] + x->offset[from], x->send[from],
					(size_t)x->count[from] * sizeof(float));
	count_ring(c, FF_RING_GATHER, x);
	return FF_OK;
}

static int local_reduce_scatter(
		struct ff_comm *c, const struct ff_collective *x, struct ff_error *err)
{
	int64_t at = 0;

	(void)err;
	for (uint32_t to = 0; to < x->n_devices; at += x->count[to++]) {
		size_t bytes = (size_t)x->count[to] * sizeof(float);

		memcpy(x->recv[to], (const float *)x->send[0] + at, bytes);
		for (uint32_t from = 1; from < x->n_devices; from++)
			ff_reduce(x->reduce, x->count[to], (const float *)x->send[from] + at,
					x->recv[to]);
	}
	count_ring(c, FF_RING_SCATTER, x);
	return FF_OK;
}

static int local_exchange(
		struct ff_comm *c, const struct ff_parcel *parcel, uint32_t n, struct ff_error *err)
{
	(void)err;
	for (uint32_t i = 0; i < n; i++) {
		memcpy(parcel[i].recv, parcel[i].send, (size_t)parcel[i].bytes);
		c->sent_bytes += parcel[i].bytes;
	}
	return FF_OK;
}

static int local_barrier(struct ff_comm *c, struct ff_error *err)
{
	(void)c, (void)err;
	return FF_OK;
}

static void local_destroy(struct ff_comm *c)
{
	free(c);
}

int ff_comm_local(uint32_t n_devices, struct ff_comm **ret, struct ff_error *err)
{
	struct ff_comm *c = malloc(sizeof(*c));

	if (!c)
		return ff_fail_memory(err);
	*c = (struct ff_comm){
			.n_devices = n_devices,
			.hosts = local_hosts,
			.all_reduce = local_all_reduce,
			.all_gather = local_all_gather,
			.reduce_scatter = local_reduce_scatter,
			.exchange = local_exchange,
			.barrier = local_barrier,
			.destroy = local_destroy,
			.n_ranks = 1,
	};
	*ret = c;
	return FF_OK;
}
