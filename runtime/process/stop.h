/* Whether somebody asked for an end.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STOP_H
#define FF_STOP_H

#include <stdbool.h>

/* Who listens. */
enum ff_listener {
	FF_LISTENER_ALONE,   /* started by the user */
	FF_LISTENER_RANK,    /* by mpirun, srun or the like */
	FF_LISTENER_STARTED, /* by a mpirun of ours (launch.h) */
};

/* The first thing that a command does.  From now on Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 (which
 * mpirun passes on to ranks, and batch systems can be told to send before time is up) ask for an
 * end.  Alone, that comes at once, in a sentence that begins with `name`, and by `leave`, which
 * ends the process as a handler may (as no library does), until ff_stop_defer is called.  Ranks are
 * asked to end well, but that those with a starter of ours get SIGTERM only where another rank has
 * failed, which they would wait for in vain: it ends them. Ctrl-C and SIGHUP stay ignored where
 * they are: in the background of a script, under nohup. */
void ff_stop_listen(const char *name, enum ff_listener who, void (*leave)(void));
/* What there is to lose has begun: who asks for an end from now on is to get it from those who ask
 * ff_stop_asked. */
void ff_stop_defer(void);
bool ff_stop_asked(void);

#endif
