/* Names to indices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BASE_NAMES_H
#define FF_BASE_NAMES_H

#include "ff/hash.h"

struct ff_names {
	struct ff_table table;
	const char **name; /* by order of putting */
	uint32_t *index, n, cap;
};

void ff_names_init(struct ff_names *t, struct ff_arena *a);
/* FF_NONE when absent. */
uint32_t ff_names_find(const struct ff_names *t, const char *name);
/* `name` is not copied and must not be in the table yet.  FF_E_NOMEM. */
int ff_names_put(struct ff_names *t, const char *name, uint32_t index);

#endif
