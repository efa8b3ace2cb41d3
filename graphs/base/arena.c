/* Arena: memory that is freed all at once.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CHUNK ((size_t)4096)
#define LARGEST_STEP ((size_t)1 << 20)

struct ff_chunk {
	struct ff_chunk *next; /* older, or the next spare one */
	size_t size, used;     /* of data */
	size_t clean;          /* from there on it is as the host gave it: zero */
	size_t before;         /* used of all older ones */
	alignas(max_align_t) unsigned char data[];
};

static void free_chunks(struct ff_arena *a, struct ff_chunk *c)
{
	while (c) {
		struct ff_chunk *next = c->next;

		a->bytes -= sizeof(*c) + c->size;
		free(c);
		c = next;
	}
}

void ff_arena_init(struct ff_arena *a)
{
	*a = (struct ff_arena){0};
}

void ff_arena_finish(struct ff_arena *a)
{
	if (!a)
		return;
	free_chunks(a, a->head);
	free_chunks(a, a->spare);
	a->head = a->spare = NULL;
}

/* Takes a chunk of at least `size` bytes out of the spare ones. */
static struct ff_chunk *take_spare(struct ff_arena *a, size_t size)
{
	for (struct ff_chunk **at = &a->spare; *at; at = &(*at)->next) {
		struct ff_chunk *c = *at;

		if (c->size >= size) {
			*at = c->next;
			return c;
		}
	}
	return NULL;
}

static bool within_limit(const struct ff_arena *a, size_t size)
{
	size_t total = sizeof(struct ff_chunk) + size;

	return !a->limit || (a->bytes <= a->limit && total <= a->limit - a->bytes);
}

static struct ff_chunk *new_chunk(struct ff_arena *a, size_t size)
{
	/* Doubling keeps the number of chunks small; a step cap keeps waste small. */
	size_t wish = a->head ? a->head->size * 2 : FIRST_CHUNK;
	struct ff_chunk *c;

	if (wish > LARGEST_STEP)
		wish = LARGEST_STEP;
	if (wish < size || !within_limit(a, wish))
		wish = size;
	if (!within_limit(a, wish)) {
		free_chunks(a, a->spare);
		a->spare = NULL;
		if (!within_limit(a, wish))
			return NULL;
	}
	c = calloc(1, sizeof(*c) + wish);
	if (!c)
		return NULL;
	c->size = wish;
	a->bytes += sizeof(*c) + wish;
	return c;
}

/* The next `size` bytes of `c`, which has them. */
static void *zeroed(struct ff_chunk *c, size_t size)
{
	size_t from = c->used, end = from + size, dirty = c->clean < end ? c->clean : end;
	unsigned char *p = c->data + from;

	if (dirty > from)
		memset(p, 0, dirty - from);
	c->used = end;
	if (c->clean < end)
		c->clean = end;
	return p;
}

void *ff_arena_alloc(struct ff_arena *a, size_t size)
{
	const size_t align = alignof(max_align_t);

	if (size > SIZE_MAX / 2)
		return NULL;
	size = size ? (size + align - 1) / align * align : align;
	if (!a->head || a->head->size - a->head->used < size) {
		struct ff_chunk *c = take_spare(a, size);

		if (!c)
			c = new_chunk(a, size);
		if (!c)
			return NULL;
		c->used = 0;
		c->before = ff_arena_used(a);
		c->next = a->head;
		a->head = c;
	}
	return zeroed(a->head, size);
}

void *ff_arena_array(struct ff_arena *a, size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : ff_arena_alloc(a, bytes);
}

void *ff_arena_copy(struct ff_arena *a, const void *src, size_t n, size_t size)
{
	void *p = ff_arena_array(a, n, size);

	if (p && n && size)
		memcpy(p, src, n * size);
	return p;
}

char *ff_arena_strdup(struct ff_arena *a, const char *text)
{
	return ff_arena_copy(a, text, strlen(text) + 1, 1);
}

char *ff_arena_printf(struct ff_arena *a, const char *fmt, ...)
{
	va_list args, again;
	int n;
	char *text;

	va_start(args, fmt);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, args);
	text = n < 0 ? NULL : ff_arena_alloc(a, (size_t)n + 1);
	if (text)
		vsnprintf(text, (size_t)n + 1, fmt, again);
	va_end(again);
	va_end(args);
	return text;
}

struct ff_arena_mark ff_arena_mark(const struct ff_arena *a)
{
	return (struct ff_arena_mark){a->head, a->head ? a->head->used : 0};
}

void ff_arena_rewind(struct ff_arena *a, struct ff_arena_mark mark)
{
	while (a->head && a->head != mark.chunk) {
		struct ff_chunk *c = a->head;

		a->head = c->next;
		c->next = a->spare;
		a->spare = c;
	}
	if (a->head)
		a->head->used = mark.used;
}

size_t ff_arena_used(const struct ff_arena *a)
{
	return a->head ? a->head->before + a->head->used : 0;
}
