/* Philox4x32-10: random numbers by key and counter.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/philox.h"

/* Multipliers and key increments of the paper's table 2 and section 3.3. */
#define MULTIPLIER_0 UINT64_C(0xD2511F53)
#define MULTIPLIER_1 UINT64_C(0xCD9E8D57)
#define WEYL_0 UINT32_C(0x9E3779B9) /* golden ratio */
#define WEYL_1 UINT32_C(0xBB67AE85) /* sqrt(3) - 1 */
#define ROUNDS 10

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

void ff_philox_uniform(uint64_t seed, uint64_t stream, uint64_t index, size_t n, float *out)
{
	uint32_t word[4];
	for (size_t i = 0; i < n; i++, index++) {
		if (i == 0 || index % 4 == 0)
			ff_philox(seed, stream, index / 4, word);
		out[i] = (float)(word[index % 4] >> 8) * 0x1p-24f;
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
