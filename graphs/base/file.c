/* Files that appear whole.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 1000 /* names of temporary files that others may have taken */

static int failed(const char *path, int reason, struct ff_error *err)
{
	return ff_fail(err, FF_E_IO, "%s: cannot be written: %s", path, strerror(reason));
}

/* Bytes of `path` that name its folder, the last slash included. */
static int folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash + 1 - path) : 0;
}

/* What the names of all temporary files of `path` begin with, its folder apart. */
static void begin_name(const char *path, char ret[NAME_MAX + 1])
{
	snprintf(ret, NAME_MAX + 1, ".%.200s.ff-", path + folder_length(path));
}

/* A new file in the folder of `path`; its name goes to `temp`.  mkstemp would
 * make it private to the user whatever the umask says. */
static int open_beside(const char *path, char temp[PATH_MAX])
{
	char name[NAME_MAX + 1];

	begin_name(path, name);
	for (unsigned i = 0; i < TRIES; i++) {
		int n = snprintf(temp, PATH_MAX, "%.*s%s%ld-%u.tmp", folder_length(path), path,
				name, (long)getpid(), i);
		int fd;

		if (n >= PATH_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0 || errno != EEXIST)
			return fd;
	}
	return -1;
}

/* What replaces a file is as private as that was. */
static int keep_mode(int fd, const struct stat *old)
{
	return old ? fchmod(fd, old->st_mode & 07777) : 0;
}

/* `old` is what is there already; NULL: nothing. */
static int open_new(struct ff_file *f, const struct stat *old, struct ff_error *err)
{
	char temp[PATH_MAX];

	f->target = realpath(f->path, NULL); /* NULL: there is none yet */
	if (!f->target)
		f->target = strdup(f->path);
	if (!f->target)
		return ff_fail_memory(err);
	f->fd = open_beside(f->target, temp);
	if (f->fd < 0)
		return failed(f->path, errno, err);
	f->temp = strdup(temp);
	if (!f->temp) {
		unlink(temp);
		return ff_fail_memory(err);
	}
	return keep_mode(f->fd, old) < 0 ? failed(f->path, errno, err) : FF_OK;
}

static bool is_stdout(const char *path)
{
	return strcmp(path, "-") == 0;
}

/* What can be said without opening it; `st` NULL: it is not there yet. */
static int check(const char *path, const struct stat *st, struct ff_error *err)
{
	if (st && S_ISDIR(st->st_mode))
		return failed(path, EISDIR, err);
	if (st && access(path, W_OK) < 0)
		return failed(path, errno, err);
	return FF_OK;
}

int ff_file_check(const char *path, struct ff_error *err)
{
	struct ff_file f;
	struct stat st;
	bool there = stat(path, &st) == 0;
	sigset_t all, old;
	int code;

	if (is_stdout(path))
		return FF_OK;
	if (there && !S_ISREG(st.st_mode)) /* a pipe that is opened waits for its reader */
		return check(path, &st, err);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old); /* what it leaves for a moment shall not stay */
	code = ff_file_open(path, &f, err);
	if (code == FF_OK)
		ff_file_drop(&f);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return code;
}

/* Of a file whose temporary files' names begin so. */
static bool is_left(const char *name, const char *begin)
{
	size_t n = strlen(begin), m = strlen(name);

	return m > n && !strncmp(name, begin, n) && strspn(name + n, "0123456789-") + 4 == m - n &&
	       !strcmp(name + m - 4, ".tmp");
}

void ff_file_sweep(const char *path)
{
	char folder[PATH_MAX], begin[NAME_MAX + 1];
	int n = folder_length(path);
	struct dirent *entry;
	DIR *dir;

	if (n >= PATH_MAX)
		return;
	snprintf(folder, sizeof(folder), "%.*s", n ? n : 1, n ? path : ".");
	begin_name(path, begin);
	dir = opendir(folder);
	while (dir && (entry = readdir(dir)))
		if (is_left(entry->d_name, begin))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

/* What was printed until now goes before it. */
static int open_stdout(struct ff_file *f)
{
	f->path = "standard output";
	return fflush(stdout) == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
}

int ff_file_open(const char *path, struct ff_file *ret, struct ff_error *err)
{
	struct ff_file f = {.fd = -1, .path = path};
	struct stat st;
	bool there = stat(path, &st) == 0;
	int code = is_stdout(path) ? FF_OK : check(path, there ? &st : NULL, err);

	if (code < 0)
		return code;
	if (is_stdout(path) || (there && !S_ISREG(st.st_mode))) {
		f.fd = is_stdout(path) ? open_stdout(&f) : open(path, O_WRONLY | O_CLOEXEC);
		code = f.fd < 0 ? failed(f.path, errno, err) : FF_OK;
	} else {
		code = open_new(&f, there ? &st : NULL, err);
	}
	if (code < 0)
		ff_file_drop(&f);
	else
		*ret = f;
	return code;
}

int ff_file_write(struct ff_file *f, const void *data, size_t bytes, struct ff_error *err)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = write(f->fd, at, bytes);

		if (n < 0 && errno != EINTR)
			return failed(f->path, errno, err);
		at += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return FF_OK;
}

/* 0 or the errno.  Some file systems, and all pipes, have nothing to synchronise. */
static int sync_fd(int fd)
{
	return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS ? 0 : errno;
}

/* The name itself lies in the folder.  A folder that may be written to but not read
 * cannot be opened; its file is whole all the same. */
static int sync_folder(const char *path)
{
	char folder[PATH_MAX];
	int n = folder_length(path), fd, reason;

	if (n >= PATH_MAX)
		return ENAMETOOLONG;
	snprintf(folder, sizeof(folder), "%.*s", n ? n : 1, n ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES ? 0 : errno;
	reason = sync_fd(fd);
	close(fd);
	return reason;
}

static int close_fd(struct ff_file *f)
{
	int fd = f->fd;

	f->fd = -1;
	return close(fd) < 0 ? errno : 0;
}

int ff_file_commit(struct ff_file *f, struct ff_error *err)
{
	int reason = sync_fd(f->fd), closed = close_fd(f);

	if (!reason)
		reason = closed;
	if (!reason && f->temp) {
		if (rename(f->temp, f->target) < 0) {
			reason = errno;
		} else {
			free(f->temp);
			f->temp = NULL;
			reason = sync_folder(f->target);
		}
	}
	if (reason)
		failed(f->path, reason, err);
	ff_file_drop(f);
	return reason ? FF_E_IO : FF_OK;
}

void ff_file_drop(struct ff_file *f)
{
	if (f->fd >= 0)
		close_fd(f);
	if (f->temp)
		unlink(f->temp);
	free(f->temp);
	free(f->target);
	*f = (struct ff_file){.fd = -1};
}
