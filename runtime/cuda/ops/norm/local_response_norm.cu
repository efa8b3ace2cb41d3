/* Local response normalisation: a thread an element.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "local_response_norm.h"

FF_DEVICE void find(const struct ff_response &r, int64_t i, int64_t *in, int64_t *out)
{
	*in = *out = 0;
	for (uint32_t a = r.rank; a-- > 0;) {
		*in += i % r.n[a] * r.in[a];
		*out += i % r.n[a] * r.out[a];
		i /= r.n[a];
	}
}

/* What channel `c` of the position that begins at `x` is divided by, but for the power. */
template <class T> FF_DEVICE float base_of(const struct ff_response &r, const T *x, int64_t c)
{
	int64_t lo = c - r.before < r.in_lo ? r.in_lo : c - r.before;
	int64_t hi = c + r.behind < r.in_lo + r.in_n ? c + r.behind : r.in_lo + r.in_n - 1;
	float sum = 0;

	for (int64_t j = lo; j <= hi; j++) {
		float v = real_get(x[(j - r.in_lo) * r.in_step]);

		sum += v * v;
	}
	return r.k + r.scale * sum;
}

template <class T> FF_KERNEL void response(struct ff_response r, const T *in, T *out)
{
	int64_t i = thread_index(), c = r.out_lo + i % r.out_n, from, to;

	if (i >= r.positions * r.out_n)
		return;
	find(r, i / r.out_n, &from, &to);
	real_put(&out[to + (c - r.out_lo) * r.out_step],
			real_get(in[from + (c - r.in_lo) * r.in_step]) *
					powf(base_of(r, in + from, c), -r.beta));
}

template <class T>
FF_KERNEL void response_shares(struct ff_response r, const T *in, const T *dout, float *shares)
{
	int64_t i = thread_index(), c = r.out_lo + i % r.out_n, from, to;
	float base, x, own;

	if (i >= r.positions * r.out_n)
		return;
	find(r, i / r.out_n, &from, &to);
	x = real_get(in[from + (c - r.in_lo) * r.in_step]);
	base = base_of(r, in + from, c);
	own = real_get(dout[to + (c - r.out_lo) * r.out_step]) * powf(base, -r.beta);
	shares[2 * i] = own;
	shares[2 * i + 1] = own * x / base;
}

template <class T>
FF_KERNEL void response_gradient(struct ff_response r, const T *in, const float *shares, T *din)
{
	int64_t i = thread_index(), c = r.in_lo + i % r.in_n, from, to, at;
	int64_t end = r.out_lo + r.out_n, lo = c - r.behind, hi = c + r.before;
	float sum = 0, own = 0;

	if (i >= r.positions * r.in_n)
		return;
	find(r, i / r.in_n, &from, &to);
	shares += 2 * (i / r.in_n * r.out_n);
	at = from + (c - r.in_lo) * r.in_step;
	lo = lo < r.out_lo ? r.out_lo : lo;
	hi = hi < end ? hi : end - 1;
	for (int64_t j = lo; j <= hi; j++)
		sum += shares[2 * (j - r.out_lo) + 1];
	if (c >= r.out_lo && c < end)
		own = shares[2 * (c - r.out_lo)];
	real_put(&din[at], own - 2 * r.scale * r.beta * real_get(in[at]) * sum);
}

cudaError_t ff_launch_response(enum ff_dtype type, const struct ff_response *r, const void *in,
		void *out, cudaStream_t s)
{
	dim3 grid = blocks_of(r->positions * r->out_n);

	if (type == FF_BF16)
		return ff_launch(response<uint16_t>, grid, dim3(BLOCK), s, *r, (const uint16_t *)in,
				(uint16_t *)out);
	return ff_launch(
			response<float>, grid, dim3(BLOCK), s, *r, (const float *)in, (float *)out);
}

cudaError_t ff_launch_response_shares(enum ff_dtype type, const struct ff_response *r,
		const void *in, const void *dout, float *shares, cudaStream_t s)
{
	dim3 grid = blocks_of(r->positions * r->out_n);

	if (type == FF_BF16)
		return ff_launch(response_shares<uint16_t>, grid, dim3(BLOCK), s, *r,
				(const uint16_t *)in, (const uint16_t *)dout, shares);
	return ff_launch(response_shares<float>, grid, dim3(BLOCK), s, *r, (const float *)in,
			(const float *)dout, shares);
}

cudaError_t ff_launch_response_gradient(enum ff_dtype type, const struct ff_response *r,
		const void *in, const float *shares, void *din, cudaStream_t s)
{
	dim3 grid = blocks_of(r->positions * r->in_n);

	if (type == FF_BF16)
		return ff_launch(response_gradient<uint16_t>, grid, dim3(BLOCK), s, *r,
				(const uint16_t *)in, shares, (uint16_t *)din);
	return ff_launch(response_gradient<float>, grid, dim3(BLOCK), s, *r, (const float *)in,
			shares, (float *)din);
}
