/* How a command becomes the ranks of an MPI job.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LAUNCH_H
#define FF_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"
#include "pulse.h"

/* Whether mpirun, srun or another starter made this process a rank. */
bool ff_launch_is_rank(void);
/* ff_stop_listen (stop.h), as what this process is; the first thing that a command does. */
void ff_launch_listen(const char *name, void (*leave)(void));

/* Has mpirun start `n` ranks with the same arguments, the machine's cores shared out among
 * them, and waits for their end: *status is the exit status.  They get SIGUSR1 where this
 * process is asked for an end (stop.h).  FF_E_INPUT: so many are not meant for one computer.
 * FF_E_RUN where mpirun cannot be run, too, in a process of its own, whose exit status this one
 * gets: whoever it returns to is to end.  FF_E_RUN where mpirun has heard nothing of a host for
 * somewhat longer than `limit_s`, by which ranks have told of each other if they can (0: it waits
 * for ever), and where mpirun or a rank was ended so that nobody else can have told.  FF_E_IO where
 * standard output did not take what the ranks printed.  Signals that ask for an end stay blocked.
 */
int ff_launch(uint32_t n, char **argv, double limit_s, int *status, struct ff_error *err);
/* A rank is two processes: `main` works in one, and the other tells if that is killed, say
 * where memory runs out, which nobody else may live to do.  FF_E_RUN then names the rank, its
 * host and the signal; else *status is what `main` returned.  With a `pulse` it also ends a rank
 * that gives no sign of life for as long as that says: the one that others wait for first, the
 * others, lest nobody is left to tell, a while later.  It returns in both, and both are to end
 * with that. */
int ff_launch_watch(int (*main)(void *ctx), void *ctx, const struct ff_pulse *pulse, int *status,
		struct ff_error *err);

/* Cores that this process may use, not counting hardware threads apart. */
uint32_t ff_launch_cores(void);

#endif
