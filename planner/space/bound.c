/* Lower bound: no strategy of the space takes less time than this (docs/simulator.md).
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "../check/longest.h"
#include "ff/micro.h"
#include "ff/search.h"
#include "raise.h"

static int run(const struct ff_bounded *b, struct ff_kinds *k, struct ff_arena *scratch,
		struct ff_arena *a, struct ff_weights *weights, double *us, struct ff_error *err)
{
	double weighted_us = 0, longest_us = 0;
	struct ff_weighted w;
	int code = ff_weighted_init(&w, k, b->micro_batches, scratch, err);

	if (code == FF_OK && !k->stopped)
		code = ff_longest_us(k, scratch, &longest_us, err);
	if (code == FF_OK && !k->stopped)
		code = ff_weights_raise(&w, k->stop, k->ctx, a, weights, &weighted_us, err);
	if (code == FF_OK)
		*us = k->stopped ? NAN : fmax(weighted_us, longest_us);
	return code;
}

int ff_lower_bound_weights(const struct ff_bounded *b, struct ff_arena *a,
		struct ff_weights *weights, double *us, struct ff_error *err)
{
	struct ff_arena scratch;
	struct ff_graph micro;
	struct ff_kinds *k;
	int code;

	ff_arena_init(&scratch);
	k = ff_arena_alloc(&scratch, sizeof(*k));
	code = k ? ff_graph_micro(b->graph, b->micro_batches, &scratch, &micro, err)
		 : ff_fail_memory(err);
	if (code == FF_OK)
		code = ff_kinds_init(k, &micro, b->machine, b->pricer, b->micro_batches > 1,
				b->stop, b->ctx, &scratch, err);
	if (code == FF_OK)
		code = run(b, k, &scratch, a, weights, us, err);
	if (k)
		ff_kinds_finish(k);
	ff_arena_finish(&scratch);
	return code;
}

int ff_lower_bound(const struct ff_graph *g, uint32_t micro_batches, const struct ff_machine *m,
		struct ff_pricer *p, bool (*stop)(void *ctx), void *ctx, double *us,
		struct ff_error *err)
{
	const struct ff_bounded bounded = {g, micro_batches, m, p, stop, ctx};
	struct ff_weights *weights;
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	weights = ff_arena_alloc(&a, sizeof(*weights));
	code = weights ? ff_lower_bound_weights(&bounded, &a, weights, us, err)
		       : ff_fail_memory(err);
	ff_arena_finish(&a);
	return code;
}
