/* Operators that pad, broadcast and pick elements, and numbers that are known, against brute force:
 * shapes, the region of every tensor that random iteration boxes touch, files and errors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/graph_file.h"
#include "probe.h"

/* ---- pad ---- */

static void touch_pad(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_pad_attrs *a = &p->node->attrs.pad;
	const struct ff_value *in = in_of(p, 0);
	int64_t to[FF_MAX_RANK] = {0}, low[FF_MAX_RANK] = {0}, high[FF_MAX_RANK] = {0};
	int32_t times = a->mode == FF_PAD_CONSTANT ? 0 : a->mode == FF_PAD_EDGE ? 1 : 2;
	bool inside = true;

	for (uint32_t i = 0; i < in->rank; i++) {
		to[i] = at[i];
		low[i] = to[i] - a->before[i] - times * a->after[i];
		high[i] = to[i] - a->before[i] + times * a->before[i];
	}
	touch(&h->out, in->rank, to);
	if (times) { /* an element may come from as far away */
		touch(&h->in[0], in->rank, low);
		touch(&h->in[0], in->rank, high);
		return;
	}
	for (uint32_t i = 0; i < in->rank; i++) {
		to[i] -= a->before[i];
		inside = inside && to[i] >= 0 && to[i] < in->shape[i];
	}
	if (inside)
		touch(&h->in[0], in->rank, to);
}

START_TEST(pad)
{
	struct ff_random r = {.seed = ff_test_seed(16), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct shape in = draw_any_shape(&r, 2);
		union ff_attrs a = {.pad = {.rank = in.rank, .rank_after = in.rank}};
		struct probe p;

		for (int i = 1; i < in.rank; i++) {
			a.pad.before[i] = draw(&r, -(in.size[i] - 1) / 2, 3);
			a.pad.after[i] = draw(&r, -(in.size[i] - 1) / 2, 3);
		}
		a.pad.mode = in.rank >= 3 && in.rank <= 5 ? draw(&r, 0, 2) : 0;
		for (int i = 1; i < in.rank && a.pad.mode; i++) {
			int32_t most = i == 1 ? 0 : in.size[i] < 4 ? in.size[i] - 1 : 3;

			a.pad.before[i] = draw(&r, 0, most);
			a.pad.after[i] = draw(&r, 0, most);
		}
		probe_open(&p, FF_OP_PAD, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		for (int i = 0; i < in.rank; i++)
			ck_assert_int_eq(out_of(&p)->shape[i],
					in.size[i] + a.pad.before[i] + a.pad.after[i]);
		check_regions(&r, &p, touch_pad);
		probe_close(&p);
	}
}
END_TEST

/* ---- expand ---- */

static void touch_expand(const struct probe *p, const int32_t *at, struct hulls *h)
{
	bool own = p->node->attrs.expand.own_rank;
	const struct ff_value *in = own ? param_of(p, 0) : in_of(p, 0);
	uint32_t rank = out_of(p)->rank;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	for (uint32_t i = 0; i < in->rank; i++)
		to[i] = in->shape[i] == 1 ? 0 : at[rank - in->rank + i];
	touch(own ? &h->weight[0] : &h->in[0], in->rank, to);
}

START_TEST(expand)
{
	struct ff_random r = {.seed = ff_test_seed(17), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct shape in = draw_any_shape(&r, 2), to = in;
		union ff_attrs a = {.expand = {.rank = in.rank}};
		bool own = draw(&r, 0, 1);
		struct probe p;

		for (int i = 1; i < in.rank; i++)
			if (draw(&r, 0, 1))
				in.size[i] = 1;
		memcpy(a.expand.shape, to.size, sizeof(to.size));
		if (own) {
			a.expand.own_rank = draw(&r, 1, in.rank);
			memcpy(a.expand.own, in.size + in.rank - a.expand.own_rank,
					(size_t)a.expand.own_rank * sizeof(int32_t));
			if (a.expand.own_rank == in.rank)
				a.expand.own[0] = 1;
		}
		probe_open(&p, FF_OP_EXPAND, &a, &in, own ? 0 : 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_uint_eq(params_of(&p), own);
		for (int i = 0; i < to.rank; i++)
			ck_assert_int_eq(out_of(&p)->shape[i], to.size[i]);
		check_regions(&r, &p, touch_expand);
		probe_close(&p);
	}
}
END_TEST

/* ---- gather ---- */

/* A part has all of the axis that is read. */
static void touch_gather(const struct probe *p, const int32_t *at, struct hulls *h)
{
	const struct ff_gather_attrs *a = &p->node->attrs.gather;
	uint32_t rank = out_of(p)->rank;
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < rank; i++)
		to[i] = at[i];
	touch(&h->out, rank, to);
	to[a->axis] = 0;
	touch(&h->in[0], rank, to);
	to[a->axis] = in_of(p, 0)->shape[a->axis] - 1;
	touch(&h->in[0], rank, to);
}

START_TEST(gather)
{
	struct ff_random r = {.seed = ff_test_seed(18), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct shape in = draw_any_shape(&r, 2);
		int32_t axis = draw(&r, 1, in.rank - 1), n = draw(&r, 1, 6);
		double index[6];
		union ff_attrs a = {.gather = {axis, {n, index}}};
		struct probe p;

		for (int32_t i = 0; i < n; i++)
			index[i] = draw(&r, 0, in.size[axis] - 1);
		probe_open(&p, FF_OP_GATHER, &a, &in, 1);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert_int_eq(out_of(&p)->shape[axis], n);
		check_regions(&r, &p, touch_gather);
		/* what it was given may go */
		ck_assert_ptr_ne(p.node->attrs.gather.indices.at, index);
		ck_assert_mem_eq(
				p.node->attrs.gather.indices.at, index, (size_t)n * sizeof(*index));
		probe_close(&p);
	}
}
END_TEST

/* ---- constant ---- */

static void touch_constant(const struct probe *p, const int32_t *at, struct hulls *h)
{
	int64_t to[FF_MAX_RANK] = {0};

	for (uint32_t i = 0; i < out_of(p)->rank; i++)
		to[i] = at[i];
	touch(&h->out, out_of(p)->rank, to);
}

START_TEST(constant)
{
	struct ff_random r = {.seed = ff_test_seed(19), .stream = 1};

	for (int round = 0; round < ROUNDS; round++) {
		struct shape in = draw_any_shape(&r, 1);
		double runs[2] = {1, -0.5};
		union ff_attrs a = {.constant = {.rank = in.rank, .runs = {2, runs}}};
		struct probe p;

		memcpy(a.constant.shape, in.size, sizeof(in.size));
		for (int i = 1; i < in.rank; i++)
			runs[0] *= in.size[i];
		probe_open(&p, FF_OP_CONSTANT_OF, &a, &in, 0);
		ck_assert_msg(p.code == FF_OK, "%s", p.err.text);
		check_node(&p);
		ck_assert(!out_of(&p)->needs_grad);
		check_regions(&r, &p, touch_constant);
		probe_close(&p);
	}
}
END_TEST

/* ---- files ---- */

static const char text[] =
		"{\"format\": \"ffsoap-graph\", \"version\": 2, \"name\": \"g\", \"nodes\": ["
		"{\"name\": \"x\", \"op\": \"input\", \"shape\": [4, 6]},"
		"{\"name\": \"label\", \"op\": \"input\", \"shape\": [4], \"dtype\": \"int32\", "
		"\"classes\": 3},"
		"{\"name\": \"token\", \"op\": \"expand\", \"shape\": [4, 6], \"weight\": [1, 6]},"
		"{\"name\": \"mask\", \"op\": \"constant\", \"shape\": [4, 6], \"runs\": [2, 0.5, "
		"4, "
		"-1e30]},"
		"{\"name\": \"pick\", \"op\": \"gather\", \"in\": [\"x\"], \"indices\": [5, 0, 5]},"
		"{\"name\": \"odd\", \"op\": \"slice\", \"in\": [\"x\"], \"stop\": 6, \"step\": 2},"
		"{\"name\": \"even\", \"op\": \"slice\", \"in\": [\"x\"], \"stop\": 6},"
		"{\"name\": \"drop\", \"op\": \"dropout\", \"in\": [\"even\"], \"per\": "
		"\"sample\"},"
		"{\"name\": \"less\", \"op\": \"pad\", \"in\": [\"x\"], \"before\": [0, -1], "
		"\"after\": "
		"[0, 2], \"value\": 1},"
		"{\"name\": \"all\", \"op\": \"concat\", \"in\": [\"token\", \"mask\", \"pick\", "
		"\"odd\", "
		"\"drop\", \"less\"]},"
		"{\"name\": \"fc\", \"op\": \"linear\", \"in\": [\"all\"], \"out_features\": 3},"
		"{\"name\": \"loss\", \"op\": \"softmax_cross_entropy\", \"in\": [\"fc\", "
		"\"label\"]}]}";

/* What is written is read as the same graph; presets that came later are not written. */
START_TEST(files)
{
	struct ff_graph g, again;
	struct ff_arena arena;
	struct ff_error err;
	struct ff_out o;

	ff_arena_init(&arena);
	ck_assert_msg(ff_graph_parse("a", text, strlen(text), &arena, &g, &err) == FF_OK, "%s",
			err.text);
	ff_out_init(&o);
	ff_graph_write(&g, &o);
	ck_assert_msg(ff_graph_parse("b", o.text, o.len, &arena, &again, &err) == FF_OK, "%s",
			err.text);
	ck_assert_uint_eq(g.hash, again.hash);
	ck_assert_ptr_nonnull(strstr(o.text, "\"per\""));
	ck_assert_ptr_null(strstr(strstr(o.text, "\"per\"") + 1, "\"per\""));
	ck_assert_ptr_null(strstr(strstr(o.text, "\"step\"") + 1, "\"step\""));
	ff_out_finish(&o);
	ff_arena_finish(&arena);
}
END_TEST

START_TEST(errors)
{
	const struct shape in = {3, {2, 6, 4}};
	union ff_attrs less = {.pad = {.rank = 2, .rank_after = 3}};
	union ff_attrs to = {.expand = {.rank = 3, .shape = {2, 6, 8}}};
	double index[2] = {1, 4}, runs[4] = {20, 1, 3.5, 2};
	union ff_attrs pick = {.gather = {2, {2, index}}};
	union ff_attrs known = {.constant = {.rank = 3, .shape = {2, 6, 4}, .runs = {4, runs}}};
	struct probe p;

	probe_open(&p, FF_OP_PAD, &less, &in, 1);
	refused(&p, "\"before\" and \"after\" have 2 and 3 numbers, expected one for each axis");
	less.pad = (struct ff_pad_attrs){.rank = 3, .rank_after = 3, .before = {1}};
	probe_open(&p, FF_OP_PAD, &less, &in, 1);
	refused(&p, "axis 0, the samples, is not padded");
	less.pad = (struct ff_pad_attrs){.rank = 3, .rank_after = 3, .before = {0, -4}};
	less.pad.after[1] = -2;
	probe_open(&p, FF_OP_PAD, &less, &in, 1);
	refused(&p, "axis 1 would have 0 elements");
	less.pad = (struct ff_pad_attrs){.rank = 3, .rank_after = 3, .after = {0, 0, 4}};
	less.pad.mode = FF_PAD_REFLECT;
	probe_open(&p, FF_OP_PAD, &less, &in, 1);
	refused(&p, "padding 4 of axis 2 is more than can be mirrored of 4");
	less.pad.after[2] = -1;
	less.pad.mode = FF_PAD_EDGE;
	probe_open(&p, FF_OP_PAD, &less, &in, 1);
	refused(&p, "mode edge takes nothing away");
	less.pad.after[1] = 1;
	probe_open(&p, FF_OP_PAD, &less, &in, 1);
	refused(&p, "mode edge is for the one to three axes behind the channels");
	probe_open(&p, FF_OP_EXPAND, &to, &in, 1);
	refused(&p, "[2, 6, 4] does not broadcast to \"shape\" [2, 6, 8]");
	to.expand.own_rank = 1;
	to.expand.own[0] = 8;
	probe_open(&p, FF_OP_EXPAND, &to, &in, 1);
	refused(&p, "expected 1 input, or the shape of a \"weight\"");
	to.expand.shape[0] = 3;
	probe_open(&p, FF_OP_EXPAND, &to, &in, 0);
	refused(&p, "the inputs before it have 3");
	probe_open(&p, FF_OP_GATHER, &pick, &in, 1);
	refused(&p, "indices[1] is 4, which is no element of axis 2 of the input [2, 6, 4]");
	index[1] = 0.5;
	probe_open(&p, FF_OP_GATHER, &pick, &in, 1);
	refused(&p, "indices[1] is 0.5");
	probe_open(&p, FF_OP_CONSTANT_OF, &known, &in, 0);
	refused(&p, "for the 24 of one sample of \"shape\" [2, 6, 4]");
	runs[2] = 5;
	probe_open(&p, FF_OP_CONSTANT_OF, &known, &in, 0);
	refused(&p, "for the 24 of one sample");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("moves");
	TCase *c = tcase_create("moves");

	tcase_add_test(c, pad);
	tcase_add_test(c, expand);
	tcase_add_test(c, gather);
	tcase_add_test(c, constant);
	tcase_add_test(c, files);
	tcase_add_test(c, errors);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
