/* Operators that broadcast, add up or multiply, against brute force: shapes, the region of every
 * tensor that random iteration boxes touch, and errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/builder.h"
#include "ff/micro.h"
#include "ff/work.h"
#include "probe.h"

/* ---- functions of two elements ---- */

/* Where an operand of these last axes has what position `at` of the output needs. */
static void touch_operand(
		struct hull *h, const struct ff_value *v, uint32_t rank, const int32_t *at)
{
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < v->rank; i++)
		to[i] = v->shape[i] == 1 ? 0 : at[rank - v->rank + i];
	touch(h, v->rank, to);
}

static void touch_binary(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = out_of(p)->rank;

	touch_operand(&h->out, out_of(p), rank, at);
	for (uint32_t k = 0; k < p->node->n_data; k++)
		touch_operand(&h->in[k], in_of(p, k), rank, at);
	for (uint32_t k = p->node->n_data; k < p->node->n_in; k++)
		touch_operand(&h->weight[0], in_of(p, k), rank, at);
}

/* What lacks some axes, or has one element of them. */
static void draw_operand(struct ff_random *r, const struct shape *whole, int32_t *rank,
		int32_t shape[FF_MAX_RANK])
{
	*rank = draw(r, 1, whole->rank);
	for (int32_t i = 0; i < *rank; i++) {
		int32_t axis = whole->rank - *rank + i;

		shape[i] = axis && draw(r, 0, 2) ? whole->size[axis] : 1;
	}
}

START_TEST(binary)
{
	static const enum ff_op ops[] = {
#define BINARY(e, row) e,
			FF_BINARY_OPS(BINARY)
#undef BINARY
	};
	struct ff_random r = {.seed = ff_test_seed(11), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		enum ff_op op = ops[round % (int)(sizeof(ops) / sizeof(ops[0]))];
		struct shape whole = draw_any_shape(&r, 1), in[2] = {whole, whole};
		union ff_attrs a = ff_attrs_preset(op);
		bool param = draw(&r, 0, 1);
		struct probe p;

		for (int32_t i = 1; i < whole.rank; i++)
			if (!draw(&r, 0, 2))
				in[draw(&r, 0, 1)].size[i] = 1;
		if (param)
			draw_operand(&r, &whole, &a.binary.rank, a.binary.shape);
		probe_open(&p, op, &a, in, param ? 1 : 2);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(params_of(&p), param);
		ck_assert_uint_eq(p.node->n_dims, (uint32_t)whole.rank);
		for (int32_t i = 0; i < whole.rank && !param; i++)
			ck_assert_int_eq(out_of(&p)->shape[i], in[0].size[i] > in[1].size[i]
									       ? in[0].size[i]
									       : in[1].size[i]);
		check_regions(&r, &p, touch_binary);
		probe_close(&p);
	}
}
END_TEST

/* ---- reductions ---- */

static bool is_reduced(const struct ff_reduce_attrs *a, uint32_t axis)
{
	for (int32_t i = 0; i < a->n_axes; i++)
		if (a->axis[i] == (int32_t)axis)
			return true;
	return false;
}

/* A largest reads, and its prelude writes, two neighbours for each element of the output. */
static void touch_reduce(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_reduce_attrs *a = &p->node->attrs.reduce;
	const struct ff_value *in = in_of(p, 0);
	int64_t to[FF_MAX_RANK] = {0}, out[FF_MAX_RANK] = {0}, pair[FF_MAX_RANK] = {0};
	bool prelude = p->node->op == FF_OP_MAX_STATISTICS;
	struct hull *pairs = prelude ? &h->out : &h->in[1];
	uint32_t rank = 0, n = 0;

	for (uint32_t i = 0; i < in->rank; i++) {
		bool reduced = is_reduced(a, i);

		to[i] = at[i];
		if (!reduced)
			out[rank] = pair[n++] = at[i];
		rank += !reduced || a->keep;
	}
	touch(&h->in[0], in->rank, to);
	if (!prelude)
		touch(&h->out, rank, out);
	if (p->node->op != FF_OP_REDUCE_MAX && !prelude)
		return;
	touch(pairs, n + 1, pair);
	pair[n] = 1;
	touch(pairs, n + 1, pair);
}

/* What is reduced may be cut; a largest's parts exchange what its prelude finds. */
static void check_reduce(struct ff_random *r, struct probe *p)
{
	const struct ff_graph *g = &p->graph;
	const struct ff_node *node = p->node;
	bool largest = node->op == FF_OP_REDUCE_MAX;
	uint32_t prelude = ff_node_prelude(g, (uint32_t)(node - g->nodes));

	ck_assert_uint_eq(node->n_dims, in_of(p, 0)->rank);
	for (uint32_t i = 0; i < node->n_dims; i++)
		ck_assert((node->dim[i].label == FF_DIM_REDUCTION) ==
				is_reduced(&node->attrs.reduce, i));
	ck_assert_int_eq(node->out_map[0].reduce, largest ? FF_REDUCE_MAX : FF_REDUCE_SUM);
	ck_assert(largest == (prelude != FF_NONE));
	if (!largest)
		return;
	p->node = &g->nodes[prelude];
	ck_assert_str_eq(p->node->name, "probe.statistics");
	ck_assert_int_eq(p->node->out_map[0].reduce, FF_REDUCE_TIES);
	ck_assert_uint_eq(g->edges[node->in].shared, p->node->in);
	for (uint32_t i = 0; i < node->n_dims; i++)
		ck_assert_int_eq(p->node->dim[i].label, node->dim[i].label);
	check_node(p);
	check_regions(r, p, touch_reduce);
}

static void draw_axes(struct ff_random *r, int32_t rank, struct ff_reduce_attrs *a)
{
	a->keep = draw(r, 0, 1);
	for (int32_t i = 1; i < rank; i++)
		if (draw(r, 0, 1))
			a->axis[a->n_axes++] = i;
	if (!a->n_axes)
		a->axis[a->n_axes++] = draw(r, 1, rank - 1);
}

START_TEST(reduce)
{
	static const enum ff_op ops[] = {FF_OP_REDUCE_SUM, FF_OP_REDUCE_MEAN, FF_OP_REDUCE_MAX};
	struct ff_random r = {.seed = ff_test_seed(16), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		enum ff_op op = ops[round % 3];
		union ff_attrs a = ff_attrs_preset(op);
		struct shape in = draw_any_shape(&r, 2);
		struct probe p;
		uint32_t rank;

		draw_axes(&r, in.rank, &a.reduce);
		rank = (uint32_t)(in.rank - (a.reduce.keep ? 0 : a.reduce.n_axes));
		probe_open(&p, op, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(out_of(&p)->rank, rank);
		check_regions(&r, &p, touch_reduce);
		check_reduce(&r, &p);
		probe_close(&p);
	}
}
END_TEST

/* ---- products of matrices ---- */

static void touch_matmul(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_matmul_attrs *a = &p->node->attrs.matmul;
	uint32_t rank = out_of(p)->rank, last = rank - 1;
	int64_t x[FF_MAX_RANK] = {0}, y[FF_MAX_RANK] = {0}, z[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		z[i] = at[i];
	for (uint32_t i = 0; i + 2 < rank; i++) {
		x[i] = in_of(p, 0)->shape[i] == 1 ? 0 : at[i];
		y[i] = in_of(p, 1)->shape[i] == 1 ? 0 : at[i];
	}
	x[a->transpose_a ? last : last - 1] = at[last - 1];
	x[a->transpose_a ? last - 1 : last] = at[last + 1];
	y[a->transpose_b ? last : last - 1] = at[last + 1];
	y[a->transpose_b ? last - 1 : last] = at[last];
	touch(&h->in[0], rank, x);
	touch(&h->in[1], rank, y);
	touch(&h->out, rank, z);
}

START_TEST(matmul)
{
	struct ff_random r = {.seed = ff_test_seed(17), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_MATMUL);
		struct shape in[2] = {draw_any_shape(&r, 2)}, *x = &in[0], *y = &in[1];
		int32_t rows = draw(&r, 1, 4), inner = draw(&r, 1, 4), columns = draw(&r, 1, 4);
		int32_t last = x->rank - 1;
		struct probe p;

		*y = *x;
		a.matmul = (struct ff_matmul_attrs){draw(&r, 0, 1) && last > 1, draw(&r, 0, 1)};
		if (last == 1 && a.matmul.transpose_b) /* both rows are samples */
			columns = rows;
		else if (last == 1)
			inner = rows;
		for (int32_t i = 1; i + 2 < x->rank; i++)
			if (!draw(&r, 0, 2))
				in[draw(&r, 0, 1)].size[i] = 1;
		x->size[last - 1] = a.matmul.transpose_a ? inner : rows;
		x->size[last] = a.matmul.transpose_a ? rows : inner;
		y->size[last - 1] = a.matmul.transpose_b ? columns : inner;
		y->size[last] = a.matmul.transpose_b ? inner : columns;
		probe_open(&p, FF_OP_MATMUL, &a, in, 2);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->shape[last - 1], rows);
		ck_assert_int_eq(out_of(&p)->shape[last], columns);
		ck_assert_int_eq(p.node->dim[last - 1].label,
				last == 1 ? FF_DIM_SAMPLE : FF_DIM_ATTRIBUTE);
		ck_assert_int_eq(p.node->dim[last].label, FF_DIM_PARAMETER);
		ck_assert_int_eq(p.node->dim[last + 1].label, FF_DIM_REDUCTION);
		check_regions(&r, &p, touch_matmul);
		probe_close(&p);
	}
}
END_TEST

/* ---- softmax ---- */

static void touch_softmax(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = in_of(p, 0)->rank, axis = (uint32_t)p->node->attrs.softmax.axis;
	bool prelude = p->node->n_data == 1;
	struct hull *pairs = prelude ? &h->out : &h->in[1];
	int64_t to[FF_MAX_RANK] = {0}, pair[FF_MAX_RANK] = {0};

	for (uint32_t i = 0, k = 0; i < rank; i++) {
		to[i] = at[i];
		if (i != axis)
			pair[k++] = at[i];
	}
	touch(&h->in[0], rank, to);
	if (!prelude)
		touch(&h->out, rank, to);
	touch(pairs, rank, pair);
	pair[rank - 1] = 1;
	touch(pairs, rank, pair);
}

/* Where a part has all of the axis one of the two does nothing. */
static void check_soft_flops(struct ff_random *r, const struct probe *p)
{
	uint32_t node = (uint32_t)(p->node - p->graph.nodes);
	uint32_t axis = (uint32_t)p->node->attrs.softmax.axis;
	bool prelude = p->node->n_data == 1;
	struct ff_region box = {0};
	struct ff_work w;
	int64_t n;
	bool all;

	draw_box(r, p->node, &box);
	n = ff_region_volume(&box);
	all = ff_region_size(&box, axis) == p->node->dim[axis].extent;
	ff_work_fill(&p->graph, node, &box, FF_FORWARD, &w);
	ck_assert_int_eq(ff_work_flops(&w), n * (prelude ? (all ? 0 : 4) : all ? 5 : 3));
	ff_work_fill(&p->graph, node, &box, FF_BACKWARD, &w);
	ck_assert_int_eq(ff_work_flops(&w), n * (prelude ? (all ? 9 : 4) : all ? 0 : 5));
}

static void check_soft_prelude(struct ff_random *r, struct probe *p)
{
	const struct ff_graph *g = &p->graph;
	const struct ff_node *node = p->node;
	uint32_t axis = (uint32_t)node->attrs.softmax.axis;

	p->node = &g->nodes[ff_node_prelude(g, (uint32_t)(node - g->nodes))];
	ck_assert_str_eq(p->node->name, "probe.statistics");
	ck_assert_int_eq(p->node->out_map[0].reduce, FF_REDUCE_LOG_SUM_EXP);
	ck_assert_int_eq(p->node->dim[axis].label, FF_DIM_REDUCTION);
	ck_assert_uint_eq(g->edges[node->in].shared, p->node->in);
	check_regions(r, p, touch_softmax);
	check_soft_flops(r, p);
}

START_TEST(softmax)
{
	struct ff_random r = {.seed = ff_test_seed(18), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_SOFTMAX);
		struct shape in = draw_any_shape(&r, 2);
		struct probe p;

		a.softmax.axis = draw(&r, 1, in.rank - 1);
		probe_open(&p, round % 2 ? FF_OP_SOFTMAX : FF_OP_LOG_SOFTMAX, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, (uint32_t)in.rank);
		check_regions(&r, &p, touch_softmax);
		check_soft_flops(&r, &p);
		check_soft_prelude(&r, &p);
		probe_close(&p);
	}
}
END_TEST

/* A micro-batch has fewer samples, and as many of all else that happens to be as many. */
START_TEST(micro_batch)
{
	const struct shape in = {2, {4, 4}};
	union ff_attrs a = {.binary = {1, {4}}};
	struct ff_graph micro;
	const struct ff_node *n;
	struct probe p;

	probe_open(&p, FF_OP_MUL, &a, &in, 1);
	ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
	ck_assert_int_eq(ff_graph_micro(&p.graph, 2, &p.arena, &micro, &p.err), FF_OK);
	n = &micro.nodes[ff_graph_find(&micro, "probe")];
	ck_assert_int_eq(n->out_map[0].shape[0], 2);
	ck_assert_int_eq(n->in_map[1].shape[0], 4);
	probe_close(&p);
}
END_TEST

START_TEST(errors)
{
	const struct shape in = {3, {2, 6, 4}}, other = {3, {2, 6, 5}};
	union ff_attrs a = ff_attrs_preset(FF_OP_MUL);
	struct probe p;

	probe_open(&p, FF_OP_MUL, NULL, (struct shape[]){in, other}, 2);
	refused(&p, "input 1 [2, 6, 5] does not broadcast to [2, 6, 4]");
	probe_open(&p, FF_OP_ADD, NULL, (struct shape[]){in, in, other}, 3);
	refused(&p, "all inputs must have one shape");
	probe_open(&p, FF_OP_ADD, NULL, (struct shape[]){in, {2, {2, 6}}}, 2);
	refused(&p, "as many axes and samples: input 0 is [2, 6, 4], input 1 is [2, 6]");
	probe_open(&p, FF_OP_SUB, NULL, &in, 1);
	refused(&p, "expected 2 inputs, or 1 and the \"shape\" of a parameter");
	a.binary = (struct ff_binary_attrs){3, {2, 6, 4}};
	probe_open(&p, FF_OP_MUL, &a, &in, 1);
	refused(&p, "\"shape\" [2, 6, 4] has an axis of samples");
	a.binary = (struct ff_binary_attrs){2, {6, 3}};
	probe_open(&p, FF_OP_MUL, &a, &in, 1);
	refused(&p, "\"shape\" [6, 3] does not broadcast to [2, 6, 4]");
	a.binary = (struct ff_binary_attrs){4, {1, 1, 6, 4}};
	probe_open(&p, FF_OP_MUL, &a, &in, 1);
	refused(&p, "\"shape\" [1, 1, 6, 4] has more axes than the input");
	probe_open(&p, FF_OP_MUL, &a, (struct shape[]){in, in}, 2);
	refused(&p, "expected 2 inputs");
	a.reduce = (struct ff_reduce_attrs){2, {1, 3}, 0};
	probe_open(&p, FF_OP_REDUCE_SUM, &a, &in, 1);
	refused(&p, "\"axes\" [1, 3] are not different ones of the input's 1 to 2");
	a.matmul = (struct ff_matmul_attrs){0, 0};
	probe_open(&p, FF_OP_MATMUL, &a, (struct shape[]){in, in}, 2);
	refused(&p, "[2, 6, 4] times [2, 6, 4] is no product");
	a.matmul = (struct ff_matmul_attrs){1, 0};
	probe_open(&p, FF_OP_MATMUL, &a, (struct shape[]){{2, {3, 3}}, {2, {3, 3}}}, 2);
	refused(&p, "of two axes the first operand's rows are samples");
	a.softmax.axis = 3;
	probe_open(&p, FF_OP_SOFTMAX, &a, &in, 1);
	refused(&p, "expected 4 to 6 axes");
	a.reduce = (struct ff_reduce_attrs){2, {2, 2}, 0};
	probe_open(&p, FF_OP_REDUCE_MAX, &a, &in, 1);
	refused(&p, "\"axes\" [2, 2] are not different ones");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("broadcast");
	TCase *c = tcase_create("broadcast");

	tcase_add_test(c, binary);
	tcase_add_test(c, reduce);
	tcase_add_test(c, matmul);
	tcase_add_test(c, softmax);
	tcase_add_test(c, micro_batch);
	tcase_add_test(c, errors);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
