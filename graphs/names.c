/* Names to indices.  SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <string.h>

#include "ff/error.h"

uint64_t ff_fnv1a(const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

static uint32_t hash_of(const char *name)
{
	uint64_t h = ff_fnv1a(name, strlen(name));
	return (uint32_t)(h ^ (h >> 32));
}

void ff_names_init(struct ff_names *t, struct ff_arena *a)
{
	*t = (struct ff_names){.arena = a};
}

/* The slot that holds `name`, or the free one where it would go. */
static uint32_t probe(const struct ff_names *t, const char *name, uint32_t hash)
{
	uint32_t i = hash & (t->cap - 1);
	while (t->slot[i].name && (t->slot[i].hash != hash || strcmp(t->slot[i].name, name) != 0))
		i = (i + 1) & (t->cap - 1);
	return i;
}

uint32_t ff_names_find(const struct ff_names *t, const char *name)
{
	if (!t->cap)
		return UINT32_MAX;
	const struct ff_name_slot *s = &t->slot[probe(t, name, hash_of(name))];
	return s->name ? s->index : UINT32_MAX;
}

static int grow(struct ff_names *t)
{
	struct ff_names bigger = {.cap = t->cap ? t->cap * 2 : 64, .n = t->n, .arena = t->arena};
	bigger.slot = ff_arena_array(t->arena, bigger.cap, sizeof bigger.slot[0]);
	if (!bigger.slot)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < t->cap; i++)
		if (t->slot[i].name)
			bigger.slot[probe(&bigger, t->slot[i].name, t->slot[i].hash)] = t->slot[i];
	*t = bigger;
	return FF_OK;
}

int ff_names_put(struct ff_names *t, const char *name, uint32_t index)
{
	if (t->n >= t->cap / 2 && grow(t) < 0)
		return FF_E_NOMEM;
	uint32_t hash = hash_of(name);
	t->slot[probe(t, name, hash)] = (struct ff_name_slot){name, hash, index};
	t->n++;
	return FF_OK;
}
