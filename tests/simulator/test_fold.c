/* Folding of equal micro-batches leaves out something, and changes nothing: random graphs in up to
 * 64 micro-batches, under both orders, in stages, with values recomputed and parameters gathered
 * again. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "fold_pair.h"

#define CASES 400

START_TEST(folded_equals_unfolded)
{
	uint64_t seed = ff_test_seed(12); /* of 1 to 12, it meets all in the fewest cases */
	uint32_t rounds = ff_test_rounds(CASES);
	struct seen seen = {0};
	const uint32_t *count = (const uint32_t *)&seen;
	const size_t kinds = sizeof(seen) / sizeof(*count);

	/* more than the rounds until all was met, of which no number of them is sure */
	for (uint32_t i = 0; i < rounds || (i < 10 * CASES && ff_test_unmet(count, kinds) < kinds);
			i++) {
		struct ff_random r = {seed, i, 0};
		struct pair w = {.r = &r};

		pair_open(&w, draw_deep_graph);
		pair_set(&w);
		for (int k = 0; k < PROPOSALS; k++) {
			struct ff_change change = pair_draw_change(&w);

			pair_propose(&w, &change, 1, &seen);
		}
		pair_set(&w);
		pair_look(&w, &seen);
		pair_close(&w);
	}
	printf("# of %u cases with 8 micro-batches or more %u were folded, %u after trials; %u had "
	       "some in vain\n",
			seen.deep, seen.folded, seen.tried, seen.in_vain);
	ck_assert_msg(ff_test_unmet(count, kinds) == kinds, "count %zu of struct seen is zero",
			ff_test_unmet(count, kinds));
	ck_assert_uint_gt(10 * seen.folded, 7 * seen.deep);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fold");
	TCase *c = tcase_create("property");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, folded_equals_unfolded);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
