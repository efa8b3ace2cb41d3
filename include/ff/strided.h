/* Strided copies as nested loops.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRIDED_H
#define FF_STRIDED_H

#include "ff/region.h"

#define FF_COPY_RANK 8

/* `rank` nested loops of n[i] steps, outermost first; strides in elements.  Kernels of devices
 * take it as it is: without padding, every byte of it is known. */
struct ff_strided {
	uint32_t rank, unused;
	int64_t n[FF_COPY_RANK], source[FF_COPY_RANK], sink[FF_COPY_RANK];
};

/* Removes axes of one step, sorts the rest (largest sink stride first) and
 * merges neighbours that are one run on both sides.  Rank 0 becomes one step. */
void ff_strided_normalise(const struct ff_strided *s, struct ff_strided *ret);

static inline int64_t ff_strided_volume(const struct ff_strided *s)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < s->rank; i++)
		n *= s->n[i];
	return n;
}

/* The loops that copy `region` between dense shards of two regions (axes in `order`), and
 * where they begin in each, in elements. */
void ff_strided_region(const uint8_t *order, const struct ff_region *source,
		const struct ff_region *sink, const struct ff_region *region,
		struct ff_strided *ret, int64_t *source_at, int64_t *sink_at);

#endif
