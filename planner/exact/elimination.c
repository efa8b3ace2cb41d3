/* A start from an exact method on additive costs: which of its strategies is best is
 * for the evaluator to say, which sees what overlaps and what fits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "elimination.h"

#include <string.h>

#include "propose/extras.h"

#define LEAST_US_PER_BYTE 1e-7
#define TIMES 4.0    /* from one price of memory to the next, until something fits */
#define RISES 12     /* at most */
#define BISECTIONS 4 /* then, between the last two */

struct elimination {
	const struct ff_elimination *of;
	struct ff_additive *additive;
	struct ff_evaluator *evaluator;
	bool cuts; /* the space has updates of parts, by axes */
	struct ff_arena *arena;
	struct ff_strategy best;
	struct ff_evaluation at_best;
	struct ff_change *change; /* from the one tried before to the next */
	bool found, stopped;
};

static bool is_better(struct ff_evaluation new, struct ff_evaluation old)
{
	if (!new.fits || !old.fits)
		return new.over_bytes < old.over_bytes;
	return new.step_us < old.step_us;
}

/* The first is set; others are proposed, so that the evaluator keeps what it knows. */
static int evaluate(struct elimination *e, const struct ff_strategy *s, struct ff_evaluation *ret,
		struct ff_error *err)
{
	const struct ff_strategy *was = ff_evaluator_strategy(e->evaluator);
	uint32_t n = 0;
	int code;

	if (!e->found)
		return ff_evaluator_set(e->evaluator, s, ret, err);
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (!ff_config_equal(&e->of->graph->nodes[i], &s->config[i], &was->config[i]))
			e->change[n++] = (struct ff_change){i, s->config[i]};
	code = ff_evaluator_propose(e->evaluator, e->change, n, ret, err);
	if (code == FF_OK)
		ff_evaluator_keep(e->evaluator);
	return code;
}

static int try_strategy(struct elimination *e, const struct ff_strategy *s, bool *fits,
		struct ff_error *err)
{
	struct ff_evaluation at;
	int64_t over = 0;
	int code = evaluate(e, s, &at, err);

	if (code == FF_OK && at.fits && at.tight)
		code = ff_evaluator_layout(e->evaluator, &over, err);
	if (code < 0)
		return code;
	if (over > 0) {
		at.fits = false;
		at.over_bytes = over;
	}
	if (!e->found || is_better(at, e->at_best)) {
		e->best = *s;
		e->at_best = at;
		e->found = true;
	}
	e->stopped = e->of->stop && e->of->stop(e->of->ctx);
	*fits = *fits || at.fits;
	return FF_OK;
}

/* The same with parameters of so many bytes and more cut over all devices of the space. */
static int cut_params(struct elimination *e, const struct ff_strategy *s, int64_t least_bytes,
		struct ff_strategy *ret, struct ff_error *err)
{
	const struct ff_graph *g = e->of->graph;
	const struct ff_progression all = {0, 1, e->of->space->n_devices};
	int code = ff_strategy_create(g, e->arena, ret, err);

	if (code < 0)
		return code;
	memcpy(ret->config, s->config, g->n_nodes * sizeof(*s->config));
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		int64_t bytes = FF_F32_BYTES;

		for (uint32_t d = 0; d < g->nodes[i].n_dims; d++)
			bytes *= g->nodes[i].dim[d].extent;
		if (ff_node_is_parameter(g, i) && bytes >= least_bytes)
			ff_param_cut(g, i, &all, &ret->config[i]);
	}
	return FF_OK;
}

/* Solves with these weights, and tries the solution with parameters whole and cut;
 * *fits says whether any of that fits. */
static int try_weights(struct elimination *e, double sync, double us_per_byte, bool *fits,
		struct ff_error *err)
{
	static const int64_t least_bytes[] = {1 << 20, 1 << 12};
	const struct ff_additive_weights w = {sync, us_per_byte};
	struct ff_strategy s, cut;
	int code = ff_additive_solve(e->additive, &w, e->arena, &s, err);

	*fits = false;
	if (code == FF_OK)
		code = try_strategy(e, &s, fits, err);
	for (int i = 0; i < 2 && e->cuts && code == FF_OK; i++) {
		code = cut_params(e, &s, least_bytes[i], &cut, err);
		if (code == FF_OK)
			code = try_strategy(e, &cut, fits, err);
	}
	return code;
}

/* The lowest price of memory at which the strategy fits. */
static int try_prices(struct elimination *e, double sync, struct ff_error *err)
{
	double high = LEAST_US_PER_BYTE, low;
	bool fits = false;
	int code = FF_OK;

	for (int i = 0; i < RISES && !fits && code == FF_OK && !e->stopped; i++) {
		high *= TIMES;
		code = try_weights(e, sync, high, &fits, err);
	}
	low = high / TIMES;
	for (int i = 0; i < BISECTIONS && fits && code == FF_OK && !e->stopped; i++) {
		double middle = (low + high) / 2;
		bool enough = false;

		code = try_weights(e, sync, middle, &enough, err);
		*(enough ? &high : &low) = middle;
	}
	return code;
}

static int try_all(struct elimination *e, struct ff_error *err)
{
	static const double sync[] = {1, 0.5, 0.2, 0};
	bool fits, any = false;
	int code = FF_OK;

	for (int i = 0; i < 4 && code == FF_OK && !e->stopped; i++) {
		code = try_weights(e, sync[i], 0, &fits, err);
		any = any || fits;
	}
	for (int i = 0; i < 3 && code == FF_OK && !e->stopped && !any; i++)
		code = try_prices(e, sync[i], err);
	return code;
}

int ff_search_eliminate(const struct ff_elimination *of, struct ff_evaluator *e, struct ff_arena *a,
		struct ff_strategy *ret, bool *found, struct ff_error *err)
{
	struct elimination l = {.of = of,
			.evaluator = e,
			.cuts = of->space->what & FF_SPACE_UPDATES && !of->space->limits.mesh,
			.arena = a};
	int code = ff_additive_create(of, &l.additive, err);

	l.change = ff_arena_array(a, of->graph->n_nodes, sizeof(*l.change));
	if (code == FF_OK && !l.change)
		code = ff_fail_memory(err);
	if (code == FF_OK && l.additive)
		code = try_all(&l, err);
	ff_additive_destroy(l.additive);
	if (code < 0)
		return code;
	*found = l.found;
	if (l.found)
		*ret = l.best;
	return FF_OK;
}
