/* What kernels of all operators share.  SPDX-License-Identifier: Apache-2.0 */
#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"

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

void ff_kernel_need(struct ff_kernel *k, int64_t bytes)
{
	if (bytes > k->scratch_bytes)
		k->scratch_bytes = bytes;
}

int ff_kernel_run_nothing(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)k;
	(void)s;
	(void)io;
	(void)err;
	return FF_OK;
}

int ff_kernel_launched(cudaError_t code, const struct ff_kernel *k, struct ff_error *err)
{
	if (code == cudaSuccess)
		return FF_OK;
	cudaGetLastError(); /* it is told now */
	return ff_fail(err, FF_E_RUN, "%s: CUDA failed to launch it: %s", k->name,
			cudaGetErrorString(code));
}

int ff_kernel_reports(struct ff_kernel *k,
		int (*explain)(const struct ff_kernel *k, struct ff_error *err),
		struct ff_error *err)
{
	k->explain = explain;
	return ff_device_error_take(k->dev, &k->device_error, err);
}

int ff_kernel_check(struct ff_kernel *k, struct ff_error *err)
{
	int code;

	if (!k->device_error->found)
		return FF_OK;
	code = k->explain(k, err);
	memset(k->device_error, 0, sizeof(*k->device_error));
	return code;
}
