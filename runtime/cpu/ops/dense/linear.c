/* Linear layer: y = x W^T + b over flattened leading axes.  Weights are read
 * in their plain layout: at the batch sizes of training, bringing a large
 * matrix into another one costs as much as multiplying it.  Forward is fastest
 * as oneDNN's matmul, both gradients as its sgemm (bench/kernels prints them);
 * sgemm packs into buffers of its own, sized by the caches: at most a few MiB
 * for each thread, whatever the shape.  In bfloat16, of which it has no such product, all
 * are matmuls, which sum in float32; the weights' gradient stays that.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/core/copy.h"
#include "cpu/core/product.h"
#include "cpu/core/real.h"

struct linear {
	enum ff_dtype type;                      /* gradients of parameters are float32 */
	int64_t rows, in_features, out_features; /* of the part */
	bool has_bias, need_din, need_weight;
	struct ff_call *forward;
	struct ff_call *backward_data, *backward_weight; /* bfloat16 */
	/* Images are stored channels last, so their features are not innermost: such
	 * shards are brought into row-major order in the workspace. */
	bool reordered;
	struct ff_region in_region, out_region;
	uint8_t order[FF_MAX_RANK]; /* of both */
	int64_t in, out;            /* workspace */
};

static int prepare_forward(struct ff_kernel *k, struct linear *l, struct ff_error *err)
{
	const struct ff_product p = {.rows = l->rows,
			.inner = l->in_features,
			.columns = l->out_features,
			.b_transposed = true,
			.has_bias = l->has_bias,
			.type = l->type,
			.sink = l->type};

	return ff_product_prepare(k, &p, &l->forward, err);
}

static int prepare_backward(struct ff_kernel *k, struct linear *l, struct ff_error *err)
{
	const struct ff_product weight = {.rows = l->out_features,
			.inner = l->rows,
			.columns = l->in_features,
			.a_transposed = true,
			.type = l->type,
			.sink = FF_F32};
	const struct ff_product data = {.rows = l->rows,
			.inner = l->out_features,
			.columns = l->in_features,
			.type = l->type,
			.sink = l->type};
	int code;

	if (l->type == FF_F32)
		return FF_OK;
	code = l->need_weight ? ff_product_prepare(k, &weight, &l->backward_weight, err) : FF_OK;
	return code < 0 || !l->need_din ? code
					: ff_product_prepare(k, &data, &l->backward_data, err);
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
	ff_strided_copy(&s, l->type, source, sink);
}

/* The row-major form of `shard`, made at `offset` of the workspace if needed. */
static const void *row_major(const struct linear *l, const struct ff_region *region,
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
	void *out = l->reordered ? ff_kernel_at(io, l->out) : io->out[0];
	const void *memory[] = {row_major(l, &l->in_region, io, io->in[0], l->in), io->in[1], out,
			l->has_bias ? io->in[2] : NULL};
	int code = ff_call_run(k, l->forward, io, memory, err);

	if (code == FF_OK && l->reordered)
		reorder(l, &l->out_region, out, false, io->out[0]);
	return code;
}

/* The weights' gradient: dout^T x. */
static int multiply_weight(const struct ff_kernel *k, const struct ff_kernel_io *io,
		const void *dout, const void *x, struct ff_error *err)
{
	const struct linear *l = k->state;
	int64_t n = l->rows, in = l->in_features, out = l->out_features;
	const void *memory[] = {dout, x, io->din[1]};

	if (l->backward_weight)
		return ff_call_run(k, l->backward_weight, io, memory, err);
	return ff_dnnl_check(
			dnnl_sgemm('T', 'N', out, in, n, 1, dout, out, x, in, 0, io->din[1], in), k,
			"multiply", err);
}

/* The input's: dout W. */
static int multiply_data(const struct ff_kernel *k, const struct ff_kernel_io *io, const void *dout,
		void *din, struct ff_error *err)
{
	const struct linear *l = k->state;
	int64_t n = l->rows, in = l->in_features, out = l->out_features;
	const void *memory[] = {dout, io->in[1], din};

	if (l->backward_data)
		return ff_call_run(k, l->backward_data, io, memory, err);
	return ff_dnnl_check(
			dnnl_sgemm('N', 'N', n, in, out, 1, dout, out, io->in[1], in, 0, din, in),
			k, "multiply", err);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct linear *l = k->state;
	const void *dout = row_major(l, &l->out_region, io, io->dout[0], l->out);
	void *din = l->reordered ? ff_kernel_at(io, l->in) : io->din[0];
	int code = FF_OK;

	if (l->need_weight)
		code = multiply_weight(k, io, dout,
				row_major(l, &l->in_region, io, io->in[0], l->in), err);
	if (code == FF_OK && l->need_weight && l->has_bias)
		ff_column_sums(l->type, l->rows, l->out_features, dout, io->din[2]);
	if (code < 0 || !l->need_din)
		return code;
	code = multiply_data(k, io, dout, din, err);
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
	l->type = ff_work_type(w);
	l->in_features = ff_region_size(&w->in[0], last);
	l->out_features = ff_region_size(&w->out[0], last);
	l->rows = ff_region_volume(&w->out[0]) / l->out_features;
	l->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	l->need_din = w->pass == FF_BACKWARD && w->need_din[0];
	l->need_weight = ff_grads_make(w->grads, true);
	l->in_region = w->in[0];
	l->out_region = w->out[0];
	memcpy(l->order, w->node->out_map[0].order, sizeof(l->order));
	l->reordered = l->order[last] != last;
	if (l->reordered) {
		int64_t size = ff_dtype_bytes(l->type);

		l->in = ff_kernel_reserve(k, ff_region_volume(&w->in[0]) * size);
		l->out = ff_kernel_reserve(k, ff_region_volume(&w->out[0]) * size);
	}
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return w->pass == FF_FORWARD ? prepare_forward(k, l, err) : prepare_backward(k, l, err);
}
