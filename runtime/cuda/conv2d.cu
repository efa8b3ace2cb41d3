/* Convolutions straight from the definition, for shapes of which cuDNN has none: a thread an
 * element, every sum in a fixed order.  SPDX-License-Identifier: Apache-2.0 */
#include "conv2d.h"
#include "real.cuh"

/* Element of a filter: output channel, tap, input channel of the group. */
FF_DEVICE int64_t filter_at(const struct ff_filter &f, int64_t k, int32_t r, int32_t s, int64_t c)
{
	return ((k * f.taps[0] + r) * f.taps[1] + s) * f.c + c;
}

FF_DEVICE int64_t pixel_at(const int64_t *size, int64_t n, int64_t h, int64_t w)
{
	return (n * size[0] + h) * size[1] + w;
}

/* Where tap (r, s) of position (y, x) reads; false: padding. */
FF_DEVICE bool tap_at(const struct ff_filter &f, int64_t y, int64_t x, int32_t r, int32_t s,
		int64_t *h, int64_t *w)
{
	*h = y * f.stride[0] - f.pad[0] + (int64_t)r * f.dilation[0];
	*w = x * f.stride[1] - f.pad[1] + (int64_t)s * f.dilation[1];
	return *h >= 0 && *h < f.in[0] && *w >= 0 && *w < f.in[1];
}

template <class T>
FF_KERNEL void filter(struct ff_filter f, const T *in, const T *weight, const T *bias, T *out)
{
	int64_t i = thread_index(), all = f.groups * f.k, k = i % all, x = i / all % f.out[1];
	int64_t y = i / all / f.out[1] % f.out[0], n = i / all / f.out[1] / f.out[0];
	int64_t first = k / f.k * f.c, h, w;
	float sum = 0;

	if (i >= f.n * f.out[0] * f.out[1] * all)
		return;
	for (int32_t r = 0; r < f.taps[0]; r++)
		for (int32_t s = 0; s < f.taps[1]; s++) {
			const T *from;

			if (!tap_at(f, y, x, r, s, &h, &w))
				continue;
			from = in + pixel_at(f.in, n, h, w) * (f.groups * f.c) + first;
			for (int64_t c = 0; c < f.c; c++)
				sum += real_get(from[c]) *
				       real_get(weight[filter_at(f, k, r, s, c)]);
		}
	if (bias)
		sum += real_get(bias[k]);
	real_put(&out[i], sum);
}

template <class T>
FF_KERNEL void filter_data(struct ff_filter f, const T *dout, const T *weight, T *din)
{
	int64_t i = thread_index(), all = f.groups * f.c, c = i % f.c, group = i % all / f.c;
	int64_t w = i / all % f.in[1], h = i / all / f.in[1] % f.in[0];
	int64_t n = i / all / f.in[1] / f.in[0];
	float sum = 0;

	if (i >= f.n * f.in[0] * f.in[1] * all)
		return;
	for (int32_t r = 0; r < f.taps[0]; r++)
		for (int32_t s = 0; s < f.taps[1]; s++) {
			int64_t y = h + f.pad[0] - (int64_t)r * f.dilation[0];
			int64_t x = w + f.pad[1] - (int64_t)s * f.dilation[1];
			const T *from;

			if (y < 0 || x < 0 || y % f.stride[0] || x % f.stride[1])
				continue;
			y /= f.stride[0];
			x /= f.stride[1];
			if (y >= f.out[0] || x >= f.out[1])
				continue;
			from = dout + pixel_at(f.out, n, y, x) * (f.groups * f.k) + group * f.k;
			for (int64_t k = 0; k < f.k; k++)
				sum += real_get(from[k]) *
				       real_get(weight[filter_at(f, group * f.k + k, r, s, c)]);
		}
	real_put(&din[i], sum);
}

template <class T>
FF_KERNEL void filter_weight(struct ff_filter f, const T *in, const T *dout, float *dweight)
{
	int64_t i = thread_index(), c = i % f.c, taps = f.taps[0] * f.taps[1];
	int32_t tap = (int32_t)(i / f.c % taps), r = tap / f.taps[1], s = tap % f.taps[1];
	int64_t k = i / f.c / taps, all = f.groups * f.c, h, w;
	int64_t first = k / f.k * f.c + c;
	float sum = 0;

	if (i >= f.groups * f.k * taps * f.c)
		return;
	for (int64_t n = 0; n < f.n; n++)
		for (int64_t y = 0; y < f.out[0]; y++)
			for (int64_t x = 0; x < f.out[1]; x++)
				if (tap_at(f, y, x, r, s, &h, &w))
					sum += real_get(in[pixel_at(f.in, n, h, w) * all + first]) *
					       real_get(dout[pixel_at(f.out, n, y, x) * f.groups *
									       f.k +
							       k]);
	dweight[i] = sum;
}

template <class T> FF_KERNEL void add_bias(int64_t n, int64_t channels, const T *bias, T *image)
{
	int64_t i = thread_index();

	if (i < n)
		real_put(&image[i], real_get(image[i]) + real_get(bias[i % channels]));
}

cudaError_t ff_launch_filter(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *weight, const void *bias, void *out, cudaStream_t s)
{
	dim3 grid = blocks_of(f->n * f->out[0] * f->out[1] * f->groups * f->k);

	if (type == FF_BF16)
		return ff_launch(filter<uint16_t>, grid, dim3(BLOCK), s, *f, (const uint16_t *)in,
				(const uint16_t *)weight, (const uint16_t *)bias, (uint16_t *)out);
	return ff_launch(filter<float>, grid, dim3(BLOCK), s, *f, (const float *)in,
			(const float *)weight, (const float *)bias, (float *)out);
}

cudaError_t ff_launch_filter_data(enum ff_dtype type, const struct ff_filter *f, const void *dout,
		const void *weight, void *din, cudaStream_t s)
{
	dim3 grid = blocks_of(f->n * f->in[0] * f->in[1] * f->groups * f->c);

	if (type == FF_BF16)
		return ff_launch(filter_data<uint16_t>, grid, dim3(BLOCK), s, *f,
				(const uint16_t *)dout, (const uint16_t *)weight, (uint16_t *)din);
	return ff_launch(filter_data<float>, grid, dim3(BLOCK), s, *f, (const float *)dout,
			(const float *)weight, (float *)din);
}

cudaError_t ff_launch_filter_weight(enum ff_dtype type, const struct ff_filter *f, const void *in,
		const void *dout, float *dweight, cudaStream_t s)
{
	dim3 grid = blocks_of(f->groups * f->k * f->taps[0] * f->taps[1] * f->c);

	if (type == FF_BF16)
		return ff_launch(filter_weight<uint16_t>, grid, dim3(BLOCK), s, *f,
				(const uint16_t *)in, (const uint16_t *)dout, dweight);
	return ff_launch(filter_weight<float>, grid, dim3(BLOCK), s, *f, (const float *)in,
			(const float *)dout, dweight);
}

cudaError_t ff_launch_bias(enum ff_dtype type, int64_t rows, int64_t channels, const void *bias,
		void *image, cudaStream_t s)
{
	int64_t n = rows * channels;

	if (type == FF_BF16)
		return ff_launch(add_bias<uint16_t>, blocks_of(n), dim3(BLOCK), s, n, channels,
				(const uint16_t *)bias, (uint16_t *)image);
	return ff_launch(add_bias<float>, blocks_of(n), dim3(BLOCK), s, n, channels,
			(const float *)bias, (float *)image);
}
