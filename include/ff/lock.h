/* One process at a time on a file, or in a folder, that is read, completed and written again.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOCK_H
#define FF_LOCK_H

#include "ff/error.h"

struct ff_lock {
	int fd; /* -1: not held */
	char *path;
};

/* Takes the lock PATH.lock, which stands for `what` in errors: PATH, or the folder that it
 * is in.  The file is there for as long as it is held, and tells by whom; who dies leaves it there,
 * unlocked.  FF_E_INPUT: another process has it, which the sentence names; FF_E_IO: it cannot be
 * made. It is a flock(2), which NFS takes to its server; where a file system knows no locks,
 * nothing is locked. */
int ff_lock_take(const char *path, const char *what, struct ff_lock *ret, struct ff_error *err);
/* Accepts one that is not held. */
void ff_lock_drop(struct ff_lock *l);

#endif
