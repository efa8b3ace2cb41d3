/* Strategies as people write them by hand.  Where there is time for some only, the next to be tried
 * is a neighbour of the best: equal but for one step along one axis of the grid.
 * SPDX-License-Identifier: Apache-2.0 */
#include "grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "space/repeats.h"
#include "space/space.h"

#define WALK_SHARE 0.75 /* of the time, before it is asked how few blocks are recomputed, */
#define MOST_FEWER 8    /* of so many that recompute all, the fastest */

/* A place that is to be tried; of several the one of least `key`, and of those the first.  Keys of
 * where to begin are negative. */
struct due {
	struct ff_place place;
	double key;
	bool fits; /* what it is a neighbour of */
};

/* What fits by the account of memory, and is laid out when the walk is over, if it is the best. */
struct waiting {
	struct ff_place place;
	double step_us;
};

struct list {
	struct waiting *at; /* room for one a place */
	uint32_t n;
};

struct walk {
	const struct ff_grid *grid;
	struct ff_arena *a;
	struct ff_places places;
	struct ff_strategy best;
	struct ff_evaluation at_best; /* step_us INFINITY: nothing fits yet */
	char name[FF_GRID_NAME];
	uint32_t tried;
	bool *seen;      /* by number of a place: it is due, or was */
	struct due *due; /* room for one a place */
	uint32_t n_due;
	struct list waiting; /* likewise */
	struct list whole;   /* what fits, and recomputes blocks whole */
	double memory_bytes; /* of all devices together */
};

static bool time_is_up(const struct walk *x, double share)
{
	return x->grid->stop && x->grid->stop(x->grid->ctx, share);
}

static bool stopped(const struct walk *x, double share)
{
	return (x->grid->most && x->tried >= share * x->grid->most) || time_is_up(x, share);
}

/* Whether memory is so scarce that what is asked for has to be laid out.  A layout takes several
 * times as long as the step's time, so only what is faster than the best is; */
static bool needs_layout(const struct walk *x, const struct ff_evaluation *at)
{
	return at->fits && at->tight && (x->grid->visit || at->step_us < x->at_best.step_us);
}

/* and when there is a plan it waits, as most have one: the fastest alone is laid out then. */
static bool waits(const struct walk *x, const struct ff_evaluation *at)
{
	return needs_layout(x, at) && !x->grid->visit && isfinite(x->at_best.step_us);
}

/* How the start called `name` does, if it is there; a better one than the best that fits becomes
 * that, unless it may wait (*late).
 * at->fits: it is there and fits, with a layout if it is faster and does not wait. */
static int try_here(struct walk *x, const char *name, bool may_wait, struct ff_evaluation *at,
		bool *late, struct ff_error *err)
{
	const struct ff_grid *on = x->grid;
	struct ff_strategy s;
	struct ff_error why;
	bool lays_out;
	int code = ff_init_strategy(name, on->space, on->graph, on->machine, 0, x->a, &s, &why);

	*at = (struct ff_evaluation){.fits = false};
	*late = false;
	if (code == FF_OK && !ff_space_has_time(s.micro_batches, ff_space_instances(on->space, &s)))
		return FF_OK;
	if (code == FF_OK) {
		x->tried++;
		code = ff_evaluator_set(on->evaluator, &s, at, &why);
	}
	if (code == FF_E_INPUT)
		return FF_OK; /* not for this network, or nobody has measured it */
	*late = code == FF_OK && may_wait && waits(x, at);
	if (*late)
		return FF_OK;
	lays_out = code == FF_OK && needs_layout(x, at);
	if (lays_out && on->may_lay_out && !on->may_lay_out(on->ctx, &s))
		lays_out = at->fits = false;
	if (lays_out)
		code = ff_evaluator_lays_out(on->evaluator, &at->fits, &why);
	if (code < 0) {
		*err = why;
		return code;
	}
	if (at->fits && on->visit)
		on->visit(on->ctx, &s, at->step_us);
	if (at->fits && on->begins && !isfinite(x->at_best.step_us))
		on->begins(on->ctx);
	if (at->fits && at->step_us < x->at_best.step_us) {
		ff_strategy_copy(&x->best, &s);
		x->at_best = *at;
		snprintf(x->name, sizeof(x->name), "%s", name);
	}
	return FF_OK;
}

static int try(struct walk *x, const char *name, bool may_wait, struct ff_evaluation *at,
		bool *late, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(x->a);
	int code = try_here(x, name, may_wait, at, late, err);

	ff_arena_rewind(x->a, mark);
	return code;
}

/* The same of what does not wait. */
static int try_now(struct walk *x, const char *name, struct ff_error *err)
{
	struct ff_evaluation at;
	bool late;

	return try(x, name, false, &at, &late, err);
}

/* ---- what is due ---- */

static void make_due(struct walk *x, const struct ff_place *p, double key, bool fits)
{
	uint32_t number = ff_place_number(&x->places, p);

	if (x->seen[number] || !ff_place_is_there(&x->places, p))
		return;
	x->seen[number] = true;
	x->due[x->n_due++] = (struct due){*p, key, fits};
}

/* What helps only where memory lacks is no neighbour of what fits, and what needs more memory none
 * of what does not. */
static bool is_promising(
		const struct ff_place *p, uint32_t axis, bool up, const struct ff_evaluation *at)
{
	if (axis == FF_PLACE_AGAIN)
		return at->fits != up;
	return axis != FF_PLACE_MICRO || p->at[FF_PLACE_STAGES] || at->fits != up;
}

/* Of the step the share that a step along `axis` may gain: 1F1B idles while stages fill and drain,
 * and either order beside it idles less. */
static double bubble_filled(const struct walk *x, const struct ff_place *p, uint32_t axis)
{
	double stages = ff_place_stages(&x->places, p), micro = 1u << p->at[FF_PLACE_MICRO];
	bool fills = axis == FF_PLACE_ORDER && p->at[FF_PLACE_ORDER] == FF_PLACE_1F1B;

	return fills ? (stages - 1) / (micro + stages - 1) : 0;
}

static void make_neighbours_due(struct walk *x, const struct ff_place *p,
		const struct ff_evaluation *at, double key)
{
	for (uint32_t i = 0; i < 2 * FF_PLACE_AXES; i++) {
		uint32_t axis = FF_PLACE_AXES - 1 - i / 2; /* the order first: it fills bubbles */
		bool up = i % 2 == 0;
		struct ff_place next = *p;

		if (ff_place_step(&x->places, &next, axis, up) && is_promising(p, axis, up, at))
			make_due(x, &next, key * (1 - bubble_filled(x, p, axis)), at->fits);
	}
}

/* Weights and gradients where updates alone are cut flat, as a share of memory: at best each device
 * of a stage that shares products has as much of them as any other. */
static double room_taken(const struct walk *x, const struct ff_place *p)
{
	const struct ff_grid *on = x->grid;
	uint32_t shares = ff_place_tensor(&x->places, p) * ff_place_stages(&x->places, p);
	int64_t bytes = ff_graph_parameters(on->graph) *
			(ff_dtype_bytes(on->graph->dtype) + FF_F32_BYTES);

	return (double)bytes / shares * on->machine->n_devices / x->memory_bytes;
}

/* What needs least memory but for micro-batches: it is likely to fit where little does. */
static struct ff_place frugal(void)
{
	return (struct ff_place){.at = {[FF_PLACE_UPDATES] = FF_PLACE_ZERO_3,
						 [FF_PLACE_AGAIN] = FF_PLACE_WHOLE,
						 [FF_PLACE_ORDER] = FF_PLACE_1F1B}};
}

static bool is_power_of_two(uint32_t n)
{
	return (n & (n - 1)) == 0;
}

/* Micro-batches enough to fill the stages, or as many as there may be. */
static void fill_stages(const struct walk *x, struct ff_place *p)
{
	p->at[FF_PLACE_MICRO] = 0;
	while (p->at[FF_PLACE_STAGES] &&
			1u << p->at[FF_PLACE_MICRO] < 2 * ff_place_stages(&x->places, p))
		p->at[FF_PLACE_MICRO]++;
	for (; !ff_place_is_there(&x->places, p) && p->at[FF_PLACE_MICRO]; p->at[FF_PLACE_MICRO]--)
		continue;
}

/* Where a walk begins: with all stages and shared products that are powers of two, and a stage a
 * node, updates cut flat, which are hardly ever worse, and micro-batches enough to fill the stages;
 * first those whose weights take no more than half of the memory, which are likely to fit; where it
 * is to be filled, with what is frugal before them.  `roomy`: but for those that cannot fit. */
static void make_first_due(struct walk *x, bool roomy)
{
	struct ff_place least = frugal();

	if (x->grid->fill)
		make_due(x, &least, -3, true);
	for (uint8_t p = 0; p < x->places.sizes[FF_PLACE_STAGES]; p++)
		for (uint8_t t = 0; t < x->places.sizes[FF_PLACE_TENSOR]; t++)
			for (uint8_t split = 0; split < 2; split++) {
				struct ff_place at = {{p, t, split, 1, 0, 0, FF_PLACE_1F1B}};
				double taken = room_taken(x, &at);

				if (!is_power_of_two(ff_place_tensor(&x->places, &at)) ||
						(!is_power_of_two(ff_place_stages(
								 &x->places, &at)) &&
								ff_place_stages(&x->places, &at) !=
										x->grid->machine->n_nodes))
					continue;
				fill_stages(x, &at);
				if (!roomy || taken <= 1)
					make_due(x, &at, taken <= 0.5 ? -2 : -1, true);
			}
}

static void make_all_due(struct walk *x)
{
	for (uint32_t number = 0, n = ff_places_count(&x->places); number < n; number++) {
		struct ff_place p = ff_place_at(&x->places, number);

		make_due(x, &p, -1, true);
	}
}

/* The due place of least key, of those next to what fits or to what does not; FF_NONE: there is
 * none. */
static uint32_t find_due(const struct walk *x, bool fits)
{
	uint32_t least = FF_NONE;

	for (uint32_t i = 0; i < x->n_due; i++)
		if (x->due[i].fits == fits &&
				(least == FF_NONE || x->due[i].key < x->due[least].key))
			least = i;
	return least;
}

/* The neighbour of what is fastest, if it had the memory; of the places where to begin none is. */
static uint32_t find_neighbour(const struct walk *x)
{
	uint32_t least = FF_NONE;

	for (uint32_t i = 0; i < x->n_due; i++)
		if (x->due[i].key >= 0 && (least == FF_NONE || x->due[i].key < x->due[least].key))
			least = i;
	return least;
}

/* Where to begin, in turn with neighbours of the fastest so far, as there may be time for few; then
 * in turn the neighbour of what fits and of what does not: on from the one it becomes faster, on
 * from the other the fastest may come to fit. */
static struct ff_place take_due(struct walk *x)
{
	uint32_t fitting = find_due(x, true), other = find_due(x, false), at = fitting;
	bool begins = fitting != FF_NONE && x->due[fitting].key < 0;
	struct ff_place place;

	if (begins && x->tried % 2)
		other = find_neighbour(x);
	if (fitting == FF_NONE || (other != FF_NONE && x->tried % 2))
		at = other;
	place = x->due[at].place;
	x->n_due--;
	memmove(&x->due[at], &x->due[at + 1], (x->n_due - at) * sizeof(*x->due));
	return place;
}

/* ---- the walk ---- */

/* What lacks memory is the slower by what share of it all devices together lack: something has to
 * be done about that. */
static double key_of(const struct walk *x, const struct ff_evaluation *at)
{
	return at->step_us * (1 + (double)at->over_bytes / x->memory_bytes);
}

static void add(struct list *l, const struct ff_place *p, const struct ff_evaluation *at)
{
	l->at[l->n++] = (struct waiting){*p, at->step_us};
}

/* False: there is none. */
static bool take_fastest(struct list *l, struct waiting *ret)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < l->n; i++)
		if (l->at[i].step_us < l->at[at].step_us)
			at = i;
	if (!l->n)
		return false;
	*ret = l->at[at];
	l->at[at] = l->at[--l->n];
	return true;
}

static int try_place(struct walk *x, const struct ff_place *p, struct ff_error *err)
{
	struct ff_evaluation at;
	char name[FF_GRID_NAME];
	bool late;
	int code;

	ff_place_name(&x->places, p, name);
	code = try(x, name, true, &at, &late, err);
	if (code == FF_OK && late)
		add(&x->waiting, p, &at);
	if (code == FF_OK && at.fits && p->at[FF_PLACE_AGAIN] == FF_PLACE_WHOLE)
		add(&x->whole, p, &at);
	if (code == FF_OK && !x->grid->whole && at.step_us > 0)
		make_neighbours_due(x, p, &at, key_of(x, &at));
	return code;
}

/* Lays out what waits, the fastest first, until one fits or none is faster than the best; the
 * fastest of all even where the time is up. */
static int try_waiting(struct walk *x, struct ff_error *err)
{
	struct waiting next;
	int code = FF_OK;

	for (bool first = true; code == FF_OK && take_fastest(&x->waiting, &next); first = false) {
		char name[FF_GRID_NAME];

		if (next.step_us >= x->at_best.step_us || (!first && time_is_up(x, 1)))
			break;
		ff_place_name(&x->places, &next.place, name);
		code = try_now(x, name, err);
	}
	return code;
}

/* ---- some blocks recomputed ---- */

/* `p`, but that `n` blocks of a stage are recomputed whole. */
static int try_blocks(struct walk *x, const struct ff_place *p, uint32_t n,
		struct ff_evaluation *at, struct ff_error *err)
{
	char name[FF_GRID_NAME], count[24];
	bool late;

	ff_place_name(&x->places, p, name);
	snprintf(count, sizeof(count), ",recompute=%u", n);
	if (strlen(name) + strlen(count) < sizeof(name))
		strcat(name, count);
	return try(x, name, false, at, &late, err);
}

/* How few blocks have to be recomputed whole; of the others what `others` says is.  None that is no
 * faster than the best is looked for. */
static int find_fewest(struct walk *x, struct ff_place p, uint8_t others, struct ff_error *err)
{
	uint32_t stages = ff_place_stages(&x->places, &p) * ff_place_chunks(&x->places, &p);
	uint32_t least = 1, most = (x->places.n_blocks + stages - 1) / stages;
	struct ff_evaluation at;
	int code;

	p.at[FF_PLACE_AGAIN] = others;
	if (most < 2)
		return FF_OK;
	code = try_blocks(x, &p, least, &at, err);
	if (code < 0 || at.fits || !(at.step_us > 0 && at.step_us < x->at_best.step_us))
		return code;
	while (most - least > 1 && code == FF_OK && !stopped(x, 1)) {
		uint32_t middle = least + (most - least) / 2;

		code = try_blocks(x, &p, middle, &at, err);
		if (at.fits)
			most = middle;
		else
			least = middle;
	}
	return code;
}

/* Memory that is left where all blocks are recomputed is used by those that need not be. */
static int try_fewer(struct walk *x, struct ff_error *err)
{
	struct waiting next;
	int code = FF_OK;

	for (uint32_t i = 0; i < MOST_FEWER && code == FF_OK && take_fastest(&x->whole, &next);
			i++) {
		if (!stopped(x, 1))
			code = find_fewest(x, next.place, FF_PLACE_NOTHING, err);
		if (code == FF_OK && !stopped(x, 1))
			code = find_fewest(x, next.place, FF_PLACE_LIGHT, err);
	}
	return code;
}

static int try_others(struct walk *x, struct ff_error *err)
{
	static const char *const others[] = {"zero-1", "zero-2", "zero-3", "frugal",
			"zero-1-hybrid", "zero-2-hybrid", "zero-3-hybrid"};
	uint32_t n = ff_machine_shards(x->grid->machine, 1) ? 7 : 4;
	int code = FF_OK;

	for (uint32_t i = 0; i < n && code == FF_OK && x->grid->samples && !stopped(x, 1); i++)
		code = try_now(x, others[i], err);
	return code;
}

/* What needs least memory: where time was up before anything fitted there is no plan without it. */
static int try_frugal(struct walk *x, struct ff_error *err)
{
	uint32_t share = (uint32_t)x->grid->graph->batch / x->grid->machine->n_devices;
	struct ff_place p = frugal();
	int code = try_place(x, &p, err);

	for (uint8_t i = 0; i < x->places.sizes[FF_PLACE_MICRO]; i++)
		if (ff_places_have_micro(&x->places, 1u << i, share))
			p.at[FF_PLACE_MICRO] = i;
	if (code == FF_OK && !isfinite(x->at_best.step_us))
		code = try_place(x, &p, err);
	if (code == FF_OK && !isfinite(x->at_best.step_us))
		code = try_now(x, "frugal", err);
	return code;
}

static int create(struct walk *x, struct ff_error *err)
{
	const struct ff_grid *on = x->grid;
	struct ff_repeats repeats;
	int code = ff_repeats_find(on->graph, 1, x->a, &repeats, err);
	uint32_t n;

	if (code < 0)
		return code;
	x->places = (struct ff_places){.graph = on->graph,
			.machine = on->machine,
			.space = on->space,
			.samples = on->samples,
			.n_blocks = repeats.n_blocks};
	ff_places_init(&x->places);
	n = ff_places_count(&x->places);
	x->at_best = (struct ff_evaluation){.step_us = INFINITY};
	x->seen = ff_arena_array(x->a, n, sizeof(*x->seen));
	x->due = ff_arena_array(x->a, n, sizeof(*x->due));
	x->waiting.at = ff_arena_array(x->a, n, sizeof(*x->waiting.at));
	x->whole.at = ff_arena_array(x->a, n, sizeof(*x->whole.at));
	if (!x->seen || !x->due || !x->waiting.at || !x->whole.at)
		return ff_fail_memory(err);
	memset(x->seen, 0, n * sizeof(*x->seen));
	for (uint32_t d = 0; d < on->machine->n_devices; d++)
		x->memory_bytes += (double)ff_device_kind(on->machine, d)->memory_bytes;
	return ff_strategy_create(on->graph, x->a, &x->best, err);
}

/* Tries what is due in `share` of the time. */
static int walk(struct walk *x, double share, struct ff_error *err)
{
	int code = FF_OK;

	while (x->n_due && code == FF_OK && !stopped(x, share)) {
		struct ff_place p = take_due(x);

		code = try_place(x, &p, err);
	}
	return code == FF_OK ? try_waiting(x, err) : code;
}

int ff_grid_find(const struct ff_grid *grid, struct ff_arena *a, struct ff_strategy *ret,
		char name[FF_GRID_NAME], bool *found, struct ff_error *err)
{
	struct walk x = {.grid = grid, .a = a};
	int code = create(&x, err);

	if (code < 0)
		return code;
	if (grid->whole)
		make_all_due(&x);
	else
		make_first_due(&x, true);
	if (!x.n_due)
		make_first_due(&x, false);
	code = walk(&x, grid->fill ? WALK_SHARE : 1, err);
	if (code == FF_OK && grid->fill)
		code = try_fewer(&x, err);
	if (code == FF_OK && grid->fill)
		code = walk(&x, 1, err);
	if (code == FF_OK)
		code = try_others(&x, err);
	if (code == FF_OK && grid->samples && stopped(&x, 1) && !isfinite(x.at_best.step_us))
		code = try_frugal(&x, err);
	if (code < 0)
		return code;
	*found = isfinite(x.at_best.step_us);
	if (*found) {
		*ret = x.best;
		memcpy(name, x.name, FF_GRID_NAME);
	}
	return FF_OK;
}
