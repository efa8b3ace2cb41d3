/* The table of elements.  Hosts are little endian, as files are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "element.h"

#include <string.h>

#define REALS(name, type)                                                                          \
	static void reals_##name(const uint8_t *in, int32_t n, float *out, int64_t step)           \
	{                                                                                          \
		for (int32_t i = 0; i < n; i++) {                                                  \
			type x;                                                                    \
                                                                                                   \
			memcpy(&x, in + (size_t)i * sizeof(x), sizeof(x));                         \
			out[i * step] = (float)x;                                                  \
		}                                                                                  \
	}
#define WHOLES(name, type)                                                                         \
	static void wholes_##name(const uint8_t *in, int32_t n, int64_t *out)                      \
	{                                                                                          \
		for (int32_t i = 0; i < n; i++) {                                                  \
			type x;                                                                    \
                                                                                                   \
			memcpy(&x, in + (size_t)i * sizeof(x), sizeof(x));                         \
			out[i] = (int64_t)x;                                                       \
		}                                                                                  \
	}
REALS(u8, uint8_t)
REALS(u16, uint16_t)
REALS(u32, uint32_t)
REALS(i32, int32_t)
REALS(i64, int64_t)
REALS(f32, float)
REALS(f64, double)
WHOLES(u8, uint8_t)
WHOLES(u16, uint16_t)
WHOLES(u32, uint32_t)
WHOLES(i32, int32_t)
WHOLES(i64, int64_t)

const struct ff_element_row ff_element_rows[FF_ELEMENTS] = {
		[FF_ELEMENT_U8] = {"uint8", 1, false, reals_u8, wholes_u8},
		[FF_ELEMENT_U16] = {"uint16", 2, false, reals_u16, wholes_u16},
		[FF_ELEMENT_U32] = {"uint32", 4, false, reals_u32, wholes_u32},
		[FF_ELEMENT_I32] = {"int32", 4, true, reals_i32, wholes_i32},
		[FF_ELEMENT_I64] = {"int64", 8, true, reals_i64, wholes_i64},
		[FF_ELEMENT_F32] = {"float32", 4, true, reals_f32, NULL},
		[FF_ELEMENT_F64] = {"float64", 8, true, reals_f64, NULL},
};

uint32_t ff_element_bytes(enum ff_element e)
{
	return ff_element_rows[e].bytes;
}

const char *ff_element_name(enum ff_element e)
{
	return ff_element_rows[e].name;
}

bool ff_element_is_whole(enum ff_element e)
{
	return ff_element_rows[e].wholes;
}
