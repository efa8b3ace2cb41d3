/* What random_graph.h draws, or the test fails.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TESTS_SIMULATOR_DRAWN_H
#define FF_TESTS_SIMULATOR_DRAWN_H

#include "random_graph.h"
#include "simulator/hand.h"

static inline void draw_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *g)
{
	struct ff_error err = {0};

	ck_assert_msg(random_graph(r, 8, a, g, &err) == FF_OK, "%s", err.text);
}

static inline void draw_strategy(struct ff_random *r, const struct ff_graph *g, uint32_t n_devices,
		struct ff_arena *a, struct ff_strategy *s)
{
	struct ff_error err = {0};

	ck_assert_msg(random_strategy(r, g, n_devices, a, s, &err) == FF_OK, "%s", err.text);
}

#endif
