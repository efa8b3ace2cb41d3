/* The CUDA backend: NVIDIA GPUs, with cuBLASLt, cuDNN and kernels of our own.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cuda/core/capture.h"
#include "cuda/core/copy.h"
#include "cuda/core/memory.h"
#include "cuda/core/stream.h"
#include "cuda/libs/describe.h"
#include "cuda/libs/open.h"
#include "cuda/nccl/comm.h"
#include "cuda/ops/coding.h"
#include "cuda/ops/update.h"
#include "kernels.h"
#include "module.h"

static const struct ff_backend backend = {
		.name = "cuda",
		.help = "NVIDIA GPUs, with cuBLAS and cuDNN",
		.open = ff_cuda_open,
		.close = ff_cuda_close,
		.computes = ff_cuda_computes,
		.describe = ff_cuda_describe,
		.comm = ff_cuda_comm,
		.alloc = ff_cuda_alloc,
		.free = ff_cuda_free,
		.pin = ff_cuda_pin,
		.unpin = ff_cuda_unpin,
		.stream = ff_cuda_stream,
		.stream_close = ff_cuda_stream_close,
		.event = ff_cuda_event,
		.event_close = ff_cuda_event_close,
		.record = ff_cuda_record,
		.wait = ff_cuda_wait,
		.timer = ff_cuda_timer,
		.elapsed = ff_cuda_elapsed,
		.drain = ff_cuda_drain,
		.call = ff_cuda_call,
		.upload = ff_cuda_upload,
		.download = ff_cuda_download,
		.copy = ff_cuda_copy,
		.fill = ff_cuda_fill,
		.update = ff_cuda_update,
		.squares = ff_cuda_squares,
		.scale = ff_cuda_scale,
		.encode = ff_cuda_encode,
		.decode = ff_cuda_decode,
		.kernel = ff_cuda_kernel,
		.fuse = ff_cuda_fuse,
		.workspace = ff_cuda_workspace,
		.run = ff_cuda_run,
		.kernel_close = ff_cuda_kernel_close,
		.captures = &ff_cuda_captures,
		.host_memory = false,
};

const struct ff_backend *ff_cuda_module(
		const char *version, size_t backend_bytes, size_t comm_bytes)
{
	return !strcmp(version, FF_VERSION) && backend_bytes == sizeof(backend) &&
					       comm_bytes == sizeof(struct ff_comm)
			       ? &backend
			       : NULL;
}
