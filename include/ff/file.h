/* Files that appear whole: written beside their place, then renamed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_FILE_H
#define FF_FILE_H

#include <stddef.h>

#include "ff/error.h"

/* A file on its way.  What is no plain file (a pipe, /dev/null) is written through, and so is
 * standard output, "-". */
struct ff_file {
	int fd;           /* -1: not open */
	const char *path; /* as the user named it, for errors; the caller's */
	char *target;     /* what `path` means behind links */
	char *temp;       /* NULL: written through */
};

/* Opens a new file beside `path`, which must stay until the file is closed.  A link
 * stays, what it names will be replaced by a file of the same mode.  FF_E_IO names the path and the
 * reason, as in the calls below. */
int ff_file_open(const char *path, struct ff_file *ret, struct ff_error *err);
/* Whether that can be done, so that a long run need not end to find out. */
int ff_file_check(const char *path, struct ff_error *err);
/* Takes away what processes that were killed have left of `path`, on their way.  The caller knows
 * that nobody else is writing it (ff/lock.h); what cannot be taken away stays. */
void ff_file_sweep(const char *path);
int ff_file_write(struct ff_file *f, const void *data, size_t bytes, struct ff_error *err);
/* Brings the bytes to the disk and then the name to them, so that not even a machine that
 * stops leaves half a file.  On failure nothing is left beside `path`, and what was there
 * before stays (unless it is the folder that cannot be brought to the disk). */
int ff_file_commit(struct ff_file *f, struct ff_error *err);
/* Gives up, if it was not committed; accepts a zeroed file with fd -1. */
void ff_file_drop(struct ff_file *f);

#endif
