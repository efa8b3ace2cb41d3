/* How communication goes on beside what is computed: cores that are to spare decide.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/beside.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mpi_job.h"
#include "ff/backend.h"
#include "process/agree.h"

static const char *const names[FF_BESIDE_COUNT] = {"thread", "tasks"};

/* What the others need to know of a rank. */
struct rank {
	cpu_set_t cores; /* that it may use */
	uint32_t host, threads;
	int asked; /* enum ff_beside; FF_BESIDE_COUNT: nothing; -1: what there is not */
};

const char *ff_beside_name(enum ff_beside k)
{
	return names[k];
}

static int asked(const char *word)
{
	int k = 0;

	if (!word)
		return FF_BESIDE_COUNT;
	while (k < FF_BESIDE_COUNT && strcmp(word, names[k]) != 0)
		k++;
	return k < FF_BESIDE_COUNT ? k : -1;
}

static uint32_t threads_of_kernels(void)
{
	uint32_t threads = 0;

#pragma omp parallel reduction(+ : threads)
	threads++;
	return threads;
}

/* Ranks of one host that may use a core share it. */
static double cores_of(const struct rank *all, uint32_t n, const struct rank *r)
{
	double cores = 0;

	for (size_t i = 0; i < CPU_SETSIZE; i++) {
		int users = 0;

		for (uint32_t k = 0; k < n && CPU_ISSET(i, &r->cores); k++)
			users += all[k].host == r->host && CPU_ISSET(i, &all[k].cores);
		cores += users ? 1.0 / users : 0;
	}
	return cores;
}

static enum ff_beside by_cores(const struct rank *all, uint32_t n)
{
	bool spare = true;

	for (uint32_t i = 0; i < n; i++)
		spare = spare && cores_of(all, n, &all[i]) >= all[i].threads + 1;
	return spare ? FF_BESIDE_THREAD : FF_BESIDE_TASKS;
}

int ff_beside_choose(const struct ff_backend *b, struct ff_comm *c, enum ff_beside *ret,
		struct ff_error *err)
{
	const char *word = getenv("FF_OVERLAP");
	struct rank own = {.threads = threads_of_kernels(), .asked = asked(word)};
	struct rank *all = malloc(c->n_ranks * sizeof(*all));
	int code = all ? FF_OK : ff_fail_memory(err);

	if (sched_getaffinity(0, sizeof(own.cores), &own.cores))
		CPU_ZERO(&own.cores); /* more cores than the set has: none is known to be spare */
	if (code == FF_OK && c->n_ranks > 1)
		code = ff_mpi_host(&own.host, err);
	code = ff_agree_code(c, code, err);
	if (code == FF_OK)
		code = ff_agree_gather(c, &own, sizeof(own), all, err);
	if (code == FF_OK && all[0].asked < 0)
		code = ff_fail(err, FF_E_INPUT, "FF_OVERLAP=%.100s: expected thread or tasks",
				c->rank ? "?" : word);
	if (code == FF_OK && !b->stream.beside)
		*ret = FF_BESIDE_THREAD;
	else if (code == FF_OK)
		*ret = all[0].asked < FF_BESIDE_COUNT ? (enum ff_beside)all[0].asked
						      : by_cores(all, c->n_ranks);
	free(all);
	return code;
}
