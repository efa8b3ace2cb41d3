/* Elements as files have them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DATA_ELEMENT_H
#define FF_DATA_ELEMENT_H

#include "columns.h"

#define FF_ELEMENT_MOST 8 /* bytes */

/* `n` elements from `in`, which need not be aligned, on. */
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
