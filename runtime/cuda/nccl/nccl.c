/* Communication over NCCL, one device a rank.  What is posted is NCCL's, on the channel's stream;
 * what ranks tell each other in host memory is the host communication's, by the caller's
 * thread alone.  A group of devices gets its communicator when it is first posted to.
 * SPDX-License-Identifier: Apache-2.0 */
#include "nccl_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/limit.h"
#include "cuda/core/enter.h"
#include "cuda/libs/open.h"
#include "ff/machine.h"
#include "process/agree.h"

/* ---- the host's ---- */

static bool nccl_hosts(const struct ff_comm *c, uint32_t device)
{
	return device == c->rank;
}

static int nccl_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err)
{
	return ff_nccl(c)->host->gather(ff_nccl(c)->host, own, bytes, all, err);
}

static int nccl_sum(struct ff_comm *c, float *v, int64_t n, struct ff_error *err)
{
	return ff_nccl(c)->host->sum(ff_nccl(c)->host, v, n, err);
}

static int nccl_barrier(struct ff_comm *c, struct ff_error *err)
{
	return ff_nccl(c)->host->barrier(ff_nccl(c)->host, err);
}

static int nccl_share(struct ff_comm *c, uint32_t n, const uint16_t *device, void *v, size_t bytes,
		struct ff_error *err)
{
	return ff_nccl(c)->host->share(ff_nccl(c)->host, n, device, v, bytes, err);
}

/* ---- the comm ---- */

/* All but the host's part. */
static void close_own(struct ff_nccl *m)
{
	if (m->dev)
		ff_cuda_enter(m->dev, NULL);
	ff_nccl_groups_close(m);
	ff_nccl_scratch_close(m);
	ff_cuda_close(m->dev);
	free(m->node_of);
	free(m);
}

static void nccl_destroy(struct ff_comm *c)
{
	struct ff_comm *host = ff_nccl(c)->host;

	close_own(ff_nccl(c));
	host->destroy(host);
}

/* Whether ranks share a device; `all` has room for one a rank. */
static int find_shared(struct ff_nccl *m, cudaUUID_t *all, bool *ret, struct ff_error *err)
{
	struct cudaDeviceProp own = {0};
	int code = ff_cuda_check(cudaGetDeviceProperties(&own, m->dev->ordinal), m->dev,
			"say which it is", err);

	code = ff_agree_code(m->host, code, err);
	if (code == FF_OK)
		code = m->host->gather(m->host, &own.uuid, sizeof(own.uuid), all, err);
	*ret = false;
	for (uint32_t i = 0; i < m->base.n_ranks && code == FF_OK; i++)
		for (uint32_t k = 0; k < i; k++)
			*ret |= !memcmp(&all[i], &all[k], sizeof(*all));
	return code;
}

static int is_shared(struct ff_nccl *m, bool *ret, struct ff_error *err)
{
	cudaUUID_t *all = calloc(m->base.n_ranks, sizeof(*all));
	int code = ff_agree_code(m->host, all ? FF_OK : ff_fail_memory(err), err);

	if (code == FF_OK && all)
		code = find_shared(m, all, ret, err);
	free(all);
	return code;
}

/* NCCL refuses two ranks on one device of one host, so each is a host of its own. */
static void part_hosts(const struct ff_nccl *m)
{
	char name[32];

	snprintf(name, sizeof(name), "ffsoap-%u", m->base.rank);
	setenv("NCCL_HOSTID", name, 0);
}

/* What is posted to several communicators may not find room on the device at once, so all devices
 * have to begin it in one order ("Using multiple NCCL communicators concurrently", NCCL User
 * Guide).  From 2.26 on NCCL begins it in the order in which it was posted, where it is told so. */
static void keep_order(const struct ff_machine *machine)
{
	if (machine && machine->message_lane)
		setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

/* By nodes only where that is asked for: NCCL's own rings and trees know the links.  What the first
 * rank is told holds for all. */
static int choose_nodes(struct ff_nccl *m, const struct ff_machine *machine, struct ff_error *err)
{
	const char *word = getenv("FF_NCCL_NODES");
	uint32_t n = m->base.n_ranks;
	bool by_nodes = word && !strcmp(word, "1"), *all = calloc(n, sizeof(*all));
	int code = ff_agree_code(m->host, all ? FF_OK : ff_fail_memory(err), err);

	if (code == FF_OK && word && !by_nodes && strcmp(word, "0") != 0)
		code = ff_fail(err, FF_E_INPUT, "FF_NCCL_NODES=%.100s: expected 0 or 1", word);
	code = ff_agree_code(m->host, code, err);
	if (code == FF_OK && all)
		code = m->host->gather(m->host, &by_nodes, sizeof(by_nodes), all, err);
	by_nodes = code == FF_OK && all && all[0];
	free(all);
	if (!by_nodes || !machine || machine->n_devices < n || machine->n_nodes < 2)
		return code;
	m->node_of = malloc(n * sizeof(*m->node_of));
	if (!m->node_of)
		return ff_fail_memory(err);
	memcpy(m->node_of, machine->node_of, n * sizeof(*m->node_of));
	return FF_OK;
}

static int open_comm(struct ff_nccl *m, const struct ff_machine *machine, bool insist, bool *shared,
		struct ff_error *err)
{
	uint32_t rank = m->base.rank, ordinal = machine ? ff_machine_ordinal(machine, rank) : rank;
	int version = 0, code = ff_comm_limit(&m->watcher.limit_s, err);
	struct ff_nccl_group *all;

	if (code == FF_OK)
		code = ff_cuda_open(ordinal, &m->dev, err);
	code = ff_agree_code(m->host, code, err);
	if (code == FF_OK)
		code = is_shared(m, shared, err);
	if (code < 0 || (*shared && !insist))
		return code;
	if (*shared)
		part_hosts(m);
	code = ff_agree_code(m->host, choose_nodes(m, machine, err), err);
	if (code < 0)
		return code;
	keep_order(machine);
	ncclGetVersion(&version);
	snprintf(m->base.name, sizeof(m->base.name), "nccl %d.%d.%d%s", version / 10000,
			version / 100 % 100, version % 100, m->node_of ? FF_BY_NODES : "");
	code = ff_nccl_group_all(m, false, &all, err);
	return code == FF_OK && machine && machine->message_lane ? ff_nccl_messages_open(m, err)
								 : code;
}

int ff_cuda_comm(struct ff_comm *host, const struct ff_machine *machine, bool insist,
		struct ff_comm **ret, struct ff_error *err)
{
	struct ff_nccl *m = calloc(1, sizeof(*m));
	bool shared = false;
	int code = ff_agree_code(host, m ? FF_OK : ff_fail_memory(err), err);

	if (code == FF_OK && m) {
		m->host = host;
		m->watcher.ask = ff_nccl_ask;
		m->watcher.end = ff_nccl_end;
		m->watcher.ctx = m;
		m->base = (struct ff_comm){.n_devices = host->n_devices,
				.in_stream = true,
				.hosts = nccl_hosts,
				.collective = ff_nccl_collective,
				.exchange = ff_nccl_exchange,
				.gather = nccl_gather,
				.sum = nccl_sum,
				.barrier = nccl_barrier,
				.share = nccl_share,
				.destroy = nccl_destroy,
				.rank = host->rank,
				.n_ranks = host->n_ranks};
		code = open_comm(m, machine, insist, &shared, err);
	}
	if (code == FF_OK && m && (!shared || insist))
		*ret = &m->base;
	else if (m)
		close_own(m);
	return code;
}
