/* Kernels by operator.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_KERNELS_H
#define FF_CUDA_KERNELS_H

#include "ff/backend.h"

/* Slots of struct ff_backend. */
int ff_cuda_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err);
int ff_cuda_fuse(struct ff_device *dev, const struct ff_work *const *w, uint32_t n, uint32_t how,
		struct ff_kernel **ret, struct ff_error *err);
int ff_cuda_add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err);
void ff_cuda_kernel_close(struct ff_kernel *k);
int64_t ff_cuda_workspace(const struct ff_kernel *k);
int ff_cuda_run(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err);

#endif
