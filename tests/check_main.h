/* Runs one Check suite and prints TAP for `meson test`.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_MAIN_H
#define FF_CHECK_MAIN_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Check writes down where it is at each assertion that holds, for processes that die, of which it
 * has none here: of millions of assertions that took most of the time. */
#define _mark_point(file, line) ((void)0)

/* Seed of a property test: $FF_SEED, or the preset; printed so that a failure
 * can be repeated. */
static inline uint64_t ff_test_seed(uint64_t preset)
{
	const char *text = getenv("FF_SEED");
	uint64_t seed = text ? strtoull(text, NULL, 0) : preset;

	printf("# seed %llu (set FF_SEED to repeat or vary)\n", (unsigned long long)seed);
	return seed;
}

/* `of` rounds of a property test; fewer where $FF_TEST_SHARE says how large a part of them is
 * enough: 4, a quarter.  A test that counts the kinds which it met goes on until it has all of
 * them, so that they do not depend on the share. */
static inline uint32_t ff_test_rounds(uint32_t of)
{
	const char *text = getenv("FF_TEST_SHARE");
	uint32_t share = text ? (uint32_t)strtoul(text, NULL, 10) : 1;

	return share > of ? 1 : share ? of / share : of;
}

/* Whether round `i` of a property test is run: one of its rounds, or one more where those have not
 * `met` all that they are to meet, though for ever nobody looks for it. */
static inline bool ff_test_goes_on(uint32_t i, uint32_t of, bool met)
{
	return i < ff_test_rounds(of) || (!met && i < 10 * of);
}

/* The first of `n` counts that is zero; `n`: none is. */
static inline size_t ff_test_unmet(const uint32_t *count, size_t n)
{
	size_t i = 0;

	while (i < n && count[i])
		i++;
	return i;
}

static inline int ff_check_main(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed;

	srunner_set_fork_status(runner, CK_NOFORK);
	srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_SILENT);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
