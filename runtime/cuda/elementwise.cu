/* Activations, sums and products.  SPDX-License-Identifier: Apache-2.0 */
#include "real.cuh"

struct relu {
	FF_METHOD static float forward(float x)
	{
		return x > 0 ? x : 0;
	}
	FF_METHOD static float backward(float y, float dy)
	{
		return y > 0 ? dy : 0;
	}
};

struct tangent {
	FF_METHOD static float forward(float x)
	{
		return tanhf(x);
	}
	FF_METHOD static float backward(float y, float dy)
	{
		return dy * (1 - y) * (1 + y);
	}
};

struct sigmoid {
	FF_METHOD static float forward(float x)
	{
		return 1 / (1 + expf(-x));
	}
	FF_METHOD static float backward(float y, float dy)
	{
		return dy * y * (1 - y);
	}
};

struct product {
	FF_METHOD static float backward(float x, float y)
	{
		return x * y;
	}
};

/* A pack a thread; shards begin at multiples of 64 bytes. */
template <class T, class F> FF_KERNEL void map(const T *in, T *out, int64_t n)
{
	int64_t at = thread_index() * pack<T>::n;

	if (at + pack<T>::n <= n) {
		pack<T> x = *(const pack<T> *)(in + at), y;

		for (int i = 0; i < pack<T>::n; i++)
			real_put(&y.x[i], F::forward(real_get(x.x[i])));
		*(pack<T> *)(out + at) = y;
		return;
	}
	for (; at < n; at++)
		real_put(&out[at], F::forward(real_get(in[at])));
}

template <class T, class F> FF_KERNEL void join(const T *x, const T *y, T *out, int64_t n)
{
	int64_t at = thread_index() * pack<T>::n;

	if (at + pack<T>::n <= n) {
		pack<T> a = *(const pack<T> *)(x + at), b = *(const pack<T> *)(y + at), c;

		for (int i = 0; i < pack<T>::n; i++)
			real_put(&c.x[i], F::backward(real_get(a.x[i]), real_get(b.x[i])));
		*(pack<T> *)(out + at) = c;
		return;
	}
	for (; at < n; at++)
		real_put(&out[at], F::backward(real_get(x[at]), real_get(y[at])));
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
static cudaError_t launch_map(
		enum ff_dtype type, const void *in, void *out, int64_t n, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(map<uint16_t, F>, blocks_of_packs<uint16_t>(n), dim3(BLOCK), s,
				(const uint16_t *)in, (uint16_t *)out, n);
	return ff_launch(map<float, F>, blocks_of_packs<float>(n), dim3(BLOCK), s,
			(const float *)in, (float *)out, n);
}

template <class F>
static cudaError_t launch_join(enum ff_dtype type, const void *x, const void *y, void *out,
		int64_t n, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(join<uint16_t, F>, blocks_of_packs<uint16_t>(n), dim3(BLOCK), s,
				(const uint16_t *)x, (const uint16_t *)y, (uint16_t *)out, n);
	return ff_launch(join<float, F>, blocks_of_packs<float>(n), dim3(BLOCK), s,
			(const float *)x, (const float *)y, (float *)out, n);
}

cudaError_t ff_launch_activate(enum ff_activation a, enum ff_dtype type, const void *in, void *out,
		int64_t n, cudaStream_t s)
{
	if (a == FF_RELU)
		return launch_map<relu>(type, in, out, n, s);
	return a == FF_TANH ? launch_map<tangent>(type, in, out, n, s)
			    : launch_map<sigmoid>(type, in, out, n, s);
}

cudaError_t ff_launch_deactivate(enum ff_activation a, enum ff_dtype type, const void *out,
		const void *dout, void *din, int64_t n, cudaStream_t s)
{
	if (a == FF_RELU)
		return launch_join<relu>(type, out, dout, din, n, s);
	return a == FF_TANH ? launch_join<tangent>(type, out, dout, din, n, s)
			    : launch_join<sigmoid>(type, out, dout, din, n, s);
}

cudaError_t ff_launch_multiply(enum ff_dtype type, const void *x, const void *y, void *out,
		int64_t n, cudaStream_t s)
{
	return launch_join<product>(type, x, y, out, n, s);
}

cudaError_t ff_launch_add(enum ff_dtype type, const struct ff_summands *x, void *out, int64_t n,
		cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(add<uint16_t>, blocks_of(n), dim3(BLOCK), s, *x, (uint16_t *)out,
				n);
	return ff_launch(add<float>, blocks_of(n), dim3(BLOCK), s, *x, (float *)out, n);
}
