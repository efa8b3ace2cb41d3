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

#define LOOK_EVERY_NS 200000000
/* How long mpirun may take to end the ranks once one was given up: it waits for its own processes
 * on other hosts, for ever where these cannot be reached. */
#define END_S 15

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

/* What the parent waits for: those, and that the child has ended. */
static sigset_t awaited(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, FF_CHILD_GIVEN_UP);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(*passed_on); i++)
		sigaddset(&set, passed_on[i]);
	return set;
}

/* In the child, which no longer knows whether its parent still lives. */
static int settle(
		const struct ff_child *c, pid_t parent, const sigset_t *mask, struct ff_error *err)
{
	int null;

	prctl(PR_SET_PDEATHSIG, c->starter ? SIGTERM : SIGKILL);
	if (getppid() != parent)
		return ff_fail(err, FF_E_RUN, "the process that started this one has ended");
	if (c->starter) {
		setpgid(0, 0);
		null = open("/dev/null", O_RDONLY);
		if (null >= 0) {
			dup2(null, STDIN_FILENO);
			close(null);
		}
	}
	sigprocmask(SIG_SETMASK, mask, NULL);
	return FF_OK;
}

/* What `number`, one of those passed on, is for the child; so many asked for an end before. */
static int translate(const struct ff_child *c, int number, unsigned before)
{
	if (!c->starter || number == SIGUSR1 || number == SIGUSR2)
		return number;
	return before ? SIGTERM : SIGUSR1;
}

static int await(const struct ff_child *c, bool ending, const sigset_t *set)
{
	const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};

	return c->look || ending ? sigtimedwait(set, NULL, &pause) : sigwaitinfo(set, NULL);
}

/* Whether the child is to be waited for no more. */
static bool is_over(const struct ff_child *c, pid_t child, double end_us)
{
	if (c->look && c->look(c->look_ctx, child))
		return true;
	return end_us > 0 && ff_clock_us() > end_us;
}

static int wait_for(struct ff_child *c, pid_t child)
{
	const sigset_t set = awaited();
	unsigned sent = 0;
	double end_us = 0; /* of our patience; 0: nothing is wrong */
	int status;

	for (;;) {
		int number = await(c, end_us > 0, &set);
		pid_t ended = number == SIGCHLD ? waitpid(child, &status, WNOHANG) : 0;

		if (ended < 0 && errno != EINTR)
			return errno;
		if (ended == child)
			break;
		if (number < 0 && is_over(c, child, end_us)) {
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
			kill(child, translate(c, number, sent++));
		}
	}
	c->signal = WIFSIGNALED(status) && !sent ? WTERMSIG(status) : 0;
	c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return 0;
}

int ff_child_run(struct ff_child *c, struct ff_error *err)
{
	const sigset_t set = awaited();
	pid_t parent = getpid(), child;
	sigset_t old;
	int reason;

	fflush(NULL); /* else both would write what is in the buffers */
	sigprocmask(SIG_BLOCK, &set, &old);
	child = fork();
	c->here = child == 0;
	if (c->here)
		return settle(c, parent, &old, err);
	reason = child < 0 ? errno : wait_for(c, child);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (reason)
		return ff_fail(err, FF_E_RUN, "a process cannot be started: %s", strerror(reason));
	return FF_OK;
}
