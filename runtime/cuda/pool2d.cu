/* Pooling of images that are stored channels last.  Gradients are gathered, so that windows
 * that overlap add up in a fixed order.  SPDX-License-Identifier: Apache-2.0 */
#include "pool2d.h"
#include "real.cuh"

/* Of the largest, where in its window it was: the first of equals. */
template <class T, class W> FF_KERNEL void pool(struct ff_pool p, const T *in, T *out, W *where)
{
	int64_t i = thread_index(), c = i % p.c, x = i / p.c % p.out[1];
	int64_t y = i / p.c / p.out[1] % p.out[0], n = i / p.c / p.out[1] / p.out[0];
	float sum = 0, most = -INFINITY;
	int32_t at = -1;

	if (i >= p.n * p.out[0] * p.out[1] * p.c)
		return;
	for (int32_t r = 0; r < p.kernel[0]; r++)
		for (int32_t s = 0; s < p.kernel[1]; s++) {
			int64_t h = y * p.stride[0] - p.pad[0] + r;
			int64_t w = x * p.stride[1] - p.pad[1] + s;
			float v;

			if (h < 0 || h >= p.in[0] || w < 0 || w >= p.in[1])
				continue;
			v = real_get(in[((n * p.in[0] + h) * p.in[1] + w) * p.c + c]);
			sum += v;
			if (v > most || at < 0) {
				most = v;
				at = r * p.kernel[1] + s;
			}
		}
	real_put(&out[i], p.mean ? sum / (float)(p.kernel[0] * p.kernel[1]) : most);
	if (!p.mean)
		where[i] = (W)at;
}

template <class T, class W>
FF_KERNEL void pool_gradient(struct ff_pool p, const T *dout, const W *where, T *din)
{
	int64_t i = thread_index(), c = i % p.c, w = i / p.c % p.in[1];
	int64_t h = i / p.c / p.in[1] % p.in[0], n = i / p.c / p.in[1] / p.in[0];
	float sum = 0;

	if (i >= p.n * p.in[0] * p.in[1] * p.c)
		return;
	for (int32_t r = 0; r < p.kernel[0]; r++)
		for (int32_t s = 0; s < p.kernel[1]; s++) {
			int64_t y = h + p.pad[0] - r, x = w + p.pad[1] - s, o;

			if (y < 0 || x < 0 || y % p.stride[0] || x % p.stride[1])
				continue;
			y /= p.stride[0];
			x /= p.stride[1];
			if (y >= p.out[0] || x >= p.out[1])
				continue;
			o = ((n * p.out[0] + y) * p.out[1] + x) * p.c + c;
			if (p.mean || (int32_t)where[o] == r * p.kernel[1] + s)
				sum += real_get(dout[o]);
		}
	real_put(&din[i], p.mean ? sum / (float)(p.kernel[0] * p.kernel[1]) : sum);
}

template <class T, class W>
static cudaError_t launch_pool(
		const struct ff_pool *p, const void *in, void *out, void *where, cudaStream_t s)
{
	return ff_launch(pool<T, W>, blocks_of(p->n * p->out[0] * p->out[1] * p->c), dim3(BLOCK), s,
			*p, (const T *)in, (T *)out, (W *)where);
}

template <class T, class W>
static cudaError_t launch_gradient(const struct ff_pool *p, const void *dout, const void *where,
		void *din, cudaStream_t s)
{
	return ff_launch(pool_gradient<T, W>, blocks_of(p->n * p->in[0] * p->in[1] * p->c),
			dim3(BLOCK), s, *p, (const T *)dout, (const W *)where, (T *)din);
}

cudaError_t ff_launch_pool(enum ff_dtype type, const struct ff_pool *p, const void *in, void *out,
		void *where, cudaStream_t s)
{
	if (type == FF_BF16)
		return p->wide ? launch_pool<uint16_t, int32_t>(p, in, out, where, s)
			       : launch_pool<uint16_t, uint8_t>(p, in, out, where, s);
	return p->wide ? launch_pool<float, int32_t>(p, in, out, where, s)
		       : launch_pool<float, uint8_t>(p, in, out, where, s);
}

cudaError_t ff_launch_pool_gradient(enum ff_dtype type, const struct ff_pool *p, const void *dout,
		const void *where, void *din, cudaStream_t s)
{
	if (type == FF_BF16)
		return p->wide ? launch_gradient<uint16_t, int32_t>(p, dout, where, din, s)
			       : launch_gradient<uint16_t, uint8_t>(p, dout, where, din, s);
	return p->wide ? launch_gradient<float, int32_t>(p, dout, where, din, s)
		       : launch_gradient<float, uint8_t>(p, dout, where, din, s);
}
