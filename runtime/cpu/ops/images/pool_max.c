/* The largest of windows of images that are stored channels last, and where in its window each was,
 * as the library has it.  What is no number is the largest.  SPDX-License-Identifier: Apache-2.0 */
#include "pool_max.h"

#include <math.h>

#include "cpu/core/real.h"
#include "ff/clones.h"

#define RUN 64 /* channels at a time */

/* Taps of one axis: from `lo` up to `hi`; of a window the places are at + tap. */
struct taps {
	int64_t at;
	int32_t lo, hi;
};

/* The taps of window `o` that are inside the image. */
static struct taps taps_inside(const struct ff_windows *w, int axis, int64_t o)
{
	int64_t at = o * w->stride[axis] - w->pad[0][axis], left = w->in[axis] - at;

	return (struct taps){at, at < 0 ? (int32_t)-at : 0,
			left < w->kernel[axis] ? (int32_t)left : w->kernel[axis]};
}

/* What a window has of `n` channels is among the largest so far. */
FF_REAL_LOOP void take(enum ff_dtype t, const void *in, int64_t from, int32_t tap,
		float *restrict most, int32_t *restrict where, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float v = ff_real_get(t, in, from + i);
		bool larger = (v > most[i]) | (v != v);

		most[i] = larger ? v : most[i];
		where[i] = larger ? tap : where[i];
	}
}

FF_REAL_LOOP void put(enum ff_dtype t, bool wide, const float *restrict most,
		const int32_t *restrict where, void *out, void *places, int64_t at, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		ff_real_put(t, out, at + i, most[i]);
	if (wide)
		for (int64_t i = 0; i < n; i++)
			((int32_t *)places)[at + i] = where[i];
	else
		for (int64_t i = 0; i < n; i++)
			((uint8_t *)places)[at + i] = (uint8_t)where[i];
}

/* Windows [first, end) of the last axis in row `row` of results, counted over images too. */
FF_REAL_LOOP void find_row(enum ff_dtype t, bool wide, const struct ff_pool_max *p, int64_t row,
		const void *in, void *out, void *places)
{
	const struct ff_windows *w = &p->w;
	int64_t image = row / w->out[1] / w->out[0];
	struct taps z = taps_inside(w, 0, row / w->out[1] % w->out[0]);
	struct taps y = taps_inside(w, 1, row % w->out[1]);

	for (int64_t o = 0; o < w->out[2]; o++) {
		struct taps x = taps_inside(w, 2, o);

		for (int64_t c = 0; c < p->c; c += RUN) {
			int64_t n = p->c - c < RUN ? p->c - c : RUN;
			float most[RUN];
			int32_t where[RUN];
			int32_t seen = (z.lo * w->kernel[1] + y.lo) * w->kernel[2] + x.lo;

			for (int64_t i = 0; i < n; i++) {
				most[i] = -INFINITY;
				where[i] = seen;
			}
			for (int32_t i = z.lo; i < z.hi; i++)
				for (int32_t j = y.lo; j < y.hi; j++)
					for (int32_t k = x.lo; k < x.hi; k++) {
						int64_t at = (image * w->in[0] + z.at + i) *
							     w->in[1];
						int32_t tap = (i * w->kernel[1] + j) * w->kernel[2];

						at = (at + y.at + j) * w->in[2] + x.at + k;
						take(t, in, at * p->c + c, tap + k, most, where, n);
					}
			put(t, wide, most, where, out, places, (row * w->out[2] + o) * p->c + c, n);
		}
	}
}

typedef void (*row_fn)(
		const struct ff_pool_max *p, int64_t row, const void *in, void *out, void *places);

#define DEFINE(name, type, wide)                                                                   \
	FF_CLONES static void find_##name(const struct ff_pool_max *p, int64_t row,                \
			const void *in, void *out, void *places)                                   \
	{                                                                                          \
		find_row(type, wide, p, row, in, out, places);                                     \
	}
DEFINE(f32, FF_F32, false)
DEFINE(f32_wide, FF_F32, true)
DEFINE(bf16, FF_BF16, false)
DEFINE(bf16_wide, FF_BF16, true)
#undef DEFINE

void ff_pool_max(const struct ff_pool_max *p, const void *in, void *out, void *places)
{
	static const row_fn finders[2][2] = {
			{find_f32, find_f32_wide}, {find_bf16, find_bf16_wide}};
	row_fn find = finders[p->type == FF_BF16][p->wide];
	int64_t rows = p->n * p->w.out[0] * p->w.out[1];

#pragma omp parallel for if (rows * p->w.out[2] * p->c >= FF_CPU_PARALLEL / 8)
	for (int64_t row = 0; row < rows; row++)
		find(p, row, in, out, places);
}

FF_CLONES static bool strays_f32(const uint32_t *x, int64_t n)
{
	uint32_t found = 0;

	for (int64_t i = 0; i < n; i++)
		found |= (x[i] & 0x7f800000) == 0x7f800000;
	return found;
}

FF_CLONES static bool strays_bf16(const uint16_t *x, int64_t n)
{
	uint16_t found = 0;

	for (int64_t i = 0; i < n; i++)
		found |= (uint16_t)((x[i] & 0x7f80) == 0x7f80);
	return found;
}

bool ff_pool_max_strays(const struct ff_pool_max *p, const void *in)
{
	int64_t all = p->n * p->w.in[0] * p->w.in[1] * p->w.in[2] * p->c;
	bool found = false;

#pragma omp parallel for reduction(|| : found) if (all >= FF_CPU_PARALLEL)
	for (int64_t at = 0; at < all; at += FF_REAL_BLOCK) {
		int64_t n = all - at < FF_REAL_BLOCK ? all - at : FF_REAL_BLOCK;
		const void *x = ff_real_in(p->type, in, at);

		found = found || (p->type == FF_BF16 ? strays_bf16(x, n) : strays_f32(x, n));
	}
	return found;
}

void ff_pool_max_fill(const struct ff_work *w, struct ff_pool_max *ret)
{
	*ret = (struct ff_pool_max){
			.type = ff_work_type(w), .wide = w->node->out_map[1].dtype == FF_I32};
	ff_image_planes(&w->node->in_map[0], &w->in[0], &ret->n, &ret->c);
	ff_windows_fill(w, &ret->w);
}
