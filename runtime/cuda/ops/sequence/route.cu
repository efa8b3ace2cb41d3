/* Which places go to which experts: places choose, a thread each, and then a block for every
 * sample and expert gives its slots to those that chose it, in order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/real.cuh"
#include "route.h"

/* Choices from the best on, -1 where there is none that is a number; zeros all over, without a
 * limit ones where experts are chosen. */
template <class T> FF_KERNEL void choose(struct ff_route r, const T *in, int32_t *choice, T *out)
{
	int64_t i = thread_index(), sample = i / r.places, place = i - sample * r.places;
	int64_t slots = (r.index ? 1 : r.slots) * r.experts;
	float bound = 0;
	int32_t last = -1;

	if (sample >= r.samples)
		return;
	in += sample * r.sample + place * r.place;
	for (int64_t k = 0; k < r.choices; k++) {
		int32_t best = -1;
		float most = 0;

		for (int32_t e = 0; e < r.experts && (!k || last >= 0); e++) {
			float v = real_get(in[e * r.expert]);

			if ((k ? FF_ROUTE_BEFORE(bound, last, v, e) : v == v) &&
					(best < 0 || v > most)) {
				best = e;
				most = v;
			}
		}
		last = best;
		bound = most;
		choice[(sample * r.choices + k) * r.places + place] = best;
	}
	for (int64_t k = 0; k < slots; k++)
		real_put(&out[i * slots + k], 0);
	for (int64_t k = 0; k < r.choices && !r.limited; k++) {
		int32_t e = choice[(sample * r.choices + k) * r.places + place];

		if (e >= 0)
			real_put(&out[i * slots + k * r.experts + e], 1);
	}
}

/* A thread has some of the choices, one behind the other; slots before them go to those of the
 * threads before it. */
template <class T>
FF_KERNEL void give(struct ff_route r, const int32_t *choice, T *out, int32_t *places)
{
	FF_SHARED int32_t mine[BLOCK];
	int64_t sample = blockIdx.x / r.experts, e = blockIdx.x - sample * r.experts;
	int64_t n = r.places * r.choices, first = n * threadIdx.x / blockDim.x,
		end = n * (threadIdx.x + 1) / blockDim.x, slot = 0;

	choice += sample * n;
	mine[threadIdx.x] = 0;
	for (int64_t i = first; i < end; i++)
		mine[threadIdx.x] += choice[i] == e;
	__syncthreads();
	for (unsigned i = 0; i < threadIdx.x; i++)
		slot += mine[i];
	for (int64_t i = first; i < end && slot < r.slots; i++) {
		int64_t place = i % r.places, row = sample * r.places + place;

		if (choice[i] != e)
			continue;
		if (places)
			places[(sample * r.experts + e) * r.slots + slot] = (int32_t)place;
		real_put(&out[places ? row * r.experts + e
				     : (row * r.slots + slot) * r.experts + e],
				1);
		slot++;
	}
}

template <class T>
static cudaError_t launch(const struct ff_route *r, const T *in, int32_t *choice, T *out,
		int32_t *places, cudaStream_t s)
{
	int64_t slots = r->samples * r->experts * r->slots;
	cudaError_t code = cudaSuccess;

	if (places)
		code = cudaMemsetAsync(places, 0xff, (size_t)slots * sizeof(*places), s);
	if (code == cudaSuccess)
		code = ff_launch(choose<T>, blocks_of(r->samples * r->places), dim3(BLOCK), s, *r,
				in, choice, out);
	if (code != cudaSuccess || !r->samples || !r->limited)
		return code;
	return ff_launch(give<T>, dim3((unsigned)(r->samples * r->experts)), dim3(BLOCK), s, *r,
			(const int32_t *)choice, out, places);
}

cudaError_t ff_launch_route(enum ff_dtype type, const struct ff_route *r, const void *in,
		int32_t *choice, void *out, int32_t *places, cudaStream_t s)
{
	if (type == FF_BF16)
		return launch(r, (const uint16_t *)in, choice, (uint16_t *)out, places, s);
	return launch(r, (const float *)in, choice, (float *)out, places, s);
}
