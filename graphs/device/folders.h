/* Where the machines lie that come along, or were said to.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DEVICE_FOLDERS_H
#define FF_DEVICE_FOLDERS_H

#include <stdint.h>

#include "ff/arena.h"

#define FF_FOLDERS 3

/* NULL: nobody said so. */
const char *ff_folder(uint32_t i);
/* The first of all folders that has `file`, whole; "" where none has, NULL without memory. */
const char *ff_folder_find(const char *file, struct ff_arena *a);

#endif
