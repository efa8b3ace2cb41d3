/* The largest of windows where something is no number, or infinite.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_POOL_MAX_H
#define FF_CPU_POOL_MAX_H

#include "cpu/core/kernel.h"
#include "kernels/windows.h"

struct ff_pool_max {
	enum ff_dtype type;
	bool wide; /* places are int32, else uint8 */
	int64_t n, c;
	struct ff_windows w;
};

void ff_pool_max_fill(const struct ff_work *w, struct ff_pool_max *ret);
/* Whether some of what is read is. */
bool ff_pool_max_strays(const struct ff_pool_max *p, const void *in);
void ff_pool_max(const struct ff_pool_max *p, const void *in, void *out, void *places);

#endif
