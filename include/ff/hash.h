/* Hashes, and a table from hashes to indices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_HASH_H
#define FF_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "ff/arena.h"

#define FF_NONE UINT32_MAX

/* FNV-1a, 64 bit (Fowler, Noll, Vo): of bytes, for what is written to files. */
uint64_t ff_fnv1a(const void *data, size_t len);

/* Takes one number into a hash: the finaliser of splitmix64 (Steele, Lea, Flood,
 * OOPSLA 2014), so that every bit of `v` reaches every bit of the result. */
static inline uint64_t ff_hash_mix(uint64_t h, uint64_t v)
{
	uint64_t x = (h ^ v) + UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* A hash of `n` numbers: each times an odd one of its own, so that none waits for another, and
 * the sum mixed (multilinear hashing: Lemire, Kaser, Computer Journal 57(11), 2014). */
static inline uint64_t ff_hash_words(const uint64_t *word, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += word[i] * (ff_hash_mix(0, i) | 1);
	return ff_hash_mix(sum, n);
}

/* Open addressing, at most half full.  The caller keeps the entries; the table
 * knows their hashes and numbers.  Zeroed, it is empty and grows by malloc; with
 * `arena` set it grows there and needs no finish. */
struct ff_table {
	struct ff_slot *slot;
	uint32_t n, cap; /* cap is a power of two, or 0 */
	struct ff_arena *arena;
};
struct ff_slot {
	uint64_t hash;
	uint32_t index;
	uint32_t used;
};

/* Walks the entries with that hash, of which the caller knows which it means:
 *   for (i = ff_table_first(t, h, &at); i != FF_NONE; i = ff_table_next(t, h, &at)) */
static inline uint32_t ff_table_home(const struct ff_table *t, uint64_t hash)
{
	return (uint32_t)(hash ^ hash >> 32) & (t->cap - 1);
}
/* The first with that hash from slot *at on. */
static inline uint32_t ff_table_walk(const struct ff_table *t, uint64_t hash, uint32_t *at)
{
	for (; t->slot[*at].used; *at = (*at + 1) & (t->cap - 1))
		if (t->slot[*at].hash == hash)
			return t->slot[*at].index;
	return FF_NONE;
}
static inline uint32_t ff_table_first(const struct ff_table *t, uint64_t hash, uint32_t *at)
{
	if (!t->cap)
		return FF_NONE;
	*at = ff_table_home(t, hash);
	return ff_table_walk(t, hash, at);
}
static inline uint32_t ff_table_next(const struct ff_table *t, uint64_t hash, uint32_t *at)
{
	*at = (*at + 1) & (t->cap - 1);
	return ff_table_walk(t, hash, at);
}
/* Prefetches the slot of a hash that will be looked up soon. */
static inline void ff_table_prefetch(const struct ff_table *t, uint64_t hash)
{
	if (t->cap)
		__builtin_prefetch(&t->slot[ff_table_home(t, hash)]);
}
/* Adds an entry, whatever is there already.  FF_OK or FF_E_NOMEM. */
int ff_table_put(struct ff_table *t, uint64_t hash, uint32_t index);
/* Forgets all entries, keeps the room. */
void ff_table_clear(struct ff_table *t);
void ff_table_finish(struct ff_table *t);

#endif
