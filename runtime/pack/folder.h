/* A folder of arrays that appears whole: written beside its place, then renamed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PACK_FOLDER_H
#define FF_PACK_FOLDER_H

#include "ff/error.h"

#define FF_PACK_CLASSES "classes.txt"

/* A folder on its way: train/, perhaps test/, with .npy files, and classes.txt. */
struct ff_pack_folder {
	const char *path; /* as the user named it; the caller's */
	char *target;     /* where that is, behind links */
	char *temp;       /* NULL: it is not open */
};

/* Makes temp beside `path`, which must not be there, be empty, or be what an earlier one became;
 * nor lie in `source`, which is read.  FF_E_INPUT, FF_E_IO. */
int ff_pack_folder_open(const char *path, const char *source, struct ff_pack_folder *ret,
		struct ff_error *err);
/* Puts it where it belongs; what was there is removed.  On failure that stays. */
int ff_pack_folder_commit(struct ff_pack_folder *f, struct ff_error *err);
/* Gives up, if it was not committed; accepts a zeroed one. */
void ff_pack_folder_drop(struct ff_pack_folder *f);

#endif
