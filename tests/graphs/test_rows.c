/* Operators that pick and move elements, against brute force: shapes, the region
 * of every tensor that random iteration boxes touch, keys and errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/builder.h"
#include "ff/node_class.h"
#include "ff/work.h"
#include "probe.h"

/* ---- slice ---- */

static void touch_slice(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_slice_attrs *a = &p->node->attrs.slice;
	uint32_t rank = out_of(p)->rank;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	to[a->axis] = a->start + at[a->axis] * a->step;
	touch(&h->in[0], rank, to);
}

START_TEST(slice)
{
	struct ff_random r = {.seed = ff_test_seed(12), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_SLICE);
		struct shape in = draw_any_shape(&r, 2);
		int32_t elements = 0;
		struct probe p;

		a.slice.axis = draw(&r, 1, in.rank - 1);
		in.size[a.slice.axis] = draw(&r, 1, 7);
		a.slice.start = draw(&r, 0, in.size[a.slice.axis] - 1);
		a.slice.stop = draw(&r, a.slice.start + 1, in.size[a.slice.axis]);
		a.slice.step = draw(&r, 1, 3);
		for (int32_t i = a.slice.start; i < a.slice.stop; i += a.slice.step)
			elements++;
		probe_open(&p, FF_OP_SLICE, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->shape[a.slice.axis], elements);
		check_regions(&r, &p, touch_slice);
		probe_close(&p);
	}
}
END_TEST

/* ---- transpose ---- */

static void touch_transpose(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const int32_t *perm = p->node->attrs.transpose.perm;
	uint32_t rank = out_of(p)->rank;
	int64_t out[FF_MAX_RANK] = {0}, in[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		out[i] = in[perm[i]] = at[i];
	touch(&h->out, rank, out);
	touch(&h->in[0], rank, in);
}

static void draw_perm(struct ff_random *r, int32_t rank, struct ff_transpose_attrs *ret)
{
	ret->rank = rank;
	for (int32_t i = 0; i < rank; i++) {
		int32_t k = i ? draw(r, 1, i) : 0;

		ret->perm[i] = ret->perm[k];
		ret->perm[k] = i;
	}
}

START_TEST(transpose)
{
	struct ff_random r = {.seed = ff_test_seed(13), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_TRANSPOSE);
		struct shape in = draw_any_shape(&r, 1);
		struct probe p;

		draw_perm(&r, in.rank, &a.transpose);
		probe_open(&p, FF_OP_TRANSPOSE, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		for (int i = 0; i < in.rank; i++)
			ck_assert_int_eq(out_of(&p)->shape[i], in.size[a.transpose.perm[i]]);
		check_regions(&r, &p, touch_transpose);
		probe_close(&p);
	}
}
END_TEST

/* Kernels of equal shapes but other orders cost differently. */
START_TEST(transpose_has_its_order_in_its_key)
{
	struct shape in = {4, {2, 2, 2, 2}};
	const struct ff_transpose_attrs perm[2] = {{4, {0, 2, 1, 3}}, {4, {0, 3, 2, 1}}};
	char key[2][FF_KEY_BYTES];
	uint64_t hash[2];

	for (int i = 0; i < 2; i++) {
		union ff_attrs a = {.transpose = perm[i]};
		struct ff_region box = {4, {0}, {2, 2, 2, 2}};
		struct ff_work w;
		struct probe p;

		probe_open(&p, FF_OP_TRANSPOSE, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		ff_work_fill(&p.graph, ff_graph_find(&p.graph, "probe"), &box, FF_FORWARD, &w);
		ff_work_key(&w, key[i]);
		hash[i] = ff_work_hash(&w);
		probe_close(&p);
	}
	ck_assert_ptr_nonnull(strstr(key[0], "perm=0x2x1x3"));
	ck_assert_ptr_nonnull(strstr(key[1], "perm=0x3x2x1"));
	ck_assert_uint_ne(hash[0], hash[1]);
}
END_TEST

/* Operators that numbers alone make different are priced one by one. */
START_TEST(numbers_make_classes)
{
	const double exponents[] = {2, 3, 2};
	const struct shape in = {2, {3, 4}};
	struct ff_builder *b;
	struct ff_graph g;
	struct ff_arena arena;
	struct ff_error err;
	uint32_t x[2], *class;
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT), y = a, pow = ff_attrs_preset(FF_OP_POW);
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);

	ff_arena_init(&arena);
	ck_assert_int_eq(ff_builder_create("numbers", &arena, &b, &err), FF_OK);
	a.input = (struct ff_input_attrs){2, {in.size[0], in.size[1]}, FF_F32, 0};
	y.input = (struct ff_input_attrs){1, {in.size[0]}, FF_I32, 3};
	x[0] = ff_builder_add(b, FF_OP_INPUT, "x", &a, NULL, 0);
	for (int i = 0; i < 3; i++) {
		pow.unary.a = exponents[i];
		x[0] = ff_builder_add(
				b, FF_OP_POW, ff_arena_printf(&arena, "pow%d", i), &pow, x, 1);
	}
	fc.linear.out_features = 3;
	x[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, x, 1);
	x[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, x, 2);
	ck_assert_int_eq(ff_builder_finish(b, &g, &err), FF_OK);
	ck_assert_int_eq(ff_classes_find(&g, &arena, &class, &err), FF_OK);
	ck_assert_uint_ne(class[1], class[2]);
	ck_assert_uint_eq(class[1], class[3]);
	ff_arena_finish(&arena);
}
END_TEST

/* ---- split: several outputs ---- */

static void open_split(struct probe *p, const struct shape *in, const struct ff_split_attrs *split)
{
	union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), y = x, a = {.split = *split};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs join = ff_attrs_preset(FF_OP_CONCAT), fc = ff_attrs_preset(FF_OP_LINEAR);
	uint32_t part[FF_MAX_OUTPUTS], last[2], node;
	struct ff_builder *b;

	memset(p, 0, sizeof(*p));
	ff_arena_init(&p->arena);
	ck_assert_int_eq(ff_builder_create("split", &p->arena, &b, &p->err), FF_OK);
	x.input.rank = in->rank;
	memcpy(x.input.shape, in->size, sizeof(in->size));
	y.input = (struct ff_input_attrs){1, {in->size[0]}, FF_I32, 3};
	fc.linear.out_features = 3;
	node = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	node = ff_builder_add(b, FF_OP_SPLIT, "probe", &a, &node, 1);
	for (int32_t i = 0; i < split->parts; i++) {
		uint32_t port = FF_PORT(node, i);

		part[i] = ff_builder_add(b, FF_OP_RESHAPE, ff_arena_printf(&p->arena, "flat%d", i),
				&flat, &port, 1);
	}
	last[0] = ff_builder_add(b, FF_OP_CONCAT, "join", &join, part, (uint32_t)split->parts);
	last[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, last, 1);
	last[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, last, 2);
	p->code = ff_builder_finish(b, &p->graph, &p->err);
	if (p->code == FF_OK)
		p->node = &p->graph.nodes[ff_graph_find(&p->graph, "probe")];
}

/* Every element of the box lies in one output. */
static void check_split(struct ff_random *r, const struct probe *p)
{
	const struct ff_split_attrs *a = &p->node->attrs.split;
	int32_t size = out_of(p)->shape[a->axis];

	for (int i = 0; i < BOXES; i++) {
		struct hull in = {0}, out[FF_MAX_OUTPUTS] = {0};
		struct ff_region box = {0};
		int32_t at[FF_MAX_DIMS] = {0};

		draw_box(r, p->node, &box);
		memcpy(at, box.lo, sizeof(at));
		do {
			int64_t to[FF_MAX_RANK] = {0};

			for (uint32_t k = 0; k < box.rank; k++)
				to[k] = at[k];
			touch(&in, box.rank, to);
			to[a->axis] %= size;
			touch(&out[at[a->axis] / size], box.rank, to);
		} while (next_point(&box, at));
		expect(p->node, &p->node->in_map[0], &box, &in, "in");
		for (int32_t k = 0; k < a->parts; k++)
			expect(p->node, &p->node->out_map[k], &box, &out[k], "out");
	}
}

START_TEST(split)
{
	struct ff_random r = {.seed = ff_test_seed(14), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct shape in = draw_any_shape(&r, 2);
		struct ff_split_attrs a = {draw(&r, 1, in.rank - 1), draw(&r, 1, 4)};
		struct probe p;

		in.size[a.axis] *= a.parts;
		open_split(&p, &in, &a);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(p.node->n_out, (uint32_t)a.parts);
		for (int32_t k = 0; k < a.parts; k++)
			for (int i = 0; i < in.rank; i++)
				ck_assert_int_eq(out_of(&p)[k].shape[i],
						i == a.axis ? in.size[i] / a.parts : in.size[i]);
		check_split(&r, &p);
		probe_close(&p);
	}
}
END_TEST

/* ---- embedding ---- */

static void open_embedding(struct probe *p, const struct shape *ids, int32_t classes,
		const struct ff_embedding_attrs *embedding)
{
	union ff_attrs x = ff_attrs_preset(FF_OP_INPUT), y = x, a = {.embedding = *embedding};
	union ff_attrs flat = {.reshape = {.rank = 2, .shape = {0, -1}}};
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	uint32_t last[2];

	memset(p, 0, sizeof(*p));
	ff_arena_init(&p->arena);
	ck_assert_int_eq(ff_builder_create("embedding", &p->arena, &b, &p->err), FF_OK);
	x.input = (struct ff_input_attrs){.rank = ids->rank, .dtype = FF_I32, .classes = classes};
	memcpy(x.input.shape, ids->size, sizeof(ids->size));
	y.input = (struct ff_input_attrs){1, {ids->size[0]}, FF_I32, 3};
	fc.linear.out_features = 3;
	last[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	last[0] = ff_builder_add(b, FF_OP_EMBEDDING, "probe", &a, last, 1);
	last[0] = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, last, 1);
	last[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, last, 1);
	last[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, last, 2);
	p->code = ff_builder_finish(b, &p->graph, &p->err);
	if (p->code == FF_OK)
		p->node = &p->graph.nodes[ff_graph_find(&p->graph, "probe")];
}

/* A row may be any id's: a point touches one element of the table. */
static void touch_embedding(const struct probe *p, const int32_t *at, struct hulls *h)
{
	uint32_t rank = in_of(p, 0)->rank;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i <= rank; i++)
		to[i] = at[i];
	touch(&h->in[0], rank, to);
	touch(&h->out, rank + 1, to);
	TOUCH(&h->weight[0], at[rank + 1], at[rank]);
}

START_TEST(embedding)
{
	struct ff_random r = {.seed = ff_test_seed(15), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct shape ids = draw_any_shape(&r, 1);
		struct ff_embedding_attrs a = {draw(&r, 1, 9), draw(&r, 1, 5)};
		const struct ff_dim *dim;
		struct ff_region box = {0};
		struct ff_work w;
		struct probe p;
		int64_t out;

		open_embedding(&p, &ids, draw(&r, 1, a.vocabulary), &a);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(out_of(&p)->rank, (uint32_t)ids.rank + 1);
		ck_assert_int_eq(out_of(&p)->shape[ids.rank], a.features);
		ck_assert_int_eq(param_of(&p, 0)->shape[0], a.vocabulary);
		ck_assert_int_eq(param_of(&p, 0)->shape[1], a.features);
		dim = &p.node->dim[p.node->n_dims - 2];
		ck_assert_int_eq(dim[0].label, FF_DIM_PARAMETER);
		ck_assert_int_eq(dim[1].label, FF_DIM_REDUCTION);
		check_regions(&r, &p, touch_embedding);
		/* forward reads ids and rows that it writes, or all rows there are */
		box.rank = p.node->n_dims;
		for (uint32_t d = 0; d < box.rank; d++)
			box.hi[d] = p.node->dim[d].extent;
		ff_work_fill(&p.graph, ff_graph_find(&p.graph, "probe"), &box, FF_FORWARD, &w);
		out = 4 * ff_region_volume(&w.out[0]);
		ck_assert_int_eq(ff_work_bytes(&w),
				4 * ff_region_volume(&w.in[0]) + out +
						(out < 4 * ff_region_volume(&w.in[1])
										? out
										: 4 * ff_region_volume(
												      &w.in[1])));
		w.pass = FF_BACKWARD;
		w.need_din[1] = true;
		ck_assert_int_eq(ff_work_bytes(&w), 4 * ff_region_volume(&w.in[0]) + out +
								    4 * ff_region_volume(&w.in[1]));
		probe_close(&p);
	}
}
END_TEST

/* ---- what is refused ---- */

START_TEST(errors)
{
	const struct shape in = {3, {2, 6, 4}};
	union ff_attrs a = ff_attrs_preset(FF_OP_SLICE);
	struct probe p;

	a.slice.stop = 7;
	probe_open(&p, FF_OP_SLICE, &a, &in, 1);
	refused(&p, "elements 0 to 7 are no range of axis 1 of the input [2, 6, 4]");
	a.slice.start = a.slice.stop = 3;
	probe_open(&p, FF_OP_SLICE, &a, &in, 1);
	refused(&p, "elements 3 to 3 are no range");
	a.slice.axis = 3;
	probe_open(&p, FF_OP_SLICE, &a, &in, 1);
	refused(&p, "expected 4 to 6 axes");
	open_split(&p, &in, &(struct ff_split_attrs){1, 4});
	refused(&p, "4 parts must divide axis 1 of the input [2, 6, 4]");
	a.transpose = (struct ff_transpose_attrs){3, {1, 0, 2}};
	probe_open(&p, FF_OP_TRANSPOSE, &a, &in, 1);
	refused(&p, "\"perm\" [1, 0, 2] is no order of the axes 0 to 2");
	a.transpose = (struct ff_transpose_attrs){3, {0, 2, 2}};
	probe_open(&p, FF_OP_TRANSPOSE, &a, &in, 1);
	refused(&p, "\"perm\" [0, 2, 2]");
	a.transpose = (struct ff_transpose_attrs){2, {0, 1}};
	probe_open(&p, FF_OP_TRANSPOSE, &a, &in, 1);
	refused(&p, "\"perm\" [0, 1]");
	open_embedding(&p, &in, 8, &(struct ff_embedding_attrs){7, 3});
	refused(&p, "\"x\" has 8 classes, the vocabulary only 7");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("rows");
	TCase *c = tcase_create("rows");

	tcase_add_test(c, slice);
	tcase_add_test(c, transpose);
	tcase_add_test(c, transpose_has_its_order_in_its_key);
	tcase_add_test(c, numbers_make_classes);
	tcase_add_test(c, split);
	tcase_add_test(c, embedding);
	tcase_add_test(c, errors);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
