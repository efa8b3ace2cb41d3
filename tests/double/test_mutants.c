/* One call of the backend's is wrong: the n-th wait is missing, a pointer is off, a count too
 * small. Each such fault is planted at drawn places of training, each in a process of its own,
 * until it fails or trains something else; a place may be one where it does no harm, as a wait that
 * another one implies.  Every fault must be caught.  (Faults of every call of a kind:
 * test_planted.c.) SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "chosen.h"
#include "launches.h"

#define PLACES 12 /* tried of each */
#define SCENES 60 /* looked through for a place */
#define FEW 12    /* where nothing is planted */
#define LIMIT_S 60

/* task by task; captured; on two ranks over NCCL; so, with a lane for messages */
enum how { STEPS, GRAPHS, RANKS, LANES };
static const char *const how_names[] = {"steps", "graphs", "ranks", "lanes"};

static const struct fault {
	const char *what; /* as tests/double has it */
	enum how how;
	uint32_t first; /* scene to begin with: known to have a place where it does harm */
} faults[] = {
#include "faults.h"
};

static uint64_t (*plant)(const char *what, uint64_t nth);
static const char *(*complaint)(void);
static bool (*planted)(const char *what);

/* ---- two ranks of one host ---- */

struct pair {
	struct ff_comm base;
	int to;
};

static bool pair_hosts(const struct ff_comm *c, uint32_t device)
{
	return device == c->rank;
}

static int pair_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err)
{
	int to = ((struct pair *)c)->to;
	char *at[2] = {all, (char *)all + bytes};

	memcpy(at[c->rank], own, bytes);
	if (write(to, own, bytes) != (ssize_t)bytes ||
			recv(to, at[!c->rank], bytes, MSG_WAITALL) != (ssize_t)bytes)
		return ff_fail(err, FF_E_RUN, "the other rank is gone");
	return FF_OK;
}

static int pair_sum(struct ff_comm *c, float *v, int64_t n, struct ff_error *err)
{
	float *all = malloc(2 * (size_t)n * sizeof(*all));
	int code = all ? pair_gather(c, v, (size_t)n * sizeof(*v), all, err) : ff_fail_memory(err);

	for (int64_t i = 0; i < n && code == FF_OK; i++)
		v[i] = all[i] + all[n + i];
	free(all);
	return code;
}

static int pair_barrier(struct ff_comm *c, struct ff_error *err)
{
	char own = 0, all[2];

	return pair_gather(c, &own, 1, all, err);
}

static int pair_share(struct ff_comm *c, uint32_t n, const uint16_t *device, void *v, size_t bytes,
		struct ff_error *err)
{
	int to = ((struct pair *)c)->to;

	if (n < 2)
		return FF_OK;
	if (device[0] == c->rank ? write(to, v, bytes) == (ssize_t)bytes
				 : recv(to, v, bytes, MSG_WAITALL) == (ssize_t)bytes)
		return FF_OK;
	return ff_fail(err, FF_E_RUN, "the other rank is gone");
}

static void pair_destroy(struct ff_comm *c)
{
	(void)c; /* the caller's */
}

static void pair_open(struct pair *p, uint32_t rank, int to)
{
	p->to = to;
	p->base = (struct ff_comm){.name = "pair",
			.n_devices = 2,
			.hosts = pair_hosts,
			.gather = pair_gather,
			.sum = pair_sum,
			.barrier = pair_barrier,
			.share = pair_share,
			.destroy = pair_destroy,
			.rank = rank,
			.n_ranks = 2};
}

/* ---- waits that are missing ---- */

/* Streams of what is moved, as they are opened: that of messages is the second. */
static struct ff_stream *moved[2];
static uint32_t n_moved;
static bool gone[2];
static struct {
	const struct ff_event *event;
	const struct ff_stream *stream; /* that recorded it last */
} records[4096];

static int note_stream(
		struct ff_device *dev, bool own, struct ff_stream **ret, struct ff_error *err)
{
	int code = rig_backend(false)->stream.open(dev, own, ret, err);

	if (code == FF_OK && own)
		moved[n_moved++ % 2] = *ret;
	return code;
}

static int note_record(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	size_t i = 0;

	while (i + 1 < sizeof(records) / sizeof(*records) && records[i].event &&
			records[i].event != ev)
		i++;
	records[i].event = ev;
	records[i].stream = s;
	return rig_backend(false)->event.record(s, ev, err);
}

static const struct ff_stream *recorder(const struct ff_event *ev)
{
	size_t i = 0;

	while (i + 1 < sizeof(records) / sizeof(*records) && records[i].event != ev)
		i++;
	return records[i].event == ev ? records[i].stream : NULL;
}

static int wait_or_not(struct ff_stream *s, struct ff_event *ev, struct ff_error *err)
{
	bool two = n_moved && n_moved % 2 == 0;
	bool before = s == moved[1], behind = !before && recorder(ev) == moved[1];

	/* from the planted one on */
	gone[0] |= two && before && planted("messages wait for nothing");
	gone[1] |= two && behind && planted("nothing waits for messages");
	if ((gone[0] && before) || (gone[1] && behind))
		return FF_OK;
	return rig_backend(false)->event.wait(s, ev, err);
}

static const struct ff_backend *forgetful(void)
{
	static struct ff_backend b;

	b = *rig_backend(false);
	b.stream.open = note_stream;
	b.event.record = note_record;
	b.event.wait = wait_or_not;
	n_moved = 0;
	gone[0] = gone[1] = false;
	memset(records, 0, sizeof(records));
	return &b;
}

/* ---- training with a fault in it ---- */

/* Captured for graphs; the code of what failed. */
static int train(struct scene *s, enum how how, struct pair *p, struct launched *ret)
{
	const struct ff_backend *b = how == LANES ? forgetful() : rig_backend(false);
	struct ff_comm *comm = p ? &p->base : NULL;
	struct ff_error err = {0};
	int code = p ? b->comm(comm, &s->machine, true, &comm, &err) : FF_OK;

	memset(ret, 0, sizeof(*ret));
	if (code == FF_OK)
		code = launch_try(s, &s->machine, &s->strategy, b, comm, how == GRAPHS ? "1" : "0",
				ret, &err);
	if (p && comm != &p->base)
		comm->destroy(comm);
	if (code < 0)
		fprintf(stderr, "%s\n", err.text);
	return code;
}

static bool suits(const struct scene *s, enum how how)
{
	if (how == RANKS || how == LANES)
		return s->machine.n_devices == 2 && (how == RANKS || s->machine.message_lane);
	return how == STEPS ? s->machine.n_devices < 4 && s->machine.overlap
			    : s->machine.n_devices == 1 && s->machine.overlap;
}

enum outcome { SURVIVED, CAUGHT, NOWHERE, BROKEN };
#define STATUS 40 /* of a process that ends with an outcome, less that */

/* Of a process that an assertion of a test's own has ended. */
static enum outcome ended = BROKEN;

/* In scenes from `first` on, the first where the fault has a place; on rank 0. */
static enum outcome try_fault(const struct fault *f, uint32_t first, struct pair *p)
{
	for (uint32_t i = first; i < first + (*f->what == '-' ? FEW : SCENES); i++) {
		struct ff_random r = {ff_test_seed(60), i, 0};
		struct launched honest, spoiled;
		uint64_t n, own = 0;
		struct scene s;
		bool own_rank;

		scene_open(&s, i % 4 ? FF_F32 : chosen_rounded(), f->how >= RANKS ? 2 : 3, &r);
		if (!suits(&s, f->how)) {
			scene_close(&s);
			continue;
		}
		own_rank = !p || p->base.rank == 0;
		plant(own_rank ? f->what : "", 0);
		if (train(&s, f->how, p, &honest) < 0 || *complaint())
			return BROKEN;
		n = own = plant("", 0);
		if (p) {
			uint64_t all[2];
			struct ff_error err;

			if (pair_gather(&p->base, &own, sizeof(own), all, &err) < 0)
				return BROKEN;
			n = all[0];
		}
		if (n) {
			ended = CAUGHT;
			plant(own_rank ? f->what : "", 1 + ff_random_u32(&r) % n);
			return train(&s, f->how, p, &spoiled) < 0 || *complaint() ||
							       !launch_same(&s, &honest, &spoiled)
					       ? CAUGHT
					       : SURVIVED;
		}
		scene_close(&s);
	}
	return NOWHERE;
}

/* What a child is to do. */
static const struct fault *own_fault;
static uint32_t own_first;
static struct pair *own_pair;

START_TEST(one_fault)
{
	_exit(STATUS + (int)try_fault(own_fault, own_first, own_pair));
}
END_TEST

/* Never returns.  Assertions of what tests share want a test around them. */
static void child(const struct fault *f, uint32_t first, struct pair *p)
{
	int nowhere = open("/dev/null", O_WRONLY);
	Suite *s = suite_create("mutant");
	TCase *t = tcase_create("mutant");

	dup2(nowhere, STDOUT_FILENO);
	if (!getenv("FF_MUTANTS_LOUD"))
		dup2(nowhere, STDERR_FILENO);
	alarm(LIMIT_S);
	own_fault = f;
	own_first = first;
	own_pair = p;
	tcase_set_timeout(t, 0);
	tcase_add_test(t, one_fault);
	suite_add_tcase(s, t);
	ff_check_main(s);
	_exit(STATUS + (int)ended);
}

/* What a process that ends otherwise has run into is not overlooked either. */
static enum outcome outcome_of(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) >= STATUS
			       ? (enum outcome)(WEXITSTATUS(status) - STATUS)
			       : CAUGHT;
}

static enum outcome run(const struct fault *f, uint32_t first)
{
	uint32_t n = f->how >= RANKS ? 2 : 1;
	enum outcome ret = SURVIVED;
	pid_t pid[2];
	int ends[2], status;

	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return BROKEN;
	for (uint32_t rank = 0; rank < n; rank++) {
		pid[rank] = fork();
		if (!pid[rank]) {
			struct pair p;

			close(ends[!rank]);
			pair_open(&p, rank, ends[rank]);
			child(f, first, n > 1 ? &p : NULL);
		}
	}
	close(ends[0]);
	close(ends[1]);
	for (uint32_t i = 0; i < n; i++) {
		pid_t who = waitpid(-1, &status, 0);

		if (ret != SURVIVED)
			continue; /* the other one was ended */
		ret = outcome_of(status);
		if (n > 1 && ret == CAUGHT)
			kill(who == pid[0] ? pid[1] : pid[0], SIGKILL);
	}
	return ret;
}

static bool all_faults(void)
{
	static const char *const names[] = {"SURVIVED", "caught", "NOWHERE", "BROKEN"};
	uint32_t n = sizeof(faults) / sizeof(*faults), found = 0;

	for (uint32_t i = 0; i < n; i++) {
		const char *only = getenv("FF_MUTANTS"); /* those that have it in their name */
		enum outcome o = SURVIVED;
		uint32_t tried = 0;

		if (only && !strstr(faults[i].what, only)) {
			found++;
			continue;
		}

		while (o == SURVIVED && tried < PLACES)
			o = run(&faults[i], faults[i].first + 7 * tried++);
		found += o == CAUGHT;
		printf("# %-8s %s: %s, %u places\n", how_names[faults[i].how], faults[i].what,
				names[o], tried);
		fflush(stdout);
	}
	printf("# %u of %u are caught\n", found, n);
	return found == n && n >= 60;
}

/* Nothing is caught where nothing is wrong. */
static bool nothing(void)
{
	static const struct fault none[] = {
			{"-", STEPS}, {"-", GRAPHS}, {"-", RANKS}, {"-", LANES}};

	for (int i = 0; i < 4; i++)
		if (run(&none[i], 0) != NOWHERE)
			return false;
	return true;
}

int main(void)
{
	void *module = dlopen(getenv("FF_CUDA_MODULE"), RTLD_NOW | RTLD_LOCAL);
	bool good[2];

	if (module)
		*(void **)&plant = dlsym(module, "ff_double_plant");
	if (module)
		*(void **)&complaint = dlsym(module, "ff_double_complaint");
	if (module)
		*(void **)&planted = dlsym(module, "ff_double_planted");
	if (!plant || !planted)
		return EXIT_FAILURE;
	setenv("FF_NCCL", "1", 1);
	good[0] = nothing();
	good[1] = all_faults();
	printf("%s 1 - nothing\n%s 2 - all faults\n1..2\n", good[0] ? "ok" : "not ok",
			good[1] ? "ok" : "not ok");
	return good[0] && good[1] ? EXIT_SUCCESS : EXIT_FAILURE;
}
