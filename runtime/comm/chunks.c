/* Chunks of collectives.  SPDX-License-Identifier: Apache-2.0 */
#include "chunks.h"

#include <stdlib.h>
#include <string.h>

bool ff_chunks_are_even(const struct ff_collective *x)
{
	for (uint32_t i = 1; i < x->n_devices; i++)
		if (x->count[i] != x->count[0])
			return false;
	return true;
}

bool ff_chunks_are_in_order(const struct ff_collective *x)
{
	for (uint32_t i = 0; i < x->n_devices; i++)
		if (x->offset[i] != i * x->count[0])
			return false;
	return true;
}

static int64_t even_part(int64_t n, uint32_t parts, uint32_t i)
{
	return n / parts + (i < n % parts);
}

static int64_t even_chunk(const struct ff_chunks *c, uint32_t i)
{
	return even_part(c->x->count[0] / c->width, c->x->n_devices, i) * c->width;
}

int ff_chunks_init(struct ff_chunks *c, const struct ff_collective *x, uint32_t me,
		struct ff_error *err)
{
	bool gathers = x->kind == FF_MOVE_ALL_GATHER, even = x->kind == FF_MOVE_ALL_REDUCE;
	int64_t at = 0;

	*c = (struct ff_chunks){.x = x,
			.me = me,
			.size = ff_dtype_bytes(x->type),
			.width = gathers ? 1 : ff_reduce_width(x->reduce),
			.count = malloc((size_t)2 * x->n_devices * sizeof(int64_t))};
	if (!c->count)
		return ff_fail_memory(err);
	c->offset = c->count + x->n_devices;
	for (uint32_t i = 0; i < x->n_devices; at += c->count[i++]) {
		c->count[i] = even ? even_chunk(c, i) : x->count[i];
		c->offset[i] = gathers ? x->offset[i] : at;
		c->longest = c->count[i] > c->longest ? c->count[i] : c->longest;
	}
	return FF_OK;
}

void ff_chunks_finish(struct ff_chunks *c)
{
	free(c->count);
}

int64_t ff_chunks_part(const struct ff_chunks *c, uint32_t chunk, int64_t at, int64_t most)
{
	int64_t left = c->count[chunk] - at;

	return left < 0 ? 0 : left < most ? left : most;
}

const char *ff_chunks_own(const struct ff_chunks *c, uint32_t chunk, int64_t at)
{
	int64_t begin = c->x->kind == FF_MOVE_ALL_GATHER ? 0 : c->offset[chunk];

	return (const char *)c->x->send[c->me] + (begin + at) * c->size;
}

char *ff_chunks_result(const struct ff_chunks *c, uint32_t chunk, int64_t at)
{
	int64_t begin = c->x->kind == FF_MOVE_REDUCE_SCATTER ? 0 : c->offset[chunk];

	return (char *)c->x->recv[c->me] + (begin + at) * c->size;
}

void ff_chunks_keep_own(const struct ff_chunks *c)
{
	if (c->count[c->me] && ff_chunks_own(c, c->me, 0) != ff_chunks_result(c, c->me, 0))
		memcpy(ff_chunks_result(c, c->me, 0), ff_chunks_own(c, c->me, 0),
				(size_t)(c->count[c->me] * c->size));
}

int64_t ff_ring_bytes(const struct ff_collective *x, uint32_t position)
{
	uint32_t p = x->n_devices, next = (position + 1) % p;
	int64_t whole = 0, n;

	if (x->kind == FF_MOVE_ALL_REDUCE) {
		whole = x->count[0];
		n = 2 * whole - even_part(whole, p, position) - even_part(whole, p, next);
		return n * ff_dtype_bytes(x->type);
	}
	for (uint32_t i = 0; i < p; i++)
		whole += x->count[i];
	n = whole - x->count[x->kind == FF_MOVE_ALL_GATHER ? next : position];
	return n * ff_dtype_bytes(x->type);
}
