/* Files that a command names, before it reads or writes them.  SPDX-License-Identifier: Apache-2.0
 */
#include "ff/paths.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ff/file.h"

/* Standard output, or input. */
static bool is_dash(const struct ff_path *p)
{
	return p->path && !strcmp(p->path, "-");
}

/* Its folder's true path, and its name. */
bool ff_path_locate(const char *path, char *ret)
{
	char folder[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	int n = slash ? (int)(slash + 1 - path) : 0;

	if (realpath(path, ret))
		return true;
	if (n >= PATH_MAX || strlen(name) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	snprintf(folder, sizeof(folder), "%.*s", n ? n : 1, n ? path : ".");
	if (!realpath(folder, real))
		return false;
	snprintf(ret, (size_t)2 * PATH_MAX, "%s/%s", real, name);
	return true;
}

/* Devices and pipes may be named as often as one likes. */
static bool is_special(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

static bool same_file(const char *a, const char *b)
{
	char at_a[2 * PATH_MAX], at_b[2 * PATH_MAX];
	struct stat sa, sb;

	if (stat(a, &sa) == 0 && stat(b, &sb) == 0)
		return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
	return ff_path_locate(a, at_a) && ff_path_locate(b, at_b) && !strcmp(at_a, at_b);
}

static bool clash(const struct ff_path *a, const struct ff_path *b)
{
	if (!a->path || !b->path)
		return false;
	if (is_dash(a) || is_dash(b))
		return is_dash(a) && is_dash(b);
	return !is_special(a->path) && same_file(a->path, b->path);
}

int ff_paths_apart(const struct ff_path *out, uint32_t n_out, const struct ff_path *in,
		uint32_t n_in, struct ff_error *err)
{
	for (uint32_t i = 0; i < n_out; i++) {
		for (uint32_t k = 0; k < i; k++)
			if (clash(&out[i], &out[k]))
				return ff_fail(err, FF_E_INPUT,
						"%s and %s are the same file, %.300s", out[k].name,
						out[i].name, out[i].path);
		for (uint32_t k = 0; k < n_in; k++)
			if (!is_dash(&out[i]) && clash(&out[i], &in[k]))
				return ff_fail(err, FF_E_INPUT,
						"%s would replace %s, which is read: %.300s",
						out[i].name, in[k].name, out[i].path);
	}
	return FF_OK;
}

int ff_paths_check(const struct ff_path *out, uint32_t n_out, const struct ff_path *in,
		uint32_t n_in, struct ff_error *err)
{
	int code = ff_paths_apart(out, n_out, in, n_in, err);

	for (uint32_t i = 0; i < n_out && code == FF_OK; i++)
		if (out[i].path)
			code = ff_file_check(out[i].path, err);
	return code;
}

int ff_paths_check_shared(
		const struct ff_path *in, uint32_t n_in, uint32_t ranks, struct ff_error *err)
{
	for (uint32_t i = 0; i < n_in && ranks > 1; i++)
		if (in[i].path && (is_dash(&in[i]) || is_special(in[i].path)))
			return ff_fail(err, FF_E_INPUT,
					"%s %.300s: is no regular file, so that not each of %u "
					"ranks "
					"could read it",
					in[i].name, in[i].path, ranks);
	return FF_OK;
}

bool ff_paths_piped(const struct ff_path *out, uint32_t n_out)
{
	for (uint32_t i = 0; i < n_out; i++)
		if (is_dash(&out[i]))
			return true;
	return false;
}
