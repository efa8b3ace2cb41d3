/* Linear layer: y = x W^T + b over flattened leading axes.  Weights are read
 * in their plain layout: at the batch sizes of training, bringing a large
 * matrix into another one costs as much as multiplying it.  Forward is fastest
 * as oneDNN's matmul, both gradients as its sgemm (bench/kernels prints them);
 * sgemm packs into buffers of its own, sized by the caches: at most a few MiB
 * for each thread, whatever the shape.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "copy.h"
#include "dnnl.h"

struct linear {
	int64_t rows, in_features, out_features; /* of the part */
	bool has_bias, need_din;
	struct ff_call *forward;
	/* Images are stored channels last, so their features are not innermost: such
	 * shards are brought into row-major order in the workspace. */
	bool reordered;
	struct ff_region in_region, out_region;
	uint8_t order[FF_MAX_RANK]; /* of both */
	int64_t in, out;            /* workspace */
};

static int prepare_forward(struct ff_kernel *k, struct linear *l, struct ff_error *err)
{
	int64_t n = l->rows, f = l->in_features, o = l->out_features;
	dnnl_dims_t in = {n, f}, weight = {f, o}, out = {n, o}, bias = {1, o};
	dnnl_dims_t by_in = {f, 1}, transposed = {1, f}, by_out = {o, 1};
	dnnl_memory_desc_t in_desc, weight_desc, out_desc, bias_desc;
	const struct ff_call_arg arg[] = {{DNNL_ARG_SRC, &in_desc},
			{DNNL_ARG_WEIGHTS, &weight_desc}, {DNNL_ARG_DST, &out_desc},
			{DNNL_ARG_BIAS, &bias_desc}};
	dnnl_primitive_desc_t pd = NULL;
	dnnl_matmul_desc_t d;
	int code = ff_dnnl_strided(k, 2, in, by_in, &in_desc, err);

	if (code == FF_OK)
		code = ff_dnnl_strided(k, 2, weight, transposed, &weight_desc, err);
	if (code == FF_OK)
		code = ff_dnnl_strided(k, 2, out, by_out, &out_desc, err);
	if (code == FF_OK)
		code = ff_dnnl_strided(k, 2, bias, by_out, &bias_desc, err);
	if (code == FF_OK)
		code = ff_dnnl_check(dnnl_matmul_desc_init(&d, &in_desc, &weight_desc,
						     l->has_bias ? &bias_desc : NULL, &out_desc),
				k, "describe a matrix product", err);
	if (code == FF_OK)
		code = ff_dnnl_describe(k, &d, NULL, &pd, err);
	if (code < 0)
		return code;
	code = ff_call_create(k, pd, arg, l->has_bias ? 4 : 3, &l->forward, err);
	dnnl_primitive_desc_destroy(pd);
	return code;
}

/* Between a shard in storage order and its row-major form. */
static void reorder(const struct linear *l, const struct ff_region *region, const void *source,
		bool to_row_major, void *sink)
{
	struct ff_strided s = {.rank = region->rank};
	int64_t stored[FF_MAX_RANK], plain = 1;

	ff_region_strides(l->order, region, stored);
	for (uint32_t i = region->rank; i-- > 0;) {
		s.n[i] = ff_region_size(region, i);
		s.source[i] = to_row_major ? stored[i] : plain;
		s.sink[i] = to_row_major ? plain : stored[i];
		plain *= s.n[i];
	}
	ff_strided_copy(&s, source, sink, false);
}

/* The row-major form of `shard`, made at `offset` of the workspace if needed. */
static const float *row_major(const struct linear *l, const struct ff_region *region,
		const struct ff_kernel_io *io, const void *shard, int64_t offset)
{
	void *plain = ff_kernel_at(io, offset);

	if (!l->reordered)
		return shard;
	reorder(l, region, shard, true, plain);
	return plain;
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct linear *l = k->state;
	float *out = l->reordered ? ff_kernel_at(io, l->out) : io->out[0];
	const void *memory[] = {row_major(l, &l->in_region, io, io->in[0], l->in), io->in[1], out,
			l->has_bias ? io->in[2] : NULL};
	int code = ff_call_run(k, l->forward, io, memory, err);

	if (code == FF_OK && l->reordered)
		reorder(l, &l->out_region, out, false, io->out[0]);
	return code;
}

static void sum_rows(int64_t rows, int64_t columns, const float *restrict x, float *restrict sum)
{
	memset(sum, 0, (size_t)columns * sizeof(*sum));
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			sum[j] += x[i * columns + j];
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct linear *l = k->state;
	int64_t n = l->rows, in = l->in_features, out = l->out_features;
	const float *dout = row_major(l, &l->out_region, io, io->dout[0], l->out);
	const float *x = row_major(l, &l->in_region, io, io->in[0], l->in);
	float *din = l->reordered ? ff_kernel_at(io, l->in) : io->din[0];
	int code = ff_dnnl_check(
			dnnl_sgemm('T', 'N', out, in, n, 1, dout, out, x, in, 0, io->din[1], in), k,
			"multiply", err);

	if (code == FF_OK && l->has_bias)
		sum_rows(n, out, dout, io->din[2]);
	if (code < 0 || !l->need_din)
		return code;
	code = ff_dnnl_check(
			dnnl_sgemm('N', 'N', n, in, out, 1, dout, out, io->in[1], in, 0, din, in),
			k, "multiply", err);
	if (code == FF_OK && l->reordered)
		reorder(l, &l->in_region, din, false, io->din[0]);
	return code;
}

int ff_cpu_linear_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct linear *l = ff_kernel_state(k, sizeof(*l), err);
	uint32_t last = w->out[0].rank - 1;

	if (!l)
		return FF_E_NOMEM;
	l->in_features = ff_region_size(&w->in[0], last);
	l->out_features = ff_region_size(&w->out[0], last);
	l->rows = ff_region_volume(&w->out[0]) / l->out_features;
	l->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	l->need_din = w->pass == FF_BACKWARD && w->need_din[0];
	l->in_region = w->in[0];
	l->out_region = w->out[0];
	memcpy(l->order, w->node->out_map[0].order, sizeof(l->order));
	l->reordered = l->order[last] != last;
	if (l->reordered) {
		l->in = ff_kernel_reserve(k, ff_region_volume(&w->in[0]) * FF_F32_BYTES);
		l->out = ff_kernel_reserve(k, ff_region_volume(&w->out[0]) * FF_F32_BYTES);
	}
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return w->pass == FF_FORWARD ? prepare_forward(k, l, err) : FF_OK;
}
