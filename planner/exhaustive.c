/* Brute force: every strategy of a small space.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/cli.h"
#include "space.h"

struct walk {
	const struct ff_space *space;
	struct ff_evaluator *evaluator;
	const struct ff_graph *graph;
	uint64_t *digit, *best; /* config number of each node */
	struct ff_evaluation at, at_best;
	uint64_t visited;
	bool found;
};

/* Strategies in the space, at most `limit` + 1. */
static uint64_t count_strategies(const struct ff_space *s, uint32_t n_nodes, uint64_t limit)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < n_nodes; i++) {
		uint64_t k = ff_space_count(s, i);

		if (k > limit / n)
			return limit + 1;
		n *= k;
	}
	return n;
}

static void note(struct walk *w)
{
	w->visited++;
	if (!w->at.fits || (w->found && w->at.step_us >= w->at_best.step_us))
		return;
	w->at_best = w->at;
	w->found = true;
	memcpy(w->best, w->digit, w->graph->n_nodes * sizeof(*w->best));
}

/* Writes the strategy that the digits say; each node gets device storage. */
static int strategy_of(const struct walk *w, const uint64_t *digit, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	int code = ff_strategy_create(w->graph, a, ret, err);

	for (uint32_t i = 0; code == FF_OK && i < w->graph->n_nodes; i++)
		ff_space_config(w->space, i, digit[i], &ret->config[i]);
	return code;
}

/* Counts up the digits, node 0 fastest; every change goes to the evaluator.
 * False when all have come round. */
static int next(struct walk *w, bool *more, struct ff_error *err)
{
	for (uint32_t i = 0; i < w->graph->n_nodes; i++) {
		uint64_t n = ff_space_count(w->space, i);
		struct ff_change change = {.node = i};
		int code;

		if (n == 1)
			continue;
		w->digit[i] = (w->digit[i] + 1) % n;
		ff_space_config(w->space, i, w->digit[i], &change.config);
		code = ff_evaluator_propose(w->evaluator, &change, 1, &w->at, err);
		if (code < 0)
			return code;
		ff_evaluator_keep(w->evaluator);
		if (w->digit[i] > 0) {
			*more = true;
			return FF_OK;
		}
	}
	*more = false;
	return FF_OK;
}

static int visit_all(struct walk *w, struct ff_arena *a, struct ff_error *err)
{
	struct ff_strategy first;
	bool more = true;
	int code = strategy_of(w, w->digit, a, &first, err);

	if (code == FF_OK)
		code = ff_evaluator_set(w->evaluator, &first, &w->at, err);
	while (code == FF_OK && more) {
		note(w);
		code = next(w, &more, err);
	}
	return code;
}

int ff_search_exhaustive(const struct ff_space *s, struct ff_evaluator *e, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t limit, struct ff_arena *a,
		struct ff_search_result *ret, struct ff_error *err)
{
	struct walk w = {.space = s, .evaluator = e, .graph = g};
	double from = ff_clock_us();
	struct ff_strategy best;
	int code;

	if (count_strategies(s, g->n_nodes, limit) > limit)
		return ff_fail(err, FF_E_INPUT,
				"graph %s on machine %s: more than %llu strategies are too many to "
				"try all",
				g->name, m->name, (unsigned long long)limit);
	w.digit = ff_arena_array(a, g->n_nodes, sizeof(*w.digit));
	w.best = ff_arena_array(a, g->n_nodes, sizeof(*w.best));
	if (!w.digit || !w.best)
		return ff_fail_memory(err);
	code = visit_all(&w, a, err);
	if (code < 0)
		return code;
	if (!w.found)
		return ff_fail(err, FF_E_NOFIT,
				"graph %s on machine %s: none of its %llu strategies fits in "
				"memory",
				g->name, m->name, (unsigned long long)w.visited);
	code = strategy_of(&w, w.best, a, &best, err);
	if (code < 0)
		return code;
	ret->best = best;
	ret->evaluation = w.at_best;
	ret->proposals = ret->accepted = w.visited;
	ret->seconds = (ff_clock_us() - from) / 1e6;
	return FF_OK;
}
