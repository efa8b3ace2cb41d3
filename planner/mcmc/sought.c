/* Starts that are sought, by elimination and in the grid by hand, and the buckets that are best for
 * a start.  SPDX-License-Identifier: Apache-2.0 */
#include "sought.h"

#include <math.h>

#include "best.h"
#include "exact/elimination.h"
#include "ff/bucketing.h"
#include "ff/clock.h"
#include "hand/buckets.h"

#define ELIMINATION_SHARE 0.2   /* of the budget, at most: of time, or */
#define ELIMINATION_CALLS 20000 /* of proposals: what it asks so many times more is done */
#define GRID_SHARE 0.1          /* of the budget, at most: of time, or */
#define GRID_SHARE_TIGHT 0.4    /* where no plain start fits */
#define GRID_SHARE_SLOW 0.7     /* where walks lead nowhere */
#define GRID_EVERY 32           /* a strategy by hand for so many proposals, */
#define GRID_EVERY_TIGHT 8      /* where no plain start fits for so many, */
#define GRID_LEAST 64           /* and at least so many */

/* ---- buckets ---- */

/* Tunes the buckets of `s` from `bytes` on. */
static int tune(struct ff_chain *c, struct ff_strategy *s, int64_t bytes, struct ff_evaluation *at,
		struct ff_error *err)
{
	int64_t most = ff_buckets_most(s);
	int code;

	s->bucket_bytes = bytes < most ? bytes : most;
	code = ff_evaluator_set(c->evaluator, s, at, err);
	if (code == FF_OK && s->bucket_bytes)
		code = ff_buckets_tune(c->evaluator, s, s->bucket_bytes, at, err);
	return code;
}

static int go_to_timed(struct ff_chain *c, const struct ff_strategy *s, struct ff_error *err)
{
	double from_us = ff_clock_us();
	int code = ff_chain_go_to(c, s, err);

	c->notes.go_to_s = (ff_clock_us() - from_us) / 1e6;
	return code;
}

int ff_chain_go_to_tuned(struct ff_chain *c, struct ff_strategy *s, struct ff_error *err)
{
	struct ff_evaluation at;
	int code = tune(c, s, c->opt->bucket_bytes, &at, err);

	return code == FF_OK ? go_to_timed(c, s, err) : code;
}

int ff_chain_go_to_as_by_hand(struct ff_chain *c, struct ff_strategy *s, struct ff_error *err)
{
	int64_t preset = ff_bucket_bytes(c->graph, c->machine), bytes;
	struct ff_evaluation at, by_hand;
	int code = tune(c, s, c->opt->bucket_bytes, &at, err);

	if (code == FF_OK && s->bucket_bytes && c->opt->bucket_bytes != preset) {
		bytes = s->bucket_bytes;
		code = tune(c, s, preset, &by_hand, err);
		if (code == FF_OK && ff_how_much_worse(at, by_hand) >= 0)
			s->bucket_bytes = bytes;
	}
	return code == FF_OK ? go_to_timed(c, s, err) : code;
}

int ff_chain_go_to_made(struct ff_chain *c, int code, struct ff_strategy *s,
		const struct ff_error *why, struct ff_error *err)
{
	if (code == FF_E_INPUT)
		return FF_OK;
	if (code < 0) {
		*err = *why;
		return code;
	}
	return ff_chain_go_to_tuned(c, s, err);
}

/* ---- elimination ---- */

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

int ff_chain_eliminate(struct ff_chain *c, const struct ff_space *space, struct ff_arena *a,
		struct ff_strategy *ret, bool *found, struct ff_error *err)
{
	const struct ff_elimination of = {
			space, c->graph, c->machine, c->opt->pricer, elimination_ends, c};
	int code;

	*found = false;
	if (!c->opt->pricer)
		return FF_OK;
	c->clock.elimination_from = c->clock.seconds;
	c->clock.elimination_calls = 0;
	code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;
	if (code == FF_OK)
		code = ff_search_eliminate(&of, c->evaluator, a, ret, found, err);
	ff_chain_look(c);
	return code;
}

/* ---- the grid by hand ---- */

static bool grid_ends(void *ctx, double part)
{
	struct ff_chain *c = ctx;
	double share = c->notes.slow                       ? GRID_SHARE_SLOW
		       : !c->best.at.fits || c->opt->known ? GRID_SHARE_TIGHT
							   : GRID_SHARE;
	double most_s = part * share * c->opt->seconds;

	ff_chain_look(c);
	return ff_chain_in_hurry(c) ||
	       (most_s > 0 && c->clock.seconds - c->notes.grid_from > most_s);
}

static bool grid_lays_out(void *ctx, const struct ff_strategy *s)
{
	return ff_chain_may_lay_out(ctx, s);
}

static bool grid_must_lay_out(void *ctx, const struct ff_strategy *s)
{
	return ff_chain_must_lay_out(ctx, s);
}

/* There is a plan from now on: a search that is to end ends with the best of the grid so far. */
static void grid_begins(void *ctx)
{
	struct ff_chain *c = ctx;

	if (isinf(c->clock.first_s))
		c->clock.first_s = ff_clock_us() / 1e6 - c->clock.from;
}

static void grid_visits(void *ctx, const struct ff_strategy *s, double step_us)
{
	struct ff_chain *c = ctx;

	ff_shapes_add(&c->notes.shapes, s, step_us);
}

/* How many strategies by hand are tried; 0: as many as there is time for. */
static uint32_t most_by_hand(const struct ff_chain *c, bool scarce)
{
	uint64_t n = c->clock.limit / (scarce ? GRID_EVERY_TIGHT : GRID_EVERY) + 1;

	if (!c->clock.limit)
		return 0;
	return n > GRID_LEAST ? (uint32_t)n : GRID_LEAST;
}

int ff_chain_find_by_hand(struct ff_chain *c, const struct ff_space *space,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err)
{
	const bool scarce = !c->best.at.fits || c->opt->known;
	const struct ff_grid grid = {.evaluator = c->evaluator,
			.space = space,
			.graph = c->graph,
			.machine = m,
			.fill = scarce,
			.most = most_by_hand(c, scarce),
			.known_us = c->opt->known && c->best.at.fits ? c->best.at.step_us : 0,
			.stop = grid_ends,
			.may_lay_out = grid_lays_out,
			.must_lay_out = grid_must_lay_out,
			.begins = grid_begins,
			.visit = c->notes.shapes.most ? grid_visits : NULL,
			.ctx = c};
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;

	c->notes.grid_from = c->clock.seconds;
	return code == FF_OK ? ff_grid_find(&grid, a, ret, name, found, err) : code;
}
