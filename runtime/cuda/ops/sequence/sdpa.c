/* Graphs of scaled-dot-product attention, as cuDNN knows them by their operations: NVIDIA, cuDNN 9,
 * "Graph API", fused flash attention.  What is between two products is float32; the weights, and
 * the slopes of the scores, are rounded to bfloat16 before they are multiplied.
 *
 * Backward the queries' gradient is one product behind the others.  cuDNN knows a graph too in
 * which it is added up in float32 as it comes, which needs less memory and gives other bits each
 * time; no numerical note says so, therefore that one is not described. SPDX-License-Identifier:
 * Apache-2.0 */
#include "sdpa.h"

#include <math.h>

#include "cuda/libs/plan.h"

/* Older ones want a mask of padding backward, or are wrong: 9.10.0. */
#define SINCE 91600

enum { /* ids of tensors in a graph */
	QUERY = 1,
	KEY,
	VALUE,
	OUT,
	STATS,
	MASK,
	DOUT,
	SUMS,
	DQUERY,
	DKEY,
	DVALUE,
	SCALE,
	ONE,
	NOTHING, /* -infinity */
	KEYS,    /* how many */
	QUERIES,
	VIRTUAL, /* and what follows */
};

struct drawing {
	struct ff_parts *p;
	const struct ff_sdpa_shape *s;
	cudnnBackendDescriptor_t *ops;
	int64_t n_ops, next; /* next: id of a virtual tensor */
	cudnnBackendDescriptor_t scale;
};

/* ---- tensors ---- */

enum kind { REAL, IN_PASSING, BY_VALUE };

static cudnnBackendDescriptor_t tensor(struct drawing *d, int64_t id, cudnnDataType_t type,
		const int64_t n[4], const int64_t stride[4], enum kind kind)
{
	cudnnBackendDescriptor_t t = ff_parts_make(d->p, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	const int64_t alignment = FF_SDPA_ALIGN;
	const bool yes = true;

	ff_parts_set(d->p, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	ff_parts_set(d->p, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, n);
	ff_parts_set(d->p, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
	ff_parts_set(d->p, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
	ff_parts_set(d->p, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
	if (kind == IN_PASSING)
		ff_parts_set(d->p, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
	if (kind == BY_VALUE)
		ff_parts_set(d->p, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
	ff_parts_finish(d->p, t);
	return t;
}

/* Samples, heads, `rows` and `columns`, without gaps; id 0: in passing. */
static cudnnBackendDescriptor_t dense(struct drawing *d, int64_t id, cudnnDataType_t type,
		int64_t heads, int64_t rows, int64_t columns)
{
	const int64_t n[] = {d->s->samples, heads, rows, columns};
	const int64_t stride[] = {heads * rows * columns, rows * columns, columns, 1};

	return tensor(d, id ? id : d->next++, type, n, stride, id ? REAL : IN_PASSING);
}

static cudnnBackendDescriptor_t scores(struct drawing *d, cudnnDataType_t type)
{
	return dense(d, 0, type, d->s->heads, d->s->queries, d->s->keys);
}

static cudnnBackendDescriptor_t by_row(struct drawing *d, int64_t id)
{
	return dense(d, id, CUDNN_DATA_FLOAT, d->s->heads, d->s->queries, 1);
}

static cudnnBackendDescriptor_t number(struct drawing *d, int64_t id, cudnnDataType_t type)
{
	const int64_t one[] = {1, 1, 1, 1};

	return tensor(d, id, type, one, one, BY_VALUE);
}

/* Rows of queries. */
static cudnnBackendDescriptor_t query_rows(struct drawing *d, int64_t id)
{
	const struct ff_sdpa_shape *s = d->s;
	const int64_t n[] = {s->samples, s->heads, s->queries, s->size};
	const int64_t stride[] = {
			s->queries * s->all_heads * s->size, s->size, s->all_heads * s->size, 1};

	return tensor(d, id, CUDNN_DATA_BFLOAT16, n, stride, REAL);
}

/* Rows of keys; `across`: as columns. */
static cudnnBackendDescriptor_t key_rows(struct drawing *d, int64_t id, bool across, enum kind kind)
{
	const struct ff_sdpa_shape *s = d->s;
	const int64_t step = s->all_key_heads * s->size;
	const int64_t n[] = {s->samples, s->key_heads, across ? s->size : s->keys,
			across ? s->keys : s->size};
	const int64_t stride[] = {
			s->all_keys * step, s->size, across ? 1 : step, across ? step : 1};

	return tensor(d, id, CUDNN_DATA_BFLOAT16, n, stride, kind);
}

/* ---- operations ---- */

static cudnnBackendDescriptor_t new_op(struct drawing *d, cudnnBackendDescriptorType_t type)
{
	return d->ops[d->n_ops++] = ff_parts_make(d->p, type);
}

/* What is done to x, b and t, of which the latter may be NULL; at positions along `axis`, or -1. */
struct function {
	cudnnPointwiseMode_t mode;
	cudnnDataType_t type; /* in which it is computed */
	int64_t axis;
	cudnnBackendDescriptor_t x, b, t;
};

static cudnnBackendDescriptor_t apply(
		struct drawing *d, const struct function *f, cudnnBackendDescriptor_t y)
{
	cudnnBackendDescriptor_t what = ff_parts_make(d->p, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;

	ff_parts_set(d->p, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &f->mode);
	ff_parts_set(d->p, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &f->type);
	if (f->axis >= 0)
		ff_parts_set(d->p, what, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &f->axis);
	ff_parts_finish(d->p, what);
	op = new_op(d, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, f->x);
	if (f->b)
		ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, f->b);
	if (f->t)
		ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, f->t);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
	ff_parts_finish(d->p, op);
	return y;
}

/* y = x `mode` b, which is NULL where that takes one alone; float32 */
static cudnnBackendDescriptor_t pointwise(struct drawing *d, cudnnPointwiseMode_t mode,
		cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y)
{
	const struct function f = {mode, CUDNN_DATA_FLOAT, -1, x, b, NULL};

	return apply(d, &f, y);
}

static cudnnBackendDescriptor_t multiply(struct drawing *d, cudnnBackendDescriptor_t a,
		cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y)
{
	cudnnBackendDescriptor_t what = ff_parts_make(d->p, CUDNN_BACKEND_MATMUL_DESCRIPTOR), op;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;

	ff_parts_set(d->p, what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	ff_parts_finish(d->p, what);
	op = new_op(d, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, what);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
	ff_parts_finish(d->p, op);
	return y;
}

static cudnnBackendDescriptor_t reduce(struct drawing *d, cudnnReduceTensorOp_t how,
		cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
	cudnnBackendDescriptor_t what = ff_parts_make(d->p, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), op;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;

	ff_parts_set(d->p, what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	ff_parts_set(d->p, what, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
			1, &how);
	ff_parts_finish(d->p, what);
	op = new_op(d, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, what);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
	ff_parts_finish(d->p, op);
	return y;
}

/* The same elements seen otherwise. */
static cudnnBackendDescriptor_t turn(
		struct drawing *d, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y)
{
	cudnnBackendDescriptor_t op = new_op(d, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
	ff_parts_set_part(d->p, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
	ff_parts_finish(d->p, op);
	return y;
}

/* ---- both passes ---- */

/* scale times products of queries and keys, and the mask */
static cudnnBackendDescriptor_t make_scores(
		struct drawing *d, cudnnBackendDescriptor_t query, cudnnBackendDescriptor_t key)
{
	const struct ff_sdpa_shape *s = d->s;
	cudnnBackendDescriptor_t x = multiply(d, query, key, scores(d, CUDNN_DATA_FLOAT));

	x = pointwise(d, CUDNN_POINTWISE_MUL, x, d->scale, scores(d, CUDNN_DATA_FLOAT));
	if (!s->mask_heads)
		return x;
	return pointwise(d, CUDNN_POINTWISE_ADD, x,
			dense(d, MASK, CUDNN_DATA_BFLOAT16, s->mask_heads, s->queries, s->keys),
			scores(d, CUDNN_DATA_FLOAT));
}

/* x where a query looks, else -infinity */
static cudnnBackendDescriptor_t hide(struct drawing *d, cudnnBackendDescriptor_t x)
{
	const struct function to_row = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, x};
	const struct function to_column = {CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, x};
	struct function f = {CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, -1};

	if (d->s->causal == FF_SDPA_ALL)
		return x;
	f.x = apply(d, &to_row, scores(d, CUDNN_DATA_INT32));
	f.b = apply(d, &to_column, scores(d, CUDNN_DATA_INT32));
	if (d->s->causal == FF_SDPA_TO_LAST) {
		const struct function add = {CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, 3, f.x,
				number(d, KEYS, CUDNN_DATA_INT32)};
		struct function sub = {CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, 3};

		sub.x = apply(d, &add, scores(d, CUDNN_DATA_INT32));
		sub.b = number(d, QUERIES, CUDNN_DATA_INT32);
		f.x = apply(d, &sub, scores(d, CUDNN_DATA_INT32));
	}
	f = (struct function){CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, x,
			number(d, NOTHING, CUDNN_DATA_FLOAT),
			apply(d, &f, scores(d, CUDNN_DATA_BOOLEAN))};
	return apply(d, &f, scores(d, CUDNN_DATA_FLOAT));
}

/* ---- forward ---- */

static void draw_forward(struct drawing *d)
{
	cudnnBackendDescriptor_t query = query_rows(d, QUERY), out = query_rows(d, OUT);
	cudnnBackendDescriptor_t key = key_rows(d, KEY, true, REAL);
	cudnnBackendDescriptor_t value = key_rows(d, VALUE, false, REAL);
	cudnnBackendDescriptor_t x = hide(d, make_scores(d, query, key)), most, sum, logarithm;

	most = reduce(d, CUDNN_REDUCE_TENSOR_MAX, x, by_row(d, 0));
	x = pointwise(d, CUDNN_POINTWISE_SUB, x, most, scores(d, CUDNN_DATA_FLOAT));
	x = pointwise(d, CUDNN_POINTWISE_EXP, x, NULL, scores(d, CUDNN_DATA_FLOAT));
	sum = reduce(d, CUDNN_REDUCE_TENSOR_ADD, x, by_row(d, 0));
	logarithm = pointwise(d, CUDNN_POINTWISE_LOG, sum, NULL, by_row(d, 0));
	pointwise(d, CUDNN_POINTWISE_ADD, most, logarithm, by_row(d, STATS));
	x = pointwise(d, CUDNN_POINTWISE_DIV, x, sum, scores(d, CUDNN_DATA_BFLOAT16));
	multiply(d, x, value, out);
}

/* ---- backward ---- */

/* Of columns of `weights` times rows, the sum over the heads that share a key head. */
static void draw_keys(struct drawing *d, cudnnBackendDescriptor_t weights,
		cudnnBackendDescriptor_t rows, int64_t id)
{
	const struct ff_sdpa_shape *s = d->s;
	const int64_t n[] = {s->samples, s->heads, s->keys, s->queries};
	const int64_t stride[] = {
			s->heads * s->queries * s->keys, s->queries * s->keys, 1, s->keys};
	cudnnBackendDescriptor_t turned = turn(d, weights,
			tensor(d, d->next++, CUDNN_DATA_BFLOAT16, n, stride, IN_PASSING));
	cudnnBackendDescriptor_t to = key_rows(d, id, false, REAL);

	if (s->heads == s->key_heads) {
		multiply(d, turned, rows, to);
		return;
	}
	reduce(d, CUDNN_REDUCE_TENSOR_ADD,
			multiply(d, turned, rows,
					dense(d, 0, CUDNN_DATA_BFLOAT16, s->heads, s->keys,
							s->size)),
			to);
}

/* By row, the sum of output times its gradient. */
static cudnnBackendDescriptor_t draw_sums(struct drawing *d, cudnnBackendDescriptor_t dout)
{
	const struct ff_sdpa_shape *s = d->s;
	cudnnBackendDescriptor_t x = pointwise(d, CUDNN_POINTWISE_MUL, dout, query_rows(d, OUT),
			dense(d, 0, CUDNN_DATA_FLOAT, s->heads, s->queries, s->size));

	x = reduce(d, CUDNN_REDUCE_TENSOR_ADD, x, by_row(d, 0));
	/* where dropout would scale; cuDNN wants it there */
	return pointwise(d, CUDNN_POINTWISE_MUL, x, number(d, ONE, CUDNN_DATA_FLOAT),
			by_row(d, SUMS));
}

static void draw_backward(struct drawing *d)
{
	cudnnBackendDescriptor_t query = query_rows(d, QUERY), dout = query_rows(d, DOUT);
	cudnnBackendDescriptor_t key = key_rows(d, KEY, true, REAL);
	cudnnBackendDescriptor_t value = key_rows(d, VALUE, true, REAL);
	cudnnBackendDescriptor_t sums = draw_sums(d, dout), x, weights;

	x = pointwise(d, CUDNN_POINTWISE_SUB, make_scores(d, query, key), by_row(d, STATS),
			scores(d, CUDNN_DATA_FLOAT));
	weights = pointwise(d, CUDNN_POINTWISE_EXP, hide(d, x), NULL, scores(d, CUDNN_DATA_FLOAT));
	draw_keys(d, weights, dout, DVALUE);
	x = multiply(d, dout, value, scores(d, CUDNN_DATA_FLOAT));
	x = pointwise(d, CUDNN_POINTWISE_SUB, x, sums, scores(d, CUDNN_DATA_FLOAT));
	x = pointwise(d, CUDNN_POINTWISE_MUL, x, weights, scores(d, CUDNN_DATA_FLOAT));
	x = pointwise(d, CUDNN_POINTWISE_MUL, x, d->scale, scores(d, CUDNN_DATA_FLOAT));
	draw_keys(d, x, query, DKEY);
	key = turn(d, key, key_rows(d, d->next++, false, IN_PASSING));
	multiply(d, x, key, query_rows(d, DQUERY));
}

/* ---- plans ---- */

static int64_t describe(struct ff_parts *p, cudnnBackendDescriptor_t *ops)
{
	struct drawing d = {.p = p, .s = p->shape, .ops = ops, .next = VIRTUAL};

	d.scale = number(&d, SCALE, CUDNN_DATA_FLOAT);
	if (d.s->backward)
		draw_backward(&d);
	else
		draw_forward(&d);
	return d.n_ops;
}

int ff_sdpa_find(struct ff_kernel *k, const struct ff_sdpa_shape *shape,
		const struct ff_dnn_plan **ret, struct ff_error *err)
{
	const struct ff_dnn_plan_problem q = {.what = "attention",
			.verb = "describe an attention",
			.shape = shape,
			.bytes = sizeof(*shape),
			.describe = describe};

	*ret = NULL;
	return cudnnGetVersion() < SINCE ? FF_OK : ff_dnn_plan_find(k, &q, ret, err);
}

/* What a plan is run on. */
struct pack {
	int64_t id[QUERIES];
	const void *at[QUERIES];
	int64_t n;
};

static void add(struct pack *p, int64_t id, const void *at)
{
	p->id[p->n] = id;
	p->at[p->n++] = at;
}

int ff_sdpa_run(const struct ff_kernel *k, const struct ff_dnn_plan *plan,
		const struct ff_sdpa_shape *shape, const struct ff_sdpa_values *v, void *workspace,
		cudaStream_t queue, struct ff_error *err)
{
	const int32_t keys = (int32_t)shape->keys, queries = (int32_t)shape->queries;
	const float one = 1, nothing = -INFINITY;
	struct pack p = {.n = 0};

	add(&p, QUERY, v->query);
	add(&p, KEY, v->key);
	add(&p, VALUE, v->value);
	add(&p, OUT, v->out);
	add(&p, STATS, v->stats);
	add(&p, SCALE, &v->scale);
	if (shape->mask_heads)
		add(&p, MASK, v->mask);
	if (shape->causal != FF_SDPA_ALL)
		add(&p, NOTHING, &nothing);
	if (shape->causal == FF_SDPA_TO_LAST) {
		add(&p, KEYS, &keys);
		add(&p, QUERIES, &queries);
	}
	if (shape->backward) {
		add(&p, DOUT, v->dout);
		add(&p, SUMS, v->sums);
		add(&p, ONE, &one);
		add(&p, DQUERY, v->dquery);
		add(&p, DKEY, v->dkey);
		add(&p, DVALUE, v->dvalue);
	}
	return ff_dnn_plan_run(k, plan, queue, p.n, p.id, p.at, workspace, err);
}
