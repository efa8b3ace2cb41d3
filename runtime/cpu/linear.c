/* Linear layer: y = x W^T + b over flattened leading axes.  Weights are read
 * in their plain layout: at the batch sizes of training, bringing a large
 * matrix into another one costs as much as multiplying it.  Forward is fastest
 * as oneDNN's matmul, both gradients as its sgemm (bench/kernels prints them);
 * sgemm packs into buffers of its own, sized by the caches: at most a few MiB
 * for each thread, whatever the shape.  In bfloat16, of which it has no such product, all
 * are matmuls, which sum in float32; the weights' gradient stays that.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "copy.h"
#include "dnnl.h"
#include "real.h"

struct linear {
	enum ff_dtype type;                      /* gradients of parameters are float32 */
	int64_t rows, in_features, out_features; /* of the part */
	bool has_bias, need_din;
	struct ff_call *forward;
	struct ff_call *backward_data, *backward_weight; /* bfloat16 */
	/* Images are stored channels last, so their features are not innermost: such
	 * shards are brought into row-major order in the workspace. */
	bool reordered;
	struct ff_region in_region, out_region;
	uint8_t order[FF_MAX_RANK]; /* of both */
	int64_t in, out;            /* workspace */
};

/* C = A B: `rows` x `inner`, `inner` x `columns`; C is row-major, and so are the others
 * unless they are transposed. */
struct product {
	int64_t rows, inner, columns;
	bool a_transposed, b_transposed, has_bias; /* one a column */
	enum ff_dtype type, sink;                  /* of A, B and bias; of C */
};

static int describe_matrix(const struct ff_kernel *k, enum ff_dtype type, int64_t rows,
		int64_t columns, bool transposed, dnnl_memory_desc_t *ret, struct ff_error *err)
{
	dnnl_dims_t extent = {rows, columns}, stride = {columns, 1};

	if (transposed) {
		stride[0] = 1;
		stride[1] = rows;
	}
	return ff_dnnl_strided(k, type, 2, extent, stride, ret, err);
}

static int prepare_product(struct ff_kernel *k, const struct product *p, struct ff_call **ret,
		struct ff_error *err)
{
	dnnl_memory_desc_t a, b, c, bias;
	const struct ff_call_arg arg[] = {{DNNL_ARG_SRC, &a}, {DNNL_ARG_WEIGHTS, &b},
			{DNNL_ARG_DST, &c}, {DNNL_ARG_BIAS, &bias}};
	dnnl_primitive_desc_t pd = NULL;
	dnnl_matmul_desc_t d;
	int code = describe_matrix(k, p->type, p->rows, p->inner, p->a_transposed, &a, err);

	if (code == FF_OK)
		code = describe_matrix(k, p->type, p->inner, p->columns, p->b_transposed, &b, err);
	if (code == FF_OK)
		code = describe_matrix(k, p->sink, p->rows, p->columns, false, &c, err);
	if (code == FF_OK)
		code = describe_matrix(k, p->type, 1, p->columns, false, &bias, err);
	if (code == FF_OK)
		code = ff_dnnl_check(
				dnnl_matmul_desc_init(&d, &a, &b, p->has_bias ? &bias : NULL, &c),
				k, "describe a matrix product", err);
	if (code == FF_OK)
		code = ff_dnnl_describe(k, &d, NULL, &pd, err);
	if (code < 0)
		return code;
	code = ff_call_create(k, pd, arg, p->has_bias ? 4 : 3, ret, err);
	dnnl_primitive_desc_destroy(pd);
	return code;
}

static int prepare_forward(struct ff_kernel *k, struct linear *l, struct ff_error *err)
{
	const struct product p = {.rows = l->rows,
			.inner = l->in_features,
			.columns = l->out_features,
			.b_transposed = true,
			.has_bias = l->has_bias,
			.type = l->type,
			.sink = l->type};

	return prepare_product(k, &p, &l->forward, err);
}

static int prepare_backward(struct ff_kernel *k, struct linear *l, struct ff_error *err)
{
	const struct product weight = {.rows = l->out_features,
			.inner = l->rows,
			.columns = l->in_features,
			.a_transposed = true,
			.type = l->type,
			.sink = FF_F32};
	const struct product data = {.rows = l->rows,
			.inner = l->out_features,
			.columns = l->in_features,
			.type = l->type,
			.sink = l->type};
	int code;

	if (l->type == FF_F32)
		return FF_OK;
	code = prepare_product(k, &weight, &l->backward_weight, err);
	return code < 0 || !l->need_din ? code : prepare_product(k, &data, &l->backward_data, err);
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

FF_REAL_LOOP void sum_rows(enum ff_dtype type, int64_t rows, int64_t columns,
		const void *restrict x, float *restrict sum)
{
	memset(sum, 0, (size_t)columns * sizeof(*sum));
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			sum[j] += ff_real_get(type, x, i * columns + j);
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
	const void *x = row_major(l, &l->in_region, io, io->in[0], l->in);
	void *din = l->reordered ? ff_kernel_at(io, l->in) : io->din[0];
	int code = multiply_weight(k, io, dout, x, err);

	if (code == FF_OK && l->has_bias)
		FF_REAL_CALL(l->type, sum_rows, l->rows, l->out_features, dout, io->din[2]);
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
