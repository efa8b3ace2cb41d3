/* Names to indices: a growing hash table in an arena.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GRAPHS_NAMES_H
#define FF_GRAPHS_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "ff/arena.h"

struct ff_name_slot {
	const char *name; /* NULL: free */
	uint32_t hash, index;
};
struct ff_names {
	struct ff_name_slot *slot;
	uint32_t cap, n; /* cap is a power of two, at most half full */
	struct ff_arena *arena;
};

/* FNV-1a, 64 bit (Fowler, Noll, Vo). */
uint64_t ff_fnv1a(const void *data, size_t len);

void ff_names_init(struct ff_names *t, struct ff_arena *a);
/* UINT32_MAX when absent. */
uint32_t ff_names_find(const struct ff_names *t, const char *name);
/* `name` is not copied and must not be in the table yet.  FF_E_NOMEM. */
int ff_names_put(struct ff_names *t, const char *name, uint32_t index);

#endif
