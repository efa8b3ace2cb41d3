/* Philox4x32-10: random numbers by key and counter.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/philox.h"
#include "ff/clones.h"

/* Multipliers and key increments of the paper's table 2 and section 3.3. */
#define MULTIPLIER_0 UINT64_C(0xD2511F53)
#define MULTIPLIER_1 UINT64_C(0xCD9E8D57)
#define WEYL_0 UINT32_C(0x9E3779B9) /* golden ratio */
#define WEYL_1 UINT32_C(0xBB67AE85) /* sqrt(3) - 1 */
#define ROUNDS 10
#define LANES 32 /* counters at a time: more than compilers unroll rather than vectorize */

void ff_philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4])
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t x0 = (uint32_t)lo, x1 = (uint32_t)(lo >> 32);
	uint32_t x2 = (uint32_t)hi, x3 = (uint32_t)(hi >> 32);
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t a = MULTIPLIER_0 * x0, b = MULTIPLIER_1 * x2;
		x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
		x1 = (uint32_t)b;
		x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
		x3 = (uint32_t)a;
		k0 += WEYL_0;
		k1 += WEYL_1;
	}
	out[0] = x0;
	out[1] = x1;
	out[2] = x2;
	out[3] = x3;
}

uint32_t ff_philox_at(uint64_t seed, uint64_t stream, uint64_t index)
{
	uint32_t word[4];
	ff_philox(seed, stream, index / 4, word);
	return word[index % 4];
}

static float uniform(uint32_t word)
{
	return (float)(word >> 8) * 0x1p-24f;
}

/* What the words of the counters lo, lo + 1, ... are, side by side. */
FF_CLONES static void make_uniform(uint64_t key, uint64_t hi, uint64_t lo, float out[4 * LANES])
{
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	uint32_t x0[LANES], x1[LANES], x2[LANES], x3[LANES];

	for (uint32_t l = 0; l < LANES; l++) {
		x0[l] = (uint32_t)(lo + l);
		x1[l] = (uint32_t)((lo + l) >> 32);
		x2[l] = (uint32_t)hi;
		x3[l] = (uint32_t)(hi >> 32);
	}
	for (int i = 0; i < ROUNDS; i++) {
		for (uint32_t l = 0; l < LANES; l++) {
			uint64_t a = MULTIPLIER_0 * x0[l], b = MULTIPLIER_1 * x2[l];

			x0[l] = (uint32_t)(b >> 32) ^ x1[l] ^ k0;
			x1[l] = (uint32_t)b;
			x2[l] = (uint32_t)(a >> 32) ^ x3[l] ^ k1;
			x3[l] = (uint32_t)a;
		}
		k0 += WEYL_0;
		k1 += WEYL_1;
	}
	for (size_t l = 0; l < LANES; l++) {
		out[4 * l] = uniform(x0[l]);
		out[4 * l + 1] = uniform(x1[l]);
		out[4 * l + 2] = uniform(x2[l]);
		out[4 * l + 3] = uniform(x3[l]);
	}
}

void ff_philox_uniform(uint64_t seed, uint64_t stream, uint64_t index, size_t n, float *out)
{
	uint32_t word[4];
	size_t i = 0;

	while (i < n) {
		if ((index + i) % 4 == 0 && n - i >= 4 * (size_t)LANES) {
			make_uniform(seed, stream, (index + i) / 4, out + i);
			i += 4 * (size_t)LANES;
			continue;
		}
		ff_philox(seed, stream, (index + i) / 4, word);
		do
			out[i] = uniform(word[(index + i) % 4]);
		while (++i < n && (index + i) % 4);
	}
}

uint64_t ff_philox_stream(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

uint32_t ff_random_u32(struct ff_random *r)
{
	uint64_t block = r->next / 4;

	if (r->made != block + 1) {
		ff_philox(r->seed, r->stream, block, r->word);
		r->made = block + 1;
	}
	return r->word[r->next++ % 4];
}

/* Multiply and reject: Lemire, "Fast Random Integer Generation in an Interval",
 * ACM TOMACS 29(1), 2019. */
uint32_t ff_random_below(struct ff_random *r, uint32_t n)
{
	uint64_t m = (uint64_t)ff_random_u32(r) * n;
	if ((uint32_t)m < n) {
		uint32_t least = (0u - n) % n;
		while ((uint32_t)m < least)
			m = (uint64_t)ff_random_u32(r) * n;
	}
	return (uint32_t)(m >> 32);
}

double ff_random_unit(struct ff_random *r)
{
	uint64_t high = ff_random_u32(r) >> 5, low = ff_random_u32(r) >> 6;
	return (double)(high << 26 | low) * 0x1p-53;
}
