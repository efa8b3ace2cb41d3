/* How a command becomes the ranks of an MPI job.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LAUNCH_H
#define FF_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"

/* Whether mpirun, srun or another starter made this process a rank. */
bool ff_launch_is_rank(void);

/* Replaces this process by an mpirun of `n` ranks with the same arguments, the
 * machine's cores shared out among them.  Returns only if that fails. */
int ff_launch(uint32_t n, char **argv, struct ff_error *err);

/* Cores that this process may use, not counting hardware threads apart. */
uint32_t ff_launch_cores(void);

#endif
