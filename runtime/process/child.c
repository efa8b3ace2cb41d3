/* Child processes.  SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ff/clock.h"
#include "ff/process.h"

#define LOOK_EVERY_NS 200000000
/* How long mpirun may take to end the ranks once one was given up: it waits for its own processes
 * on other hosts, for ever where these cannot be reached. */
#define END_S 15
#define AGAIN_US 5e5         /* between two times that a starter is asked for the same end */
#define SECOND_US 1e6        /* who asks for an end so much later asks a second time */
#define FF_CHILD_ASK SIGUSR1 /* what asks a starter for an end */

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* What the parent waits for: those, unless they are ignored, and that the child has ended. */
static sigset_t awaited(void)
{
	struct sigaction now;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, FF_CHILD_GIVEN_UP);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		if (sigaction(passed_on[i], NULL, &now) < 0 || now.sa_handler != SIG_IGN)
			sigaddset(&set, passed_on[i]);
	return set;
}

/* A command that passes signals on does so once it has begun: until then, and for those that it
 * starts until they listen, FF_CHILD_ASK is nothing. */
static void settle_starter(struct ff_child *c)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	int null = open("/dev/null", O_RDONLY);

	setpgid(0, 0);
	sigaction(FF_CHILD_ASK, &ignore, NULL);
	ff_relay_enter(&c->relay);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		close(null);
	}
}

/* In the child, which no longer knows whether its parent still lives. */
static int settle(struct ff_child *c, pid_t parent, const sigset_t *mask, struct ff_error *err)
{
	prctl(PR_SET_PDEATHSIG, c->starter ? SIGTERM : SIGKILL);
	if (getppid() != parent)
		return ff_fail(err, FF_E_RUN, "the process that started this one has ended");
	if (c->starter)
		settle_starter(c);
	else
		ff_process_watched();
	sigprocmask(SIG_SETMASK, mask, NULL);
	return FF_OK;
}

/* What was asked for until now. */
struct asking {
	double first_us, last_us; /* when an end was, at first, and passed on; 0: never */
	uint64_t sent;            /* signals, by number */
};

static void send(struct asking *a, pid_t child, int number)
{
	kill(child, number);
	a->sent |= UINT64_C(1) << number;
	a->last_us = ff_clock_us();
}

/* `number`, one of those passed on, has come.  Who asks a starter for an end once may do so by
 * several signals: `timeout` sends its own twice. */
static void pass_on(struct ff_child *c, struct asking *a, pid_t child, int number)
{
	double now_us = ff_clock_us();

	if (!c->starter || number == SIGUSR2) {
		send(a, child, number);
	} else if (!a->first_us) {
		a->first_us = now_us;
		c->asked = true;
		send(a, child, FF_CHILD_ASK);
	} else if (number != SIGUSR1 && now_us - a->first_us > SECOND_US) {
		c->hurried = true;
		send(a, child, SIGTERM);
	}
}

/* Whoever did not listen yet hears it now. */
static void ask_again(const struct ff_child *c, struct asking *a, pid_t child)
{
	if (c->starter && a->first_us && !c->hurried && ff_clock_us() - a->last_us > AGAIN_US)
		send(a, child, FF_CHILD_ASK);
}

/* Whether the child is to be waited for no more. */
static bool is_over(struct ff_child *c, pid_t child, pid_t parent, double end_us)
{
	if (!c->starter && getppid() != parent)
		c->orphaned = true;
	if (c->orphaned || (c->look && c->look(c->look_ctx, child)))
		return true;
	return end_us > 0 && ff_clock_us() > end_us;
}

static int wait_for(struct ff_child *c, pid_t child, pid_t parent)
{
	const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
	const sigset_t set = awaited();
	struct asking asking = {0};
	double end_us = 0; /* of our patience; 0: nothing is wrong */
	int status;

	for (;;) {
		int number = sigtimedwait(&set, NULL, &pause);
		pid_t ended = number == SIGCHLD ? waitpid(child, &status, WNOHANG) : 0;

		if (ended < 0 && errno != EINTR)
			return errno;
		if (ended == child)
			break;
		if (number < 0 && is_over(c, child, parent, end_us)) {
			/* it may be where not even that ends it */
			kill(c->starter ? -child : child, SIGKILL);
			c->status = 1;
			c->given_up = true;
			return 0;
		}
		if (number == FF_CHILD_GIVEN_UP && c->starter && !c->told) {
			c->told = true;
			end_us = ff_clock_us() + END_S * 1e6;
		} else if (number > 0 && number != SIGCHLD && number != FF_CHILD_GIVEN_UP) {
			pass_on(c, &asking, child, number);
		}
		ask_again(c, &asking, child);
	}
	if (WIFSIGNALED(status) && !(asking.sent >> WTERMSIG(status) & 1))
		c->signal = WTERMSIG(status);
	c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return 0;
}

/* The signals are blocked: who asks from now on is heard once there is a child. */
static int start(struct ff_child *c, const sigset_t *mask, struct ff_error *err)
{
	pid_t self = getpid(), parent = getppid(), child;
	int code, reason;

	if (c->starter && (code = ff_relay_open(&c->relay, err)) < 0)
		return code;
	fflush(NULL); /* else both would write what is in the buffers */
	child = fork();
	c->here = child == 0;
	if (c->here)
		return settle(c, self, mask, err);
	reason = child < 0 ? errno : 0;
	if (!reason && c->starter && (code = ff_relay_start(&c->relay, err)) < 0) {
		kill(-child, SIGKILL);
		return code;
	}
	if (!reason)
		reason = wait_for(c, child, parent);
	if (c->starter)
		ff_relay_finish(&c->relay);
	return reason ? ff_fail(err, FF_E_RUN, "a process cannot be started: %s", strerror(reason))
		      : FF_OK;
}

int ff_child_run(struct ff_child *c, struct ff_error *err)
{
	const sigset_t set = awaited();
	sigset_t old;
	int code;

	sigprocmask(SIG_BLOCK, &set, &old);
	code = start(c, &old, err);
	if (!c->here && !c->starter) /* whose end is this process's: who asks now is too late */
		sigprocmask(SIG_SETMASK, &old, NULL);
	return code;
}
