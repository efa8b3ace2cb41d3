/* Guesses at places of the grid by hand.  SPDX-License-Identifier: Apache-2.0 */
#include "../../planner/hand/guess.h"

#include <math.h>

#include "../check_main.h"
#include "ff/bucketing.h"
#include "ff/zoo.h"
#include "fixture.h"

static struct ff_arena arena;

static void setup(void)
{
	ff_arena_init(&arena);
}

static void teardown(void)
{
	ff_arena_finish(&arena);
}

/* What guesses are made of: a graph on devices, and its places. */
struct guessing {
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
	struct ff_places places;
	struct ff_guesser guesser;
};

static void open_guessing(struct guessing *l, const struct ff_graph *g, const struct ff_machine *m)
{
	struct ff_error err = {0};
	struct ff_repeats r;

	CHECK_OK(ff_pricer_create(g, m, FF_ESTIMATE_PEAK, NULL, NULL, "graph", &l->pricer, &err));
	CHECK_OK(ff_space_create(g, m, &l->space, &err));
	ff_space_allow(l->space, FF_SPACE_ALL);
	CHECK_OK(ff_evaluator_create(g, m, l->pricer, 0, 0, &l->evaluator, &err));
	CHECK_OK(ff_repeats_find(g, NULL, 1, &arena, &r, &err));
	l->places = (struct ff_places){
			.graph = g, .machine = m, .space = l->space, .n_blocks = r.n_blocks};
	ff_places_init(&l->places);
	ff_guesser_init(&l->places, &r, l->evaluator, &l->guesser);
}

static void close_guessing(struct guessing *l)
{
	ff_evaluator_destroy(l->evaluator);
	ff_space_destroy(l->space);
	ff_pricer_destroy(l->pricer);
}

static struct ff_graph layers(const char *n)
{
	const char *const sets[] = {n, "width=64", "heads=4", "sequence=64", "vocabulary=101"};
	struct ff_error err = {0};
	struct ff_graph g;

	CHECK_OK(ff_zoo_build("gpt2", 8, sets, 5, &arena, &g, &err));
	return g;
}

/* What memory holds beside a guess of little is not as many times more beside one of much. */
START_TEST(test_guesses_what_grows)
{
	struct ff_graph g = layers("layers=3");
	struct ff_machine m = fixture_devices(2, &arena);
	struct ff_place whole = {.at = {[FF_PLACE_AGAIN] = FF_PLACE_WHOLE,
						 [FF_PLACE_ORDER] = FF_PLACE_1F1B}};
	struct ff_place none = {.at = {[FF_PLACE_ORDER] = FF_PLACE_1F1B}};
	struct ff_evaluation at = {.fits = true};
	struct ff_guesser *guesser;
	struct ff_guess less, more;
	struct guessing l;

	open_guessing(&l, &g, &m);
	guesser = &l.guesser;
	less = ff_guess(guesser, &whole);
	more = ff_guess(guesser, &none);
	ck_assert(more.bytes > 1.2 * less.bytes);
	guesser->memory_bytes = 2.2 * more.bytes; /* it needs as much more than it is guessed, */
	at.step_us = 2 * less.step_us;
	at.spare_bytes = (int64_t)(guesser->memory_bytes - less.bytes - 1.1 * more.bytes);
	ck_assert_double_eq_tol(ff_guess_key(guesser, &none, ff_guess_off(guesser, &whole, &at)),
			2 * more.step_us, 1e-6 * more.step_us);
	at.spare_bytes -= (int64_t)(0.2 * more.bytes); /* or so much that it lacks some */
	ck_assert(ff_guess_key(guesser, &none, ff_guess_off(guesser, &whole, &at)) >
			2.01 * more.step_us);
	close_guessing(&l);
}
END_TEST

/* Stages that take turns pass on more and keep more; who shares products, but not sequences, passes
 * on all of it. */
START_TEST(test_guesses_what_stages_pass_on)
{
	struct ff_graph g = layers("layers=8");
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_place turns = {.at = {[FF_PLACE_STAGES] = 1,
						 [FF_PLACE_TENSOR] = 1,
						 [FF_PLACE_SPLIT] = 1,
						 [FF_PLACE_MICRO] = 2,
						 [FF_PLACE_ORDER] = FF_PLACE_1F1B + 1}};
	struct ff_place more = turns, whole = turns;
	struct guessing l;

	open_guessing(&l, &g, &m);
	l.guesser.compute_s = 0; /* no bubbles: what is left travels */
	more.at[FF_PLACE_ORDER]++;
	whole.at[FF_PLACE_SPLIT] = 0;
	ck_assert_uint_gt(ff_place_chunks(&l.places, &more), ff_place_chunks(&l.places, &turns));
	ck_assert(ff_guess(&l.guesser, &more).step_us > ff_guess(&l.guesser, &turns).step_us);
	ck_assert(ff_guess(&l.guesser, &whole).step_us > ff_guess(&l.guesser, &turns).step_us);
	more.at[FF_PLACE_ORDER] = FF_PLACE_1F1B;
	ck_assert(ff_guess(&l.guesser, &more).bytes < ff_guess(&l.guesser, &turns).bytes);
	close_guessing(&l);
}
END_TEST

/* Sums take no less than the evaluator prices them at. */
START_TEST(test_guesses_by_prices)
{
	const uint16_t device[] = {0, 1, 2, 3};
	struct ff_graph g = layers("layers=3");
	struct ff_machine m = fixture_devices(4, &arena);
	int64_t bytes = ff_graph_parameters(&g) * FF_F32_BYTES;
	struct guessing l;
	double us, least_us;

	open_guessing(&l, &g, &m);
	if (bytes > ff_bucket_bytes(&g, &m))
		bytes = ff_bucket_bytes(&g, &m);
	us = 2e6 * (double)bytes * 3 / 4 / l.guesser.rates.data[0][0];
	least_us = ff_price_sync(ff_evaluator_pricer(l.evaluator), 4, device, bytes);
	ck_assert_double_gt(least_us, 0);
	ck_assert(isfinite(us) && us >= 0.999 * least_us);
	close_guessing(&l);
}
END_TEST

/* A network without equal blocks leaves nothing between them. */
START_TEST(test_guesses_without_blocks)
{
	struct ff_machine m = fixture_devices(4, &arena);
	struct ff_error err = {0};
	struct ff_graph g;
	struct guessing l;

	CHECK_OK(ff_zoo_build("lenet", 8, NULL, 0, &arena, &g, &err));
	open_guessing(&l, &g, &m);
	ck_assert(l.guesser.passed_bytes == 0);
	for (uint32_t i = 0; i < ff_places_count(&l.places); i++) {
		struct ff_place p = ff_place_at(&l.places, i);

		if (ff_place_is_there(&l.places, &p))
			ck_assert(isfinite(ff_guess(&l.guesser, &p).step_us));
	}
	close_guessing(&l);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("guess");
	TCase *c = tcase_create("guess");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, test_guesses_without_blocks);
	tcase_add_test(c, test_guesses_what_grows);
	tcase_add_test(c, test_guesses_what_stages_pass_on);
	tcase_add_test(c, test_guesses_by_prices);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
