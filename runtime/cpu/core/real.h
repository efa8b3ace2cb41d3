/* Elements that kernels compute with: float32 or bfloat16 in memory, float32 in between,
 * rounded once, when they are written.  A loop over them is a function that is inlined
 * for a type that FF_REAL_CALL fixes: written once, compiled for either.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_REAL_H
#define FF_CPU_REAL_H

#include <string.h>

#include "ff/dtype.h"

#define FF_REAL_LOOP static inline __attribute__((always_inline))

FF_REAL_LOOP float ff_real_get(enum ff_dtype t, const void *array, int64_t i)
{
	return t == FF_BF16 ? ff_bf16_to_f32(((const uint16_t *)array)[i])
			    : ((const float *)array)[i];
}

FF_REAL_LOOP void ff_real_put(enum ff_dtype t, void *array, int64_t i, float x)
{
	if (t == FF_BF16)
		((uint16_t *)array)[i] = ff_bf16_from_f32(x);
	else
		((float *)array)[i] = x;
}

/* Element `i` of what a kernel reads, of what it writes. */
static inline const void *ff_real_in(enum ff_dtype t, const void *array, int64_t i)
{
	return (const char *)array + i * ff_dtype_bytes(t);
}
static inline void *ff_real_out(enum ff_dtype t, void *array, int64_t i)
{
	return (char *)array + i * ff_dtype_bytes(t);
}

/* fn(type, ...), where fn is a FF_REAL_LOOP. */
#define FF_REAL_CALL(type, fn, ...)                                                                \
	((type) == FF_BF16 ? fn(FF_BF16, __VA_ARGS__) : fn(FF_F32, __VA_ARGS__))

/* Elements that a thread takes at a time. */
#define FF_REAL_BLOCK 4096

#endif
