/* Memory of devices.  SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdlib.h>

#include "device.h"
#include "enter.h"

int ff_cuda_alloc(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	size_t size = bytes ? bytes : 64;
	void *memory = NULL;
	cudaError_t status;
	int code = ff_cuda_enter(dev, err);

	if (code < 0)
		return code;
	status = cudaMalloc(&memory, size);
	if (status == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		return ff_fail(err, FF_E_NOMEM,
				"CUDA device %d cannot provide %zu bytes of device memory",
				dev->ordinal, bytes);
	}
	if (status == cudaSuccess)
		status = cudaMemsetAsync(memory, 0, size, dev->own);
	if (status == cudaSuccess)
		status = cudaStreamSynchronize(dev->own);
	code = ff_cuda_check(status, dev, "provide memory", err);
	if (code < 0) {
		ff_cuda_free(dev, memory);
		return code;
	}
	*ret = memory;
	return FF_OK;
}

void ff_cuda_free(struct ff_device *dev, void *memory)
{
	/* would wait for all that the device was given */
	if (memory && !dev->lost && ff_cuda_enter(dev, NULL) == FF_OK)
		cudaFree(memory);
}

int ff_cuda_pin(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	int code = ff_cuda_enter(dev, err);

	return code < 0 ? code
			: ff_cuda_check(cudaHostAlloc(ret, bytes,
							cudaHostAllocPortable |
									cudaHostAllocMapped),
					  dev, "pin host memory", err);
}

void ff_cuda_unpin(struct ff_device *dev, void *memory)
{
	if (memory && !dev->lost && ff_cuda_enter(dev, NULL) == FF_OK)
		cudaFreeHost(memory);
}
