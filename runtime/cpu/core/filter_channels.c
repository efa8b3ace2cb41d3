/* Weight gradients of depthwise convolutions: every tap is a sum over the windows that it meets the
 * image in, channels side by side.  SPDX-License-Identifier: Apache-2.0 */
#include "filter_channels.h"

#include "kernel.h"
#include "product.h"
#include "real.h"

#define ABREAST 64 /* channels that are summed together */

void ff_filter_channels_fill(const struct ff_filter *f, struct ff_filter_channels *ret)
{
	*ret = (struct ff_filter_channels){f->type, f->windows, f->n, f->groups};
}

/* A tap's place along the three axes; the results whose window has the image there. */
struct tap {
	int64_t lo[FF_MAX_SPATIAL], hi[FF_MAX_SPATIAL]; /* results, along each axis */
	int64_t at[FF_MAX_SPATIAL];                     /* that result 0 meets */
};

static void fill_tap(const struct ff_windows *w, int64_t number, struct tap *ret)
{
	for (uint32_t i = FF_MAX_SPATIAL; i-- > 0; number /= w->kernel[i]) {
		int64_t at = number % w->kernel[i] * w->dilation[i] - w->pad[0][i];
		int64_t hi = (w->in[i] - at + w->stride[i] - 1) / w->stride[i];

		ret->at[i] = at;
		ret->lo[i] = at < 0 ? (-at + w->stride[i] - 1) / w->stride[i] : 0;
		ret->hi[i] = hi < w->out[i] ? hi : w->out[i];
	}
}

/* Channels `first` to `first + n` of one image: sum += what the tap meets times its result. */
FF_REAL_LOOP void add_image(enum ff_dtype type, const struct ff_filter_channels *f,
		const struct tap *t, const void *image, const void *dresult, int64_t first,
		int64_t n, float *sum)
{
	const struct ff_windows *w = &f->windows;

	for (int64_t d = t->lo[0]; d < t->hi[0]; d++)
		for (int64_t h = t->lo[1]; h < t->hi[1]; h++)
			for (int64_t v = t->lo[2]; v < t->hi[2]; v++) {
				int64_t from = (t->at[0] + d * w->stride[0]) * w->in[1];
				int64_t to = ((d * w->out[1] + h) * w->out[2] + v) * f->channels +
					     first;

				from = (from + t->at[1] + h * w->stride[1]) * w->in[2];
				from = (from + t->at[2] + v * w->stride[2]) * f->channels + first;
#pragma omp simd
				for (int64_t c = 0; c < n; c++)
					sum[c] += ff_real_get(type, image, from + c) *
						  ff_real_get(type, dresult, to + c);
			}
}

FF_REAL_LOOP void find_taps(enum ff_dtype type, const struct ff_filter_channels *f,
		const void *image, const void *dresult, int64_t first, float *dweight)
{
	const struct ff_windows *w = &f->windows;
	int64_t taps = ff_windows_taps(w), in = f->channels, out = f->channels;
	int64_t n = f->channels - first < ABREAST ? f->channels - first : ABREAST;

	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		in *= w->in[i];
		out *= w->out[i];
	}
	for (int64_t k = 0; k < taps; k++) {
		float sum[ABREAST] = {0};
		struct tap t;

		fill_tap(w, k, &t);
		for (int64_t i = 0; i < f->n; i++)
			add_image(type, f, &t, ff_real_in(type, image, i * in),
					ff_real_in(type, dresult, i * out), first, n, sum);
		for (int64_t c = 0; c < n; c++)
			dweight[(first + c) * taps + k] = sum[c];
	}
}

void ff_filter_channels_weight(const struct ff_filter_channels *f, const void *image,
		const void *dresult, float *dweight, float *dbias)
{
	const struct ff_windows *w = &f->windows;
	int64_t rows = f->n * w->out[0] * w->out[1] * w->out[2];

	if (dbias)
		ff_column_sums(f->type, rows, f->channels, dresult, dbias);
#pragma omp parallel for if (rows * f->channels >= FF_CPU_PARALLEL)
	for (int64_t first = 0; first < f->channels; first += ABREAST)
		FF_REAL_CALL(f->type, find_taps, f, image, dresult, first, dweight);
}
