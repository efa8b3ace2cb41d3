/* What people do where data parallelism lacks memory, tried one by one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ff/micro.h"

#define MOST_TENSOR 8  /* devices that share a product */
#define MOST_STAGES 8  /* of a pipeline */
#define STAGES_MICRO 2 /* micro-batches for each stage, at least */

/* One place in the grid, and words for what else is split. */
struct degrees {
	uint32_t tensor, stages;
	const char *split;
};

struct walk {
	const struct ff_grid *grid;
	struct ff_arena *a;
	struct ff_strategy best;
	struct ff_evaluation at_best; /* step_us INFINITY: nothing fits yet */
	char name[FF_GRID_NAME];
	uint32_t tried;
};

static bool stopped(const struct walk *x)
{
	const struct ff_grid *on = x->grid;

	return (on->most && x->tried >= on->most) || (on->stop && on->stop(on->ctx));
}

/* How the start called `name` does, if it is there; a better one than the best that fits becomes
 * that.  at->fits: it is there and has a layout. */
static int try_here(
		struct walk *x, const char *name, struct ff_evaluation *at, struct ff_error *err)
{
	const struct ff_grid *on = x->grid;
	struct ff_strategy s;
	struct ff_error why;
	int code = ff_init_strategy(name, on->space, on->graph, on->machine, 0, x->a, &s, &why);

	*at = (struct ff_evaluation){.fits = false};
	if (code == FF_OK) {
		x->tried++;
		code = ff_evaluator_set(on->evaluator, &s, at, &why);
	}
	if (code == FF_E_INPUT)
		return FF_OK; /* not for this network, or nobody has measured it */
	if (code == FF_OK && at->fits)
		code = ff_evaluator_lays_out(on->evaluator, &at->fits, &why);
	if (code < 0) {
		*err = why;
		return code;
	}
	if (at->fits && on->visit)
		on->visit(on->ctx, &s, at->step_us);
	if (at->fits && at->step_us < x->at_best.step_us) {
		ff_strategy_copy(&x->best, &s);
		x->at_best = *at;
		snprintf(x->name, sizeof(x->name), "%s", name);
	}
	return FF_OK;
}

static int try(struct walk *x, const char *name, struct ff_evaluation *at, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(x->a);
	int code = try_here(x, name, at, err);

	ff_arena_rewind(x->a, mark);
	return code;
}

static bool is_searched(const struct ff_space *s, uint32_t micro_batches)
{
	const uint32_t *micro;
	uint32_t n = ff_space_micro(s, &micro);

	for (uint32_t i = 0; i < n; i++)
		if (micro[i] == micro_batches)
			return true;
	return false;
}

/* Whether the grid has so many micro-batches, `share` samples all together. */
static bool has_micro(const struct walk *x, uint32_t m, uint32_t share)
{
	return m <= FF_MAX_MICRO_BATCHES && share && share % m == 0 &&
	       (x->grid->samples || is_searched(x->grid->space, m));
}

/* The fewest micro-batches with which it fits, and more as long as that is faster, as it is where
 * there are stages.  *few: no fewer could be. */
static int try_words(struct walk *x, struct degrees d, const char *words, bool *few,
		struct ff_error *err)
{
	const struct ff_grid *on = x->grid;
	uint32_t data = on->machine->n_devices / d.tensor / d.stages;
	uint32_t share = (uint32_t)on->graph->batch / data;
	uint32_t first = d.stages > 1 && !on->whole ? STAGES_MICRO * d.stages : 1;
	double least_us = INFINITY;
	bool goes_on = true;
	int code = FF_OK;

	*few = false;
	for (uint32_t m = first; goes_on && has_micro(x, m, share) && code == FF_OK && !stopped(x);
			m *= 2) {
		char name[FF_GRID_NAME];
		struct ff_evaluation at;

		snprintf(name, sizeof(name), "megatron:%u,%u,%u,%u%s%s", d.tensor, data, d.stages,
				m, d.split, words);
		code = try(x, name, &at, err);
		*few = *few || (at.fits && m == first);
		goes_on = on->whole || !at.fits || at.step_us < least_us;
		goes_on = goes_on && (on->whole || !at.fits || d.stages > 1);
		least_us = at.fits ? at.step_us : least_us;
	}
	return code;
}

/* Recomputation is for fewer micro-batches: who needs few goes without. */
static int try_updates(struct walk *x, struct degrees d, const char *updates, struct ff_error *err)
{
	static const char *const again[] = {"", ",recompute=light", ",recompute"};
	bool few = false;
	int code = FF_OK;

	for (uint32_t i = 0; i < 3 && code == FF_OK && (x->grid->whole || !few); i++) {
		char words[FF_GRID_NAME / 2];

		snprintf(words, sizeof(words), "%s%s", updates, again[i]);
		code = try_words(x, d, words, &few, err);
	}
	return code;
}

/* Where there are stages or products are shared, updates cut flat are hardly ever worse than
 * others.
 */
static int try_degrees(struct walk *x, struct degrees d, struct ff_error *err)
{
	static const char *const updates[] = {",zero-1", ",zero-3", ""};
	uint32_t n = x->grid->whole || d.tensor * d.stages == 1 ? 3 : 1;
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		code = try_updates(x, d, updates[i], err);
	return code;
}

static int try_samples(struct walk *x, struct ff_error *err)
{
	static const char *const others[] = {"zero-1", "zero-3", "frugal"};
	struct ff_evaluation at;
	int code = try_degrees(x, (struct degrees){1, 1, ""}, err);

	for (uint32_t i = 0; i < 3 && code == FF_OK && !stopped(x); i++)
		code = try(x, others[i], &at, err);
	return code;
}

static int try_all(struct walk *x, struct ff_error *err)
{
	static const char *const splits[] = {"", ",sequence", ",experts", ",sequence,experts"};
	uint32_t n = x->grid->machine->n_devices;
	int code = FF_OK;

	for (uint32_t p = 1; p <= MOST_STAGES && p <= n; p *= 2)
		for (uint32_t t = 1; t <= MOST_TENSOR && t * p <= n; t *= 2)
			for (uint32_t i = 0; i < 4 && n % (t * p) == 0 && code == FF_OK; i++)
				code = try_degrees(x, (struct degrees){t, p, splits[i]}, err);
	return code;
}

int ff_grid_find(const struct ff_grid *grid, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err)
{
	struct walk x = {.grid = grid, .a = a, .at_best = {.step_us = INFINITY}};
	int code = ff_strategy_create(grid->graph, a, &x.best, err);

	if (code == FF_OK)
		code = grid->samples ? try_samples(&x, err) : try_all(&x, err);
	if (code < 0)
		return code;
	*found = isfinite(x.at_best.step_us);
	if (*found) {
		*ret = x.best;
		memcpy(name, x.name, FF_GRID_NAME);
	}
	return FF_OK;
}
