/* Kernels of the CUDA backend: what the operators' files share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_KERNEL_H
#define FF_CUDA_KERNEL_H

#include "device.h"
#include "epilogue.h"
#include "ff/strided.h"
#include "rows.h"

/* One part of one operator, prepared.  It runs on one stream at a time, and is closed when
 * that has been drained.  Workspace: what the operator reserves, then one scratchpad that all
 * its library calls use in turn. */
struct ff_kernel {
	char name[96]; /* for errors: conv2d "conv1" forward */
	struct ff_device *dev;
	/* Of the operators that it is fused with: forward those behind it, backward those
	 * before. */
	enum ff_epilogue epilogue;
	float low, high; /* limits of FF_EPILOGUE_CLIP */
	bool declined;   /* prepared, but there is nothing with that epilogue */
	int64_t reserved_bytes, scratch_bytes;
	void *state;                          /* the operator's; freed with the kernel */
	void (*finish)(struct ff_kernel *k);  /* NULL, or frees what the state has */
	struct ff_device_error *device_error; /* NULL, or where its kernels report */
	bool unchecked;                       /* its stream's next drain checks it */
	/* The sentence of what was reported. */
	int (*explain)(const struct ff_kernel *k, struct ff_error *err);
	/* NULL, or whether the gradient of `input` is added from now on (ff/kernel_slots.h). */
	int (*add)(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err);
	int (*run)(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
			struct ff_error *err);
};

/* Sets k->run and k->state for `w`, which is not kept; on failure the caller
 * closes the kernel. */
#define FF_CUDA_PREPARE(e, row)                                                                    \
	int ff_cuda_##row##_prepare(                                                               \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);
FF_OPS(FF_CUDA_PREPARE)
#undef FF_CUDA_PREPARE

/* An add of more than two. */
int ff_cuda_sum_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);

/* `size` zeroed bytes as k->state; NULL after writing the sentence. */
void *ff_kernel_state(struct ff_kernel *k, size_t size, struct ff_error *err);
/* Reserves workspace; returns its offset, a multiple of 64. */
int64_t ff_kernel_reserve(struct ff_kernel *k, int64_t bytes);
/* The scratchpad has at least so many. */
void ff_kernel_need(struct ff_kernel *k, int64_t bytes);
/* A `run` for parts of which nothing is wanted. */
int ff_kernel_run_nothing(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err);
/* What lies at such an offset; NULL for a negative one. */
static inline void *ff_kernel_at(const struct ff_kernel_io *io, int64_t offset)
{
	return offset < 0 ? NULL : (char *)io->workspace + offset;
}
static inline int64_t ff_kernel_scratch_offset(const struct ff_kernel *k)
{
	int64_t n = k->reserved_bytes, align = FF_WORKSPACE_ALIGN;

	return k->scratch_bytes ? (n + align - 1) / align * align : n;
}
static inline void *ff_kernel_scratch(const struct ff_kernel *k, const struct ff_kernel_io *io)
{
	return (char *)io->workspace + ff_kernel_scratch_offset(k);
}
/* Whether a launch succeeded: FF_E_RUN with the kernel's name. */
int ff_kernel_launched(cudaError_t code, const struct ff_kernel *k, struct ff_error *err);
/* It has something to report where a stream's drain finds it. */
int ff_kernel_reports(struct ff_kernel *k,
		int (*explain)(const struct ff_kernel *k, struct ff_error *err),
		struct ff_error *err);
/* What has been reported since it was last asked. */
int ff_kernel_check(struct ff_kernel *k, struct ff_error *err);

/* Element `i` of what a kernel reads, of what it writes. */
static inline const void *ff_at(enum ff_dtype t, const void *array, int64_t i)
{
	return (const char *)array + i * ff_dtype_bytes(t);
}
static inline void *ff_to(enum ff_dtype t, void *array, int64_t i)
{
	return (char *)array + i * ff_dtype_bytes(t);
}

#endif
