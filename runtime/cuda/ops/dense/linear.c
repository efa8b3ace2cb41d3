/* Linear layer: y = x W^T + b over flattened leading axes.  The weights' gradient is float32,
 * whatever is multiplied.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/blas.h"
#include "linear_transposed.h"

struct linear {
	enum ff_dtype type;                      /* gradients of parameters are float32 */
	int64_t rows, in_features, out_features; /* of the part */
	uint32_t n_in;                           /* behind them: what an operator before it read */
	bool has_bias, need_din, need_weight;
	bool sum_columns; /* the bias's gradient by a kernel of ours */
	struct ff_product *forward, *data, *weight;
	/* Images are stored channels last, so their features are not innermost: such
	 * shards are brought into row-major order in the workspace. */
	bool reordered;
	struct ff_strided in_loops, out_loops; /* from storage order to row-major */
	int64_t in, out, sums;                 /* workspace */
};

static void finish(struct ff_kernel *k)
{
	struct linear *l = k->state;

	ff_product_destroy(l->forward);
	ff_product_destroy(l->data);
	ff_product_destroy(l->weight);
}

static cudaError_t restore(const struct linear *l, const struct ff_strided *loops,
		const void *plain, void *shard, cudaStream_t queue)
{
	struct ff_strided back = *loops;

	memcpy(back.source, loops->sink, sizeof(back.source));
	memcpy(back.sink, loops->source, sizeof(back.sink));
	return ff_cuda_strided(&back, l->type, plain, shard, queue);
}

/* The row-major form of `shard`, made at `offset` of the workspace if needed. */
static int row_major(const struct ff_kernel *k, const struct ff_strided *loops,
		const struct ff_kernel_io *io, const void *shard, int64_t offset,
		cudaStream_t queue, const void **ret, struct ff_error *err)
{
	const struct linear *l = k->state;
	void *plain = ff_kernel_at(io, offset);

	*ret = l->reordered ? plain : shard;
	if (!l->reordered)
		return FF_OK;
	return ff_kernel_launched(ff_cuda_strided(loops, l->type, shard, plain, queue), k, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct linear *l = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	void *out = l->reordered ? ff_kernel_at(io, l->out) : io->out[0];
	const void *in;
	int code = row_major(k, &l->in_loops, io, io->in[0], l->in, queue, &in, err);

	if (code == FF_OK && k->epilogue == FF_EPILOGUE_GELU_KEEPS)
		code = ff_product_keep(k, l->forward, io->out[1], err);
	if (code == FF_OK)
		code = ff_product_run(k, l->forward, queue, in, io->in[1], io->in[2], out,
				ff_kernel_scratch(k, io), err);
	if (code < 0 || !l->reordered)
		return code;
	return ff_kernel_launched(restore(l, &l->out_loops, out, io->out[0], queue), k, err);
}

/* The weights' gradient: dout^T x; the bias's; the input's: dout W, which may be written where x
 * is. */
static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct linear *l = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	void *scratch = ff_kernel_scratch(k, io);
	void *din = l->reordered ? ff_kernel_at(io, l->in) : io->din[0];
	const void *dout, *x;
	int code = row_major(k, &l->out_loops, io, io->dout[0], l->out, queue, &dout, err);

	if (code == FF_OK && l->need_weight)
		code = row_major(k, &l->in_loops, io, io->in[0], l->in, queue, &x, err);
	if (code == FF_OK && l->need_weight)
		code = ff_product_run(
				k, l->weight, queue, dout, x, io->din[2], io->din[1], scratch, err);
	if (code == FF_OK && l->sum_columns)
		code = ff_kernel_launched(
				ff_launch_columns(l->type, l->rows, l->out_features, dout,
						io->din[2], ff_kernel_at(io, l->sums), queue),
				k, err);
	if (code < 0 || !l->need_din)
		return code;
	if (k->epilogue == FF_EPILOGUE_GELU_SLOPE &&
			(code = ff_product_keep(k, l->data, io->in[l->n_in], err)) < 0)
		return code;
	code = ff_product_run(k, l->data, queue, dout, io->in[1], NULL, din, scratch, err);
	if (code < 0 || !l->reordered)
		return code;
	return ff_kernel_launched(restore(l, &l->in_loops, din, io->din[0], queue), k, err);
}

/* Sums of columns that come with the product are written. */
static int add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct linear *l = k->state;

	(void)err;
	*ret = input == 1 || (input == 0 && !l->reordered && k->epilogue == FF_EPILOGUE_NONE);
	if (*ret)
		ff_product_add(input == 1 ? l->weight : l->data);
	return FF_OK;
}

static void fill_loops(const uint8_t *order, const struct ff_region *region, struct ff_strided *ret)
{
	int64_t plain = 1;

	*ret = (struct ff_strided){.rank = region->rank};
	ff_region_strides(order, region, ret->source);
	for (uint32_t i = region->rank; i-- > 0;) {
		ret->n[i] = ff_region_size(region, i);
		ret->sink[i] = plain;
		plain *= ret->n[i];
	}
}

static int prepare_forward(struct ff_kernel *k, struct linear *l, struct ff_error *err)
{
	const struct ff_product_shape p = {.rows = l->rows,
			.inner = l->in_features,
			.columns = l->out_features,
			.b_transposed = true,
			.has_bias = l->has_bias,
			.epilogue = k->epilogue,
			.type = l->type,
			.sink = l->type};

	k->run = run_forward;
	k->declined = k->epilogue == FF_EPILOGUE_GELU_KEEPS && l->reordered;
	return k->declined ? FF_OK : ff_product_create(k, &p, &l->forward, err);
}

static int prepare_backward(struct ff_kernel *k, struct linear *l, struct ff_error *err)
{
	const struct ff_product_shape weight = {.rows = l->out_features,
			.inner = l->rows,
			.columns = l->in_features,
			.a_transposed = true,
			.gives_sums = l->has_bias,
			.type = l->type,
			.sink = FF_F32};
	const struct ff_product_shape data = {.rows = l->rows,
			.inner = l->out_features,
			.columns = l->in_features,
			.epilogue = k->epilogue,
			.type = l->type,
			.sink = l->type};
	int code;

	k->run = run_backward;
	k->add = add;
	k->declined = k->epilogue != FF_EPILOGUE_NONE && (l->reordered || !l->need_din);
	if (k->declined)
		return FF_OK;
	code = l->need_weight ? ff_product_create(k, &weight, &l->weight, err) : FF_OK;
	if (code < 0)
		return code;
	l->sum_columns = l->need_weight && l->has_bias && !ff_product_gives_sums(l->weight);
	if (l->sum_columns)
		l->sums = ff_kernel_reserve(k, ff_column_scratch(l->rows, l->out_features));
	return !l->need_din ? code : ff_product_create(k, &data, &l->data, err);
}

int ff_cuda_linear_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const uint8_t *order = w->node->out_map[0].order;
	uint32_t last = w->out[0].rank - 1;
	struct linear *l;

	if (k->epilogue == FF_EPILOGUE_TRANSPOSE || k->epilogue == FF_EPILOGUE_TRANSPOSE_SLOPE)
		return ff_cuda_linear_transposed_prepare(k, w, err);
	l = ff_kernel_state(k, sizeof(*l), err);
	if (!l)
		return FF_E_NOMEM;
	k->finish = finish;
	l->type = ff_work_type(w);
	l->n_in = w->node->n_in;
	l->in_features = ff_region_size(&w->in[0], last);
	l->out_features = ff_region_size(&w->out[0], last);
	l->rows = ff_region_volume(&w->out[0]) / l->out_features;
	l->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	l->need_din = w->pass == FF_BACKWARD && w->need_din[0];
	l->need_weight = ff_grads_make(w->grads, true);
	l->reordered = order[last] != last;
	fill_loops(order, &w->in[0], &l->in_loops);
	fill_loops(order, &w->out[0], &l->out_loops);
	if (l->reordered) {
		int64_t size = ff_dtype_bytes(l->type);

		l->in = ff_kernel_reserve(k, ff_region_volume(&w->in[0]) * size);
		l->out = ff_kernel_reserve(k, ff_region_volume(&w->out[0]) * size);
	}
	return w->pass == FF_FORWARD ? prepare_forward(k, l, err) : prepare_backward(k, l, err);
}
