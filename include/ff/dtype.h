/* Element types: what a value's elements are in memory.  Elements of any type move;
 * which are reduced, ff/reduce.h says.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DTYPE_H
#define FF_DTYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum ff_dtype {
	FF_F32,
	FF_I32,
	FF_U8,
	FF_BF16, /* bfloat16: the upper half of a float32 */
};
#define FF_DTYPE_COUNT 4
const char *ff_dtype_name(enum ff_dtype t); /* "float32" */
static inline int64_t ff_dtype_bytes(enum ff_dtype t)
{
	return t == FF_U8 ? 1 : t == FF_BF16 ? 2 : 4;
}

/* By name; false when there is no such type. */
bool ff_dtype_find(const char *name, enum ff_dtype *ret);

/* Whole numbers have no gradients. */
static inline bool ff_dtype_is_whole(enum ff_dtype t)
{
	return t == FF_I32 || t == FF_U8;
}

/* Of what is float32 whatever a graph computes in: the weights that are updated, their
 * gradients and an optimizer's states. */
#define FF_F32_BYTES 4

static inline float ff_bf16_to_f32(uint16_t x)
{
	uint32_t bits = (uint32_t)x << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}
/* To the nearest, to the even one of two; a NaN stays one. */
static inline uint16_t ff_bf16_from_f32(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if ((bits & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Where buffers and messages begin. */
static inline int64_t ff_align64(int64_t bytes)
{
	return (bytes + 63) & ~(int64_t)63;
}

#endif
