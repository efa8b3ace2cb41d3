/* Kernels of the CPU backend: what the operators' files share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_KERNEL_H
#define FF_CPU_KERNEL_H

#include "ff/backend.h"

struct ff_dnnl; /* dnnl.h */
struct ff_call;

/* One part of one operator, prepared.  It runs on one stream at a time.
 * Workspace: what the operator reserves, then one scratchpad that all its
 * library calls use in turn. */
struct ff_kernel {
	char name[96]; /* for errors: conv2d "conv1" forward */
	struct ff_dnnl *dnnl;
	struct ff_call *calls; /* all, to be freed */
	int64_t reserved_bytes, scratchpad_bytes;
	void *state; /* the operator's; freed with the kernel */
	int (*run)(const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err);
};

/* Sets k->run and k->state for `w`, which is not kept; on failure the caller
 * closes the kernel. */
#define FF_CPU_PREPARE(e, row)                                                                     \
	int ff_cpu_##row##_prepare(                                                                \
			struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);
FF_OPS(FF_CPU_PREPARE)
#undef FF_CPU_PREPARE

/* An add of more than two. */
int ff_cpu_sum_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);

/* `size` zeroed bytes as k->state; NULL after writing the sentence. */
void *ff_kernel_state(struct ff_kernel *k, size_t size, struct ff_error *err);
/* Reserves workspace; returns its offset, a multiple of 64. */
int64_t ff_kernel_reserve(struct ff_kernel *k, int64_t bytes);
/* A `run` for parts of which nothing is wanted. */
int ff_kernel_run_nothing(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err);
/* What lies at such an offset; NULL for a negative one. */
static inline void *ff_kernel_at(const struct ff_kernel_io *io, int64_t offset)
{
	return offset < 0 ? NULL : (char *)io->workspace + offset;
}

/* Elements below which a loop is not worth another thread. */
#define FF_CPU_PARALLEL 32768

#endif
