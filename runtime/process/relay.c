/* What a child writes, passed on.  SPDX-License-Identifier: Apache-2.0 */
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define LOOK_EVERY_MS 50

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int ff_relay_open(struct ff_relay *r, struct ff_error *err)
{
	*r = (struct ff_relay){.end = {{.from = -1, .to = -1}, {.from = -1, .to = -1}}};
	for (int i = 0; i < 2; i++) {
		int fd[2];

		if (pipe2(fd, O_CLOEXEC) < 0) {
			ff_relay_finish(r);
			return ff_fail(err, FF_E_RUN, "a pipe cannot be made: %s", strerror(errno));
		}
		r->end[i].from = fd[0];
		r->end[i].to = fd[1];
	}
	return FF_OK;
}

void ff_relay_enter(struct ff_relay *r)
{
	dup2(r->end[0].to, STDOUT_FILENO);
	dup2(r->end[1].to, STDERR_FILENO);
}

/* All of it; what cannot be written once is dropped from then on, but goes on to be read. */
static void pass_on(struct ff_relay_end *e, int to, const char *text, size_t n)
{
	e->bytes += n;
	while (n && !e->reason) {
		ssize_t written = write(to, text, n);

		if (written < 0 && errno == EAGAIN) {
			struct pollfd room = {.fd = to, .events = POLLOUT};

			poll(&room, 1, -1);
		} else if (written < 0 && errno != EINTR) {
			e->reason = errno;
		} else if (written > 0) {
			text += written;
			n -= (size_t)written;
		}
	}
}

static void read_some(struct ff_relay_end *e, int to)
{
	char text[16384];
	ssize_t n = read(e->from, text, sizeof(text));

	if (n > 0)
		pass_on(e, to, text, (size_t)n);
	else if (n == 0 || errno != EINTR)
		shut(&e->from);
}

static void *relay(void *ctx)
{
	static const int to[] = {STDOUT_FILENO, STDERR_FILENO};
	struct ff_relay *r = ctx;
	bool done = false;

	while (!done && (r->end[0].from >= 0 || r->end[1].from >= 0)) {
		/* somebody may hold the pipe open for longer than the child lives */
		bool is_last = atomic_load(&r->is_last);
		struct pollfd in[2];
		int ready;

		for (int i = 0; i < 2; i++)
			in[i] = (struct pollfd){.fd = r->end[i].from, .events = POLLIN};
		ready = poll(in, 2, LOOK_EVERY_MS);
		for (int i = 0; i < 2 && ready > 0; i++)
			if (in[i].revents)
				read_some(&r->end[i], to[i]);
		done = is_last && ready <= 0;
	}
	return NULL;
}

int ff_relay_start(struct ff_relay *r, struct ff_error *err)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	int code;

	for (int i = 0; i < 2; i++)
		shut(&r->end[i].to);
	sigaction(SIGPIPE, &ignore, NULL); /* that nobody reads is told at the end */
	code = pthread_create(&r->thread, NULL, relay, r);
	if (code)
		return ff_fail(err, FF_E_RUN, "a thread cannot be started: %s", strerror(code));
	r->runs = true;
	return FF_OK;
}

void ff_relay_finish(struct ff_relay *r)
{
	atomic_store(&r->is_last, true);
	if (r->runs)
		pthread_join(r->thread, NULL);
	r->runs = false;
	for (int i = 0; i < 2; i++) {
		shut(&r->end[i].from);
		shut(&r->end[i].to);
	}
}
