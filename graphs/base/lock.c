/* Locks beside files: those are replaced, so that a lock on one would be on what is gone.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who held it before may have taken the name away since it was opened. */
static bool is_named(int fd, const char *path)
{
	struct stat held, named;

	return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
	       held.st_ino == named.st_ino;
}

static int lock(const char *path, const char *file, int *ret, struct ff_error *err)
{
	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		int reason = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;

		if (!reason && is_named(fd, path)) {
			*ret = fd;
			return FF_OK;
		}
		if (fd >= 0)
			close(fd);
		if (reason == EWOULDBLOCK)
			return ff_fail(err, FF_E_INPUT,
					"%s: another process is completing it (%s is locked)", file,
					path);
		if (reason)
			return ff_fail(err, FF_E_IO, "%s: cannot be written: %s", path,
					strerror(reason));
	}
}

int ff_lock_take(const char *path, struct ff_lock *ret, struct ff_error *err)
{
	struct ff_lock l = {.fd = -1};
	size_t size = strlen(path) + sizeof(".lock");
	int code;

	l.path = malloc(size);
	if (!l.path)
		return ff_fail_memory(err);
	snprintf(l.path, size, "%s.lock", path);
	code = lock(l.path, path, &l.fd, err);
	if (code < 0)
		free(l.path);
	else
		*ret = l;
	return code;
}

void ff_lock_drop(struct ff_lock *l)
{
	if (l->fd < 0)
		return;
	unlink(l->path); /* before it is unlocked: nobody else's is taken away */
	close(l->fd);
	free(l->path);
	*l = (struct ff_lock){.fd = -1};
}
