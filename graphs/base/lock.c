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

/* "process 4711 on node3", as far as the file tells. */
static void read_holder(int fd, char *ret, size_t size)
{
	char text[FF_ERROR_TEXT / 4];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	snprintf(ret, size, "%s", *text ? text : "another process");
}

/* Whoever cannot write it is not named. */
static void write_holder(int fd)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	if (ftruncate(fd, 0) == 0)
		dprintf(fd, "process %ld on %s\n", (long)getpid(), host);
}

/* 0 or the errno; not where there are no locks. */
static int hold(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == ENOSYS || errno == ENOTSUP || errno == ENOLCK ? 0 : errno;
}

static int lock(const char *path, const char *what, int *ret, struct ff_error *err)
{
	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
		int reason = fd < 0 ? errno : hold(fd);
		char holder[FF_ERROR_TEXT / 4];

		if (!reason && is_named(fd, path)) {
			write_holder(fd);
			*ret = fd;
			return FF_OK;
		}
		if (reason == EWOULDBLOCK)
			read_holder(fd, holder, sizeof(holder));
		if (fd >= 0)
			close(fd);
		if (reason == EWOULDBLOCK)
			return ff_fail(err, FF_E_INPUT, "%s: %s is writing it (%s is locked)", what,
					holder, path);
		if (reason)
			return ff_fail(err, FF_E_IO, "%s: cannot be written: %s", path,
					strerror(reason));
	}
}

int ff_lock_take(const char *path, const char *what, struct ff_lock *ret, struct ff_error *err)
{
	struct ff_lock l = {.fd = -1};
	size_t size = strlen(path) + sizeof(".lock");
	int code;

	l.path = malloc(size);
	if (!l.path)
		return ff_fail_memory(err);
	snprintf(l.path, size, "%s.lock", path);
	code = lock(l.path, what, &l.fd, err);
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
