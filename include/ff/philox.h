/* Philox4x32-10, the counter-based generator of Salmon et al., "Parallel
 * Random Numbers: As Easy as 1, 2, 3", SC 2011.  A value depends on the key
 * and the counter alone, so every device draws the same number for the same
 * element whatever the strategy.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PHILOX_H
#define FF_PHILOX_H

#include <stddef.h>
#include <stdint.h>

/* Four 32-bit words for (key, counter); `hi` and `lo` are the counter's
 * halves, low words first as in the paper's Random123. */
void ff_philox(uint64_t key, uint64_t hi, uint64_t lo, uint32_t out[4]);

/* The 32-bit word of element `index` in `stream` under `seed`: lane index % 4
 * of counter (stream, index / 4). */
uint32_t ff_philox_at(uint64_t seed, uint64_t stream, uint64_t index);

/* `n` consecutive elements from `index`, uniform in [0, 1) with 24 bits. */
void ff_philox_uniform(uint64_t seed, uint64_t stream, uint64_t index, size_t n, float *out);

/* A stream id from two small numbers (say node and purpose). */
uint64_t ff_philox_stream(uint32_t a, uint32_t b);

/* Sequential use, for searches: a counter that only moves forward.  Seed and stream are set
 * once, the rest begins at zero. */
struct ff_random {
	uint64_t seed, stream, next;
	uint64_t made; /* `word` is the block before this one */
	uint32_t word[4];
};
uint32_t ff_random_u32(struct ff_random *r);
uint32_t ff_random_below(struct ff_random *r, uint32_t n); /* [0, n), n > 0, unbiased */
double ff_random_unit(struct ff_random *r);                /* [0, 1), 53 bits */

#endif
