/* The largest of windows of images that are stored channels last.  Gradients are gathered, so
 * that windows that overlap add up in a fixed order.  SPDX-License-Identifier: Apache-2.0 */
#include "image.cuh"
#include "pool.h"

struct pooling {
	struct image in, out;
	int32_t kernel[3], stride[3], pad[3];
	struct divisor by[3]; /* stride */
};

/* From which place of an axis to before which. */
struct run {
	int32_t first, end;
};

/* The taps of window `o` that are inside of the image. */
FF_DEVICE struct run taps_of(const struct pooling &p, int axis, int32_t o)
{
	int32_t start = o * p.stride[axis] - p.pad[axis], left = (int32_t)p.in.size[axis].n - start;
	struct run r = {start < 0 ? -start : 0, left < p.kernel[axis] ? left : p.kernel[axis]};

	return r;
}

/* The windows that have element `i`. */
FF_DEVICE struct run windows_of(const struct pooling &p, int axis, int32_t i)
{
	int32_t last = i + p.pad[axis], before = last - p.kernel[axis];
	uint32_t a = (uint32_t)before, b = (uint32_t)last;
	struct run r = {0, 0};

	if (before >= 0)
		r.first = (int32_t)divided(p.by[axis], &a) + 1;
	if (last >= 0)
		r.end = (int32_t)divided(p.by[axis], &b) + 1;
	if (r.end > p.out.size[axis].n)
		r.end = (int32_t)p.out.size[axis].n;
	return r;
}

/* What is found in a window so far, of each channel. */
template <int N> struct largest {
	float most[N];
	int32_t tap[N];
};

/* The first of equals, the last of what is no number. */
template <class T, int N>
FF_DEVICE void compare(const several<T, N> &x, int32_t tap, struct largest<N> *found)
{
	for (int k = 0; k < N; k++) {
		float v = real_get(x.x[k]);
		bool larger = v > found->most[k] || v != v;

		found->most[k] = larger ? v : found->most[k];
		found->tap[k] = larger ? tap : found->tap[k];
	}
}

/* Where in its window it was, too. */
template <class T, class W, int N>
FF_KERNEL void pool(struct pooling p, const T *in, T *out, W *where)
{
	int64_t i = thread_index();
	struct spot s = spot_of(p.out, i, N);
	struct run z = taps_of(p, 0, s.at[0]), y = taps_of(p, 1, s.at[1]),
		   x = taps_of(p, 2, s.at[2]);
	int32_t first = (z.first * p.kernel[1] + y.first) * p.kernel[2] + x.first;
	bool none = z.first >= z.end || y.first >= y.end || x.first >= x.end;
	int32_t column = s.at[2] * p.stride[2] - p.pad[2];
	struct largest<N> found;
	several<T, N> most;
	several<W, N> tap;

	if (i >= p.out.threads)
		return;
	for (int k = 0; k < N; k++) {
		found.most[k] = -INFINITY;
		found.tap[k] = none ? -1 : first;
	}
	for (int32_t a = z.first; a < z.end; a++)
		for (int32_t b = y.first; b < y.end; b++) {
			int32_t plane = s.at[0] * p.stride[0] - p.pad[0] + a;
			int32_t line = s.at[1] * p.stride[1] - p.pad[1] + b;
			const T *row = in + row_at(p.in, s.n, plane, line) + s.c;

			FF_UNROLL
			for (int32_t c = x.first; c < x.end; c++)
				compare(*(const several<T, N> *)(row +
								 (column + c) * p.in.channels),
						(a * p.kernel[1] + b) * p.kernel[2] + c, &found);
		}
	for (int k = 0; k < N; k++) {
		real_put(&most.x[k], found.most[k]);
		tap.x[k] = (W)found.tap[k];
	}
	*(several<T, N> *)(out + i * N) = most;
	*(several<W, N> *)(where + i * N) = tap;
}

/* Windows in the order of their taps: the last one first. */
template <class T, class W, int N>
FF_KERNEL void pool_gradient(struct pooling p, const T *dout, const W *where, T *din)
{
	int64_t i = thread_index();
	struct spot s = spot_of(p.in, i, N);
	struct run z = windows_of(p, 0, s.at[0]), y = windows_of(p, 1, s.at[1]),
		   x = windows_of(p, 2, s.at[2]);
	float sum[N] = {};
	several<T, N> all;

	if (i >= p.in.threads)
		return;
	for (int32_t a = z.end; a-- > z.first;)
		for (int32_t b = y.end; b-- > y.first;) {
			int32_t plane = s.at[0] + p.pad[0] - a * p.stride[0];
			int32_t line = s.at[1] + p.pad[1] - b * p.stride[1];
			int32_t tap = (plane * p.kernel[1] + line) * p.kernel[2];
			int64_t row = row_at(p.out, s.n, a, b) + s.c;

			for (int32_t c = x.end; c-- > x.first;) {
				int64_t at = row + c * p.out.channels;
				several<W, N> w = *(const several<W, N> *)(where + at);
				several<T, N> d = *(const several<T, N> *)(dout + at);
				int32_t own = tap + s.at[2] + p.pad[2] - c * p.stride[2];

				for (int k = 0; k < N; k++)
					sum[k] += (int32_t)w.x[k] == own ? real_get(d.x[k]) : 0;
			}
		}
	for (int k = 0; k < N; k++)
		real_put(&all.x[k], sum[k]);
	*(several<T, N> *)(din + i * N) = all;
}

static struct pooling pooling_of(const struct ff_pool *p, int64_t each)
{
	const struct ff_windows *w = &p->windows;
	struct pooling ret = {image_of(p->n, p->c, w->in[0], w->in[1], w->in[2], each),
			image_of(p->n, p->c, w->out[0], w->out[1], w->out[2], each), {}, {}, {},
			{}};

	for (int k = 0; k < 3; k++) {
		ret.kernel[k] = w->kernel[k];
		ret.stride[k] = w->stride[k];
		ret.pad[k] = (int32_t)w->pad[0][k];
		ret.by[k] = divisor_of(w->stride[k]);
	}
	return ret;
}

template <class T, class W, int N> struct launches {
	static cudaError_t forward(const struct ff_pool *p, const void *in, void *out, void *where,
			cudaStream_t s)
	{
		struct pooling all = pooling_of(p, N);

		return ff_launch(pool<T, W, N>, blocks_of(all.out.threads), dim3(BLOCK), s, all,
				(const T *)in, (T *)out, (W *)where);
	}
	static cudaError_t backward(const struct ff_pool *p, const void *dout, const void *where,
			void *din, cudaStream_t s)
	{
		struct pooling all = pooling_of(p, N);

		return ff_launch(pool_gradient<T, W, N>, blocks_of(all.in.threads), dim3(BLOCK), s,
				all, (const T *)dout, (const W *)where, (T *)din);
	}
};

/* 16 bytes a thread where so many channels divide. */
template <class T, class W>
static cudaError_t launch_pool(
		const struct ff_pool *p, const void *in, void *out, void *where, cudaStream_t s)
{
	return p->c % pack<T>::n == 0 ? launches<T, W, pack<T>::n>::forward(p, in, out, where, s)
				      : launches<T, W, 1>::forward(p, in, out, where, s);
}

template <class T, class W>
static cudaError_t launch_gradient(const struct ff_pool *p, const void *dout, const void *where,
		void *din, cudaStream_t s)
{
	return p->c % pack<T>::n == 0 ? launches<T, W, pack<T>::n>::backward(p, dout, where, din, s)
				      : launches<T, W, 1>::backward(p, dout, where, din, s);
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
