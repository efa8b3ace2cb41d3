/* Kernels by operator: the table that fails to link when one is missing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include "cuda/core/kernel.h"

#include <stdio.h>
#include <stdlib.h>

#include "cuda/core/enter.h"
#include "cuda/core/report.h"
#include "cuda/core/stream.h"
#include "ff/fusion.h"

typedef int (*ff_prepare)(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);

static const ff_prepare prepare[FF_OP_COUNT] = {
#define FF_CUDA_ROW(e, row) [e] = ff_cuda_##row##_prepare,
		FF_OPS(FF_CUDA_ROW)
#undef FF_CUDA_ROW
};

/* Inputs are loaded by their consumers; no part ever computes one. */
int ff_cuda_input_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	(void)w;
	return ff_fail(err, FF_E_RUN, "%s: inputs are loaded, not computed", k->name);
}

/* Parameters are updated bucket by bucket, not by a kernel. */
int ff_cuda_parameter_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	(void)w;
	return ff_fail(err, FF_E_RUN, "%s: parameters are updated, not computed", k->name);
}

static int make(struct ff_device *dev, const struct ff_work *w, enum ff_epilogue epilogue,
		struct ff_kernel **ret, struct ff_error *err)
{
	struct ff_kernel *k = calloc(1, sizeof(*k));
	int code;

	if (!k)
		return ff_fail_memory(err);
	k->dev = dev;
	k->epilogue = epilogue;
	snprintf(k->name, sizeof(k->name), "%s \"%.60s\" %s", ff_op_row(w->node->op)->name,
			w->node->name, w->pass == FF_FORWARD ? "forward" : "backward");
	code = ff_cuda_enter(dev, err);
	if (code == FF_OK)
		code = prepare[w->node->op](k, w, err);
	if (code < 0 || k->declined) {
		ff_cuda_kernel_close(k);
		return code;
	}
	*ret = k;
	return FF_OK;
}

int ff_cuda_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err)
{
	return make(dev, w, FF_EPILOGUE_NONE, ret, err);
}

/* As what a kernel takes `next` with it. */
static const struct {
	enum ff_epilogue forward, keeps, ahead, behind;
} epilogues[FF_OP_COUNT] = {
		[FF_OP_RELU] = {.forward = FF_EPILOGUE_RELU, .behind = FF_EPILOGUE_RELU_SLOPE},
		[FF_OP_GELU] = {.forward = FF_EPILOGUE_GELU,
				.keeps = FF_EPILOGUE_GELU_KEEPS,
				.ahead = FF_EPILOGUE_GELU_SLOPE},
};

int ff_cuda_fuse(struct ff_device *dev, const struct ff_work *w, const struct ff_work *next,
		uint32_t how, struct ff_kernel **ret, struct ff_error *err)
{
	bool back = w->pass == FF_BACKWARD, keeps = how & FF_FUSE_KEEPS;
	uint32_t way = back ? FF_FUSION_AHEAD : keeps ? FF_FUSION_KEEPS : FF_FUSION_FORWARD;
	enum ff_op op = w->node->op, other = next->node->op;
	/* nothing else goes by element */
	bool over = how & FF_FUSE_OVER, first = !over || op == FF_OP_ADD,
	     second = !over || other == FF_OP_ADD;

	if (first && ff_fusions(op, next->node) & way)
		return make(dev, w,
				back    ? epilogues[other].ahead
				: keeps ? epilogues[other].keeps
					: epilogues[other].forward,
				ret, err);
	if (second && back && ff_fusions(other, w->node) & FF_FUSION_BEHIND)
		return make(dev, next, epilogues[op].behind, ret, err);
	return FF_OK;
}

int ff_cuda_add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	int code = k->add ? ff_cuda_enter(k->dev, err) : FF_OK;

	*ret = false;
	return code < 0 || !k->add ? code : k->add(k, input, ret, err);
}

void ff_cuda_kernel_close(struct ff_kernel *k)
{
	if (!k)
		return;
	if (k->finish)
		k->finish(k);
	ff_device_error_give(k->dev, k->device_error);
	free(k->state);
	free(k);
}

int64_t ff_cuda_workspace(const struct ff_kernel *k)
{
	return ff_kernel_scratch_offset(k) + ff_align64(k->scratch_bytes);
}

int ff_cuda_run(struct ff_stream *s, struct ff_kernel *k, const struct ff_kernel_io *io,
		struct ff_error *err)
{
	int code = ff_cuda_enter(k->dev, err);

	if (code == FF_OK && k->device_error)
		code = ff_stream_check_later(s, k, err);
	return code < 0 ? code : k->run(k, s, io, err);
}
