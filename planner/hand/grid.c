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

/* One place in the grid. */
struct degrees {
	uint32_t tensor, stages;
};

struct walk {
	const struct ff_grid *grid;
	struct ff_arena *a;
	struct ff_strategy best;
	struct ff_evaluation at_best; /* step_us INFINITY: nothing fits yet */
	char name[FF_GRID_NAME];
};

static bool stopped(const struct walk *x)
{
	return x->grid->stop && x->grid->stop(x->grid->ctx);
}

/* Whether the start called `name` is there and fits; a better one than the best becomes that. */
static int try(struct walk *x, const char *name, bool *fits, struct ff_error *err)
{
	const struct ff_grid *on = x->grid;
	struct ff_evaluation at = {.fits = false};
	struct ff_strategy s;
	struct ff_error why;
	int code = ff_init_strategy(name, on->space, on->graph, on->machine, 0, x->a, &s, &why);

	*fits = false;
	if (code == FF_OK)
		code = ff_evaluator_set(on->evaluator, &s, &at, &why);
	if (code == FF_E_INPUT)
		return FF_OK; /* not for this network, or nobody has measured it */
	if (code == FF_OK && at.fits)
		code = ff_evaluator_lays_out(on->evaluator, fits, &why);
	if (code < 0) {
		*err = why;
		return code;
	}
	if (*fits && on->visit)
		on->visit(on->ctx, &s, at.step_us);
	if (*fits && at.step_us < x->at_best.step_us) {
		x->best = s;
		x->at_best = at;
		snprintf(x->name, sizeof(x->name), "%s", name);
	}
	return FF_OK;
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

/* The fewest micro-batches with which it fits: more take longer.  *few: no fewer could be. */
static int try_words(struct walk *x, struct degrees d, const char *words, bool *few,
		struct ff_error *err)
{
	const struct ff_grid *on = x->grid;
	uint32_t data = on->machine->n_devices / d.tensor / d.stages;
	uint32_t share = (uint32_t)on->graph->batch / data;
	uint32_t first = d.stages > 1 ? STAGES_MICRO * d.stages : 1;
	bool fits = false;
	int code = FF_OK;

	*few = false;
	for (uint32_t m = first; m <= FF_MAX_MICRO_BATCHES && share && share % m == 0 && !fits &&
				 code == FF_OK && !stopped(x);
			m *= 2) {
		char name[FF_GRID_NAME];

		if (!on->samples && !is_searched(on->space, m))
			break;
		snprintf(name, sizeof(name), "megatron:%u,%u,%u,%u%s", d.tensor, data, d.stages, m,
				words);
		code = try(x, name, &fits, err);
		*few = fits && m == first;
	}
	return code;
}

/* Recomputation is for fewer micro-batches: who needs few goes without. */
static int try_degrees(struct walk *x, struct degrees d, const char *updates, struct ff_error *err)
{
	static const char *const again[] = {"", ",recompute=light", ",recompute"};
	bool few = false;
	int code = FF_OK;

	for (uint32_t i = 0; i < 3 && code == FF_OK && !few; i++) {
		char words[FF_GRID_NAME / 2];

		snprintf(words, sizeof(words), "%s%s", updates, again[i]);
		code = try_words(x, d, words, &few, err);
	}
	return code;
}

static int try_samples(struct walk *x, struct ff_error *err)
{
	static const char *const updates[] = {",zero-1", ",zero-3", ""};
	static const char *const others[] = {"zero-1", "zero-3", "frugal"};
	int code = FF_OK;
	bool fits;

	for (uint32_t i = 0; i < 3 && code == FF_OK; i++)
		code = try_degrees(x, (struct degrees){1, 1}, updates[i], err);
	for (uint32_t i = 0; i < 3 && code == FF_OK && !stopped(x); i++)
		code = try(x, others[i], &fits, err);
	return code;
}

static int try_all(struct walk *x, struct ff_error *err)
{
	uint32_t n = x->grid->machine->n_devices;
	int code = FF_OK;

	for (uint32_t p = 1; p <= MOST_STAGES && p <= n; p *= 2)
		for (uint32_t t = 1; t <= MOST_TENSOR && t * p <= n && code == FF_OK; t *= 2)
			if (n % (t * p) == 0)
				code = try_degrees(x, (struct degrees){t, p}, ",zero-1", err);
	return code;
}

int ff_grid_find(const struct ff_grid *grid, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err)
{
	struct walk x = {.grid = grid, .a = a, .at_best = {.step_us = INFINITY}};
	int code = grid->samples ? try_samples(&x, err) : try_all(&x, err);

	if (code < 0)
		return code;
	*found = isfinite(x.at_best.step_us);
	if (*found) {
		*ret = x.best;
		memcpy(name, x.name, FF_GRID_NAME);
	}
	return FF_OK;
}
