/* Names to indices.  SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <string.h>

#include "ff/error.h"

void ff_names_init(struct ff_names *t, struct ff_arena *a)
{
	*t = (struct ff_names){.table = {.arena = a}};
}

uint32_t ff_names_find(const struct ff_names *t, const char *name)
{
	uint64_t hash = ff_fnv1a(name, strlen(name));
	uint32_t at, i;

	for (i = ff_table_first(&t->table, hash, &at); i != FF_NONE;
			i = ff_table_next(&t->table, hash, &at))
		if (!strcmp(t->name[i], name))
			return t->index[i];
	return FF_NONE;
}

static int grow(struct ff_names *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : 64;
	const char **name = ff_arena_array(t->table.arena, cap, sizeof(*name));
	uint32_t *index = ff_arena_array(t->table.arena, cap, sizeof(*index));

	if (!name || !index)
		return FF_E_NOMEM;
	if (t->n) {
		memcpy(name, t->name, t->n * sizeof(*name));
		memcpy(index, t->index, t->n * sizeof(*index));
	}
	t->name = name;
	t->index = index;
	t->cap = cap;
	return FF_OK;
}

int ff_names_put(struct ff_names *t, const char *name, uint32_t index)
{
	if (t->n == t->cap && grow(t) < 0)
		return FF_E_NOMEM;
	if (ff_table_put(&t->table, ff_fnv1a(name, strlen(name)), t->n) < 0)
		return FF_E_NOMEM;
	t->name[t->n] = name;
	t->index[t->n++] = index;
	return FF_OK;
}
