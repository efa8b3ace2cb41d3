/* The largest of windows of images that are stored channels last.  Gradients are gathered, so
 * that windows that overlap add up in a fixed order.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "pool.h"

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
	for (int k = 3; k-- > 0;) {
		at[k] = i % size[k];
		i /= size[k];
	}
	*n = i;
}

FF_DEVICE int64_t element_at(
		const int64_t *size, int64_t n, const int64_t *at, int64_t channels, int64_t c)
{
	return (((n * size[0] + at[0]) * size[1] + at[1]) * size[2] + at[2]) * channels + c;
}

/* The places of tap `t` of a window, by axis. */
FF_DEVICE void tap_of(const struct ff_windows &w, int64_t t, int64_t *tap)
{
	for (int k = 3; k-- > 0;) {
		tap[k] = t % w.kernel[k];
		t /= w.kernel[k];
	}
}

/* Where in its window it was: the first of equals, the last of what is no number. */
template <class T, class W> FF_KERNEL void pool(struct ff_pool p, const T *in, T *out, W *where)
{
	const struct ff_windows &w = p.windows;
	int64_t i = thread_index(), c, n, to[3], taps = taps_of(w);
	float most = -INFINITY;
	int64_t found = -1;

	place_at(i, p.c, w.out, &c, to, &n);
	if (n >= p.n)
		return;
	for (int64_t t = 0; t < taps; t++) {
		int64_t at[3];
		bool inside = true;
		float v;

		tap_of(w, t, at);
		for (int k = 0; k < 3; k++) {
			at[k] += to[k] * w.stride[k] - w.pad[0][k];
			inside = inside && at[k] >= 0 && at[k] < w.in[k];
		}
		if (!inside)
			continue;
		v = real_get(in[element_at(w.in, n, at, p.c, c)]);
		if (v > most || v != v || found < 0) {
			most = v;
			found = t;
		}
	}
	real_put(&out[i], most);
	where[i] = (W)found;
}

template <class T, class W>
FF_KERNEL void pool_gradient(struct ff_pool p, const T *dout, const W *where, T *din)
{
	const struct ff_windows &w = p.windows;
	int64_t i = thread_index(), c, n, from[3], taps = taps_of(w);
	float sum = 0;

	place_at(i, p.c, w.in, &c, from, &n);
	if (n >= p.n)
		return;
	for (int64_t t = 0; t < taps; t++) {
		int64_t at[3], o;
		bool reads = true;

		tap_of(w, t, at);
		for (int k = 0; k < 3; k++) {
			int64_t start = from[k] + w.pad[0][k] - at[k];

			at[k] = start / w.stride[k];
			reads = reads && start >= 0 && start % w.stride[k] == 0 && at[k] < w.out[k];
		}
		if (!reads)
			continue;
		o = element_at(w.out, n, at, p.c, c);
		if ((int64_t)where[o] == t)
			sum += real_get(dout[o]);
	}
	real_put(&din[i], sum);
}

template <class T, class W>
static cudaError_t launch_pool(
		const struct ff_pool *p, const void *in, void *out, void *where, cudaStream_t s)
{
	const int64_t *out_n = p->windows.out;

	return ff_launch(pool<T, W>, blocks_of(p->n * out_n[0] * out_n[1] * out_n[2] * p->c),
			dim3(BLOCK), s, *p, (const T *)in, (T *)out, (W *)where);
}

template <class T, class W>
static cudaError_t launch_gradient(const struct ff_pool *p, const void *dout, const void *where,
		void *din, cudaStream_t s)
{
	const int64_t *in_n = p->windows.in;

	return ff_launch(pool_gradient<T, W>, blocks_of(p->n * in_n[0] * in_n[1] * in_n[2] * p->c),
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
