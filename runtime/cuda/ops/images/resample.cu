/* What is linear along every axis of images: a thread an element, which gathers what goes into
 * it in a fixed order, forward and backward.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"

#define FF_RESAMPLE_FN FF_DEVICE
#include "kernels/resample.h"

#include "resample.h"

/* Element `i`, counted over images of `size` and `c` channels: channel, place, image. */
FF_DEVICE void place_at(int64_t i, int64_t channels, const int64_t *size, int64_t *c, int64_t *at,
		int64_t *n)
{
	*c = i % channels;
	i /= channels;
	for (int k = 3; k-- > 0;) {
		at[k] = i % size[k];
		i /= size[k];
	}
	*n = i;
}

template <class T> FF_KERNEL void resample(struct ff_resample r, const T *in, T *out)
{
	int64_t size[3] = {r.axis[0].out_n, r.axis[1].out_n, r.axis[2].out_n};
	int64_t i = thread_index(), c, n, at[3], lo[3], hi[3];
	float sum = 0;

	place_at(i, r.c, size, &c, at, &n);
	if (n >= r.n)
		return;
	for (int k = 0; k < 3; k++) {
		at[k] += r.axis[k].out_lo;
		lo[k] = ff_resample_begin(&r.axis[k], at[k]);
		hi[k] = ff_resample_end(&r.axis[k], at[k]);
	}
	for (int64_t z = lo[0]; z < hi[0]; z++)
		for (int64_t y = lo[1]; y < hi[1]; y++)
			for (int64_t x = lo[2]; x < hi[2]; x++) {
				int64_t plane = n * r.axis[0].in_n + z - r.axis[0].in_lo;
				int64_t line = plane * r.axis[1].in_n + y - r.axis[1].in_lo;
				int64_t pixel = line * r.axis[2].in_n + x - r.axis[2].in_lo;

				sum += ff_resample_weight(&r.axis[0], at[0], z) *
				       ff_resample_weight(&r.axis[1], at[1], y) *
				       ff_resample_weight(&r.axis[2], at[2], x) *
				       real_get(in[pixel * r.c + c]);
			}
	real_put(&out[i], sum);
}

/* Of outputs that may read an input some do not. */
FF_DEVICE float weight_of(const struct ff_resample_axis *a, int64_t o, int64_t i)
{
	bool reads = i >= ff_resample_begin(a, o) && i < ff_resample_end(a, o);

	return reads ? ff_resample_weight(a, o, i) : 0;
}

template <class T> FF_KERNEL void resample_gradient(struct ff_resample r, const T *dout, T *din)
{
	int64_t size[3] = {r.axis[0].in_n, r.axis[1].in_n, r.axis[2].in_n};
	int64_t i = thread_index(), c, n, at[3], lo[3], hi[3];
	float sum = 0;

	place_at(i, r.c, size, &c, at, &n);
	if (n >= r.n)
		return;
	for (int k = 0; k < 3; k++) {
		const struct ff_resample_axis *a = &r.axis[k];
		int64_t first, last;

		at[k] += a->in_lo;
		first = ff_resample_reader(a, at[k]);
		last = ff_resample_last(a, at[k]);
		lo[k] = first < a->out_lo ? a->out_lo : first;
		hi[k] = last > a->out_lo + a->out_n ? a->out_lo + a->out_n : last;
	}
	for (int64_t z = lo[0]; z < hi[0]; z++)
		for (int64_t y = lo[1]; y < hi[1]; y++)
			for (int64_t x = lo[2]; x < hi[2]; x++) {
				float w = weight_of(&r.axis[0], z, at[0]) *
					  weight_of(&r.axis[1], y, at[1]) *
					  weight_of(&r.axis[2], x, at[2]);
				int64_t plane = n * r.axis[0].out_n + z - r.axis[0].out_lo;
				int64_t line = plane * r.axis[1].out_n + y - r.axis[1].out_lo;
				int64_t pixel = line * r.axis[2].out_n + x - r.axis[2].out_lo;

				if (w != 0)
					sum += w * real_get(dout[pixel * r.c + c]);
			}
	real_put(&din[i], sum);
}

cudaError_t ff_launch_resample(enum ff_dtype type, const struct ff_resample *r, const void *in,
		void *out, cudaStream_t s)
{
	const struct ff_resample_axis *a = r->axis;
	dim3 grid = blocks_of(r->n * a[0].out_n * a[1].out_n * a[2].out_n * r->c);

	if (type == FF_BF16)
		return ff_launch(resample<uint16_t>, grid, dim3(BLOCK), s, *r, (const uint16_t *)in,
				(uint16_t *)out);
	return ff_launch(
			resample<float>, grid, dim3(BLOCK), s, *r, (const float *)in, (float *)out);
}

cudaError_t ff_launch_resample_gradient(enum ff_dtype type, const struct ff_resample *r,
		const void *dout, void *din, cudaStream_t s)
{
	const struct ff_resample_axis *a = r->axis;
	dim3 grid = blocks_of(r->n * a[0].in_n * a[1].in_n * a[2].in_n * r->c);

	if (type == FF_BF16)
		return ff_launch(resample_gradient<uint16_t>, grid, dim3(BLOCK), s, *r,
				(const uint16_t *)dout, (uint16_t *)din);
	return ff_launch(resample_gradient<float>, grid, dim3(BLOCK), s, *r, (const float *)dout,
			(float *)din);
}
