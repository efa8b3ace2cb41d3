/* Strided copies in host memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_COPY_H
#define FF_CPU_COPY_H

#include "ff/backend.h"
#include "ff/strided.h"

/* Of elements of `type`.  The sides do not overlap. */
void ff_strided_copy(
		const struct ff_strided *s, enum ff_dtype type, const void *source, void *sink);

/* What struct ff_copy says. */
void ff_region_copy(const struct ff_copy *c);

#endif
