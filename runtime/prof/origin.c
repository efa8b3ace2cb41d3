/* What is being measured on, the same on all ranks.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "comm/mpi_job.h"
#include "ff/hash.h"
#include "process/agree.h"
#include "process/launch.h"
#include "prof.h"

static int count_hosts(struct ff_prof *p, uint32_t *ret, struct ff_error *err)
{
	uint32_t neighbours, own = 0;
	int64_t hosts;
	int code = FF_OK;

	if (p->comm->n_ranks > 1)
		code = ff_mpi_neighbours(&neighbours, &own, err);
	hosts = own == 0; /* one rank of each host counts it */
	if (code < 0 || (code = ff_agree_sum(p->comm, &hosts, 1, err)) < 0)
		return code;
	*ret = (uint32_t)hosts;
	return FF_OK;
}

/* A mean over ranks of different kinds would be the time of none. */
static int check_equal(struct ff_prof *p, const struct ff_origin *o, struct ff_error *err)
{
	char text[512];
	uint64_t hash, *all = calloc(p->comm->n_ranks, sizeof(*all));
	int n, code;

	if (!all)
		return ff_fail_memory(err);
	n = snprintf(text, sizeof(text), "%s|%s|%s|%u|%u|%s|%u|%u", o->processor, o->kernels,
			o->mpi, o->cores, o->threads, o->driver, o->clock_mhz, o->memory_clock_mhz);
	hash = ff_fnv1a(text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
	code = ff_agree_gather(p->comm, &hash, sizeof(hash), all, err);
	for (uint32_t r = 1; r < p->comm->n_ranks && code == FF_OK; r++)
		if (all[r] != all[0])
			code = ff_fail(err, FF_E_INPUT,
					"ranks 0 and %u differ in processor, cores, threads or "
					"libraries: measure on equal ones",
					r);
	free(all);
	return code;
}

int ff_prof_origin(struct ff_prof *p, struct ff_origin *ret, struct ff_error *err)
{
	struct ff_device_info info = {.threads = 1};
	char mpi[64] = "none", topology[FF_FINGERPRINT];
	struct ff_origin o = {.cores = ff_launch_cores(), .ranks = p->comm->n_ranks};
	int code;

	if (p->backend->device.describe)
		p->backend->device.describe(p->dev, &info);
	if (o.ranks > 1)
		ff_mpi_version(mpi, sizeof(mpi));
	o.processor = ff_arena_strdup(&p->arena, info.processor);
	o.kernels = ff_arena_strdup(&p->arena, info.kernels);
	o.mpi = ff_arena_strdup(&p->arena, mpi);
	o.driver = ff_arena_strdup(&p->arena, info.driver);
	ff_topology_fingerprint(&p->topology, topology);
	o.topology = ff_arena_strdup(&p->arena, topology);
	o.threads = info.threads;
	o.clock_mhz = info.clock_mhz;
	o.memory_clock_mhz = info.memory_clock_mhz;
	o.communication = o.ranks > 1 ? p->comm->name : "";
	if (!o.processor || !o.kernels || !o.mpi || !o.driver || !o.topology)
		return ff_fail_memory(err);
	if ((code = count_hosts(p, &o.hosts, err)) < 0 || (code = check_equal(p, &o, err)) < 0)
		return code;
	*ret = o;
	return FF_OK;
}
