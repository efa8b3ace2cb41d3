/* Codecs of gradients: what runtime/cpu/core/codec.c says of them holds here.
 * SPDX-License-Identifier: Apache-2.0 */
#include "codecs.h"
#include "cuda/core/real.cuh"

/* ---- bfloat16 ---- */

FF_KERNEL void round_off(const float *v, float *rest, uint16_t *message, int64_t n)
{
	int64_t i = thread_index();
	uint16_t rounded;
	float x;

	if (i >= n)
		return;
	x = v ? v[i] + rest[i] : rest[i];
	real_put(&rounded, x);
	message[i] = rounded;
	rest[i] = x - real_get(rounded);
}

FF_KERNEL void widen(const uint16_t *message, float *v, int64_t n, bool add)
{
	int64_t i = thread_index();

	if (i < n)
		v[i] = (add ? v[i] : 0) + real_get(message[i]);
}

struct bf16 {
	static cudaError_t encode(
			const float *v, float *rest, void *message, int64_t n, cudaStream_t s)
	{
		return ff_launch(round_off, blocks_of(n), dim3(BLOCK), s, v, rest,
				(uint16_t *)message, n);
	}
	static cudaError_t decode(
			const void *message, float *v, int64_t n, bool add, cudaStream_t s)
	{
		return ff_launch(widen, blocks_of(n), dim3(BLOCK), s, (const uint16_t *)message, v,
				n, add);
	}
};

/* ---- ternary ---- */

#define WORDS 32 /* of 16 elements, in a block: a thread has one */
#define THRESHOLD 0.7f

/* Blocks of the grid are those of the message. */
struct span {
	int64_t first, words;
};

FF_DEVICE struct span span_of(int64_t n)
{
	int64_t first = (int64_t)blockIdx.x * WORDS * 16, left = (n - first) / 16;

	return {first, left < WORDS ? left : WORDS};
}

/* In the order of the threads, the same for all. */
FF_DEVICE float total_of(const float *sums, int64_t words)
{
	float total = 0;

	for (int64_t w = 0; w < words; w++)
		total += sums[w];
	return total;
}

FF_KERNEL void ternary_encode(const float *v, float *rest, uint32_t *message, int64_t n)
{
	FF_SHARED float sums[WORDS], above[WORDS], number[WORDS];
	struct span b = span_of(n);
	uint32_t *to = message + (int64_t)blockIdx.x * (WORDS + 1), word = 0, w = threadIdx.x;
	float sum = 0, large = 0, count = 0, total, threshold, scale;

	for (int64_t k = 0; k < 16 && w < b.words; k++) {
		float *x = &rest[b.first + k * b.words + w];

		if (v)
			*x += v[b.first + k * b.words + w];
		sum += fabsf(*x);
	}
	sums[w] = sum;
	__syncthreads();
	total = total_of(sums, b.words);
	threshold = THRESHOLD * total / (float)(16 * b.words);
	for (int64_t k = 0; k < 16 && w < b.words; k++) {
		float x = fabsf(rest[b.first + k * b.words + w]);

		large += x > threshold ? x : 0;
		count += x > threshold ? 1 : 0;
	}
	above[w] = large;
	number[w] = count;
	__syncthreads();
	count = total_of(number, b.words);
	scale = count > 0 ? total_of(above, b.words) / count : total;
	for (int64_t k = 0; k < 16 && w < b.words; k++) {
		float *x = &rest[b.first + k * b.words + w];
		uint32_t plus = *x > threshold, minus = *x < -threshold;

		word |= (plus | minus << 1) << 2 * k;
		*x -= scale * (float)((int32_t)plus - (int32_t)minus);
	}
	if (w < b.words)
		to[1 + w] = word;
	if (w == 0)
		memcpy(to, &scale, sizeof(scale));
}

FF_KERNEL void ternary_decode(const uint32_t *message, float *v, int64_t n, bool add)
{
	struct span b = span_of(n);
	const uint32_t *from = message + (int64_t)blockIdx.x * (WORDS + 1);
	uint32_t w = threadIdx.x;
	float scale;

	memcpy(&scale, from, sizeof(scale));
	for (int64_t k = 0; k < 16 && w < b.words; k++) {
		float *x = &v[b.first + k * b.words + w];
		uint32_t pair = from[1 + w] >> 2 * k;

		*x = (add ? *x : 0) +
		     scale * (float)((int32_t)(pair & 1) - (int32_t)(pair >> 1 & 1));
	}
}

struct ternary {
	static dim3 grid(int64_t n)
	{
		return dim3((unsigned)((n + WORDS * 16 - 1) / (WORDS * 16)));
	}
	static cudaError_t encode(
			const float *v, float *rest, void *message, int64_t n, cudaStream_t s)
	{
		return ff_launch(ternary_encode, grid(n), dim3(WORDS), s, v, rest,
				(uint32_t *)message, n);
	}
	static cudaError_t decode(
			const void *message, float *v, int64_t n, bool add, cudaStream_t s)
	{
		return ff_launch(ternary_decode, grid(n), dim3(WORDS), s, (const uint32_t *)message,
				v, n, add);
	}
};

/* The tables that fail to compile when a codec has no kernels. */
typedef cudaError_t (*encoder)(const float *, float *, void *, int64_t, cudaStream_t);
typedef cudaError_t (*decoder)(const void *, float *, int64_t, bool, cudaStream_t);
static const encoder encoders[] = {
#define FF_CUDA_ENCODER(e, row) row::encode,
		FF_CODECS(FF_CUDA_ENCODER)
#undef FF_CUDA_ENCODER
};
static const decoder decoders[] = {
#define FF_CUDA_DECODER(e, row) row::decode,
		FF_CODECS(FF_CUDA_DECODER)
#undef FF_CUDA_DECODER
};

cudaError_t ff_launch_encode(enum ff_codec_id id, const float *values, float *residual,
		void *message, int64_t n, cudaStream_t s)
{
	return encoders[id](values, residual, message, n, s);
}

cudaError_t ff_launch_decode(enum ff_codec_id id, const void *message, float *values, int64_t n,
		bool add, cudaStream_t s)
{
	return decoders[id](message, values, n, add, s);
}
