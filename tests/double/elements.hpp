/* Elements of device memory as float32.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_ELEMENTS_HPP
#define FF_DOUBLE_ELEMENTS_HPP

#include <cstdint>
#include <cstring>

namespace twin
{

static inline float from_bf16(uint16_t x)
{
	uint32_t bits = uint32_t(x) << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* To the nearest, to the even one of two. */
static inline uint16_t to_bf16(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if ((bits & 0x7fffffff) > 0x7f800000)
		return uint16_t(bits >> 16 | 0x40);
	return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* What a TF32 product sees of it. */
static inline float to_tf32(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	if ((bits & 0x7f800000) != 0x7f800000)
		bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* `bf16`, or float32. */
static inline float get(bool bf16, const void *array, int64_t i)
{
	return bf16 ? from_bf16(static_cast<const uint16_t *>(array)[i])
		    : static_cast<const float *>(array)[i];
}

static inline void put(bool bf16, void *array, int64_t i, float x)
{
	if (bf16)
		static_cast<uint16_t *>(array)[i] = to_bf16(x);
	else
		static_cast<float *>(array)[i] = x;
}

} // namespace twin

#endif
