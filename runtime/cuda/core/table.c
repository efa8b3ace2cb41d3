/* Numbers that a kernel is prepared with.  SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include "enter.h"
#include "memory.h"

int ff_cuda_table(struct ff_device *dev, const void *host, size_t bytes, void **ret,
		struct ff_error *err)
{
	void *memory = NULL;
	cudaError_t status;
	int code = ff_cuda_alloc(dev, bytes, &memory, err);

	if (code < 0)
		return code;
	status = cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, dev->own);
	if (status == cudaSuccess)
		status = cudaStreamSynchronize(dev->own);
	code = ff_cuda_check(status, dev, "take a table", err);
	if (code < 0)
		ff_cuda_free(dev, memory);
	else
		*ret = memory;
	return code;
}
