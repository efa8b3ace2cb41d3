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

/* What is divided by often: i / n is (i * magic / 2^32 + i) / 2^shift for i < 2^31 (Granlund and
 * Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994, section 4). */
struct divisor {
	int64_t n;
	uint32_t magic, shift;
};
#define FF_NARROW ((int64_t)1 << 31) /* elements that 32 bits count */

static inline struct divisor divisor_of(int64_t of)
{
	struct divisor d = {of, 0, 0};
	uint64_t n = (uint64_t)of;

	if (of <= 0 || of > FF_NARROW)
		return d;
	while (n > (uint64_t)1 << d.shift)
		d.shift++;
	d.magic = (uint32_t)(((((uint64_t)1 << d.shift) - n) << 32) / n + 1);
	return d;
}

/* i / d.n; i becomes the rest. */
FF_DEVICE uint32_t divided(const struct divisor &d, uint32_t *i)
{
	uint32_t high = (uint32_t)((uint64_t)*i * d.magic >> 32);
	uint32_t whole = (high + *i) >> d.shift;

	*i -= whole * (uint32_t)d.n;
	return whole;
}
FF_DEVICE int64_t divided(const struct divisor &d, int64_t *i)
{
	int64_t whole = *i / d.n;

	*i -= whole * d.n;
	return whole;
}

struct places {
	struct ff_strided loops;
	struct divisor by[FF_COPY_RANK];
	uint32_t narrow, unused; /* no more than 2^31 elements */
};

static inline struct places places_of(const struct ff_strided *l)
{
	struct places p = {*l, {}, ff_strided_volume(l) <= FF_NARROW, 0};

	for (uint32_t i = 0; i < l->rank; i++)
		p.by[i] = divisor_of(l->n[i]);
	return p;
}

/* Where `left` is along `axis`; what is left over for those before it.  For the first axis that is
 * less than its extent: nothing to divide. */
FF_DEVICE int64_t place_along(const struct places &p, uint32_t axis, uint32_t *left)
{
	uint32_t at = *left;

	*left = axis > 0 ? divided(p.by[axis], &at) : 0;
	return (int64_t)at;
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
