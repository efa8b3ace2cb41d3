/* Strided copies in host memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_COPY_H
#define FF_CPU_COPY_H

#include "ff/backend.h"

#define FF_COPY_RANK 8

/* `rank` nested loops of n[i] steps; strides in elements. */
struct ff_strided {
	uint32_t rank;
	int64_t n[FF_COPY_RANK], source[FF_COPY_RANK], sink[FF_COPY_RANK];
};

/* Of elements of `type`.  The sides do not overlap. */
void ff_strided_copy(
		const struct ff_strided *s, enum ff_dtype type, const void *source, void *sink);

/* What struct ff_copy says. */
void ff_region_copy(const struct ff_copy *c);

#endif
