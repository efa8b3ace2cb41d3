/* Tests of the arena and of errors.  SPDX-License-Identifier: Apache-2.0 */
#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#include "check_main.h"
#include "ff/arena.h"
#include "ff/error.h"
#include "ff/philox.h"

/* Every one of `n` bytes is `value`. */
static bool filled(const unsigned char *p, size_t n, unsigned char value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return false;
	return true;
}

START_TEST(gives_zeroed_aligned_memory)
{
	struct ff_arena a;

	ff_arena_init(&a);
	for (size_t size = 0; size < 70000; size = size * 2 + 1) {
		unsigned char *p = ff_arena_alloc(&a, size);

		ck_assert_ptr_nonnull(p);
		ck_assert_uint_eq((uintptr_t)p % alignof(max_align_t), 0);
		ck_assert(filled(p, size, 0));
		memset(p, 0xee, size);
	}
	ff_arena_finish(&a);
	ck_assert_uint_eq(a.bytes, 0);
	ff_arena_finish(&a);
	ff_arena_finish(NULL);
}
END_TEST

/* Random sizes, marks and rewinds: what lives keeps its bytes. */
START_TEST(blocks_never_overlap)
{
	struct ff_random r = {.seed = ff_test_seed(11)};
	struct ff_arena a;
	struct {
		unsigned char *p;
		size_t n;
	} live[200];
	struct {
		struct ff_arena_mark mark;
		uint32_t live;
	} marks[8];
	uint32_t n_live = 0, n_marks = 0;

	ff_arena_init(&a);
	for (int step = 0; step < 8000; step++) {
		uint32_t what = ff_random_below(&r, 20);

		if (what == 0 && n_marks < 8) {
			marks[n_marks].mark = ff_arena_mark(&a);
			marks[n_marks++].live = n_live;
		} else if ((what == 1 || n_live == 200) && n_marks) {
			n_marks = ff_random_below(&r, n_marks);
			ff_arena_rewind(&a, marks[n_marks].mark);
			n_live = marks[n_marks].live;
		} else if (n_live < 200) {
			size_t n = ff_random_below(&r, 1u << ff_random_below(&r, 15));
			unsigned char *p = ff_arena_alloc(&a, n);

			ck_assert_ptr_nonnull(p);
			ck_assert(filled(p, n, 0));
			memset(p, (int)(n_live + 1), n);
			live[n_live].p = p;
			live[n_live++].n = n;
		} else {
			ff_arena_finish(&a);
			n_live = 0;
		}
		for (uint32_t i = 0; step % 32 == 0 && i < n_live; i++)
			ck_assert(filled(live[i].p, live[i].n, (unsigned char)(i + 1)));
	}
	ff_arena_finish(&a);
}
END_TEST

START_TEST(rewind_holds_no_more_memory_each_round)
{
	struct ff_arena a;
	size_t after_first = 0;

	ff_arena_init(&a);
	for (int round = 0; round < 100; round++) {
		struct ff_arena_mark mark = ff_arena_mark(&a);

		for (int i = 0; i < 100; i++)
			ck_assert_ptr_nonnull(ff_arena_alloc(&a, 3000));
		ff_arena_rewind(&a, mark);
		if (round == 0)
			after_first = a.bytes;
		ck_assert_uint_eq(a.bytes, after_first);
	}
	ff_arena_finish(&a);
}
END_TEST

START_TEST(limit_is_kept)
{
	struct ff_arena a;
	size_t got = 0;

	ff_arena_init(&a);
	a.limit = 10000;
	while (ff_arena_alloc(&a, 100))
		got += 100;
	ck_assert_uint_le(a.bytes, 10000);
	ck_assert_uint_ge(got, 8000);
	ck_assert_ptr_null(ff_arena_strdup(&a, "a text that is longer than what is left of it"
					       "because it would take more than a hundred bytes"));
	/* What a rewind gave back counts, and serves a larger request too. */
	ff_arena_rewind(&a, (struct ff_arena_mark){NULL, 0});
	ck_assert_ptr_nonnull(ff_arena_alloc(&a, 9000));
	ck_assert_ptr_null(ff_arena_alloc(&a, 9000));
	ff_arena_finish(&a);
}
END_TEST

START_TEST(overflow_is_refused)
{
	struct ff_arena a;

	ff_arena_init(&a);
	ck_assert_ptr_null(ff_arena_alloc(&a, SIZE_MAX));
	ck_assert_ptr_null(ff_arena_alloc(&a, SIZE_MAX / 2 + 1));
	ck_assert_ptr_null(ff_arena_array(&a, SIZE_MAX / 8 + 1, 8));
	ck_assert_ptr_null(ff_arena_array(&a, 8, SIZE_MAX / 8 + 1));
	ck_assert_uint_eq(a.bytes, 0);
	ck_assert_ptr_nonnull(ff_arena_array(&a, 0, SIZE_MAX));
	ff_arena_finish(&a);
}
END_TEST

START_TEST(copies_are_copies)
{
	struct ff_arena a;
	int32_t from[3] = {1, 2, 3};
	int32_t *to;
	char *wide;

	ff_arena_init(&a);
	to = ff_arena_copy(&a, from, 3, sizeof(*from));
	from[1] = 9;
	ck_assert_int_eq(to[0] * 100 + to[1] * 10 + to[2], 123);
	ck_assert_ptr_nonnull(ff_arena_copy(&a, NULL, 0, 4));
	ck_assert_str_eq(ff_arena_strdup(&a, "grace"), "grace");
	ck_assert_str_eq(ff_arena_printf(&a, "%s-%d", "part", 7), "part-7");
	wide = ff_arena_printf(&a, "%5000d", 1);
	ck_assert_uint_eq(strlen(wide), 5000);
	ff_arena_finish(&a);
}
END_TEST

START_TEST(errors_are_one_clean_sentence)
{
	struct ff_error err = {0};

	ck_assert_int_eq(ff_fail(&err, FF_E_IO, "%s: no", "a\nb\x1b[2J"), FF_E_IO);
	ck_assert_int_eq(err.code, FF_E_IO);
	ck_assert_str_eq(err.text, "a?b?[2J: no");
	ck_assert_int_eq(ff_fail(&err, FF_E_RUN, "again: %s", err.text), FF_E_RUN);
	ck_assert_str_eq(err.text, "again: a?b?[2J: no");
	ck_assert_int_eq(ff_fail(NULL, FF_E_RUN, "nobody listens"), FF_E_RUN);
	ck_assert_int_eq(ff_fail_memory(&err), FF_E_NOMEM);
	ck_assert_str_eq(err.text, "out of memory");
}
END_TEST

START_TEST(long_errors_are_cut_between_characters)
{
	struct ff_error err = {0};
	char text[1024];

	for (size_t shift = 0; shift < 4; shift++) {
		size_t n;

		memset(text, 'x', sizeof(text));
		for (size_t i = shift; i + 2 < sizeof(text); i += 3)
			memcpy(text + i, "\xe2\x82\xac", 3); /* the euro sign */
		text[sizeof(text) - 1] = '\0';
		ff_fail(&err, FF_E_INPUT, "%s", text);
		n = strlen(err.text);
		ck_assert_uint_lt(n, sizeof(err.text));
		ck_assert_uint_gt(n, sizeof(err.text) - 8);
		ck_assert_str_eq(err.text + n - 3, "...");
		ck_assert_uint_eq((n - 3 - shift) % 3, 0);
	}
}
END_TEST

START_TEST(exit_statuses)
{
	ck_assert_int_eq(ff_exit_status(FF_OK), 0);
	ck_assert_int_eq(ff_exit_status(FF_E_INPUT), 2);
	ck_assert_int_eq(ff_exit_status(FF_E_NOMEM), 1);
	ck_assert_int_eq(ff_exit_status(FF_E_IO), 1);
	ck_assert_int_eq(ff_exit_status(FF_E_RUN), 1);
	ck_assert_int_eq(ff_exit_status(FF_E_NOFIT), 3);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("arena");
	TCase *c = tcase_create("arena");

	tcase_add_test(c, gives_zeroed_aligned_memory);
	tcase_add_test(c, blocks_never_overlap);
	tcase_add_test(c, rewind_holds_no_more_memory_each_round);
	tcase_add_test(c, limit_is_kept);
	tcase_add_test(c, overflow_is_refused);
	tcase_add_test(c, copies_are_copies);
	suite_add_tcase(s, c);
	c = tcase_create("error");
	tcase_add_test(c, errors_are_one_clean_sentence);
	tcase_add_test(c, long_errors_are_cut_between_characters);
	tcase_add_test(c, exit_statuses);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
