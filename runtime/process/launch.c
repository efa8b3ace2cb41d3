/* Starting ranks with Open MPI's mpirun.  SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "ff/clock.h"
#include "stop.h"

#define WORDS 32             /* most that mpirun's own part of the command line takes */
#define STARTED "FF_STARTED" /* in the environment of ranks that ff_launch has started */
#define MOST_A_CORE 32       /* ranks that are started on one of this computer's cores */
/* How much longer than it should take ranks that wait for others are left to do so; each of them
 * a little longer than the one before, so that one tells. */
#define WAIT_MORE_S 5.0
#define WAIT_EACH_S 2.0
#define WAIT_MOST 10
/* mpirun asks a host that is silent whether it is there, and ends when several times in a row no
 * answer came: a little later than the last rank would have told, whose words are better. */
#define LOSE_MORE_S 30.0
#define LOSE_PROBES 5
#define LOSE_OPTION "oob_tcp_keepalive_"
#define LOST 205      /* Open MPI 4.1's exit status then */
#define MOST_STATUS 3 /* that commands of ours end with */

bool ff_launch_is_rank(void)
{
	return getenv("OMPI_COMM_WORLD_RANK") || getenv("PMIX_RANK") || getenv("PMI_RANK");
}

/* Whether ff_launch did. */
static bool is_started(void)
{
	return getenv(STARTED);
}

void ff_launch_listen(const char *name, void (*leave)(void))
{
	ff_stop_listen(name,
			is_started()          ? FF_LISTENER_STARTED
			: ff_launch_is_rank() ? FF_LISTENER_RANK
					      : FF_LISTENER_ALONE,
			leave);
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

/* mpirun, and how it is called. */
struct mpirun {
	const char **words;
	uint32_t n_words;
	char ranks[16], mapping[32], self[4096];
	char probes[16], time[16], interval[16];
};

static void add(struct mpirun *m, const char *word)
{
	m->words[m->n_words++] = word;
}

/* Which cores ranks get is the user's word where Open MPI was told already. */
static void add_binding(struct mpirun *m, bool fits, uint32_t threads)
{
	if (getenv("OMPI_MCA_hwloc_base_binding_policy"))
		return;
	if (fits && threads > 1) {
		add(m, "--map-by");
		add(m, m->mapping);
	}
	add(m, "--bind-to");
	add(m, fits ? "core" : "none");
}

/* A link to a host may go without a word. */
static void add_patience(struct mpirun *m, double limit_s)
{
	double all_s = ceil(limit_s) + LOSE_MORE_S, each_s = floor(all_s / (2 * LOSE_PROBES));

	if (!(limit_s > 0) || all_s > INT_MAX || getenv("OMPI_MCA_" LOSE_OPTION "time"))
		return;
	snprintf(m->probes, sizeof(m->probes), "%d", LOSE_PROBES);
	snprintf(m->interval, sizeof(m->interval), "%.0f", each_s);
	snprintf(m->time, sizeof(m->time), "%.0f", all_s - LOSE_PROBES * each_s);
	add(m, "--mca");
	add(m, LOSE_OPTION "time");
	add(m, m->time);
	add(m, "--mca");
	add(m, LOSE_OPTION "intvl");
	add(m, m->interval);
	add(m, "--mca");
	add(m, LOSE_OPTION "probes");
	add(m, m->probes);
}

static void list_words(struct mpirun *m, uint32_t cores, uint32_t n, uint32_t threads)
{
	bool fits = (uint64_t)n * threads <= cores;

	setenv("OMP_PROC_BIND", fits ? "true" : "false", 0);
	setenv(STARTED, "1", 1);
	add(m, "mpirun");
	add(m, "-q"); /* the ranks say what went wrong */
	add(m, "-n");
	add(m, m->ranks);
	if (geteuid() == 0)
		add(m, "--allow-run-as-root");
	if (n > cores)
		add(m, "--oversubscribe");
	add_binding(m, fits, threads);
	add(m, "-x");
	add(m, "OMP_NUM_THREADS");
	add(m, "-x");
	add(m, "OMP_PROC_BIND");
	add(m, "-x");
	add(m, STARTED);
}

/* In the place of this process; returns only where that fails. */
static int become_mpirun(const struct mpirun *m, struct ff_error *err)
{
	execvp("mpirun", (char *const *)m->words);
	return ff_fail(err, FF_E_RUN, "mpirun, which starts the %s ranks, cannot be run: %s",
			m->ranks, strerror(errno));
}

/* Nobody has more use for ranks than this; what is meant for a cluster would take all of this
 * computer's memory in processes alone. */
static int check_number(uint32_t n, uint32_t cores, struct ff_error *err)
{
	if (n <= MOST_A_CORE * cores)
		return FF_OK;
	return ff_fail(err, FF_E_INPUT,
			"%u ranks would run on the %u cores of this computer: expected at most %u, "
			"or "
			"mpirun or srun to start them on others",
			n, cores, MOST_A_CORE * cores);
}

/* What was printed is not done before it has arrived. */
static int check_output(const struct ff_child *c, struct ff_error *err)
{
	int reason = c->relay.end[0].reason;

	if (!reason || c->status)
		return FF_OK;
	return ff_fail(err, FF_E_IO, "standard output: cannot be written: %s", strerror(reason));
}

/* What mpirun's end means.  Ranks that know what failed have said so and end with one of our
 * statuses; whatever else ends here has no words yet. */
static int judge(const struct ff_child *c, int *status, struct ff_error *err)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	*status = c->status == LOST ? 1 : c->status;
	if (c->told || c->given_up)
		*status = 1;
	else if (c->status == LOST)
		return ff_fail(err, FF_E_RUN,
				"mpirun on %.200s has lost its connection to a host that ranks run "
				"on",
				host);
	else if (c->status == 128 + SIGUSR1 && c->asked)
		return ff_fail(err, FF_E_RUN, "ended, as asked, before it had begun");
	else if (c->hurried)
		return ff_fail(err, FF_E_RUN,
				"an end was asked for a second time: ranks were ended where they "
				"were");
	else if (c->signal)
		return ff_fail(err, FF_E_RUN, "mpirun on %.200s was ended by signal %d (%s)", host,
				c->signal, strsignal(c->signal));
	else if (c->status > 128)
		return ff_fail(err, FF_E_RUN,
				"a rank, or who watches it, was ended by signal %d (%s)",
				c->status - 128, strsignal(c->status - 128));
	else if (c->status > MOST_STATUS || (c->status && !c->relay.end[1].bytes))
		return ff_fail(err, FF_E_RUN, "mpirun on %.200s has ended with status %d", host,
				c->status);
	return check_output(c, err);
}

int ff_launch(uint32_t n, char **argv, double limit_s, int *status, struct ff_error *err)
{
	uint32_t cores = ff_launch_cores(), threads = share_threads(n, cores), n_args = 0;
	struct mpirun m = {.n_words = 0};
	struct ff_child child = {.starter = true};
	ssize_t len = readlink("/proc/self/exe", m.self, sizeof(m.self) - 1);
	char count[16];
	int code = check_number(n, cores, err);

	if (code < 0)
		return code;
	if (len < 0)
		return ff_fail(err, FF_E_RUN, "/proc/self/exe: %s", strerror(errno));
	while (argv[n_args])
		n_args++;
	m.words = calloc(WORDS + n_args, sizeof(*m.words));
	if (!m.words)
		return ff_fail_memory(err);
	snprintf(m.ranks, sizeof(m.ranks), "%u", n);
	snprintf(m.mapping, sizeof(m.mapping), "slot:PE=%u", threads);
	snprintf(count, sizeof(count), "%u", threads);
	setenv("OMP_NUM_THREADS", count, 0);
	list_words(&m, cores, n, threads);
	add_patience(&m, limit_s);
	add(&m, m.self);
	for (uint32_t i = 1; i < n_args; i++)
		add(&m, argv[i]);
	code = ff_child_run(&child, err);
	if (code == FF_OK && child.here)
		code = become_mpirun(&m, err);
	free(m.words);
	return code == FF_OK ? judge(&child, status, err) : code;
}

/* NULL: nobody says. */
static const char *rank_number(void)
{
	static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
	const char *number = NULL;

	for (size_t i = 0; i < sizeof(rank) / sizeof(*rank) && !number; i++)
		number = getenv(rank[i]);
	return number;
}

/* "rank 3 on node7" */
static void name_rank(char *text, size_t size)
{
	const char *number = rank_number();
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(text, size, "rank %.20s on %.200s", number ? number : "?", host);
}

/* Who watches a rank's pulse, and what was seen of it. */
struct watch {
	const struct ff_pulse *pulse;
	uint64_t beats;
	double since_us; /* there has been no other */
	bool stopped;    /* the process was, by a signal, when it was given up */
};

static bool is_stopped(pid_t child)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)child);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'T';
}

/* Where one rank comes no further all the others wait for it.  They give it time to be told of,
 * and then each a little more than the one before. */
static double patience_s(const struct ff_pulse *p, bool stopped)
{
	const char *number = rank_number();
	double n = number ? strtod(number, NULL) : 0;
	bool innocent = !stopped && (atomic_load(&p->waiting) > 0 || !atomic_load(&p->step));

	return innocent ? p->limit_s + WAIT_MORE_S + WAIT_EACH_S * (n < WAIT_MOST ? n : WAIT_MOST)
			: p->limit_s;
}

static bool look(void *ctx, pid_t child)
{
	struct watch *w = ctx;
	uint64_t beats = atomic_load(&w->pulse->beats);

	if (beats != w->beats) {
		w->beats = beats;
		w->since_us = ff_clock_us();
		return false;
	}
	if (!(w->pulse->limit_s > 0) || (ff_clock_us() - w->since_us) * 1e-6 < w->pulse->limit_s)
		return false;
	w->stopped = is_stopped(child);
	return (ff_clock_us() - w->since_us) * 1e-6 >= patience_s(w->pulse, w->stopped);
}

static int fail_stuck(const struct watch *w, const char *rank, struct ff_error *err)
{
	unsigned long long step = atomic_load(&w->pulse->step);
	bool waits = atomic_load(&w->pulse->waiting) > 0;
	double s = (ff_clock_us() - w->since_us) * 1e-6;
	char where[64] = "before the first step";

	if (step)
		snprintf(where, sizeof(where), "in step %llu", step);
	return ff_fail(err, FF_E_RUN, "%s %s for %.0f s %s%s (--timeout says how long is too long)",
			rank, waits ? "has waited for other ranks" : "has come no further", s,
			where, w->stopped ? ": a signal has stopped it" : "");
}

/* The parent of a process; 0: nobody knows. */
static pid_t parent_of(pid_t pid)
{
	char path[64];
	int parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
		parent = 0;
	fclose(f);
	return parent;
}

/* mpirun, which is to end all ranks now, waits for those on hosts that it cannot reach any more.
 * Who started it, if that is this program on this host, waits for it only so long. */
static void tell_starter(void)
{
	pid_t starter = parent_of(getppid());
	char path[64], theirs[4096], own[4096];
	ssize_t n, m;

	if (starter < 2)
		return;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)starter);
	n = readlink(path, theirs, sizeof(theirs));
	m = readlink("/proc/self/exe", own, sizeof(own));
	if (n > 0 && n == m && !memcmp(theirs, own, (size_t)n))
		kill(starter, FF_CHILD_GIVEN_UP);
}

int ff_launch_watch(int (*main)(void *ctx), void *ctx, const struct ff_pulse *pulse, int *status,
		struct ff_error *err)
{
	struct watch w = {.pulse = pulse, .since_us = ff_clock_us()};
	struct ff_child child = {.look = pulse ? look : NULL, .look_ctx = &w};
	char rank[256];
	int code = ff_child_run(&child, err);

	if (code < 0)
		return code;
	*status = child.here ? main(ctx) : child.status;
	if (child.here)
		kill(getppid(), SIGCONT); /* a watcher that is stopped would see no end */
	if (child.here || (!child.signal && !child.given_up))
		return FF_OK;
	name_rank(rank, sizeof(rank));
	if (child.orphaned)
		return ff_fail(err, FF_E_RUN, "%s was ended, as who started it has ended", rank);
	tell_starter();
	if (child.given_up)
		return fail_stuck(&w, rank, err);
	return ff_fail(err, FF_E_RUN, "%s was ended by signal %d (%s)%s", rank, child.signal,
			strsignal(child.signal),
			child.signal == SIGKILL ? ", which the kernel sends where memory runs out"
						: "");
}
