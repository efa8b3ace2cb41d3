/* Groups of devices and their communicators; what NCCL says has failed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_comm.h"

static int fail(struct ff_nccl *m, const struct ff_nccl_group *g, const char *call,
		ncclResult_t status, struct ff_error *err)
{
	const char *more = g && g->comm ? ncclGetLastError(g->comm) : "";

	m->failed = true;
	return ff_fail(err, FF_E_RUN, "NCCL failed on rank %u, last called for %.80s: %s%s%.300s",
			m->base.rank, call, ncclGetErrorString(status), more[0] ? ", " : "", more);
}

int ff_nccl_check(struct ff_nccl *m, const struct ff_nccl_group *g, ncclResult_t status,
		struct ff_error *err)
{
	return status == ncclSuccess ? FF_OK : fail(m, g, g->call, status, err);
}

int ff_nccl_ask(void *nccl, struct ff_error *err)
{
	struct ff_nccl *m = nccl;

	for (const struct ff_nccl_group *g = m->groups; g; g = g->next) {
		ncclResult_t state = ncclSuccess, status = ncclCommGetAsyncError(g->comm, &state);

		if (status != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
			return fail(m, g, g->call, status != ncclSuccess ? status : state, err);
	}
	return FF_OK;
}

/* ---- groups ---- */

static bool is_group(const struct ff_nccl_group *g, uint32_t n, const uint16_t *device)
{
	return g->n == n && !memcmp(g->device, device, n * sizeof(*device));
}

/* Its members come here in the order of what they post, so whoever waits here waits for those
 * who are at something earlier, and the earliest of all waits for nobody. */
static int group_open(struct ff_nccl *m, struct ff_nccl_group *g, struct ff_error *err)
{
	ncclUniqueId id = {{0}};
	ncclResult_t status;
	int code = ff_cuda_enter(m->dev, err);

	if (code < 0)
		return code;
	snprintf(g->call, sizeof(g->call), "a meeting of %u devices", g->n);
	if (g->own == 0 && (status = ncclGetUniqueId(&id)) != ncclSuccess)
		return fail(m, NULL, g->call, status, err);
	code = m->host->share(m->host, g->n, g->device, &id, sizeof(id), err);
	if (code < 0)
		return code;
	status = ncclCommInitRank(&g->comm, (int)g->n, id, (int)g->own);
	if (status == ncclSuccess)
		return FF_OK;
	g->comm = NULL;
	return fail(m, NULL, g->call, status, err);
}

int ff_nccl_group_find(struct ff_nccl *m, uint32_t n, const uint16_t *device,
		struct ff_nccl_group **ret, struct ff_error *err)
{
	struct ff_nccl_group *g = m->groups;
	int code;

	while (g && !is_group(g, n, device))
		g = g->next;
	*ret = g;
	if (g)
		return FF_OK;
	g = calloc(1, sizeof(*g) + n * sizeof(*device));
	if (!g)
		return ff_fail_memory(err);
	g->n = n;
	memcpy(g->device, device, n * sizeof(*device));
	while (g->own < n && device[g->own] != m->base.rank)
		g->own++;
	code = g->own < n ? group_open(m, g, err)
			  : ff_fail(err, FF_E_RUN, "rank %u is not among those it posts to",
					    m->base.rank);
	if (code < 0) {
		free(g);
		return code;
	}
	g->next = m->groups;
	m->groups = g;
	*ret = g;
	return FF_OK;
}

int ff_nccl_group_all(struct ff_nccl *m, struct ff_nccl_group **ret, struct ff_error *err)
{
	uint16_t *device = malloc(m->base.n_devices * sizeof(*device));
	int code;

	if (!device)
		return ff_fail_memory(err);
	for (uint32_t d = 0; d < m->base.n_devices; d++)
		device[d] = (uint16_t)d;
	code = ff_nccl_group_find(m, m->base.n_devices, device, ret, err);
	free(device);
	return code;
}

void ff_nccl_groups_close(struct ff_nccl *m)
{
	while (m->groups) {
		struct ff_nccl_group *g = m->groups;

		m->groups = g->next;
		if (m->failed) /* the others may not come any more */
			ncclCommAbort(g->comm);
		else
			ncclCommDestroy(g->comm);
		free(g);
	}
}
