/* What kernels of all operators share.  SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#include <stdlib.h>

void *ff_kernel_state(struct ff_kernel *k, size_t size, struct ff_error *err)
{
	k->state = calloc(1, size);
	if (!k->state)
		ff_fail_memory(err);
	return k->state;
}

int64_t ff_kernel_reserve(struct ff_kernel *k, int64_t bytes)
{
	int64_t offset = k->reserved_bytes;

	k->reserved_bytes += (bytes + 63) / 64 * 64;
	return offset;
}

int ff_kernel_run_nothing(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)k;
	(void)io;
	(void)err;
	return FF_OK;
}
