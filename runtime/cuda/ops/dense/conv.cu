/* Convolutions straight from the definition, for shapes of which cuDNN has none: a thread an
 * element, every sum in a fixed order.  SPDX-License-Identifier: Apache-2.0 */
#include "conv.h"
#include "cuda/core/real.cuh"

FF_DEVICE int64_t taps_of(const struct ff_windows &w)
{
	return (int64_t)w.kernel[0] * w.kernel[1] * w.kernel[2];
}

/* Element `i`, counted over images of `size` and `c` channels: channel, place, image. */
FF_DEVICE void place_at(int64_t i, int64_t channels, const int64_t *size, int64_t *c, int64_t *at,
		int64_t *n)
{
	*c = i % channels;
	i /= channels;
	for (int a = 3; a-- > 0;) {
		at[a] = i % size[a];
		i /= size[a];
	}
	*n = i;
}

FF_DEVICE int64_t pixel_at(const int64_t *size, int64_t n, const int64_t *at)
{
	return ((n * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2];
}

/* How far tap `t` of a filter is from the first, by axis. */
FF_DEVICE void tap_of(const struct ff_windows &w, int64_t t, int64_t *tap)
{
	for (int a = 3; a-- > 0;) {
		tap[a] = t % w.kernel[a] * w.dilation[a];
		t /= w.kernel[a];
	}
}

/* Where tap `t` of the result at `to` reads; false: padding. */
FF_DEVICE bool read_at(const struct ff_windows &w, int64_t t, const int64_t *to, int64_t *from)
{
	bool inside = true;

	tap_of(w, t, from);
	for (int a = 0; a < 3; a++) {
		from[a] += to[a] * w.stride[a] - w.pad[0][a];
		inside = inside && from[a] >= 0 && from[a] < w.in[a];
	}
	return inside;
}

/* Which result reads `from` by tap `t`; false: none. */
FF_DEVICE bool reader_of(const struct ff_windows &w, int64_t t, const int64_t *from, int64_t *to)
{
	bool reads = true;

	tap_of(w, t, to);
	for (int a = 0; a < 3; a++) {
		int64_t start = from[a] + w.pad[0][a] - to[a];

		to[a] = start / w.stride[a];
		reads = reads && start >= 0 && start % w.stride[a] == 0 && to[a] < w.out[a];
	}
	return reads;
}

template <class T>
FF_KERNEL void filter(struct ff_filter f, const T *in, const T *weight, const T *bias, T *out)
{
	const struct ff_windows &w = f.windows;
	int64_t i = thread_index(), taps = taps_of(w), k, n, to[3], from[3], first;
	float sum = 0;

	place_at(i, f.groups * f.k, w.out, &k, to, &n);
	if (n >= f.n)
		return;
	first = k / f.k * f.c;
	for (int64_t t = 0; t < taps; t++) {
		const T *x, *y = weight + (k * taps + t) * f.c;

		if (!read_at(w, t, to, from))
			continue;
		x = in + pixel_at(w.in, n, from) * (f.groups * f.c) + first;
		for (int64_t c = 0; c < f.c; c++)
			sum += real_get(x[c]) * real_get(y[c]);
	}
	if (bias)
		sum += real_get(bias[k]);
	real_put(&out[i], sum);
}

template <class T, class R>
FF_KERNEL void filter_data(struct ff_filter f, const T *dout, const T *weight, R *din)
{
	const struct ff_windows &w = f.windows;
	int64_t i = thread_index(), taps = taps_of(w), c, n, to[3], from[3], group;
	float sum = 0;

	place_at(i, f.groups * f.c, w.in, &c, from, &n);
	if (n >= f.n)
		return;
	group = c / f.c;
	c %= f.c;
	for (int64_t t = 0; t < taps; t++) {
		const T *y;

		if (!reader_of(w, t, from, to))
			continue;
		y = dout + pixel_at(w.out, n, to) * (f.groups * f.k) + group * f.k;
		for (int64_t k = 0; k < f.k; k++)
			sum += real_get(y[k]) *
			       real_get(weight[((group * f.k + k) * taps + t) * f.c + c]);
	}
	real_put(&din[i], sum);
}

template <class T>
FF_KERNEL void filter_weight(struct ff_filter f, const T *in, const T *dout, float *dweight)
{
	const struct ff_windows &w = f.windows;
	int64_t i = thread_index(), taps = taps_of(w), c = i % f.c, t = i / f.c % taps;
	int64_t k = i / f.c / taps, pixels = f.n * w.out[0] * w.out[1] * w.out[2];
	int64_t first = k / f.k * f.c + c, none, n, to[3], from[3];
	float sum = 0;

	if (i >= f.groups * f.k * taps * f.c)
		return;
	for (int64_t p = 0; p < pixels; p++) {
		place_at(p, 1, w.out, &none, to, &n);
		if (read_at(w, t, to, from))
			sum += real_get(in[pixel_at(w.in, n, from) * (f.groups * f.c) + first]) *
			       real_get(dout[p * (f.groups * f.k) + k]);
	}
	dweight[i] = sum;
}

cudaError_t ff_launch_filter(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *weight, const void *bias, void *out, cudaStream_t s)
{
	const int64_t *n = f->windows.out;
	dim3 grid = blocks_of(f->n * n[0] * n[1] * n[2] * f->groups * f->k);

	if (type == FF_BF16)
		return ff_launch(filter<uint16_t>, grid, dim3(BLOCK), s, *f, (const uint16_t *)in,
				(const uint16_t *)weight, (const uint16_t *)bias, (uint16_t *)out);
	return ff_launch(filter<float>, grid, dim3(BLOCK), s, *f, (const float *)in,
			(const float *)weight, (const float *)bias, (float *)out);
}

template <class T, class R>
static cudaError_t launch_data(const struct ff_filter *f, const void *dout, const void *weight,
		void *din, cudaStream_t s)
{
	const int64_t *n = f->windows.in;
	dim3 grid = blocks_of(f->n * n[0] * n[1] * n[2] * f->groups * f->c);

	return ff_launch(filter_data<T, R>, grid, dim3(BLOCK), s, *f, (const T *)dout,
			(const T *)weight, (R *)din);
}

cudaError_t ff_launch_filter_data(enum ff_dtype type, enum ff_dtype sink, const struct ff_filter *f,
		const void *dout, const void *weight, void *din, cudaStream_t s)
{
	if (type == FF_F32)
		return launch_data<float, float>(f, dout, weight, din, s);
	return sink == FF_F32 ? launch_data<uint16_t, float>(f, dout, weight, din, s)
			      : launch_data<uint16_t, uint16_t>(f, dout, weight, din, s);
}

cudaError_t ff_launch_filter_weight(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *dout, float *dweight, cudaStream_t s)
{
	dim3 grid = blocks_of(f->groups * f->k * ff_windows_taps(&f->windows) * f->c);

	if (type == FF_BF16)
		return ff_launch(filter_weight<uint16_t>, grid, dim3(BLOCK), s, *f,
				(const uint16_t *)in, (const uint16_t *)dout, dweight);
	return ff_launch(filter_weight<float>, grid, dim3(BLOCK), s, *f, (const float *)in,
			(const float *)dout, dweight);
}
