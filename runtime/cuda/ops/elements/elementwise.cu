/* Functions of one element, and sums of several.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/functions.cuh"
#include "cuda/core/strips.cuh"
#include "elementwise.h"

/* ---- functions of one element ---- */

#define UNARY(name, y, slope)                                                                      \
	struct name##_of {                                                                         \
		FF_METHOD static float forward(float x, float a, float b)                          \
		{                                                                                  \
			(void)x, (void)a, (void)b;                                                 \
			return y;                                                                  \
		}                                                                                  \
		FF_METHOD static float backward(float v, float a, float b)                         \
		{                                                                                  \
			(void)v, (void)a, (void)b;                                                 \
			return slope;                                                              \
		}                                                                                  \
	};
FF_UNARIES(UNARY)
#undef UNARY

/* A pack a thread; shards begin at multiples of 64 bytes. */
template <class T, class F> FF_KERNEL void map(const T *in, T *out, int64_t n, float a, float b)
{
	int64_t at = thread_index() * pack<T>::n;

	if (at + pack<T>::n <= n) {
		float x[pack<T>::n];
		pack<T> p;

		read_pack(in + at, &p);
		get_pack(p, x);
		for (int i = 0; i < pack<T>::n; i++)
			x[i] = F::forward(x[i], a, b);
		put_pack(&p, x);
		write_pack(out + at, p);
		return;
	}
	for (; at < n; at++)
		real_put(&out[at], F::forward(real_get(in[at]), a, b));
}

template <class T, class F>
FF_KERNEL void slope(const T *from, const T *dy, T *dx, int64_t n, float a, float b)
{
	int64_t at = thread_index() * pack<T>::n;

	if (at + pack<T>::n <= n) {
		float v[pack<T>::n], d[pack<T>::n];
		pack<T> p, q;

		read_pack(from + at, &p);
		read_pack(dy + at, &q);
		get_pack(p, v);
		get_pack(q, d);
		for (int i = 0; i < pack<T>::n; i++)
			d[i] *= F::backward(v[i], a, b);
		put_pack(&q, d);
		write_pack(dx + at, q);
		return;
	}
	for (; at < n; at++)
		real_put(&dx[at], real_get(dy[at]) * F::backward(real_get(from[at]), a, b));
}

/* In the order of the inputs, rounded at the end. */
template <class T> FF_KERNEL void add(struct ff_summands x, T *out, int64_t n)
{
	int64_t i = thread_index();
	float sum;

	if (i >= n)
		return;
	sum = real_get(((const T *)x.in[0])[i]);
	for (uint32_t k = 1; k < x.n; k++)
		sum += real_get(((const T *)x.in[k])[i]);
	real_put(&out[i], sum);
}

template <class T> static dim3 blocks_of_packs(int64_t n)
{
	return blocks_of((n + pack<T>::n - 1) / pack<T>::n);
}

template <class F>
static cudaError_t launch_unary(enum ff_dtype type, const void *v, const void *dy, void *out,
		int64_t n, float a, float b, cudaStream_t s)
{
	dim3 grid = type == FF_BF16 ? blocks_of_packs<uint16_t>(n) : blocks_of_packs<float>(n);

	if (type == FF_BF16 && dy)
		return ff_launch(slope<uint16_t, F>, grid, dim3(BLOCK), s, (const uint16_t *)v,
				(const uint16_t *)dy, (uint16_t *)out, n, a, b);
	if (type == FF_BF16)
		return ff_launch(map<uint16_t, F>, grid, dim3(BLOCK), s, (const uint16_t *)v,
				(uint16_t *)out, n, a, b);
	if (dy)
		return ff_launch(slope<float, F>, grid, dim3(BLOCK), s, (const float *)v,
				(const float *)dy, (float *)out, n, a, b);
	return ff_launch(map<float, F>, grid, dim3(BLOCK), s, (const float *)v, (float *)out, n, a,
			b);
}

cudaError_t ff_launch_unary(enum ff_unary f, enum ff_dtype type, const void *v, const void *dy,
		void *out, int64_t n, float a, float b, cudaStream_t s)
{
	static cudaError_t (*const launch[])(enum ff_dtype type, const void *v, const void *dy,
			void *out, int64_t n, float a, float b, cudaStream_t s) = {
#define LAUNCH(name, y, slope) launch_unary<name##_of>,
			FF_UNARIES(LAUNCH)
#undef LAUNCH
	};

	return launch[f](type, v, dy, out, n, a, b, s);
}

cudaError_t ff_launch_add(enum ff_dtype type, const struct ff_summands *x, void *out, int64_t n,
		cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(add<uint16_t>, blocks_of(n), dim3(BLOCK), s, *x, (uint16_t *)out,
				n);
	return ff_launch(add<float>, blocks_of(n), dim3(BLOCK), s, *x, (float *)out, n);
}
