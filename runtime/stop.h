/* Whether somebody asked for an end.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STOP_H
#define FF_STOP_H

#include <stdbool.h>

/* From now on Ctrl-C, SIGTERM and SIGUSR1 (which mpirun passes on to ranks, and batch systems
 * can be told to send before time is up) do not end this process, but ask it to end well. */
void ff_stop_listen(void);
bool ff_stop_asked(void);

#endif
