/* Elements as files have them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_ELEMENT_H
#define FF_DATA_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

/* Little endian. */
enum ff_element {
	FF_ELEMENT_U8,
	FF_ELEMENT_U16,
	FF_ELEMENT_U32,
	FF_ELEMENT_I32,
	FF_ELEMENT_I64,
	FF_ELEMENT_F32,
	FF_ELEMENT_F64,
	FF_ELEMENTS
};
uint32_t ff_element_bytes(enum ff_element e);
const char *ff_element_name(enum ff_element e);
bool ff_element_is_whole(enum ff_element e);

/* `in`: `n` elements, which need not be aligned. */
struct ff_element_row {
	const char *name;
	uint32_t bytes;
	bool is_signed;
	void (*reals)(const uint8_t *in, int32_t n, float *out, int64_t step);
	/* NULL: they are no whole numbers */
	void (*wholes)(const uint8_t *in, int32_t n, int64_t *out);
};
extern const struct ff_element_row ff_element_rows[FF_ELEMENTS];

#endif
