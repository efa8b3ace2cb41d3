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

/* `last`: of the nodes that it is fused with, the one furthest behind. */
static int make(struct ff_device *dev, const struct ff_work *w, enum ff_epilogue epilogue,
		const struct ff_node *last, struct ff_kernel **ret, struct ff_error *err)
{
	struct ff_kernel *k = calloc(1, sizeof(*k));
	int code;

	if (!k)
		return ff_fail_memory(err);
	k->dev = dev;
	k->epilogue = epilogue;
	if (last->op == FF_OP_CLIP) {
		k->low = (float)last->attrs.unary.a;
		k->high = (float)last->attrs.unary.b;
	}
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
	return make(dev, w, FF_EPILOGUE_NONE, w->node, ret, err);
}

/* As what a kernel takes those with it that are behind it, in the graph's order. */
static const struct {
	enum ff_op next[FF_FUSE_MOST - 1];
	uint32_t n;
	enum ff_epilogue forward, keeps, ahead, behind;
} epilogues[] = {
		{{FF_OP_RELU}, 1, .forward = FF_EPILOGUE_RELU, .behind = FF_EPILOGUE_RELU_SLOPE},
		{{FF_OP_GELU}, 1, .forward = FF_EPILOGUE_GELU, .keeps = FF_EPILOGUE_GELU_KEEPS,
				.ahead = FF_EPILOGUE_GELU_SLOPE},
		{{FF_OP_CLIP}, 1, .forward = FF_EPILOGUE_CLIP, .keeps = FF_EPILOGUE_CLIP,
				.behind = FF_EPILOGUE_CLIP_SLOPE},
		{{FF_OP_ADD}, 1, .forward = FF_EPILOGUE_ADD, .behind = FF_EPILOGUE_ADD_SLOPE},
		{{FF_OP_ADD, FF_OP_RELU}, 2, .forward = FF_EPILOGUE_ADD_RELU,
				.behind = FF_EPILOGUE_ADD_RELU_SLOPE},
		{{FF_OP_TRANSPOSE}, 1, .forward = FF_EPILOGUE_TRANSPOSE,
				.behind = FF_EPILOGUE_TRANSPOSE_SLOPE},
};

/* Of the first of `n` nodes, whose kernel takes the others with it; none if there is none. */
static enum ff_epilogue epilogue_of(
		const struct ff_node *const *node, uint32_t n, enum ff_fusion way)
{
	uint32_t i = 0;

	for (uint32_t k = 0; k + 1 < n; k++)
		if (!(ff_fusions(node[k], node[k + 1]) & (uint32_t)way))
			return FF_EPILOGUE_NONE;
	while (i < sizeof(epilogues) / sizeof(epilogues[0])) {
		uint32_t k = 0;

		while (k < epilogues[i].n && k + 1 < n && epilogues[i].next[k] == node[k + 1]->op)
			k++;
		if (k == epilogues[i].n && k + 1 == n)
			break;
		i++;
	}
	if (i == sizeof(epilogues) / sizeof(epilogues[0]))
		return FF_EPILOGUE_NONE;
	return way == FF_FUSION_FORWARD ? epilogues[i].forward
	       : way == FF_FUSION_KEEPS ? epilogues[i].keeps
	       : way == FF_FUSION_AHEAD ? epilogues[i].ahead
					: epilogues[i].behind;
}

/* Nothing but sums goes by element over all that it reads itself; and it is not kept what a
 * transposed gradient is. */
static bool can_write(const struct ff_work *main, enum ff_epilogue e, uint32_t how)
{
	if (e == FF_EPILOGUE_TRANSPOSE_SLOPE)
		return !(how & FF_FUSE_KEEPS);
	return !(how & FF_FUSE_LATE) && (!(how & FF_FUSE_OVER) || main->node->op == FF_OP_ADD);
}

int ff_cuda_fuse(struct ff_device *dev, const struct ff_work *const *w, uint32_t n, uint32_t how,
		struct ff_kernel **ret, struct ff_error *err)
{
	const struct ff_node *node[FF_FUSE_MOST] = {NULL}, *other_way[FF_FUSE_MOST] = {NULL};
	const struct ff_work *main = w[0];
	bool back = main->pass == FF_BACKWARD;
	enum ff_fusion way = back                  ? FF_FUSION_AHEAD
			     : how & FF_FUSE_KEEPS ? FF_FUSION_KEEPS
						   : FF_FUSION_FORWARD;
	enum ff_epilogue e;

	for (uint32_t i = 0; i < n; i++) {
		node[i] = w[i]->node;
		other_way[n - 1 - i] = w[i]->node;
	}
	e = epilogue_of(node, n, way);
	if (back && e == FF_EPILOGUE_NONE) {
		e = epilogue_of(other_way, n, FF_FUSION_BEHIND);
		main = w[n - 1];
	}
	if (e == FF_EPILOGUE_NONE || !can_write(main, e, how))
		return FF_OK;
	return make(dev, main, e, back ? node[0] : node[n - 1], ret, err);
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
