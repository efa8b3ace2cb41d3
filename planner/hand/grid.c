/* Strategies as people write them by hand.  Where there is time for some only, the next to be tried
 * is a neighbour of the best: equal but for one step along one axis of the grid.
 * SPDX-License-Identifier: Apache-2.0 */
#include "grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ff/starts.h"
#include "guess.h"
#include "space/space.h"
#include "space/tensor.h"

#define WALK_SHARE 0.75 /* of the time, before it is asked how few blocks are recomputed, */
#define MOST_FEWER 16   /* of so many that lack memory, */
#define MOST_TRIES 64   /* each so often at most: doubled, then halved, 32 bits are */

/* Where one has no layout, those with less left than it had and such a share of memory more have
 * none either, mostly; */
#define MORE_SPARE (1.0 / 64)
#define LEAST_LAYOUTS 2 /* so many are tried even where the time is up */
/* Of a strategy that is evaluated once, where a search evaluates thousands like it
 * (ff_space_has_time). */
#define MOST_INSTANCES ((uint64_t)1 << 24)

#define SURE 2 /* times what is guessed: a place that has room for it fits */

/* A place that is to be tried; of several the one of least `key`, a step that is guessed, and of
 * those the first. */
struct due {
	struct ff_place place;
	double key;
	bool begins; /* it is a neighbour of nothing; */
	bool fits;   /* else what it is a neighbour of does */
};

enum known { UNKNOWN, DUE, TAKEN };

/* What fits by the account of memory, and is laid out when the walk is over, if it is the best; or
 * lacks some, and fits if blocks are recomputed. */
struct waiting {
	struct ff_place place;
	uint32_t blocks;     /* of a stage that are recomputed whole; 0: as the place says */
	double key;          /* step in us */
	int64_t spare_bytes; /* that the fullest device has left, before it is laid out */
};

struct list {
	struct waiting *at; /* room for one a place */
	uint32_t n;
};

struct walk {
	const struct ff_grid *grid;
	struct ff_arena *a;
	struct ff_places places;
	struct ff_guesser guesser;
	struct ff_strategy best;
	struct ff_evaluation at_best; /* step_us INFINITY: nothing fits yet */
	char name[FF_GRID_NAME];
	uint32_t tried, laid_out;
	uint8_t *known;  /* by number of a place: enum known */
	struct due *due; /* room for one a place */
	uint32_t n_due;
	struct list waiting;        /* likewise, and for what recomputes some blocks */
	struct list lacking;        /* memory, and does not recompute all */
	double promised_us;         /* the least step of what waits; INFINITY: nothing does */
	struct ff_strategy hopeful; /* the fastest that began to wait, */
	double hopeful_us;          /* and its step; INFINITY: none did */
};

static bool time_is_up(const struct walk *x, double share)
{
	return x->grid->stop && x->grid->stop(x->grid->ctx, share);
}

/* What waits has to be laid out now, or there is no time for it any more. */
static bool presses(const struct walk *x)
{
	return isfinite(x->hopeful_us) && x->grid->must_lay_out &&
	       x->grid->must_lay_out(x->grid->ctx, &x->hopeful);
}

static bool stopped(const struct walk *x, double share)
{
	return (x->grid->most && x->tried >= share * x->grid->most) || time_is_up(x, share) ||
	       presses(x);
}

/* Who takes as long or longer is no better than what is known or was found. */
static double limit_us(const struct walk *x)
{
	double known_us = x->grid->known_us;

	return known_us > 0 ? fmin(known_us, x->at_best.step_us) : x->at_best.step_us;
}

/* Whether memory is so scarce that what is asked for has to be laid out.  A layout takes several
 * times as long as the step's time, so only what is faster than the best is; */
static bool needs_layout(const struct walk *x, const struct ff_evaluation *at)
{
	return at->fits && at->tight && (x->grid->visit || at->step_us < limit_us(x));
}

/* and when there is a plan it waits, as most have one: the fastest alone is laid out then. */
static bool waits(const struct walk *x, const struct ff_evaluation *at)
{
	return needs_layout(x, at) && !x->grid->visit && isfinite(limit_us(x));
}

static bool has_time_to_lay_out(const struct walk *x, const struct ff_strategy *s)
{
	return !x->grid->may_lay_out || x->grid->may_lay_out(x->grid->ctx, s);
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
	if (code == FF_OK && s.micro_batches > 1 &&
			ff_space_instances(on->space, &s) > MOST_INSTANCES)
		return FF_OK;
	if (code == FF_OK) {
		x->tried++;
		code = ff_evaluator_set(on->evaluator, &s, at, &why);
	}
	if (code == FF_E_INPUT)
		return FF_OK; /* not for this network, or nobody has measured it */
	if (code == FF_OK && may_wait && waits(x, at)) {
		*late = has_time_to_lay_out(x, &s); /* later there is none either */
		if (*late && at->step_us < x->hopeful_us) {
			ff_strategy_copy(&x->hopeful, &s);
			x->hopeful_us = at->step_us;
		}
		return FF_OK;
	}
	lays_out = code == FF_OK && needs_layout(x, at);
	if (lays_out && !has_time_to_lay_out(x, &s))
		lays_out = at->fits = false;
	x->laid_out += lays_out;
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
	if (at->fits && at->step_us < limit_us(x)) {
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

/* Where it is due already, or NULL. */
static struct due *due_at(struct walk *x, const struct ff_place *p)
{
	for (uint32_t i = 0; i < x->n_due; i++)
		if (!memcmp(&x->due[i].place, p, sizeof(*p)))
			return &x->due[i];
	return NULL;
}

/* Of what it is next to, that counts which promises most. */
static void make_due(
		struct walk *x, const struct ff_place *p, struct due as, struct ff_guess_off off)
{
	uint8_t *known = &x->known[ff_place_number(&x->places, p)];
	struct due *was;

	if (*known == TAKEN || !ff_place_is_there(&x->places, p))
		return;
	as.place = *p;
	as.key = ff_guess_key(&x->guesser, p, off);
	was = *known == DUE ? due_at(x, p) : NULL;
	if (!was)
		x->due[x->n_due++] = as;
	else if (as.key < was->key)
		*was = as;
	*known = DUE;
}

static void make_begin(struct walk *x, const struct ff_place *p)
{
	make_due(x, p, (struct due){.begins = true}, (struct ff_guess_off){1, 1, 0});
}

/* The same before all that was made so, in the order of the calls. */
static void make_begin_early(struct walk *x, const struct ff_place *p)
{
	uint32_t n = x->n_due;

	make_begin(x, p);
	if (x->n_due > n)
		x->due[n].key = 0;
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

static void make_neighbours_due(
		struct walk *x, const struct ff_place *p, const struct ff_evaluation *at)
{
	struct ff_guess_off off = ff_guess_off(&x->guesser, p, at);

	for (uint32_t i = 0; i < 2 * FF_PLACE_AXES; i++) {
		uint32_t axis = FF_PLACE_AXES - 1 - i / 2; /* the order first: it fills bubbles */
		bool up = i % 2 == 0;
		struct ff_place next = *p;

		if (ff_place_step(&x->places, &next, axis, up) && is_promising(p, axis, up, at))
			make_due(x, &next, (struct due){.fits = at->fits}, off);
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

	return (double)bytes / shares / x->guesser.memory_bytes;
}

/* What needs least memory but for micro-batches: it is likely to fit where little does. */
static struct ff_place frugal(void)
{
	return (struct ff_place){.at = {[FF_PLACE_UPDATES] = FF_PLACE_ZERO_3,
						 [FF_PLACE_AGAIN] = FF_PLACE_WHOLE,
						 [FF_PLACE_ORDER] = FF_PLACE_1F1B}};
}

/* As many micro-batches as there may be. */
static void cut_most(const struct walk *x, struct ff_place *p)
{
	p->at[FF_PLACE_MICRO] = (uint8_t)(x->places.sizes[FF_PLACE_MICRO] - 1);
	while (p->at[FF_PLACE_MICRO] && !ff_place_is_there(&x->places, p))
		p->at[FF_PLACE_MICRO]--;
}

/* As few of them as make it fit by guess, or as many as a search has. */
static void cut_enough(const struct walk *x, struct ff_place *p)
{
	struct ff_place more = *p;

	for (uint8_t i = 0; i < FF_MOST_MICRO; i++) {
		more.at[FF_PLACE_MICRO] = i;
		if (!ff_place_is_there(&x->places, &more))
			continue;
		*p = more;
		if (SURE * ff_guess(&x->guesser, p).bytes <= x->guesser.memory_bytes)
			break;
	}
}

/* What needs little memory, first without recomputation, which is slow: micro-batches are not, and
 * mostly save as much. */
static void make_frugal_due(struct walk *x)
{
	for (uint8_t again = FF_PLACE_NOTHING; again <= FF_PLACE_WHOLE; again++) {
		struct ff_place p = frugal();

		p.at[FF_PLACE_AGAIN] = again;
		cut_enough(x, &p);
		make_begin_early(x, &p);
	}
}

static bool is_power_of_two(uint32_t n)
{
	return (n & (n - 1)) == 0;
}

/* Whether stages and shared products are powers of two, or stages one a node. */
static bool is_usual(const struct walk *x, const struct ff_place *p)
{
	uint32_t stages = ff_place_stages(&x->places, p);

	return is_power_of_two(ff_place_tensor(&x->places, p)) &&
	       (is_power_of_two(stages) || stages == x->grid->machine->n_nodes);
}

static bool begin_at(const struct walk *x, struct ff_place *p)
{
	if (x->grid->fill)
		return ff_guess_best(&x->guesser, *p, p);
	ff_place_fill_stages(&x->places, p);
	return true;
}

/* Where a walk begins: with all stages and shared products that are powers of two, and a stage a
 * node.  Where memory is to be filled each is as the guess has it best, behind what is frugal if
 * nothing that fits is known; else with as many micro-batches as fill the stages.  `roomy`: but for
 * those that cannot fit.  `any`: whatever the stages and shared products, as where the batch
 * divides by no other. */
static void make_first_due(struct walk *x, bool roomy, bool any)
{
	if (x->grid->fill && !(x->grid->known_us > 0))
		make_frugal_due(x);
	for (uint8_t p = 0; p < x->places.sizes[FF_PLACE_STAGES]; p++)
		for (uint8_t t = 0; t < x->places.sizes[FF_PLACE_TENSOR]; t++)
			for (uint8_t split = 0; split < 2; split++) {
				struct ff_place at = {{p, t, FF_PLACE_TOGETHER, split}};

				if (!any && !is_usual(x, &at))
					continue;
				if (begin_at(x, &at) && (!roomy || room_taken(x, &at) <= 1))
					make_begin(x, &at);
			}
}

static void make_all_due(struct walk *x)
{
	for (uint32_t number = 0, n = ff_places_count(&x->places); number < n; number++) {
		struct ff_place p = ff_place_at(&x->places, number);

		make_begin(x, &p);
	}
}

/* Kinds of places that are due. */
enum kind { BEGINS, NEXT_TO_FITTING, NEXT_TO_OTHER, KINDS };

static enum kind kind_of(const struct due *d)
{
	return d->begins ? BEGINS : d->fits ? NEXT_TO_FITTING : NEXT_TO_OTHER;
}

/* Of each kind the due place of least key; FF_NONE: there is none. */
static void find_due(const struct walk *x, uint32_t least[KINDS])
{
	for (uint32_t k = 0; k < KINDS; k++)
		least[k] = FF_NONE;
	for (uint32_t i = 0; i < x->n_due; i++) {
		uint32_t *l = &least[kind_of(&x->due[i])];

		if (*l == FF_NONE || x->due[i].key < x->due[*l].key)
			*l = i;
	}
}

/* The kinds in turn: on from what fits it becomes faster, and on from what does not the fastest may
 * come to fit; where to begin is as good as any of these, while not all of it was seen. */
static struct ff_place take_due(struct walk *x)
{
	uint32_t least[KINDS], at = FF_NONE;
	struct ff_place place;

	find_due(x, least);
	for (uint32_t k = 0; k < KINDS && at == FF_NONE; k++)
		at = least[(x->tried + k) % KINDS];
	place = x->due[at].place;
	x->known[ff_place_number(&x->places, &place)] = TAKEN;
	x->n_due--;
	memmove(&x->due[at], &x->due[at + 1], (x->n_due - at) * sizeof(*x->due));
	return place;
}

/* ---- the walk ---- */

static void add(struct list *l, struct waiting w)
{
	l->at[l->n++] = w;
}

static void wait(struct walk *x, const struct ff_place *p, uint32_t blocks,
		const struct ff_evaluation *at)
{
	add(&x->waiting, (struct waiting){*p, blocks, at->step_us, at->spare_bytes});
	x->promised_us = fmin(x->promised_us, at->step_us);
}

/* False: there is none. */
static bool take_fastest(struct list *l, struct waiting *ret)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < l->n; i++)
		if (l->at[i].key < l->at[at].key)
			at = i;
	if (!l->n)
		return false;
	*ret = l->at[at];
	l->at[at] = l->at[--l->n];
	return true;
}

static void name_waiting(const struct walk *x, const struct waiting *w, char name[FF_GRID_NAME])
{
	char count[24];

	ff_place_name(&x->places, &w->place, name);
	snprintf(count, sizeof(count), ",recompute=%u", w->blocks);
	if (w->blocks && strlen(name) + strlen(count) < FF_GRID_NAME)
		strcat(name, count);
}

static int try_place(struct walk *x, const struct ff_place *p, struct ff_error *err)
{
	struct ff_evaluation at;
	char name[FF_GRID_NAME];
	bool late;
	int code;

	ff_place_name(&x->places, p, name);
	code = try(x, name, true, &at, &late, err);
	if (code < 0 || !(at.step_us > 0))
		return code;
	if (late)
		wait(x, p, 0, &at);
	if (at.over_bytes > 0 && p->at[FF_PLACE_AGAIN] != FF_PLACE_WHOLE)
		add(&x->lacking, (struct waiting){*p, 0, ff_guess_filled(&x->guesser, p, &at), 0});
	if (!x->grid->whole)
		make_neighbours_due(x, p, &at);
	return FF_OK;
}

/* Lays out what waits, the fastest first, until one fits or none is faster than the best; where the
 * time is up the fastest alone, and if that has no layout the next that has more left. */
static int try_waiting(struct walk *x, struct ff_error *err)
{
	int64_t least_bytes = 0;
	uint32_t before = x->laid_out;
	struct waiting next;
	int code = FF_OK;

	while (code == FF_OK && take_fastest(&x->waiting, &next)) {
		uint32_t n = x->laid_out;
		char name[FF_GRID_NAME];

		if (next.key >= limit_us(x) || (n - before >= LEAST_LAYOUTS && time_is_up(x, 1)))
			break;
		if (next.spare_bytes < least_bytes && time_is_up(x, 1))
			continue;
		name_waiting(x, &next, name);
		code = try_now(x, name, err);
		if (x->laid_out > n)
			least_bytes = next.spare_bytes +
				      (int64_t)(MORE_SPARE * x->guesser.memory_bytes);
	}
	x->promised_us = INFINITY;
	return code;
}

/* ---- some blocks recomputed ---- */

/* Tries that so many blocks of a stage are recomputed whole.  *slower: it is no faster than the
 * best, and so is what recomputes more. */
static int try_blocks(
		struct walk *x, struct waiting *w, bool *fits, bool *slower, struct ff_error *err)
{
	struct ff_evaluation at;
	char name[FF_GRID_NAME];
	bool late;
	int code;

	name_waiting(x, w, name);
	code = try(x, name, true, &at, &late, err);
	if (code == FF_OK && late)
		wait(x, &w->place, w->blocks, &at);
	*fits = at.fits;
	*slower = !(at.step_us > 0 && at.step_us <= fmin(limit_us(x), x->promised_us));
	return code;
}

/* How few blocks have to be recomputed whole; of the others what the place says is.  Twice as many
 * each time, until they are enough; then between. */
static int find_fewest(struct walk *x, struct waiting w, struct ff_error *err)
{
	uint32_t stages = ff_place_stages(&x->places, &w.place) *
			  ff_place_chunks(&x->places, &w.place);
	uint32_t all = (x->places.n_blocks + stages - 1) / stages, least = 0, most = 0;
	bool fits = false, slower = false;
	int code = FF_OK;

	for (uint32_t n = 1; n < all && !fits && !slower && code == FF_OK && !stopped(x, 1);
			n *= 2) {
		w.blocks = n;
		code = try_blocks(x, &w, &fits, &slower, err);
		least = fits || slower ? least : n;
		most = fits || slower ? n : all;
	}
	while (most - least > 1 && code == FF_OK && !stopped(x, 1)) {
		w.blocks = least + (most - least) / 2;
		code = try_blocks(x, &w, &fits, &slower, err);
		if (fits || slower)
			most = w.blocks;
		else
			least = w.blocks;
	}
	return code;
}

/* Those that lack least for what they take are likely to need few. */
static int try_fewer(struct walk *x, struct ff_error *err)
{
	struct waiting next;
	int code = FF_OK;

	for (uint32_t i = 0; i < MOST_FEWER && code == FF_OK && !stopped(x, 1) &&
			     take_fastest(&x->lacking, &next);
			i++)
		code = find_fewest(x, next, err);
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
	struct ff_place p = frugal();
	int code = try_place(x, &p, err);

	cut_most(x, &p);
	if (code == FF_OK && !isfinite(x->at_best.step_us))
		code = try_place(x, &p, err);
	if (code == FF_OK && !isfinite(x->at_best.step_us))
		code = try_now(x, "frugal", err);
	return code;
}

static int create(struct walk *x, struct ff_error *err)
{
	const struct ff_grid *on = x->grid;
	struct ff_sequence sequence;
	struct ff_repeats repeats;
	int code = ff_repeats_find(on->graph, NULL, 1, x->a, &repeats, err);
	uint32_t n;

	if (code == FF_OK)
		code = ff_sequence_find(on->graph, repeats.n_blocks ? repeats.block : NULL, x->a,
				&sequence, err);
	if (code < 0)
		return code;
	x->places = (struct ff_places){.graph = on->graph,
			.machine = on->machine,
			.space = on->space,
			.samples = on->samples,
			.n_blocks = repeats.n_blocks,
			.sequence = sequence.places};
	ff_places_init(&x->places);
	ff_guesser_init(&x->places, &repeats, on->evaluator, &x->guesser);
	n = ff_places_count(&x->places);
	x->at_best = (struct ff_evaluation){.step_us = INFINITY};
	x->known = ff_arena_array(x->a, n, sizeof(*x->known));
	x->due = ff_arena_array(x->a, n, sizeof(*x->due));
	x->promised_us = x->hopeful_us = INFINITY;
	x->waiting.at = ff_arena_array(x->a, n + MOST_FEWER * MOST_TRIES, sizeof(*x->waiting.at));
	x->lacking.at = ff_arena_array(x->a, n, sizeof(*x->lacking.at));
	if (!x->known || !x->due || !x->waiting.at || !x->lacking.at)
		return ff_fail_memory(err);
	memset(x->known, UNKNOWN, n * sizeof(*x->known));
	code = ff_strategy_create(on->graph, x->a, &x->best, err);
	return code == FF_OK ? ff_strategy_create(on->graph, x->a, &x->hopeful, err) : code;
}

/* Tries what is due in `share` of the time. */
static int walk(struct walk *x, double share, struct ff_error *err)
{
	int code = FF_OK;

	while (x->n_due && code == FF_OK && !stopped(x, share)) {
		struct ff_place p = take_due(x);

		code = try_place(x, &p, err);
	}
	return code;
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
		make_first_due(&x, true, false);
	if (!x.n_due)
		make_first_due(&x, false, false);
	if (!x.n_due)
		make_first_due(&x, false, true);
	code = walk(&x, grid->fill ? WALK_SHARE : 1, err);
	if (code == FF_OK && grid->fill)
		code = try_fewer(&x, err);
	if (code == FF_OK && grid->fill)
		code = walk(&x, 1, err);
	if (code == FF_OK)
		code = try_waiting(&x, err);
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
