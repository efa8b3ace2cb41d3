/* Groups of devices and their communicators; what NCCL says has failed.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/core/enter.h"
#include "cuda/core/stream.h"
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

int ff_nccl_ask(void *nccl, double waited_s, struct ff_error *err)
{
	struct ff_nccl *m = nccl;

	for (const struct ff_nccl_group *g = m->groups; g; g = g->next) {
		ncclResult_t state = ncclSuccess, status;

		if (!g->comm)
			continue;
		status = ncclCommGetAsyncError(g->comm, &state);
		if (status != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
			return fail(m, g, g->call, status != ncclSuccess ? status : state, err);
	}
	if (waited_s > 0)
		return ff_fail(err, FF_E_RUN,
				"rank %u has waited %.0f s for NCCL, last called for %.80s: the "
				"other "
				"ranks are gone or were called for something else (FF_COMM_TIMEOUT "
				"says how long to wait)",
				m->base.rank, waited_s, m->last ? m->last->call : "nothing");
	return FF_OK;
}

static void *abort_comm(void *comm)
{
	ncclCommAbort(comm);
	return NULL;
}

/* NCCL ends what is under way, and then waits for graphs to go that the communicator is in,
 * which its caller has still to close: so each is a thread's of its own, which nobody waits for. */
void ff_nccl_end(void *nccl)
{
	struct ff_nccl *m = nccl;
	pthread_t thread;

	m->failed = true;
	for (struct ff_nccl_group *g = m->groups; g; g = g->next) {
		if (!g->comm)
			continue;
		if (pthread_create(&thread, NULL, abort_comm, g->comm))
			abort_comm(g->comm);
		else
			pthread_detach(thread);
		g->comm = NULL;
	}
}

void ff_nccl_note(struct ff_nccl *m, struct ff_nccl_group *g, struct ff_stream *s)
{
	m->last = g;
	ff_stream_watch(s, &m->watcher);
}

/* ---- groups ---- */

static bool is_group(
		const struct ff_nccl_group *g, bool messages, uint32_t n, const uint16_t *device)
{
	return g->messages == messages && g->n == n &&
	       !memcmp(g->device, device, n * sizeof(*device));
}

/* A meeting may wait for ever, so a thread of its own goes there; who does not come back in time is
 * left behind with it, as the process is about to end. */
struct meeting {
	const struct ff_device *dev;
	ncclUniqueId id;
	int n, own;
	ncclComm_t comm;
	ncclResult_t status;
};

static void *meet(void *arg)
{
	struct meeting *x = arg;

	x->status = cudaSetDevice(x->dev->ordinal) == cudaSuccess
				    ? ncclCommInitRank(&x->comm, x->n, x->id, x->own)
				    : ncclUnhandledCudaError;
	return NULL;
}

static int fail_late(struct ff_nccl *m, const struct ff_nccl_group *g, struct ff_error *err)
{
	m->failed = true;
	return ff_fail(err, FF_E_RUN,
			"rank %u has waited %.0f s for %.80s: other ranks are gone or are at "
			"something "
			"else (FF_COMM_TIMEOUT says how long to wait)",
			m->base.rank, m->watcher.limit_s, g->call);
}

static int group_meet(struct ff_nccl *m, struct ff_nccl_group *g, const ncclUniqueId *id,
		struct ff_error *err)
{
	struct meeting *x = calloc(1, sizeof(*x));
	struct timespec until;
	ncclResult_t status;
	pthread_t thread;

	if (!x)
		return ff_fail_memory(err);
	*x = (struct meeting){.dev = m->dev, .id = *id, .n = (int)g->n, .own = (int)g->own};
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (time_t)m->watcher.limit_s + 1;
	if (!(m->watcher.limit_s > 0) || pthread_create(&thread, NULL, meet, x))
		meet(x);
	else if (pthread_timedjoin_np(thread, NULL, &until))
		return fail_late(m, g, err);
	status = x->status;
	g->comm = status == ncclSuccess ? x->comm : NULL;
	free(x);
	return status == ncclSuccess ? FF_OK : fail(m, NULL, g->call, status, err);
}

/* What the first member tells the others.  If it has failed, so do they, and its sentence is the
 * only one (process/agree.h): they would wait for it in vain. */
struct invitation {
	ncclUniqueId id;
	int32_t code;
};

static int invite(struct ff_nccl *m, const struct ff_nccl_group *g, struct invitation *ret,
		struct ff_error *err)
{
	ncclResult_t status;
	int code = ff_cuda_enter(m->dev, err);

	if (code < 0 || g->own > 0)
		return code;
	status = ncclGetUniqueId(&ret->id);
	return status == ncclSuccess ? FF_OK : fail(m, NULL, g->call, status, err);
}

/* Its members come here in the order of what they post, so whoever waits here waits for those
 * who are at something earlier, and the earliest of all waits for nobody. */
static int group_open(struct ff_nccl *m, struct ff_nccl_group *g, struct ff_error *err)
{
	struct invitation x = {.code = FF_OK};
	int code, told;

	snprintf(g->call, sizeof(g->call), "a meeting of %u devices", g->n);
	code = invite(m, g, &x, err);
	if (code < 0 && g->own > 0)
		return code;
	x.code = code;
	told = m->host->share(m->host, g->n, g->device, &x, sizeof(x), code < 0 ? NULL : err);
	if (code < 0 || told < 0)
		return code < 0 ? code : told;
	return x.code < 0 ? ff_fail(err, x.code, "%s", "") : group_meet(m, g, &x.id, err);
}

static int group_new(struct ff_nccl *m, bool messages, uint32_t n, const uint16_t *device,
		struct ff_nccl_group **ret, struct ff_error *err)
{
	struct ff_nccl_group *g = calloc(1, sizeof(*g) + n * sizeof(*device));
	int code;

	if (!g)
		return ff_fail_memory(err);
	g->n = n;
	g->messages = messages;
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

int ff_nccl_group_find(struct ff_nccl *m, bool messages, uint32_t n, const uint16_t *device,
		struct ff_nccl_group **ret, struct ff_error *err)
{
	struct ff_nccl_group *g = m->groups;

	while (g && !is_group(g, messages, n, device))
		g = g->next;
	*ret = g;
	return g ? FF_OK : group_new(m, messages, n, device, ret, err);
}

int ff_nccl_group_all(
		struct ff_nccl *m, bool messages, struct ff_nccl_group **ret, struct ff_error *err)
{
	uint16_t *device = malloc(m->base.n_devices * sizeof(*device));
	int code;

	if (!device)
		return ff_fail_memory(err);
	for (uint32_t d = 0; d < m->base.n_devices; d++)
		device[d] = (uint16_t)d;
	code = ff_nccl_group_find(m, messages, m->base.n_devices, device, ret, err);
	free(device);
	return code;
}

int ff_nccl_messages_open(struct ff_nccl *m, struct ff_error *err)
{
	struct ff_nccl_group *all;
	int code = ff_nccl_group_all(m, true, &all, err);

	m->base.takes_messages = code == FF_OK;
	return code;
}

void ff_nccl_groups_close(struct ff_nccl *m)
{
	while (m->groups) {
		struct ff_nccl_group *g = m->groups;

		m->groups = g->next;
		if (m->failed && g->comm) /* the others may not come any more */
			ncclCommAbort(g->comm);
		else if (g->comm)
			ncclCommDestroy(g->comm);
		free(g);
	}
}
