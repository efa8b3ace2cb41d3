/* Hashes, and a table from hashes to indices.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/hash.h"

#include <stdlib.h>
#include <string.h>

#include "ff/error.h"

#define FIRST_CAP 64

uint64_t ff_fnv1a(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h;
}

static void insert(struct ff_table *t, uint64_t hash, uint32_t index)
{
	uint32_t mask = t->cap - 1, at = ff_table_home(t, hash);

	while (t->slot[at].used)
		at = (at + 1) & mask;
	t->slot[at] = (struct ff_slot){hash, index, 1};
}

static int grow(struct ff_table *t)
{
	struct ff_table bigger = {.cap = t->cap ? 2 * t->cap : FIRST_CAP, .n = t->n};

	bigger.arena = t->arena;
	bigger.slot = t->arena ? ff_arena_array(t->arena, bigger.cap, sizeof(*bigger.slot))
			       : calloc(bigger.cap, sizeof(*bigger.slot));
	if (!bigger.slot)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < t->cap; i++)
		if (t->slot[i].used)
			insert(&bigger, t->slot[i].hash, t->slot[i].index);
	if (!t->arena)
		free(t->slot);
	*t = bigger;
	return FF_OK;
}

int ff_table_put(struct ff_table *t, uint64_t hash, uint32_t index)
{
	if (2 * (t->n + 1) > t->cap && grow(t) < 0)
		return FF_E_NOMEM;
	insert(t, hash, index);
	t->n++;
	return FF_OK;
}

void ff_table_clear(struct ff_table *t)
{
	if (t->cap)
		memset(t->slot, 0, t->cap * sizeof(*t->slot));
	t->n = 0;
}

void ff_table_finish(struct ff_table *t)
{
	if (!t->arena)
		free(t->slot);
	*t = (struct ff_table){.arena = t->arena};
}
