/* Arena: memory that is freed all at once.  One per lifetime (graph, plan,
 * scratch).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ARENA_H
#define FF_ARENA_H

#include <stddef.h>

struct ff_chunk;

struct ff_arena {
	struct ff_chunk *head;  /* newest chunk first */
	struct ff_chunk *spare; /* emptied by a rewind, to be used again */
	size_t bytes;           /* held from the host, all chunks together */
	size_t limit;           /* refuse to hold more; 0: no limit */
};

struct ff_arena_mark {
	struct ff_chunk *chunk;
	size_t used;
};

void ff_arena_init(struct ff_arena *a);
/* Frees everything.  Accepts a zeroed arena; may be called twice. */
void ff_arena_finish(struct ff_arena *a);

/* `size` zeroed bytes, aligned for any type; NULL when the host or the limit
 * refuses.  Size 0 gives a valid pointer. */
void *ff_arena_alloc(struct ff_arena *a, size_t size);
/* `n` zeroed elements of `size` bytes; NULL on overflow too. */
void *ff_arena_array(struct ff_arena *a, size_t n, size_t size);
/* A copy of `n` elements. */
void *ff_arena_copy(struct ff_arena *a, const void *src, size_t n, size_t size);
char *ff_arena_strdup(struct ff_arena *a, const char *text);
char *ff_arena_printf(struct ff_arena *a, const char *fmt, ...)
		__attribute__((format(printf, 2, 3)));

/* Stack discipline for scratch: what was allocated after the mark is given
 * back to the arena (not to the host) and its pointers die. */
struct ff_arena_mark ff_arena_mark(const struct ff_arena *a);
void ff_arena_rewind(struct ff_arena *a, struct ff_arena_mark mark);
/* Bytes handed out and not given back by a rewind. */
size_t ff_arena_used(const struct ff_arena *a);

#endif
