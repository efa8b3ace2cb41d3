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
#include "cuda/ops/update/coding.h"
#include "cuda/ops/update/update.h"
#include "kernels.h"
#include "module.h"

static const struct ff_backend backend = {
		.name = "cuda",
		.help = "NVIDIA GPUs, with cuBLAS and cuDNN",
		.device.open = ff_cuda_open,
		.device.close = ff_cuda_close,
		.device.computes = ff_cuda_computes,
		.device.describe = ff_cuda_describe,
		.memory.alloc = ff_cuda_alloc,
		.memory.free = ff_cuda_free,
		.memory.pin = ff_cuda_pin,
		.memory.unpin = ff_cuda_unpin,
		.stream.open = ff_cuda_stream,
		.stream.close = ff_cuda_stream_close,
		.stream.drain = ff_cuda_drain,
		.stream.call = ff_cuda_call,
		.event.open = ff_cuda_event,
		.event.close = ff_cuda_event_close,
		.event.record = ff_cuda_record,
		.event.wait = ff_cuda_wait,
		.event.timer = ff_cuda_timer,
		.event.elapsed = ff_cuda_elapsed,
		.move.upload = ff_cuda_upload,
		.move.download = ff_cuda_download,
		.move.copy = ff_cuda_copy,
		.move.fill = ff_cuda_fill,
		.math.update = ff_cuda_update,
		.math.squares = ff_cuda_squares,
		.math.scale = ff_cuda_scale,
		.math.encode = ff_cuda_encode,
		.math.decode = ff_cuda_decode,
		.kernel.open = ff_cuda_kernel,
		.kernel.fuse = ff_cuda_fuse,
		.kernel.add = ff_cuda_add,
		.kernel.workspace = ff_cuda_workspace,
		.kernel.run = ff_cuda_run,
		.kernel.close = ff_cuda_kernel_close,
		.comm = ff_cuda_comm,
		.captures = &ff_cuda_captures,
};

const struct ff_backend *ff_cuda_module(
		const char *version, size_t backend_bytes, size_t comm_bytes)
{
	return !strcmp(version, FF_VERSION) && backend_bytes == sizeof(backend) &&
					       comm_bytes == sizeof(struct ff_comm)
			       ? &backend
			       : NULL;
}
