/* The starts of a chain.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chain.h"
#include "hand/buckets.h"
#include "hand/grid.h"

#define ELIMINATION_SHARE 0.2   /* of the budget, at most: of time, or */
#define ELIMINATION_CALLS 20000 /* of proposals: what it asks so many times more is done */
#define MOST_STAGES 16          /* of a pipeline to start from */

static bool elimination_ends(void *ctx)
{
	struct ff_chain *c = ctx;

	ff_chain_look(c);
	if (ff_chain_in_hurry(c))
		return true;
	if (c->clock.limit > 0 &&
			++c->clock.elimination_calls >
					ELIMINATION_CALLS +
							ELIMINATION_SHARE * (double)c->clock.limit)
		return true;
	return c->opt->seconds > 0 &&
	       c->clock.seconds - c->clock.elimination_from > ELIMINATION_SHARE * c->opt->seconds;
}

static bool is_plan(const char *name)
{
	return !strcmp(name, FF_START_PLAN);
}

/* Starts have the buckets that the search begins with, as far as they may. */
static int go_to(struct ff_chain *c, struct ff_strategy *s, struct ff_error *err)
{
	int64_t most = ff_buckets_most(s);

	s->bucket_bytes = c->opt->bucket_bytes < most ? c->opt->bucket_bytes : most;
	return ff_chain_go_to(c, s, err);
}

/* The best of pipelines of 2, 4, 8 and so on stages. */
static int start_pipeline(struct ff_chain *c, struct ff_arena *a, bool *found, struct ff_error *err)
{
	struct ff_evaluation best = {.step_us = INFINITY, .over_bytes = INT64_MAX};
	struct ff_strategy s, kept;
	char name[32];
	int code = FF_OK;

	*found = false;
	for (uint32_t n = 2; n <= c->machine->n_devices && n <= MOST_STAGES; n *= 2) {
		if (c->space->n_micro < 2 || ff_chain_in_hurry(c))
			break;
		snprintf(name, sizeof(name), "pipeline-%u", n);
		code = ff_init_strategy(
				name, c->space, c->graph, c->machine, c->opt->seed, a, &s, err);
		if (code == FF_OK)
			code = go_to(c, &s, err);
		if (code < 0)
			return code;
		if (*found && ff_how_much_worse(best, c->at) >= 0)
			continue;
		*found = true;
		kept = s;
		best = c->at;
	}
	return *found ? go_to(c, &kept, err) : code;
}

static bool saves_memory(const char *name)
{
	return !strcmp(name, "frugal") || !strcmp(name, "zero-3") || !strcmp(name, "megatron");
}

static bool grid_ends(void *ctx)
{
	struct ff_chain *c = ctx;

	ff_chain_look(c);
	return ff_chain_in_hurry(c);
}

/* The best of what people write by hand; it is all of the space that they use. */
static int start_grid(struct ff_chain *c, struct ff_arena *a, bool *found, struct ff_error *err)
{
	const struct ff_grid grid = {.evaluator = c->evaluator,
			.space = c->space,
			.graph = c->graph,
			.machine = c->machine,
			.stop = grid_ends,
			.ctx = c};
	char name[FF_GRID_NAME];
	struct ff_strategy s;
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;

	*found = false;
	if (code == FF_OK && c->space->what == FF_SPACE_ALL)
		code = ff_grid_find(&grid, a, &s, name, found, err);
	return code == FF_OK && *found ? go_to(c, &s, err) : code;
}

/* Makes the start called `name` current; not *found: there is none. */
static int start_from(struct ff_chain *c, const char *name, const struct ff_machine *m,
		struct ff_arena *a, bool *found, struct ff_error *err)
{
	struct ff_strategy start;
	int code;

	if (!strcmp(name, "pipeline"))
		return start_pipeline(c, a, found, err);
	*found = !saves_memory(name) || !c->best.at.fits || c->best.at.tight;
	if (!*found)
		return FF_OK; /* nobody needs to */
	if (!strcmp(name, "megatron"))
		return start_grid(c, a, found, err);
	if (is_plan(name))
		return ff_chain_go_to(c, c->opt->plan, err);
	if (strcmp(name, "elimination") != 0) {
		code = ff_init_strategy(name, c->space, c->graph, m, c->opt->seed + c->run.n - 1, a,
				&start, err);
		return code == FF_OK ? go_to(c, &start, err) : code;
	}
	*found = false;
	if (!c->opt->pricer)
		return FF_OK;
	c->clock.elimination_from = c->clock.seconds;
	code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;
	if (code == FF_OK)
		code = ff_search_eliminate(c->space, c->evaluator, c->graph, m, c->opt->pricer,
				elimination_ends, c, a, &start, found, err);
	return code == FF_OK && *found ? go_to(c, &start, err) : code;
}

/* Whether start number `i` of `n` is this chain's.  Elimination is the first's, whose
 * pricer is at hand; who has none begins with what comes round again. */
static bool is_mine(const struct ff_chain *c, const char *const *starts, uint32_t i, uint32_t n)
{
	if (!strcmp(starts[i], "elimination"))
		return c->number == 0;
	return c->number < n ? i % c->n_chains == c->number : i == c->number % n;
}

/* Whether start number `i` of `n` is walked in this run: elimination would come to the same
 * once more. */
static bool is_due(const struct ff_chain *c, const char *const *starts, uint32_t i, uint32_t n)
{
	if (c->run.n > 1 && n > 1 && !strcmp(starts[i], "elimination"))
		return false;
	return is_mine(c, starts, i, n);
}

/* Whether a start is one strategy, made at once. */
static bool is_plain(const char *name)
{
	return !saves_memory(name) && strcmp(name, "elimination") != 0 &&
	       strcmp(name, "pipeline") != 0 && strcmp(name, "random") != 0;
}

/* Makes a plain start current, with the buckets that are best for it. */
static int look_at(struct ff_chain *c, const char *name, struct ff_arena *a, struct ff_error *err)
{
	struct ff_evaluation at;
	struct ff_strategy start;
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;

	if (code == FF_OK && is_plan(name))
		return ff_chain_go_to(c, c->opt->plan, err);
	if (code == FF_OK)
		code = ff_init_strategy(
				name, c->space, c->graph, c->machine, c->opt->seed, a, &start, err);
	if (code < 0)
		return code;
	start.bucket_bytes = c->opt->bucket_bytes;
	code = ff_evaluator_set(c->evaluator, &start, &at, err);
	if (code == FF_OK && c->opt->bucket_bytes)
		code = ff_buckets_tune(c->evaluator, &start, c->opt->bucket_bytes, &at, err);
	return code == FF_OK ? ff_chain_go_to(c, &start, err) : code;
}

/* A look at each of this chain's plain starts, before any is walked: on large graphs the budget may
 * end within the first, and what comes of it is to be no worse than any. */
static int look_at_starts(struct ff_chain *c, const char *const *starts, uint32_t n,
		struct ff_arena *a, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK && !ff_chain_in_hurry(c); i++)
		if (is_due(c, starts, i, n) && is_plain(starts[i]))
			code = look_at(c, starts[i], a, err);
	return code;
}

/* What each of `n_due` starts may take: of the budget, and in proposals.  Starts that save memory,
 * where it is needed, take as much besides. */
static void share_out(struct ff_chain *c, uint32_t n_due)
{
	c->run.share = FF_STARTS_SHARE / (n_due ? n_due : 1);
	c->run.phase_length = (uint64_t)(c->run.share * (double)ff_chain_run_length(c));
	if (c->clock.limit == 0 && c->opt->seconds <= 0)
		c->run.phase_length = FF_ROUND_LEAST +
				      (uint64_t)FF_ROUND_PER_NODE * c->frame->proposer.n_all;
}

static int walk_starts(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	const char *const *starts = c->opt->starts ? c->opt->starts : ff_starts;
	double beta = ff_chain_beta(c), from = ff_chain_budget_done(c);
	uint32_t n = 0, n_due = 0, n_done = 0;
	bool any = false, found;
	int code = FF_OK;

	while (starts[n])
		n++;
	for (uint32_t i = 0; i < n; i++)
		n_due += is_due(c, starts, i, n) && !saves_memory(starts[i]);
	share_out(c, n_due);
	if (c->run.n == 1)
		code = look_at_starts(c, starts, n, a, err);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < n && (n_done == 0 || !ff_chain_in_hurry(c)); i++) {
		if (!is_due(c, starts, i, n))
			continue;
		code = start_from(c, starts[i], c->machine, a, &found, err);
		any = any || found;
		c->run.share_from = from + n_done * c->run.share;
		n_done += found || !saves_memory(starts[i]);
		if (code == FF_OK && found && c->frame->proposer.n_all > 0)
			code = ff_chain_anneal(c, beta / FF_BETA_RANGE, beta * FF_BETA_RANGE, err);
		if (code < 0)
			return code;
	}
	/* where elimination was to be the only one and came to nothing */
	return any ? FF_OK : start_from(c, ff_starts[0], c->machine, a, &found, err);
}

int ff_chain_walk_starts(struct ff_chain *c, struct ff_error *err)
{
	struct ff_arena starts;
	int code;

	ff_arena_init(&starts);
	code = walk_starts(c, &starts, err);
	ff_arena_finish(&starts);
	return code;
}
