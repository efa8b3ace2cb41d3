/* Scaled-dot-product attention of many heads: softmax(scale q k^T + mask) v by sample and head,
 * without the whole matrix of scores.  A head's elements lie behind each other in the last axis,
 * as a linear layer writes them.  Of keys and values there may be fewer heads than of queries,
 * which then share them in groups.
 *
 * Cut along the keys, parts write sums that are added up.  What each must know of all keys, log
 * of the sum of the exponentials of a row's scores, its prelude finds; a part that has all keys
 * needs no exchange, and there the prelude does nothing.  Backward the node gives its prelude, by
 * row, the sum over its own share of gradient times output, and that logarithm; of the sum over
 * all parts, and of the output's gradient, which lies where the queries' is to be, the prelude
 * makes the gradients of queries, keys and values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/kernel_shape.h"
#include "operator/derive.h"

enum { QUERY, KEY, VALUE, MASK };        /* inputs */
enum { SAMPLE, HEAD, QUERY_AT, KEY_AT }; /* dims */

#define AT(field) offsetof(union ff_attrs, attention.field)
static const struct ff_attr_row attrs[] = {
		{.name = "head_dim",
				.type = FF_ATTR_INT,
				.offset = AT(head_dim),
				.min = 1,
				.max = INT32_MAX,
				.required = 1,
				.in_key = 1},
		{.name = "causal",
				.type = FF_ATTR_BOOL,
				.offset = AT(causal),
				.max = 1,
				.in_key = 1},
		/* 0: 1 / sqrt(head_dim) */
		{.name = "scale", .type = FF_ATTR_REAL, .offset = AT(scale), .min = 0, .max = 1e6},
		{.name = "dropout",
				.type = FF_ATTR_REAL,
				.offset = AT(dropout),
				.min = 0,
				.max = 1,
				.in_key = 1,
				.later = 1},
};
#undef AT

/* What the shapes say. */
struct heads {
	int32_t samples, heads, shared, queries, keys; /* shared: how many have one key head */
	bool masked;
};

static int check_mask(struct ff_derive *d, const struct heads *h, struct ff_error *err)
{
	const struct ff_value *m;
	int code = ff_derive_input(d, MASK, d->graph->dtype, 4, 4, &m, err);
	const int32_t whole[] = {h->samples, h->heads, h->queries, h->keys};
	bool fits = true;

	if (code < 0)
		return code;
	for (uint32_t i = 0; i < 4; i++)
		fits = fits && (m->shape[i] == whole[i] || (i && m->shape[i] == 1));
	if (!fits)
		return ff_derive_fail(d, err,
				"the mask %s does not broadcast to scores %s: all but the samples "
				"may be 1",
				ff_shape_text(4, m->shape).text, ff_shape_text(4, whole).text);
	if (m->needs_grad)
		return ff_derive_fail(d, err,
				"the mask is computed of parameters, and there is no "
				"gradient of a mask");
	return FF_OK;
}

/* Backward, the gradient of the output has to lie in the place of the queries'. */
static int check_gradients(struct ff_derive *d, struct ff_error *err)
{
	bool others = ff_derive_needs_grad(d, KEY) || ff_derive_needs_grad(d, VALUE);

	if (others && !ff_derive_needs_grad(d, QUERY))
		return ff_derive_fail(d, err,
				"keys or values are computed of parameters and "
				"queries are not: expected queries that are, too");
	return FF_OK;
}

static int look(struct ff_derive *d, struct heads *h, struct ff_error *err)
{
	int32_t size = d->node->attrs.attention.head_dim;
	const struct ff_value *q, *k, *v;
	int code = ff_derive_input(d, QUERY, d->graph->dtype, 3, 3, &q, err);

	if (code == FF_OK && d->node->attrs.attention.dropout >= 1)
		return ff_derive_fail(d, err, "\"dropout\" must be below 1, or nothing is left");
	if (code == FF_OK)
		code = ff_derive_input(d, KEY, d->graph->dtype, 3, 3, &k, err);
	if (code == FF_OK)
		code = ff_derive_input(d, VALUE, d->graph->dtype, 3, 3, &v, err);
	if (code < 0)
		return code;
	if (k->shape[0] != q->shape[0] || v->shape[0] != q->shape[0] ||
			v->shape[1] != k->shape[1] || v->shape[2] != k->shape[2])
		return ff_derive_fail(d, err,
				"queries %s, keys %s and values %s do not fit: expected as many "
				"samples, and values as the keys",
				ff_shape_text(3, q->shape).text, ff_shape_text(3, k->shape).text,
				ff_shape_text(3, v->shape).text);
	if (q->shape[2] % size || k->shape[2] % size || q->shape[2] % k->shape[2])
		return ff_derive_fail(d, err,
				"queries of %d and keys of %d elements are no heads of %d: "
				"expected multiples of it, and that of the queries one of the "
				"keys'",
				q->shape[2], k->shape[2], size);
	*h = (struct heads){.samples = q->shape[0],
			.heads = q->shape[2] / size,
			.shared = q->shape[2] / k->shape[2],
			.queries = q->shape[1],
			.keys = k->shape[1],
			.masked = d->node->n_data - d->node->n_prelude > MASK};
	code = check_gradients(d, err);
	return code == FF_OK && h->masked ? check_mask(d, h, err) : code;
}

/* Rows of heads. */
static void map_rows(struct ff_derive *d, struct ff_operand *o, int32_t row, int32_t shared)
{
	int32_t size = d->node->attrs.attention.head_dim;

	ff_axis_plain(o, 0, SAMPLE);
	ff_axis_plain(o, 1, row);
	ff_axis_term(o, 2, (struct ff_term){HEAD, shared, size})->window = size;
}

static void map_pairs(struct ff_operand *o)
{
	for (int32_t i = SAMPLE; i < KEY_AT; i++)
		ff_axis_plain(o, (uint32_t)i, i);
}

/* Dims and what both, the node and its prelude, read. */
static void map_axes(struct ff_derive *d, const struct heads *h)
{
	bool causal = d->node->attrs.attention.causal;
	struct ff_operand *m;

	ff_derive_dim(d, FF_DIM_SAMPLE, "sample", h->samples);
	ff_derive_dim(d, FF_DIM_PARAMETER, "head", h->heads);
	ff_derive_dim(d, FF_DIM_ATTRIBUTE, "query", h->queries);
	ff_derive_dim(d, FF_DIM_REDUCTION, "key", h->keys);
	d->node->dim[QUERY_AT].placed = d->node->dim[KEY_AT].placed = causal;
	map_rows(d, ff_derive_map(d, QUERY), QUERY_AT, 1);
	map_rows(d, ff_derive_map(d, KEY), KEY_AT, h->shared);
	map_rows(d, ff_derive_map(d, VALUE), KEY_AT, h->shared);
	if (!h->masked)
		return;
	m = ff_derive_map(d, MASK);
	ff_axis_plain(m, 0, SAMPLE);
	for (uint32_t i = 1; i < 4; i++)
		if (m->shape[i] > 1)
			ff_axis_plain(m, i, (int32_t)i);
}

/* How many of the keys [first, end) the queries before `query` look at, if none looks ahead. */
static int64_t keys_before(int64_t query, int64_t first, int64_t end)
{
	int64_t some = query <= first ? 0 : query < end ? query - first : end - first;

	/* one, two, ... of them; then all */
	return some * (some + 1) / 2 + (query > end ? (query - end) * (end - first) : 0);
}

/* Scores that the part computes. */
static int64_t scores(const struct ff_work *w)
{
	const int32_t *lo = w->box.lo, *hi = w->box.hi;
	int64_t rows = (int64_t)(hi[SAMPLE] - lo[SAMPLE]) * (hi[HEAD] - lo[HEAD]);
	int64_t of_row = (int64_t)(hi[QUERY_AT] - lo[QUERY_AT]) * (hi[KEY_AT] - lo[KEY_AT]);

	if (w->node->attrs.attention.causal)
		of_row = keys_before(hi[QUERY_AT], lo[KEY_AT], hi[KEY_AT]) -
			 keys_before(lo[QUERY_AT], lo[KEY_AT], hi[KEY_AT]);
	return ff_sat_mul(rows, of_row);
}

/* For each score, to draw a number (of Philox' ten rounds make four), compare and scale. */
static int64_t drawing(const struct ff_work *w)
{
	return w->node->attrs.attention.dropout > 0 ? 22 : 0;
}

/* Products, and scale, compare, subtract, exp, sum. */
static int64_t flops_statistics(const struct ff_work *w)
{
	int64_t size = w->node->attrs.attention.head_dim;
	bool all = ff_region_size(&w->box, KEY_AT) == w->node->dim[KEY_AT].extent;

	if (w->pass == FF_BACKWARD)
		return ff_sat_mul(scores(w), 10 * size + 6 + drawing(w));
	return all ? 0 : ff_sat_mul(scores(w), 2 * size + 5);
}

/* Backward a product for each element of the output. */
static int64_t flops(const struct ff_work *w)
{
	int64_t size = w->node->attrs.attention.head_dim;

	return w->pass == FF_BACKWARD ? ff_sat_mul(2, ff_region_volume(&w->out[0]))
				      : ff_sat_mul(scores(w), 4 * size + 6 + drawing(w));
}

/* One kernel that computes no more than it reads and writes, but for the scores. */
static struct ff_kernel_shape kernel_of(const struct ff_work *w)
{
	struct ff_kernel_shape s = ff_kernel_of_bytes(w, FF_KERNEL_ATTENTION);

	s.count = (double)ff_region_size(&w->box, SAMPLE) * ff_region_size(&w->box, HEAD);
	s.m = ff_region_size(&w->box, QUERY_AT);
	s.n = ff_region_size(&w->box, KEY_AT);
	s.k = w->node->attrs.attention.head_dim;
	s.share = (double)scores(w) / fmax(1, s.count * s.m * s.n);
	return s;
}

/* Backward it makes all gradients; forward, of a part that has all keys, nothing. */
static uint32_t kernels_statistics(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	bool all = ff_region_size(&w->box, KEY_AT) == w->node->dim[KEY_AT].extent;

	if (w->pass == FF_FORWARD && all)
		return 0;
	ret[0] = kernel_of(w);
	if (w->pass == FF_FORWARD)
		ret[0].share /= 2; /* one product of two */
	return 1;
}

/* Backward products of what is there, element by element. */
static uint32_t kernels(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	ret[0] = kernel_of(w);
	if (w->pass == FF_BACKWARD) {
		double out = (double)ff_region_volume(&w->out[0]);

		ret[0] = (struct ff_kernel_shape){.class = FF_KERNEL_NORM,
				.type = ff_work_type(w),
				.bytes = 3 * out * (double)ff_dtype_bytes(ff_work_type(w))};
	}
	return 1;
}

/* Of the whole node. */
static void count_flops(struct ff_derive *d, int64_t (*of)(const struct ff_work *w))
{
	struct ff_work w = {.node = d->node, .box = {.rank = d->node->n_dims}};

	for (uint32_t i = 0; i < w.box.rank; i++)
		w.box.hi[i] = d->node->dim[i].extent;
	ff_operand_region(d->node, d->node->out_map, &w.box, &w.out[0]);
	w.pass = FF_FORWARD;
	d->node->flops_forward = of(&w);
	w.pass = FF_BACKWARD;
	d->node->flops_backward = ff_derive_needs_grad(d, QUERY) ? of(&w) : 0;
}

static int derive_pairs(
		struct ff_derive *d, uint32_t port, const struct heads *h, struct ff_error *err)
{
	const int32_t shape[] = {h->samples, h->heads, h->queries, 2};
	int code = ff_derive_out(d, port, FF_F32, 4, shape, ff_order_plain, err);

	if (code == FF_OK)
		map_pairs(&d->node->out_map[port]);
	return code;
}

static int derive_statistics(struct ff_derive *d, struct ff_error *err)
{
	struct heads h;
	int code = look(d, &h, err);

	if (code == FF_OK)
		code = derive_pairs(d, 0, &h, err);
	if (code < 0)
		return code;
	d->node->out_map[0].reduce = FF_REDUCE_LOG_SUM_EXP;
	map_axes(d, &h);
	d->node->in_map[VALUE].backward_only = 1;
	count_flops(d, flops_statistics);
	return FF_OK;
}

static void count(const union ff_attrs *a, struct ff_op_counts *ret)
{
	(void)a;
	ret->saved = 1;
}

static int derive(struct ff_derive *d, struct ff_error *err)
{
	const struct ff_value *q = ff_derive_in(d, QUERY);
	struct heads h;
	int code = look(d, &h, err);

	if (code == FF_OK)
		code = ff_derive_out(d, 0, d->graph->dtype, 3, q->shape, q->order, err);
	if (code == FF_OK)
		code = derive_pairs(d, 1, &h, err);
	if (code < 0)
		return code;
	map_axes(d, &h);
	map_rows(d, &d->node->out_map[0], QUERY_AT, 1);
	map_pairs(ff_derive_map(d, d->node->n_data - 1));
	count_flops(d, flops);
	return FF_OK;
}

/* Output: by row of scores, as FF_REDUCE_LOG_SUM_EXP has it, of a part that has some of the keys;
 * of one that has all zeros.  Its gradient are (a, b): that of score s is exp(s - b) (c - a), where
 * c is the output's gradient times the value. */
const struct ff_op_row ff_op_attention_statistics = {
		.name = "attention_statistics",
		.summary = "what attention must know of all keys",
		.min_in = 3,
		.max_in = 4,
		.flags = FF_OP_PRELUDE | FF_OP_BACKWARD_IN,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.derive = derive_statistics,
		.flops = flops_statistics,
		.kernels = kernels_statistics,
};

const struct ff_op_row ff_op_attention = {
		.name = "attention",
		.summary = "softmax of scaled products of queries and keys, times values",
		.min_in = 3,
		.max_in = 4,
		.flags = FF_OP_BACKWARD_OUT,
		.attrs = attrs,
		.n_attrs = sizeof(attrs) / sizeof(attrs[0]),
		.prelude_name = "statistics",
		.prelude = FF_OP_ATTENTION_STATISTICS,
		.count = count,
		.derive = derive,
		.example = FF_EXAMPLE(
				{"in" : [ [ 4, 6, 8 ], [ 4, 6, 8 ], [ 4, 6, 8 ] ], "head_dim" : 2}),
		.flops = flops,
		.kernels = kernels,
};
