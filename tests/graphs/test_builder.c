/* Operator graphs built in code, and what builders refuse.
 * SPDX-License-Identifier: Apache-2.0 */
#include "check_main.h"
#include "ff/builder.h"

START_TEST(first_error_sticks)
{
	struct ff_arena a;
	struct ff_builder *b;
	struct ff_graph g, before;
	struct ff_error err;
	union ff_attrs x = ff_attrs_preset(FF_OP_INPUT);

	ff_arena_init(&a);
	ck_assert_int_eq(ff_builder_create("bad name", &a, &b, &err), FF_E_INPUT);
	ck_assert_int_eq(ff_builder_create("sticky", &a, &b, &err), FF_OK);
	x.input.rank = 2;
	x.input.shape[0] = x.input.shape[1] = 2;
	ck_assert_uint_eq(ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0), 0);
	ck_assert_uint_eq(ff_builder_add(b, FF_OP_RELU, "r", NULL, (uint32_t[]){7}, 1), FF_NONE);
	ck_assert_uint_eq(ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0), FF_NONE);
	memset(&g, 0x5a, sizeof(g));
	before = g;
	ck_assert_int_eq(ff_builder_finish(b, &g, &err), FF_E_INPUT);
	ck_assert_str_eq(err.text, "graph \"sticky\": relu \"r\": input 0 is not an earlier node");
	ck_assert_mem_eq(&g, &before, sizeof(g));
	ff_arena_finish(&a);
}
END_TEST

START_TEST(attributes_are_checked)
{
	static const int32_t bad[] = {0, -1, INT32_MIN};

	for (uint32_t i = 0; i < 3; i++) {
		struct ff_arena a;
		struct ff_builder *b;
		struct ff_graph g;
		struct ff_error err;
		union ff_attrs x = ff_attrs_preset(FF_OP_INPUT);

		ff_arena_init(&a);
		ck_assert_int_eq(ff_builder_create("g", &a, &b, &err), FF_OK);
		x.input.rank = 2;
		x.input.shape[0] = 2;
		x.input.shape[1] = bad[i];
		ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		ck_assert_int_eq(ff_builder_finish(b, &g, &err), FF_E_INPUT);
		ck_assert_str_eq(err.text, "graph \"g\": input \"x\": \"shape\" is out of range");
		ff_arena_finish(&a);
	}
}
END_TEST

/* Outputs that there are not, asked for in code. */
START_TEST(no_such_output)
{
	for (int saved = 0; saved < 2; saved++) {
		union ff_attrs x = ff_attrs_preset(FF_OP_INPUT);
		union ff_attrs pool = ff_attrs_preset(FF_OP_POOL2D);
		struct ff_error err = {0};
		struct ff_builder *b;
		struct ff_arena a;
		struct ff_graph g;
		uint32_t in;

		ff_arena_init(&a);
		ck_assert_int_eq(ff_builder_create("g", &a, &b, &err), FF_OK);
		x.input = (struct ff_input_attrs){.rank = 4, .shape = {2, 2, 4, 4}};
		pool.pool.kernel[0] = pool.pool.kernel[1] = 2;
		in = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
		in = saved ? ff_builder_add(b, FF_OP_POOL2D, "s", &pool, &in, 1)
			   : ff_builder_add(b, FF_OP_RELU, "s", NULL, &in, 1);
		in = FF_PORT(in, 1);
		ck_assert_uint_eq(ff_builder_add(b, FF_OP_RELU, "r", NULL, &in, 1), FF_NONE);
		ck_assert_int_eq(ff_builder_finish(b, &g, &err), FF_E_INPUT);
		ck_assert_str_eq(err.text,
				"graph \"g\": relu \"r\": input 0: \"s\" has no output 1");
		ff_arena_finish(&a);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("builder");
	TCase *c = tcase_create("builder");

	tcase_add_test(c, first_error_sticks);
	tcase_add_test(c, attributes_are_checked);
	tcase_add_test(c, no_such_output);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
