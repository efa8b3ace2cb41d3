/* Elements of any type as numbers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_TYPED_H
#define FF_TEST_TYPED_H

#include "ff/dtype.h"

/* What rounding a sum to bfloat16 may change of it. */
#define BF16_HALF_ULP (1.0 / 256)

/* The nearest number of the type. */
static inline double typed_round(enum ff_dtype type, double x)
{
	return type == FF_BF16 ? (double)ff_bf16_to_f32(ff_bf16_from_f32((float)x)) : x;
}

static inline double typed_get(enum ff_dtype type, const void *array, int64_t i)
{
	switch (type) {
	case FF_F32:
		return (double)((const float *)array)[i];
	case FF_I32:
		return (double)((const int32_t *)array)[i];
	case FF_U8:
		return (double)((const uint8_t *)array)[i];
	case FF_BF16:
		return (double)ff_bf16_to_f32(((const uint16_t *)array)[i]);
	}
	return 0;
}

static inline void typed_put(enum ff_dtype type, void *array, int64_t i, double x)
{
	switch (type) {
	case FF_F32:
		((float *)array)[i] = (float)x;
		break;
	case FF_I32:
		((int32_t *)array)[i] = (int32_t)x;
		break;
	case FF_U8:
		((uint8_t *)array)[i] = (uint8_t)x;
		break;
	case FF_BF16:
		((uint16_t *)array)[i] = ff_bf16_from_f32((float)x);
		break;
	}
}

#endif
