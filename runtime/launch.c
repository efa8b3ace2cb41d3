/* Starting ranks with Open MPI's mpirun.  SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS 32 /* most that mpirun's own part of the command line takes */

bool ff_launch_is_rank(void)
{
	return getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

/* The first hardware thread of a core stands for it. */
static bool leads_core(size_t cpu)
{
	char path[128], text[16] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
			cpu);
	f = fopen(path, "r");
	if (!f)
		return true;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return !text[0] || strtoul(text, NULL, 10) == cpu;
}

uint32_t ff_launch_cores(void)
{
	cpu_set_t set;
	uint32_t n = 0;

	if (sched_getaffinity(0, sizeof(set), &set)) {
		long online = sysconf(_SC_NPROCESSORS_ONLN);

		return online > 0 ? (uint32_t)online : 1;
	}
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
		n += CPU_ISSET(cpu, &set) && leads_core(cpu);
	return n ? n : 1;
}

/* The threads that each rank's kernels use: the user's word, or an even share. */
static uint32_t share_threads(uint32_t ranks, uint32_t cores)
{
	const char *asked = getenv("OMP_NUM_THREADS");
	long threads = asked ? strtol(asked, NULL, 10) : 0;

	if (threads > 0)
		return (uint32_t)threads;
	return ranks > 0 && cores > ranks ? cores / ranks : 1;
}

int ff_launch(uint32_t n, char **argv, struct ff_error *err)
{
	uint32_t cores = ff_launch_cores(), threads = share_threads(n, cores), words = 0;
	bool fits = (uint64_t)n * threads <= cores;
	char ranks[16], mapping[32], count[16], self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	uint32_t n_args = 0;
	const char **list;

	if (len < 0)
		return ff_fail(err, FF_E_RUN, "/proc/self/exe: %s", strerror(errno));
	self[len] = '\0';
	while (argv[n_args])
		n_args++;
	list = calloc(WORDS + n_args, sizeof(*list));
	if (!list)
		return ff_fail_memory(err);
	snprintf(ranks, sizeof(ranks), "%u", n);
	snprintf(count, sizeof(count), "%u", threads);
	snprintf(mapping, sizeof(mapping), "slot:PE=%u", threads);
	setenv("OMP_NUM_THREADS", count, 0);
	setenv("OMP_PROC_BIND", fits ? "true" : "false", 0);
	list[words++] = "mpirun";
	list[words++] = "-q"; /* the ranks say what went wrong */
	list[words++] = "-n";
	list[words++] = ranks;
	if (geteuid() == 0)
		list[words++] = "--allow-run-as-root";
	if (n > cores)
		list[words++] = "--oversubscribe";
	if (fits && threads > 1) {
		list[words++] = "--map-by";
		list[words++] = mapping;
	}
	list[words++] = "--bind-to";
	list[words++] = fits ? "core" : "none";
	list[words++] = "-x";
	list[words++] = "OMP_NUM_THREADS";
	list[words++] = "-x";
	list[words++] = "OMP_PROC_BIND";
	list[words++] = self;
	for (uint32_t i = 1; i < n_args; i++)
		list[words++] = argv[i];
	execvp("mpirun", (char *const *)list);
	free(list);
	return ff_fail(err, FF_E_RUN, "mpirun, which starts the %u ranks, cannot be run: %s", n,
			strerror(errno));
}
