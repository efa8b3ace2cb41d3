/* Bytes of ring collectives.  SPDX-License-Identifier: Apache-2.0 */
#include "ring.h"

static int64_t even_chunk(int64_t n, uint32_t parts, uint32_t i)
{
	return n / parts + (i < n % parts);
}

int64_t ff_ring_bytes(const struct ff_collective *x, uint32_t position)
{
	uint32_t p = x->n_devices, next = (position + 1) % p;
	int64_t whole = 0, n;

	if (x->kind == FF_MOVE_ALL_REDUCE) {
		whole = x->count[0];
		n = 2 * whole - even_chunk(whole, p, position) - even_chunk(whole, p, next);
		return n * ff_dtype_bytes(x->type);
	}
	for (uint32_t i = 0; i < p; i++)
		whole += x->count[i];
	n = whole - x->count[x->kind == FF_MOVE_ALL_GATHER ? next : position];
	return n * ff_dtype_bytes(x->type);
}
