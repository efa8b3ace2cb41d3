/* The largest of windows of images that are stored channels last, and where in its window each was,
 * for the way back.  What is no number is the largest, as PyTorch has it: oneDNN's is not.
 * Gradients are gathered, so that windows that overlap add up in a fixed order, and are rounded
 * once.  SPDX-License-Identifier: Apache-2.0 */
#include "pool_max.h"

#include <math.h>

#include "../windows.h"
#include "ff/clones.h"
#include "real.h"

#define RUN 64 /* channels at a time */

struct pool_max {
	enum ff_dtype type;
	bool wide; /* places are int32, else uint8 */
	int64_t n, c;
	struct ff_windows w;
};

/* Taps of one axis: from `lo` up to `hi`; of a window the places are at + tap. */
struct taps {
	int64_t at;
	int32_t lo, hi;
};

/* Those of window `o` that are inside. */
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
FF_REAL_LOOP void find_row(enum ff_dtype t, bool wide, const struct pool_max *p, int64_t row,
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

/* Windows that have place `at` of an axis, by the tap that it is: every stride-th of them. */
static struct taps taps_around(const struct ff_windows *w, int axis, int64_t at)
{
	int64_t from = at + w->pad[0][axis], most = from - (w->out[axis] - 1) * w->stride[axis];

	return (struct taps){from, most > 0 ? (int32_t)most : (int32_t)(from % w->stride[axis]),
			from < w->kernel[axis] ? (int32_t)from + 1 : w->kernel[axis]};
}

FF_REAL_LOOP void add(enum ff_dtype t, bool wide, const void *dout, const void *places,
		int64_t from, int32_t tap, float *restrict sum, int64_t n)
{
	if (wide)
		for (int64_t i = 0; i < n; i++)
			sum[i] += ((const int32_t *)places)[from + i] == tap
						  ? ff_real_get(t, dout, from + i)
						  : 0;
	else
		for (int64_t i = 0; i < n; i++)
			sum[i] += ((const uint8_t *)places)[from + i] == tap
						  ? ff_real_get(t, dout, from + i)
						  : 0;
}

/* Row `row` of the images. */
FF_REAL_LOOP void gather_row(enum ff_dtype t, bool wide, const struct pool_max *p, int64_t row,
		const void *dout, const void *places, void *din)
{
	const struct ff_windows *w = &p->w;
	int64_t image = row / w->in[1] / w->in[0];
	struct taps z = taps_around(w, 0, row / w->in[1] % w->in[0]);
	struct taps y = taps_around(w, 1, row % w->in[1]);

	for (int64_t at = 0; at < w->in[2]; at++) {
		struct taps x = taps_around(w, 2, at);

		for (int64_t c = 0; c < p->c; c += RUN) {
			int64_t n = p->c - c < RUN ? p->c - c : RUN;
			float sum[RUN] = {0};

			for (int32_t i = z.lo; i < z.hi; i += w->stride[0])
				for (int32_t j = y.lo; j < y.hi; j += w->stride[1])
					for (int32_t k = x.lo; k < x.hi; k += w->stride[2]) {
						int64_t o = image * w->out[0] +
							    (z.at - i) / w->stride[0];
						int32_t tap = (i * w->kernel[1] + j) * w->kernel[2];

						o = o * w->out[1] + (y.at - j) / w->stride[1];
						o = o * w->out[2] + (x.at - k) / w->stride[2];
						add(t, wide, dout, places, o * p->c + c, tap + k,
								sum, n);
					}
			for (int64_t i = 0; i < n; i++)
				ff_real_put(t, din, (row * w->in[2] + at) * p->c + c + i, sum[i]);
		}
	}
}

typedef void (*row_fn)(const struct pool_max *p, int64_t row, const void *a, void *b, void *c);

#define DEFINE(name, type, wide)                                                                   \
	FF_CLONES static void find_##name(const struct pool_max *p, int64_t row, const void *in,   \
			void *out, void *places)                                                   \
	{                                                                                          \
		find_row(type, wide, p, row, in, out, places);                                     \
	}                                                                                          \
	FF_CLONES static void gather_##name(const struct pool_max *p, int64_t row,                 \
			const void *dout, void *places, void *din)                                 \
	{                                                                                          \
		gather_row(type, wide, p, row, dout, places, din);                                 \
	}
DEFINE(f32, FF_F32, false)
DEFINE(f32_wide, FF_F32, true)
DEFINE(bf16, FF_BF16, false)
DEFINE(bf16_wide, FF_BF16, true)
#undef DEFINE

static const row_fn finders[2][2] = {{find_f32, find_f32_wide}, {find_bf16, find_bf16_wide}};
static const row_fn gatherers[2][2] = {
		{gather_f32, gather_f32_wide}, {gather_bf16, gather_bf16_wide}};

static void run_rows(const struct pool_max *p, row_fn fn, const int64_t *size, const void *a,
		void *b, void *c)
{
	int64_t rows = p->n * size[0] * size[1];

#pragma omp parallel for if (rows * size[2] * p->c >= FF_CPU_PARALLEL / 8)
	for (int64_t row = 0; row < rows; row++)
		fn(p, row, a, b, c);
}

/* out[1] is what is saved. */
static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool_max *p = k->state;

	(void)err;
	run_rows(p, finders[p->type == FF_BF16][p->wide], p->w.out, io->in[0], io->out[0],
			io->out[1]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct pool_max *p = k->state;

	(void)err;
	run_rows(p, gatherers[p->type == FF_BF16][p->wide], p->w.in, io->dout[0], io->out[1],
			io->din[0]);
	return FF_OK;
}

int ff_cpu_pool_max(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct pool_max *p = ff_kernel_state(k, sizeof(*p), err);

	if (!p)
		return FF_E_NOMEM;
	p->type = ff_work_type(w);
	p->wide = w->node->out_map[1].dtype == FF_I32;
	ff_image_planes(&w->node->in_map[0], &w->in[0], &p->n, &p->c);
	ff_windows_fill(w, &p->w);
	k->run = w->pass == FF_BACKWARD ? run_backward : run_forward;
	return FF_OK;
}
