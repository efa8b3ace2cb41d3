/* The operator table against brute force: shapes, and the region of every
 * tensor that random iteration boxes touch; windows and losses: test_windows.c, test_losses.c.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/work.h"
#include "probe.h"

/* ---- route ---- */

static void touch_sample(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_value *v[2] = {in_of(p, 0), out_of(p)};

	for (int i = 0; i < 2; i++) {
		bool apart = !p->node->attrs.route.capacity;
		int64_t last[3] = {at[0], apart ? at[1] : v[i]->shape[1] - 1, v[i]->shape[2] - 1};

		touch(i ? &h->out : &h->in[0], 3, (int64_t[]){at[0], apart ? at[1] : 0, 0});
		touch(i ? &h->out : &h->in[0], 3, last);
	}
}

START_TEST(route)
{
	struct ff_random r = {.seed = ff_test_seed(2), .stream = 11};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_ROUTE);
		struct shape in = {3, {draw(&r, 1, 5), draw(&r, 1, 9), draw(&r, 1, 6)}};
		struct probe p;

		a.route.choices = draw(&r, 1, in.size[2] + 1);
		a.route.capacity = draw(&r, 0, 4);
		probe_open(&p, FF_OP_ROUTE, &a, &in, 1);
		if (a.route.choices > in.size[2]) {
			ck_assert_ptr_nonnull(strstr(p.err.text, "choices of"));
		} else {
			ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
			check_node(&p);
			ck_assert_int_eq(out_of(&p)->shape[2],
					(a.route.capacity ? a.route.capacity : a.route.choices) *
							in.size[2]);
			ck_assert(!out_of(&p)->needs_grad);
			check_regions(&r, &p, touch_sample);
		}
		probe_close(&p);
	}
}
END_TEST

/* ---- linear ---- */

static void touch_linear(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t last = in_of(p, 0)->rank - 1;
	int64_t in[FF_MAX_RANK] = {0}, out[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < last; i++)
		in[i] = out[i] = at[i];
	out[last] = at[last];
	in[last] = at[last + 1];
	touch(&h->out, last + 1, out);
	touch(&h->in[0], last + 1, in);
	TOUCH(&h->weight[0], at[last], at[last + 1]);
	if (at[last + 1] == 0)
		TOUCH(&h->weight[1], at[last]);
}

START_TEST(linear)
{
	struct ff_random r = {.seed = ff_test_seed(3), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_LINEAR);
		struct shape in = {.rank = draw(&r, 2, 5)};
		int64_t volume = 1;
		struct probe p;
		const struct ff_value *out;
		int64_t rows, n;
		const struct ff_node *fc;

		a.linear.out_features = draw(&r, 1, 6);
		a.linear.bias = draw(&r, 0, 1);
		for (int i = 0; i < in.rank; i++) {
			in.size[i] = draw(&r, 1, 4);
			volume *= in.size[i];
		}
		probe_open(&p, FF_OP_LINEAR, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		out = out_of(&p);
		rows = volume / in.size[in.rank - 1];
		ck_assert_int_eq(out->rank, in.rank);
		ck_assert_int_eq(out->shape[in.rank - 1], a.linear.out_features);
		ck_assert_int_eq(p.node->flops_forward,
				(2 * volume + (a.linear.bias ? rows : 0)) * a.linear.out_features);
		ck_assert_int_eq(param_of(&p, 0)->fan_in, in.size[in.rank - 1]);
		ck_assert_uint_eq(params_of(&p), a.linear.bias ? 2 : 1);
		ck_assert_uint_eq(p.node->in_map[1].lead_only, 0);
		ck_assert(!a.linear.bias ||
				(p.node->in_map[2].lead_only && param_of(&p, 1)->fan_in == 0));
		check_regions(&r, &p, touch_linear);
		/* the linear layer behind it computes both gradients */
		fc = &p.graph.nodes[ff_graph_find(&p.graph, "fc")];
		n = 3 * (int64_t)in.size[0];
		ck_assert_int_eq(fc->flops_backward, 2 * (fc->flops_forward - n) + n);
		probe_close(&p);
	}
}
END_TEST

/* ---- one element to one element ---- */

static void touch_same(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = out_of(p)->rank;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	for (uint32_t k = 0; k < p->node->n_data; k++)
		touch(&h->in[k], rank, to);
}

START_TEST(elementwise)
{
	static const enum ff_op ops[] = {
#define UNARY(e, row) e,
			FF_UNARY_OPS(UNARY)
#undef UNARY
					FF_OP_DROPOUT,
			FF_OP_ADD};
	struct ff_random r = {.seed = ff_test_seed(4), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		enum ff_op op = ops[round % (int)(sizeof(ops) / sizeof(ops[0]))];
		uint32_t n_in = op == FF_OP_ADD ? (uint32_t)draw(&r, 2, MAX_IN) : 1;
		struct shape in[MAX_IN] = {{.rank = draw(&r, 1, FF_MAX_RANK)}};
		struct probe p;

		for (int i = 0; i < in[0].rank; i++)
			in[0].size[i] = draw(&r, 1, 4);
		for (uint32_t i = 1; i < n_in; i++)
			in[i] = in[0];
		probe_open(&p, op, NULL, in, n_in);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_dims, out_of(&p)->rank);
		ck_assert_mem_eq(out_of(&p)->shape, in[0].size,
				sizeof(in[0].size[0]) * (size_t)in[0].rank);
		check_regions(&r, &p, touch_same);
		probe_close(&p);
	}
}
END_TEST

/* Powers cost differently, and say so; so do both kinds of gelu. */
START_TEST(numbers_in_keys)
{
	const struct shape in = {2, {3, 4}};
	const double exponents[] = {2, 0.5, 0.1};
	char key[5][FF_KEY_BYTES];
	uint64_t hash[5];

	for (int i = 0; i < 5; i++) {
		union ff_attrs a = ff_attrs_preset(i < 3 ? FF_OP_POW : FF_OP_GELU);
		struct ff_region box = {2, {0}, {3, 4}};
		struct ff_work w;
		struct probe p;

		if (i < 3)
			a.unary.a = exponents[i];
		else
			a.unary.form = i - 3;
		probe_open(&p, i < 3 ? FF_OP_POW : FF_OP_GELU, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		ff_work_fill(&p.graph, ff_graph_find(&p.graph, "probe"), &box, FF_FORWARD, &w);
		ff_work_key(&w, key[i]);
		hash[i] = ff_work_hash(&w);
		for (int k = 0; k < i; k++)
			ck_assert_uint_ne(hash[i], hash[k]);
		probe_close(&p);
	}
	ck_assert_str_eq(key[0], "pow.forward exponent=2 in0=3x4 out=3x4 float32");
	ck_assert_ptr_nonnull(strstr(key[2], " exponent=0.10000000000000001 "));
	ck_assert_ptr_nonnull(strstr(key[4], " approximate=1 "));
}
END_TEST

START_TEST(limits)
{
	const struct shape in = {2, {3, 4}};
	union ff_attrs a = ff_attrs_preset(FF_OP_CLIP);
	struct probe p;

	a.unary.a = 2;
	a.unary.b = 1;
	probe_open(&p, FF_OP_CLIP, &a, &in, 1);
	ck_assert_int_eq(p.code, FF_E_INPUT);
	ck_assert_ptr_nonnull(strstr(p.err.text, "\"min\" 2 is larger than \"max\" 1"));
	probe_close(&p);
}
END_TEST

/* ---- concat ---- */

static void touch_concat(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = out_of(p)->rank, axis = (uint32_t)p->node->attrs.concat.axis;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	for (uint32_t k = 0; k < p->node->n_data; k++) {
		int32_t size = in_of(p, k)->shape[axis];

		if (to[axis] >= 0 && to[axis] < size)
			touch(&h->in[k], rank, to);
		to[axis] -= size;
	}
}

START_TEST(concat)
{
	struct ff_random r = {.seed = ff_test_seed(5), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t n_in = (uint32_t)draw(&r, 1, MAX_IN);
		union ff_attrs a = ff_attrs_preset(FF_OP_CONCAT);
		struct shape in[MAX_IN] = {{.rank = draw(&r, 2, 5)}};
		int32_t sum;
		struct probe p;

		a.concat.axis = draw(&r, 1, in[0].rank - 1);
		for (int i = 0; i < in[0].rank; i++)
			in[0].size[i] = draw(&r, 1, 3);
		sum = in[0].size[a.concat.axis];
		for (uint32_t i = 1; i < n_in; i++) {
			in[i] = in[0];
			in[i].size[a.concat.axis] = draw(&r, 1, 4);
			sum += in[i].size[a.concat.axis];
		}
		probe_open(&p, FF_OP_CONCAT, &a, in, n_in);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->shape[a.concat.axis], sum);
		check_regions(&r, &p, touch_concat);
		probe_close(&p);
	}
}
END_TEST

/* ---- the table ---- */

START_TEST(table)
{
	enum ff_op none = FF_OP_COUNT;

	for (uint32_t i = 0; i < FF_OP_COUNT; i++) {
		const struct ff_op_row *row = ff_op_row((enum ff_op)i);
		enum ff_op found = FF_OP_COUNT;

		bool made = row->flags & (FF_OP_UPDATE | FF_OP_PRELUDE);

		/* parameters and preludes are made by those that read them, no file names them */
		ck_assert_ptr_eq(ff_op_find(row->name, &found), made ? NULL : row);
		ck_assert_uint_eq(found, made ? FF_OP_COUNT : i);
		ck_assert_ptr_nonnull(row->summary);
		ck_assert_ptr_nonnull(row->derive);
		ck_assert_uint_le(row->min_in, row->max_in);
		ck_assert(!row->max_in || !(row->flags & (FF_OP_SOURCE | FF_OP_UPDATE)));
		for (uint32_t k = 0; k < row->n_attrs; k++) {
			const struct ff_attr_row *a = &row->attrs[k];

			ck_assert(a->min <= a->max);
			ck_assert_int_eq(a->type == FF_ATTR_CHOICE, a->choices != NULL);
		}
	}
	ck_assert_ptr_null(ff_op_find("Conv2d", &none));
	ck_assert_ptr_null(ff_op_find("", &none));
	ck_assert_uint_eq(none, FF_OP_COUNT);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("ops");
	TCase *c = tcase_create("ops");

	tcase_add_test(c, table);
	tcase_add_test(c, route);
	tcase_add_test(c, linear);
	tcase_add_test(c, elementwise);
	tcase_add_test(c, numbers_in_keys);
	tcase_add_test(c, limits);
	tcase_add_test(c, concat);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
