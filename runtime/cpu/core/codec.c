/* Codecs' kernels, and the table that fails to link when one is missing.  Residuals are what
 * feeds errors back (Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient
 * Compression Schemes", ICML 2019).  SPDX-License-Identifier: Apache-2.0 */
#include "coding.h"

#include <math.h>

#include "ff/clones.h"
#include "ff/codec.h"
#include "kernel.h"

/* Each for whole blocks that one thread takes, or the last, shorter one. */
typedef void (*ff_coding_kernel)(const struct ff_coding *c);

#define FF_CPU_CODEC(e, row)                                                                       \
	void ff_cpu_##row##_encode(const struct ff_coding *c);                                     \
	void ff_cpu_##row##_decode(const struct ff_coding *c);
FF_CODECS(FF_CPU_CODEC)
#undef FF_CPU_CODEC

static const ff_coding_kernel encoders[FF_CODEC_COUNT] = {
#define FF_CPU_ENCODER(e, row) [e] = ff_cpu_##row##_encode,
		FF_CODECS(FF_CPU_ENCODER)
#undef FF_CPU_ENCODER
};
static const ff_coding_kernel decoders[FF_CODEC_COUNT] = {
#define FF_CPU_DECODER(e, row) [e] = ff_cpu_##row##_decode,
		FF_CODECS(FF_CPU_DECODER)
#undef FF_CPU_DECODER
};

#define SHARE 8192 /* elements that a thread takes at once: a multiple of every block */

static void share(const struct ff_coding *c, ff_coding_kernel kernel)
{
#pragma omp parallel for if (c->n >= FF_CPU_PARALLEL)
	for (int64_t at = 0; at < c->n; at += SHARE) {
		struct ff_coding part = *c;

		part.values = c->values ? c->values + at : NULL;
		part.residual = c->residual ? c->residual + at : NULL;
		part.message = (char *)c->message + ff_codec_bytes(c->codec, at);
		part.n = c->n - at < SHARE ? c->n - at : SHARE;
		kernel(&part);
	}
}

void ff_cpu_encode(const struct ff_coding *c)
{
	share(c, encoders[c->codec->id]);
}

void ff_cpu_decode(const struct ff_coding *c)
{
	share(c, decoders[c->codec->id]);
}

/* ---- bfloat16 ---- */

FF_CLONES static void round_off(const float *restrict v, float *restrict rest,
		uint16_t *restrict message, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float x = v[i] + rest[i];

		message[i] = ff_bf16_from_f32(x);
		rest[i] = x - ff_bf16_to_f32(message[i]);
	}
}

FF_CLONES static void round_rest(float *restrict rest, uint16_t *restrict message, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float x = rest[i];

		message[i] = ff_bf16_from_f32(x);
		rest[i] = x - ff_bf16_to_f32(message[i]);
	}
}

FF_CLONES static void widen(const uint16_t *restrict message, float *restrict v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		v[i] = ff_bf16_to_f32(message[i]);
}

FF_CLONES static void add_wide(const uint16_t *restrict message, float *restrict v, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		v[i] += ff_bf16_to_f32(message[i]);
}

void ff_cpu_bf16_encode(const struct ff_coding *c)
{
	if (c->values)
		round_off(c->values, c->residual, c->message, c->n);
	else
		round_rest(c->residual, c->message, c->n);
}

void ff_cpu_bf16_decode(const struct ff_coding *c)
{
	(c->add ? add_wide : widen)(c->message, c->values, c->n);
}

/* ---- ternary ---- */

/* What is less than that share of a block's mean is zero, and its scale the mean of the others:
 * what comes closest to numbers that are spread normally (Li et al., "Ternary Weight Networks",
 * 2016; of gradients, with others' choice of scale: Wen et al., "TernGrad", NeurIPS 2017). */
#define THRESHOLD 0.7f
#define BLOCK 512
#define LANES (BLOCK / 16) /* words of a block */

/* Where a block is not whole it has fewer words: each word's k-th pair of bits is of element
 * k * words + its own number. */
FF_CLONES static void encode_block(const float *restrict v, float *restrict rest, int64_t words,
		float *restrict scale, uint32_t *restrict word)
{
	float sum[LANES] = {0}, above[LANES] = {0}, number[LANES] = {0}, total = 0, most = 0, n = 0;
	float threshold;

	for (int64_t k = 0; k < 16 && v; k++)
		for (int64_t w = 0; w < words; w++) {
			rest[k * words + w] += v[k * words + w];
			sum[w] += fabsf(rest[k * words + w]);
		}
	for (int64_t k = 0; k < 16 && !v; k++)
		for (int64_t w = 0; w < words; w++)
			sum[w] += fabsf(rest[k * words + w]);
	for (int64_t w = 0; w < words; w++)
		total += sum[w];
	threshold = THRESHOLD * total / (float)(16 * words);
	for (int64_t k = 0; k < 16; k++)
		for (int64_t w = 0; w < words; w++) {
			float x = fabsf(rest[k * words + w]);

			above[w] += x > threshold ? x : 0;
			number[w] += x > threshold ? 1 : 0;
		}
	for (int64_t w = 0; w < words; w++) {
		most += above[w];
		n += number[w];
	}
	/* what is not finite stays so */
	*scale = n > 0 ? most / n : total;
	for (int64_t w = 0; w < words; w++)
		word[w] = 0;
	for (int64_t k = 0; k < 16; k++)
		for (int64_t w = 0; w < words; w++) {
			float x = rest[k * words + w];
			uint32_t plus = x > threshold, minus = x < -threshold;

			word[w] |= (plus | minus << 1) << 2 * k;
			rest[k * words + w] = x - *scale * (float)((int32_t)plus - (int32_t)minus);
		}
}

FF_CLONES static void decode_block(float *restrict v, int64_t words, float scale,
		const uint32_t *restrict word, float keep)
{
	for (int64_t k = 0; k < 16; k++)
		for (int64_t w = 0; w < words; w++) {
			uint32_t pair = word[w] >> 2 * k;
			float x = scale * (float)((int32_t)(pair & 1) - (int32_t)(pair >> 1 & 1));

			v[k * words + w] = (keep > 0 ? v[k * words + w] : 0) + x;
		}
}

void ff_cpu_ternary_encode(const struct ff_coding *c)
{
	char *message = c->message;

	for (int64_t at = 0; at < c->n; at += BLOCK) {
		int64_t words = (c->n - at < BLOCK ? c->n - at : BLOCK) / 16;

		encode_block(c->values ? c->values + at : NULL, c->residual + at, words,
				(float *)message, (uint32_t *)message + 1);
		message += (1 + words) * (int64_t)sizeof(uint32_t);
	}
}

void ff_cpu_ternary_decode(const struct ff_coding *c)
{
	const char *message = c->message;

	for (int64_t at = 0; at < c->n; at += BLOCK) {
		int64_t words = (c->n - at < BLOCK ? c->n - at : BLOCK) / 16;

		decode_block(c->values + at, words, *(const float *)message,
				(const uint32_t *)message + 1, c->add);
		message += (1 + words) * (int64_t)sizeof(uint32_t);
	}
}
