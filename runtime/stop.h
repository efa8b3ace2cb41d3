/* Whether somebody asked for an end.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STOP_H
#define FF_STOP_H

#include <stdbool.h>

/* From now on SIGUSR1 (which mpirun passes on to ranks, and batch systems can be told to send
 * before time is up) does not end this process, but asks it to end well.  So do Ctrl-C and SIGTERM
 * but for ranks that have a starter of ours: those get SIGTERM only where another rank has failed,
 * which they would wait for in vain. */
void ff_stop_listen(bool has_starter);
bool ff_stop_asked(void);

#endif
