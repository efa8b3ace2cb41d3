/* Where machines lie that are known by name.  SPDX-License-Identifier: Apache-2.0 */
#include "folders.h"

#include <stdlib.h>
#include <unistd.h>

const char *ff_folder(uint32_t i)
{
	const char *all[FF_FOLDERS] = {getenv("FF_MACHINES"), FF_SOURCE_MACHINES, FF_DATA_MACHINES};

	return all[i];
}

const char *ff_folder_find(const char *file, struct ff_arena *a)
{
	for (uint32_t i = 0; i < FF_FOLDERS; i++) {
		const char *path;

		if (!ff_folder(i))
			continue;
		path = ff_arena_printf(a, "%s/%s", ff_folder(i), file);
		if (!path || !access(path, F_OK))
			return path;
	}
	return "";
}
