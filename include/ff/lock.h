/* One process at a time on a file that is read, completed and written again.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOCK_H
#define FF_LOCK_H

#include "ff/error.h"

struct ff_lock {
	int fd; /* -1: not held */
	char *path;
};

/* For whom holds it PATH.lock is there; who dies leaves it there, unlocked.  FF_E_INPUT: another
 * process has it; FF_E_IO: it cannot be made. */
int ff_lock_take(const char *path, struct ff_lock *ret, struct ff_error *err);
/* Accepts one that is not held. */
void ff_lock_drop(struct ff_lock *l);

#endif
