/* Folders that appear whole, and what may be replaced by one.  SPDX-License-Identifier: Apache-2.0
 */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ff/paths.h"

#define TRIES 1000 /* names of temporary folders that others may have taken */

static const char *const sets[] = {"train", "test"};
#define SETS (sizeof(sets) / sizeof(sets[0]))

static int failed(const struct ff_pack_folder *f, int reason, struct ff_error *err)
{
	return ff_fail(err, FF_E_IO, "%s: cannot be written: %s", f->path, strerror(reason));
}

static int is_entry(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

/* Whether FOLDER/NAME itself is of that kind, not what a link names. */
static bool is_kind(const char *folder, const char *name, mode_t kind)
{
	char path[2 * PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return n < (int)sizeof(path) && lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

static bool is_array(const char *folder, const char *name)
{
	size_t n = strlen(name);

	return n > 4 && !strcmp(name + n - 4, ".npy") && is_kind(folder, name, S_IFREG);
}

static bool is_set(const char *folder, const char *name)
{
	bool known = false;

	for (size_t i = 0; i < SETS; i++)
		known = known || !strcmp(name, sets[i]);
	return known && is_kind(folder, name, S_IFDIR);
}

static bool is_classes(const char *folder, const char *name)
{
	return !strcmp(name, FF_PACK_CLASSES) && is_kind(folder, name, S_IFREG);
}

typedef bool (*is_ours_function)(const char *folder, const char *name);

/* What is in a folder: so many that `is_ours`, and the first that is not; -1: not to be read. */
static int count(const char *folder, is_ours_function is_ours, char other[NAME_MAX + 1])
{
	struct dirent **e;
	int n = scandir(folder, &e, is_entry, alphasort), ours = 0;

	for (int i = 0; i < n; i++) {
		if (is_ours(folder, e[i]->d_name))
			ours++;
		else if (!other[0])
			snprintf(other, NAME_MAX + 1, "%s", e[i]->d_name);
		free(e[i]);
	}
	if (n >= 0)
		free(e);
	return n < 0 ? -1 : ours;
}

static bool is_part(const char *folder, const char *name)
{
	return is_set(folder, name) || is_classes(folder, name);
}

/* That all of it came of an earlier one. */
static int check_there(const struct ff_pack_folder *f, struct ff_error *err)
{
	char other[NAME_MAX + 1] = "", path[PATH_MAX + 8];
	int n = count(f->target, is_part, other);

	for (size_t i = 0; i < SETS && n > 0 && !other[0]; i++) {
		snprintf(path, sizeof(path), "%s/%s", f->target, sets[i]);
		if (is_kind(f->target, sets[i], S_IFDIR) && count(path, is_array, other) < 0)
			n = -1;
	}
	if (n < 0)
		return ff_fail(err, FF_E_INPUT, "%s: %s", f->path, strerror(errno));
	if (!other[0] && n > 0 && !is_classes(f->target, FF_PACK_CLASSES))
		return ff_fail(err, FF_E_INPUT,
				"%s: has no " FF_PACK_CLASSES
				", as what ffpack writes; expected a folder that is not there, "
				"empty, or of an earlier ffpack",
				f->path);
	return !other[0] ? FF_OK
			 : ff_fail(err, FF_E_INPUT,
					   "%s: has %s, which ffpack did not write; expected a "
					   "folder that is not there, empty, or of an earlier "
					   "ffpack",
					   f->path, other);
}

/* Whether `path` is `folder` or lies in it; both are true paths. */
static bool is_in(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	while (n && folder[n - 1] == '/')
		n--;
	return !strncmp(path, folder, n) && (!path[n] || path[n] == '/');
}

/* Its true path, which need not be there yet. */
static int locate(struct ff_pack_folder *f, struct ff_error *err)
{
	char bare[PATH_MAX], target[2 * PATH_MAX];
	size_t n = strlen(f->path);

	while (n > 1 && f->path[n - 1] == '/')
		n--;
	if (!n || n >= PATH_MAX)
		return failed(f, n ? ENAMETOOLONG : ENOENT, err);
	snprintf(bare, sizeof(bare), "%.*s", (int)n, f->path);
	if (!ff_path_locate(bare, target))
		return failed(f, errno, err);
	f->target = strdup(target);
	return f->target ? FF_OK : ff_fail_memory(err);
}

/* Another run would take it for a class. */
static int check_apart(const struct ff_pack_folder *f, const char *source, struct ff_error *err)
{
	char *real = realpath(source, NULL);
	bool within = real && is_in(f->target, real);

	free(real);
	return within ? ff_fail(err, FF_E_INPUT, "-o %s: lies in %s, which is read", f->path,
					source)
		      : FF_OK;
}

static int check_target(const struct ff_pack_folder *f, struct ff_error *err)
{
	struct stat st;

	if (lstat(f->target, &st) < 0)
		return errno == ENOENT ? FF_OK : failed(f, errno, err);
	return S_ISDIR(st.st_mode) ? check_there(f, err)
				   : ff_fail(err, FF_E_INPUT, "%s: is no folder", f->path);
}

static int make_temp(struct ff_pack_folder *f, struct ff_error *err)
{
	const char *slash = strrchr(f->target, '/');
	char temp[2 * PATH_MAX];
	struct stat st;

	for (unsigned i = 0; i < TRIES; i++) {
		snprintf(temp, sizeof(temp), "%.*s.ff-%ld-%u.tmp", (int)(slash + 1 - f->target),
				f->target, (long)getpid(), i);
		if (mkdir(temp, 0777) == 0) {
			f->temp = strdup(temp);
			if (!f->temp)
				rmdir(temp);
			else if (stat(f->target, &st) == 0) /* as private as what it replaces */
				chmod(temp, st.st_mode & 07777);
			return f->temp ? FF_OK : ff_fail_memory(err);
		}
		if (errno != EEXIST)
			break;
	}
	return failed(f, errno, err);
}

int ff_pack_folder_open(const char *path, const char *source, struct ff_pack_folder *ret,
		struct ff_error *err)
{
	struct ff_pack_folder f = {.path = path};
	int code = locate(&f, err);

	if (code == FF_OK)
		code = check_apart(&f, source, err);
	if (code == FF_OK)
		code = check_target(&f, err);
	if (code == FF_OK)
		code = make_temp(&f, err);
	if (code < 0)
		ff_pack_folder_drop(&f);
	else
		*ret = f;
	return code;
}

static void remove_all(const char *folder, is_ours_function is_ours)
{
	struct dirent **e;
	char path[2 * PATH_MAX];
	int n = scandir(folder, &e, is_entry, NULL);

	for (int i = 0; i < n; i++) {
		if (is_ours(folder, e[i]->d_name) &&
				snprintf(path, sizeof(path), "%s/%s", folder, e[i]->d_name) <
						(int)sizeof(path))
			unlink(path);
		free(e[i]);
	}
	if (n >= 0)
		free(e);
	rmdir(folder);
}

/* What is ours, and the folders if nothing else is in them. */
static void remove_pack(const char *folder)
{
	char path[2 * PATH_MAX];

	for (size_t i = 0; i < SETS; i++)
		if (is_set(folder, sets[i]) && snprintf(path, sizeof(path), "%s/%s", folder,
							       sets[i]) < (int)sizeof(path))
			remove_all(path, is_array);
	remove_all(folder, is_classes);
}

/* 0, or what went wrong. */
static int swap(const char *temp, const char *target)
{
	char aside[2 * PATH_MAX + 8];

	if (rename(temp, target) == 0) /* nothing was there, or an empty folder */
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return errno;
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, target, RENAME_EXCHANGE) == 0) {
		remove_pack(temp);
		return 0;
	}
	/* not every file system exchanges: for an instant nothing is there */
	snprintf(aside, sizeof(aside), "%s.old", temp);
	if (rename(target, aside) < 0)
		return errno;
	if (rename(temp, target) < 0) {
		int reason = errno;

		rename(aside, target);
		return reason;
	}
	remove_pack(aside);
	return 0;
}

/* Its name lies in the folder around it; what cannot be synchronised, need not be. */
static void sync_around(const char *target)
{
	const char *slash = strrchr(target, '/');
	char around[2 * PATH_MAX];
	int fd;

	snprintf(around, sizeof(around), "%.*s", (int)(slash + 1 - target), target);
	fd = open(around, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

int ff_pack_folder_commit(struct ff_pack_folder *f, struct ff_error *err)
{
	int code = check_target(f, err), reason; /* somebody may have put something there */

	if (code < 0)
		return code;
	reason = swap(f->temp, f->target);
	if (reason)
		return failed(f, reason, err);
	sync_around(f->target);
	free(f->temp);
	f->temp = NULL;
	ff_pack_folder_drop(f);
	return FF_OK;
}

void ff_pack_folder_drop(struct ff_pack_folder *f)
{
	if (f->temp)
		remove_pack(f->temp);
	free(f->temp);
	free(f->target);
	*f = (struct ff_pack_folder){.path = NULL};
}
