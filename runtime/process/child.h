/* A process that works for this one.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHILD_H
#define FF_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "ff/error.h"
#include "relay.h"

/* Tells a starter that a rank was given up or killed: its child should end soon, and is killed,
 * with status 1, where it does not.  Who else gets it by mistake ignores it. */
#define FF_CHILD_GIVEN_UP SIGURG

struct ff_child {
	/* Of a command that passes signals on to others: in a process group of its own, so that
	 * Ctrl-C reaches this process alone, and without standard input; its outputs are passed on.
	 * The first signal that asks for an end goes there as SIGUSR1 (which mpirun passes on to
	 * the ranks), again and again, as neither may listen yet; one that comes a second or more
	 * later as SIGTERM. */
	bool starter;
	/* Looks after it every so often, in the parent; true: it is beyond hope, and killed.  NULL:
	 * nobody does. */
	bool (*look)(void *ctx, pid_t child);
	void *look_ctx;
	bool here; /* this is the child */
	/* Else its end. */
	int status;    /* exit status; 128 + the signal that ended it */
	int signal;    /* that it was ended by, and that this process had not sent; 0: none */
	bool given_up; /* by `look`, or it did not end when it should have */
	bool orphaned; /* given up, as who started this process has ended */
	bool asked;    /* of a starter: for an end, by a signal, */
	bool hurried;  /* and a second time */
	bool told;     /* of a starter: FF_CHILD_GIVEN_UP came, so why it ends was said */
	struct ff_relay relay; /* of a starter: its outputs */
};

/* Starts it and waits for its end.  In the child it returns at once: there the caller does the
 * work and has main return the exit status.  It gets the signals that this process gets, and does
 * not outlive it.  FF_E_RUN where it cannot be started, and in a child that nobody waits for any
 * more. */
int ff_child_run(struct ff_child *c, struct ff_error *err);

#endif
