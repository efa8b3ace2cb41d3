/* oneDNN 2.x behind a few verbs; only files that include this call it.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_DNNL_H
#define FF_CPU_DNNL_H

#include <dnnl.h>

#include "engine.h"
#include "kernel.h"

#define FF_CALL_ARGS 6

struct ff_dnnl {
	dnnl_engine_t engine;
};

/* FF_E_RUN with "<kernel>: oneDNN failed to <verb>: <reason>" unless `s` is success. */
int ff_dnnl_check(
		dnnl_status_t s, const struct ff_kernel *k, const char *verb, struct ff_error *err);

/* Describes a tensor of `type`: `n` extents, strides in elements. */
int ff_dnnl_strided(const struct ff_kernel *k, enum ff_dtype type, int n, const dnnl_dims_t extent,
		const dnnl_dims_t stride, dnnl_memory_desc_t *ret, struct ff_error *err);
/* A dense vector. */
int ff_dnnl_vector(const struct ff_kernel *k, enum ff_dtype type, int64_t extent,
		dnnl_memory_desc_t *ret, struct ff_error *err);
/* {N, C, H, W} or {N, C, D, H, W}, stored channels last. */
int ff_dnnl_image(const struct ff_kernel *k, enum ff_dtype type, int n, const dnnl_dims_t extent,
		dnnl_memory_desc_t *ret, struct ff_error *err);
/* In whatever layout the library likes best. */
int ff_dnnl_any(const struct ff_kernel *k, enum ff_dtype type, int n, const dnnl_dims_t extent,
		dnnl_memory_desc_t *ret, struct ff_error *err);
bool ff_dnnl_same(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b);
int64_t ff_dnnl_bytes(const dnnl_memory_desc_t *d);

/* A primitive descriptor whose scratchpad the caller provides; `hint` is the
 * forward one where a backward needs it. */
int ff_dnnl_describe(const struct ff_kernel *k, const_dnnl_op_desc_t op,
		const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *ret, struct ff_error *err);

/* One argument of a call: DNNL_ARG_* and what describes its memory. */
struct ff_call_arg {
	int arg;
	const dnnl_memory_desc_t *desc;
};
/* A primitive ready to run, freed with the kernel. */
int ff_call_create(struct ff_kernel *k, const_dnnl_primitive_desc_t pd,
		const struct ff_call_arg *arg, uint32_t n, struct ff_call **ret,
		struct ff_error *err);
/* Copies between layouts: arguments are source and sink. */
int ff_call_reorder(struct ff_kernel *k, const dnnl_memory_desc_t *source,
		const dnnl_memory_desc_t *sink, struct ff_call **ret, struct ff_error *err);
/* Frees a list of calls; accepts NULL. */
void ff_calls_destroy(struct ff_call *c);
/* Has the scratchpad cleared before every run. */
void ff_call_clear(struct ff_call *c);
/* `memory` in the order of the arguments. */
int ff_call_run(const struct ff_kernel *k, const struct ff_call *c, const struct ff_kernel_io *io,
		const void *const *memory, struct ff_error *err);

#endif
