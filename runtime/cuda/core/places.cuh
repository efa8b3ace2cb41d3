/* Strided loops whose extents are divided by in advance: what a thread of a copy does most is to
 * find its element.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_PLACES_CUH
#define FF_CUDA_PLACES_CUH

#include "real.cuh"

/* One access, as its alignment is its size. */
struct alignas(16) word16 {
	uint64_t lo, hi;
};
static_assert(alignof(struct word16) == sizeof(struct word16), "two accesses");

/* i / n[axis] is (i * magic[axis] / 2^32 + i) / 2^shift[axis] for i < 2^31 (Granlund and
 * Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994, section 4). */
struct places {
	struct ff_strided loops;
	uint32_t magic[FF_COPY_RANK], shift[FF_COPY_RANK];
	uint32_t narrow, unused; /* no more than 2^31 elements */
};

static inline struct places places_of(const struct ff_strided *l)
{
	struct places p = {*l, {0}, {0}, ff_strided_volume(l) <= (int64_t)1 << 31, 0};

	for (uint32_t i = 0; i < l->rank && p.narrow; i++) {
		uint64_t n = (uint64_t)l->n[i];

		while (n > (uint64_t)1 << p.shift[i])
			p.shift[i]++;
		if (n > 0)
			p.magic[i] = (uint32_t)(((((uint64_t)1 << p.shift[i]) - n) << 32) / n + 1);
	}
	return p;
}

/* Divides `left` by the extent of `axis`, the first but for axis 0; what is left over. */
FF_DEVICE int64_t place_along(const struct places &p, uint32_t axis, uint32_t *left)
{
	uint32_t high = (uint32_t)((uint64_t)*left * p.magic[axis] >> 32);
	uint32_t next = axis > 0 ? (high + *left) >> p.shift[axis] : 0;
	int64_t at = (int64_t)(*left - next * (uint32_t)p.loops.n[axis]);

	*left = next;
	return at;
}

FF_DEVICE void places_at(const struct places &p, int64_t i, int64_t *source, int64_t *sink)
{
	uint32_t left = (uint32_t)i;

	if (!p.narrow) {
		loops_at(p.loops, i, source, sink);
		return;
	}
	*source = *sink = 0;
	for (uint32_t axis = p.loops.rank; axis-- > 0;) {
		int64_t at = place_along(p, axis, &left);

		*source += at * p.loops.source[axis];
		*sink += at * p.loops.sink[axis];
	}
}

/* The same in narrow loops of two axes or more; and where it is along the last two. */
FF_DEVICE void tile_at(const struct places &p, uint32_t i, int64_t *row, int64_t *column,
		int64_t *source, int64_t *sink)
{
	uint32_t axis = p.loops.rank - 1;

	*column = place_along(p, axis, &i);
	*source = *column * p.loops.source[axis];
	*sink = *column * p.loops.sink[axis];
	*row = place_along(p, --axis, &i);
	*source += *row * p.loops.source[axis];
	*sink += *row * p.loops.sink[axis];
	while (axis-- > 0) {
		int64_t at = place_along(p, axis, &i);

		*source += at * p.loops.source[axis];
		*sink += at * p.loops.sink[axis];
	}
}

#endif
