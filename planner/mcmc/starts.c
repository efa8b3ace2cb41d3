/* The starts of a chain.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "best.h"
#include "chain.h"
#include "fewer.h"
#include "ff/clock.h"
#include "hand/buckets.h"
#include "hand/grid.h"
#include "hand/tables.h"
#include "sought.h"
#include "sweeps.h"

#define MOST_STAGES 16 /* of a pipeline to start from */
#define FEW_PER_NODE 4 /* strategies priced an operator: with fewer walks lead nowhere */

/* ---- which there are: those given, and behind them those with names ---- */

static const char *const *names(const struct ff_chain *c)
{
	return c->opt->starts ? c->opt->starts : ff_starts;
}

static uint32_t count(const struct ff_chain *c)
{
	uint32_t n = 0;

	while (names(c)[n])
		n++;
	return c->opt->n_given + n;
}

static const struct ff_strategy *given(const struct ff_chain *c, uint32_t i)
{
	return i < c->opt->n_given ? &c->opt->given[i] : NULL;
}

static const char *name(const struct ff_chain *c, uint32_t i)
{
	return given(c, i) ? "" : names(c)[i - c->opt->n_given];
}

/* ---- making one current ---- */

/* Starts have the buckets that the search begins with, as far as they may. */
static int go_to(struct ff_chain *c, struct ff_strategy *s, struct ff_error *err)
{
	int64_t most = ff_buckets_most(s);

	s->bucket_bytes = c->opt->bucket_bytes < most ? c->opt->bucket_bytes : most;
	return ff_chain_go_to(c, s, err);
}

/* Starts of which there is one for each number of stages, or of columns, each with these words
 * behind it; on all devices, or on fewer nodes and on the first few of the fastest as well: small
 * batches are launches and latency. */
#define MOST_WORDS 3
static const struct family {
	const char *name;
	uint32_t least, most;
	bool micro; /* there have to be micro-batches */
	bool twice; /* powers of two, too, where these do not divide the devices */
	bool few;   /* on fewer devices, too */
	const char *words[MOST_WORDS];
} families[FF_FAMILIES] = {{"pipeline", 2, MOST_STAGES, true, true, false, {""}},
		{"tables", 1, FF_MAX_DEVICES, false, false, true, {"", ",replicas", ",apart"}}};

static const struct family *find_family(const char *called)
{
	for (uint32_t i = 0; i < FF_FAMILIES; i++)
		if (!strcmp(called, families[i].name))
			return &families[i];
	return NULL;
}

/* A start of that name for all devices, or some of them. */
static int make_on(struct ff_chain *c, const char *called, uint32_t devices, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	if (devices < c->machine->n_devices)
		return ff_chain_make_on(c, called, devices, a, ret, err);
	return ff_init_strategy(called, c->space, c->graph, c->machine, c->opt->seed + c->run.n - 1,
			a, ret, err);
}

/* Among the best, the better ones first, unless there are enough that are better. */
static void keep_better(const struct ff_chain_member *m, struct ff_chain_family *f)
{
	uint32_t i = f->n;

	if (f->n < FF_MEMBERS)
		f->n++;
	else if (ff_how_much_worse(f->best[--i].at, m->at) >= 0)
		return;
	for (; i > 0 && ff_how_much_worse(f->best[i - 1].at, m->at) < 0; i--)
		f->best[i] = f->best[i - 1];
	f->best[i] = *m;
}

static int try_member(struct ff_chain *c, const char *called, uint32_t devices, struct ff_arena *a,
		struct ff_chain_family *f, struct ff_error *err)
{
	struct ff_chain_member m = {.devices = devices};
	struct ff_strategy s;
	struct ff_error why;
	int code = make_on(c, called, devices, a, &s, &why);

	if (code == FF_E_INPUT)
		return FF_OK; /* limits of the space rule it out */
	if (code < 0)
		*err = why;
	else
		code = go_to(c, &s, err);
	if (code < 0)
		return code;
	m.at = c->at;
	m.bucket_bytes = s.bucket_bytes;
	snprintf(m.name, sizeof(m.name), "%s", called);
	keep_better(&m, f);
	return FF_OK;
}

/* What there is beside tables, or waits for none, on as many devices as these, on fewer nodes and
 * so on, down to one: behind these where there are so many, and nodes are alike. */
static int try_others(struct ff_chain *c, uint32_t devices, struct ff_arena *a,
		struct ff_chain_family *f, struct ff_error *err)
{
	static const char *const words[] = {"", ",apart"};
	uint32_t on = c->notes.node ? devices : c->machine->n_devices;
	uint32_t n = 2 * devices > on ? devices : 0; /* on these themselves it was tried */
	const struct ff_chain_member tables = f->best[0];
	int length = (int)strcspn(tables.name, ","), code = FF_OK;

	while (f->n && n != 1 && code == FF_OK && !ff_chain_in_hurry(c)) {
		n = n ? ff_chain_fewer(c, n) : devices;
		for (uint32_t i = 0; i < 2 && code == FF_OK; i++) {
			char text[FF_MEMBER_NAME];

			snprintf(text, sizeof(text), "%.*s%s%s,devices=%u,others=%u", length,
					tables.name,
					strstr(tables.name, ",replicas") ? ",replicas" : "",
					words[i], devices, n);
			code = try_member(c, text, on, a, f, err);
		}
	}
	return code;
}

/* The best of those on the first `devices`, if it is better than the best. */
static int find_best_on(struct ff_chain *c, const struct family *of, uint32_t devices,
		struct ff_arena *a, struct ff_chain_family *f, struct ff_error *err)
{
	struct ff_chain_family here = {.n = 0};
	int code = FF_OK;

	for (uint32_t n = of->least; n <= devices && n <= of->most; n++)
		for (uint32_t i = 0; i < MOST_WORDS && of->words[i] && code == FF_OK; i++) {
			char text[FF_MEMBER_NAME];

			if ((of->micro && c->space->n_micro < 2) || ff_chain_in_hurry(c))
				break;
			if (devices % n && !(of->twice && (n & (n - 1)) == 0))
				break;
			snprintf(text, sizeof(text), "%s-%u%s", of->name, n, of->words[i]);
			code = try_member(c, text, devices, a, &here, err);
		}
	if (code == FF_OK && of->few)
		code = try_others(c, devices, a, &here, err);
	for (uint32_t i = 0; i < here.n; i++)
		keep_better(&here.best[i], f);
	return code;
}

static int seek_best(struct ff_chain *c, const struct family *of, struct ff_arena *a,
		struct ff_chain_family *f, struct ff_error *err)
{
	uint32_t devices = c->machine->n_devices;
	int code = find_best_on(c, of, devices, a, f, err);

	while (of->few && devices > 1 && code == FF_OK) {
		devices = ff_chain_fewer(c, devices);
		code = find_best_on(c, of, devices, a, f, err);
	}
	f->sought = true;
	return code;
}

static struct ff_chain_family *family_notes(struct ff_chain *c, const struct family *of)
{
	return &c->notes.family[of - families];
}

static int find_best(struct ff_chain *c, const struct family *of, struct ff_arena *a,
		struct ff_strategy *ret, bool *found, struct ff_error *err)
{
	struct ff_chain_family *f = family_notes(c, of);
	int code = f->sought ? FF_OK : seek_best(c, of, a, f, err);

	*found = code == FF_OK && f->n;
	if (!*found)
		return code;
	code = make_on(c, f->best[0].name, f->best[0].devices, a, ret, err);
	ret->bucket_bytes = f->best[0].bucket_bytes;
	return code;
}

static int start_best(struct ff_chain *c, const struct family *of, struct ff_arena *a, bool *found,
		struct ff_error *err)
{
	struct ff_strategy s;
	int code = find_best(c, of, a, &s, found, err);

	return code == FF_OK && *found ? ff_chain_go_to(c, &s, err) : code;
}

static bool saves_memory(const char *called)
{
	return !strcmp(called, "frugal") || !strcmp(called, "zero-2") ||
	       !strcmp(called, "zero-3") || strstr(called, "-hybrid") ||
	       !strcmp(called, "megatron");
}

/* Where links between nodes are slow it is also the fastest: over them goes the share of a node's
 * device, once. */
static bool may_be_fastest(const char *called)
{
	return !strcmp(called, "zero-1-hybrid");
}

/* Whether memory is scarce, or is so for starts that do nothing about it. */
static bool is_tight(const struct ff_chain *c)
{
	return !c->best.at.fits || c->best.at.tight || c->opt->known;
}

/* One device is to be one of the fastest. */
static uint32_t devices_of(const struct ff_chain *c, uint32_t i)
{
	return !strcmp(name(c, i), "single") ? 1 : c->machine->n_devices;
}

/* One that limits of the space rule out is no start.  What was looked at has the buckets that were
 * best then. */
static int start_named(struct ff_chain *c, uint32_t i, struct ff_arena *a, bool *found,
		struct ff_error *err)
{
	struct ff_strategy start;
	struct ff_error why;
	int code = make_on(c, name(c, i), devices_of(c, i), a, &start, &why);

	*found = code == FF_OK;
	if (code == FF_E_INPUT)
		return FF_OK;
	if (code < 0)
		*err = why;
	if (code < 0 || !c->notes.tuned_bytes[i])
		return code == FF_OK ? go_to(c, &start, err) : code;
	start.bucket_bytes = c->notes.tuned_bytes[i];
	return ff_chain_go_to(c, &start, err);
}

/* The best of what people write by hand, where the grid was looked through and it is worth a walk:
 * memory is scarce, or it is better than all plain starts. */
static int start_grid(struct ff_chain *c, struct ff_arena *a, bool *found, struct ff_error *err)
{
	bool worth = c->notes.grid_leads || is_tight(c);
	struct ff_strategy s;
	int code;

	*found = worth && c->notes.grid[0];
	if (!*found)
		return FF_OK;
	code = ff_init_strategy(
			c->notes.grid, c->space, c->graph, c->machine, c->opt->seed, a, &s, err);
	s.bucket_bytes = c->notes.grid_bucket_bytes;
	return code == FF_OK ? ff_chain_go_to(c, &s, err) : code;
}

static int start_elimination(
		struct ff_chain *c, struct ff_arena *a, bool *found, struct ff_error *err)
{
	double from = ff_chain_budget_done(c);
	struct ff_strategy start;
	int code = ff_chain_eliminate(c, c->space, a, &start, found, err);

	c->run.done += ff_chain_budget_done(c) - from; /* it is for all runs */
	return code == FF_OK && *found ? ff_chain_go_to_tuned(c, &start, err) : code;
}

/* Makes start number `i` current; not *found: there is none. */
static int start_from(struct ff_chain *c, uint32_t i, struct ff_arena *a, bool *found,
		struct ff_error *err)
{
	const char *called = name(c, i);

	*found = true;
	if (given(c, i))
		return ff_chain_go_to(c, given(c, i), err);
	if (find_family(called))
		return start_best(c, find_family(called), a, found, err);
	if (!strcmp(called, "megatron"))
		return start_grid(c, a, found, err);
	*found = !saves_memory(called) || is_tight(c) ||
		 (may_be_fastest(called) && c->notes.hybrid_leads);
	if (!*found)
		return FF_OK; /* nobody needs to */
	if (!strcmp(called, "elimination"))
		return start_elimination(c, a, found, err);
	return start_named(c, i, a, found, err);
}

/* ---- whose turn it is ---- */

/* Whether start number `i` of `n` is this chain's.  Elimination is the first's, whose
 * pricer is at hand; who has none begins with what comes round again. */
static bool is_mine(const struct ff_chain *c, uint32_t i, uint32_t n)
{
	if (!strcmp(name(c, i), "elimination"))
		return c->number == 0;
	return c->number < n ? i % c->n_chains == c->number : i == c->number % n;
}

/* Whether start number `i` of `n` is walked in this run: elimination would come to the same
 * once more. */
static bool is_due(const struct ff_chain *c, uint32_t i, uint32_t n)
{
	if (!strcmp(name(c, i), "tables") && !ff_tables_matter(c->graph))
		return false;
	if (c->run.n > 1 && n > 1 && !strcmp(name(c, i), "elimination"))
		return false;
	return is_mine(c, i, n);
}

/* Whether a start is one strategy, made at once. */
static bool is_plain(const char *called)
{
	return (!saves_memory(called) || may_be_fastest(called)) && !find_family(called) &&
	       strcmp(called, "elimination") != 0 && strcmp(called, "random") != 0;
}

/* Whether the budget is too short, by what it took to make the last start current, for walks from
 * starts to become better than the best start: on 1,024 devices.  Not where starts were named. */
static bool is_slow(const struct ff_chain *c)
{
	double most = FEW_PER_NODE * (double)c->frame->proposer.n_all;

	return c->opt->seconds > 0 && c->opt->starts == ff_starts && !c->opt->n_given &&
	       most * c->notes.go_to_s > c->opt->seconds;
}

/* A look at a plain start. */
static int look_at(struct ff_chain *c, uint32_t i, struct ff_arena *a, struct ff_error *err)
{
	struct ff_strategy start;
	struct ff_evaluation before = c->best.at;
	struct ff_error why;
	bool made;
	int code = c->best.unsaved ? ff_chain_save(c, err) : FF_OK;

	if (code == FF_OK && given(c, i))
		return ff_chain_go_to(c, given(c, i), err);
	if (code < 0)
		return code;
	code = make_on(c, name(c, i), devices_of(c, i), a, &start, &why);
	made = code == FF_OK;
	code = ff_chain_go_to_made(c, code, &start, &why, err);
	if (made && code == FF_OK)
		c->notes.tuned_bytes[i] = c->current.bucket_bytes;
	if (made && code == FF_OK && may_be_fastest(name(c, i)))
		c->notes.hybrid_leads = ff_how_much_worse(before, c->best.at) < 0;
	if (made && code == FF_OK && c->at.fits && !strcmp(name(c, i), ff_starts[0]))
		c->notes.all_us = c->at.step_us;
	return code;
}

/* The same of tables: those that are best in the buckets that the search begins with, each in its
 * own, of which there is one that is best then. */
static int look_at_tables(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	const struct family *of = find_family("tables");
	struct ff_chain_family *f = family_notes(c, of), tuned = {.sought = true};
	int code = seek_best(c, of, a, f, err);

	for (uint32_t i = 0; i < f->n && code == FF_OK && !ff_chain_in_hurry(c); i++) {
		struct ff_chain_member m = f->best[i];
		struct ff_strategy s;

		code = make_on(c, m.name, m.devices, a, &s, err);
		if (code == FF_OK)
			code = ff_chain_go_to_tuned(c, &s, err);
		m.at = c->at;
		m.bucket_bytes = s.bucket_bytes;
		keep_better(&m, &tuned);
	}
	if (code == FF_OK && tuned.n)
		*f = tuned;
	return code;
}

/* A look at the grid of strategies by hand; it is all of the space that they use. */
static int look_at_grid(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	struct ff_evaluation before;
	struct ff_strategy s;
	bool found;
	int code = FF_OK;

	if (c->space->what != FF_SPACE_ALL)
		return FF_OK;
	before = c->best.at;
	code = ff_chain_find_by_hand(c, c->space, c->machine, a, &s, c->notes.grid, &found, err);
	if (code == FF_OK && found)
		code = ff_chain_go_to_as_by_hand(c, &s, err);
	if (code == FF_OK && found) {
		c->notes.grid_bucket_bytes = s.bucket_bytes;
		c->notes.grid_leads = ff_how_much_worse(before, c->best.at) < 0;
		c->best.laid_out = c->best.unsaved; /* by the grid, or when buckets were tuned */
	}
	return code;
}
/* A look at each of this chain's plain starts, before any is walked: on large graphs the budget may
 * end within the first, and what comes of it is to be no worse than any. */
static int look_at_starts(struct ff_chain *c, uint32_t n, struct ff_arena *a, struct ff_error *err)
{
	bool fewer = c->number == 0 && names(c) == ff_starts;
	int code = FF_OK;

	if (c->opt->known)
		code = ff_chain_go_to(c, c->opt->known, err);
	if (c->opt->known) /* who knew it has laid it out */
		c->best.laid_out = c->best.unsaved;
	if (code == FF_OK && fewer && c->machine->n_nodes > 1 && !ff_chain_in_hurry(c))
		code = ff_chain_look_at_node(c, a, err);
	for (uint32_t i = 0; i < n && code == FF_OK && !ff_chain_in_hurry(c); i++)
		if (is_due(c, i, n) && is_plain(name(c, i)))
			code = look_at(c, i, a, err);
	for (uint32_t i = 0; i < n && code == FF_OK && !ff_chain_in_hurry(c); i++)
		if (is_due(c, i, n) && !strcmp(name(c, i), "tables"))
			code = look_at_tables(c, a, err);
	c->notes.slow = is_slow(c);
	for (uint32_t i = 0; i < n && code == FF_OK && !ff_chain_in_hurry(c); i++)
		if (is_due(c, i, n) && !strcmp(name(c, i), "megatron"))
			code = look_at_grid(c, a, err);
	if (code == FF_OK && fewer && !c->notes.slow && !ff_chain_in_hurry(c))
		code = ff_chain_look_at_fewer(c, a, err);
	if (code == FF_OK && fewer && !c->notes.slow && !ff_chain_in_hurry(c))
		code = ff_chain_look_at_branches(c, a, err);
	return code;
}

/* Data parallelism, as far as limits admit it: where elimination was to be the only start and came
 * to nothing, or limits ruled out all others. */
static int start_plainly(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	struct ff_strategy start;
	int code = ff_init_strategy(
			ff_starts[0], c->space, c->graph, c->machine, c->opt->seed, a, &start, err);

	return code == FF_OK ? go_to(c, &start, err) : code;
}

/* What each of `n_due` starts may take: of the budget, and in proposals.  Starts that save memory,
 * where it is needed, take as much besides. */
static void share_out(struct ff_chain *c, uint32_t n_due)
{
	double share = FF_STARTS_SHARE / (n_due ? n_due : 1);

	c->run.share = share * c->run.most;
	c->run.phase_length = (uint64_t)(share * (double)ff_chain_run_length(c));
	if (c->clock.limit == 0 && c->opt->seconds <= 0)
		c->run.phase_length = FF_ROUND_LEAST +
				      (uint64_t)FF_ROUND_PER_NODE * c->frame->proposer.n_all;
}

static int walk_start(struct ff_chain *c, struct ff_error *err)
{
	double beta = ff_chain_beta(c);
	int code = ff_chain_list(c, err);

	c->run.known = c->best.at;
	c->run.begun = c->at;
	c->run.is_start = true;
	if (code == FF_OK)
		code = ff_chain_sweep_phases(c, err);
	if (code == FF_OK)
		code = ff_chain_anneal(c, beta / FF_BETA_RANGE, beta * FF_BETA_RANGE, err);
	c->run.is_start = false;
	if (code == FF_OK)
		ff_elite_add(&c->run.ends, &c->current, c->at);
	return code;
}

static int walk_starts(struct ff_chain *c, struct ff_arena *a, struct ff_error *err)
{
	double from = ff_chain_budget_done(c);
	uint32_t n = count(c), n_due = 0, n_done = 0;
	bool any = false, found;
	int code = FF_OK;

	for (uint32_t i = 0; i < n; i++)
		n_due += is_due(c, i, n) && !saves_memory(name(c, i));
	share_out(c, n_due);
	if (c->run.n == 1)
		code = look_at_starts(c, n, a, err);
	if (code == FF_OK && c->notes.slow) /* nothing else will be tried */
		code = ff_chain_return(c, err);
	if (code == FF_OK && c->notes.slow)
		code = ff_chain_list(c, err);
	if (code == FF_OK && c->notes.slow && c->best.unsaved)
		code = ff_chain_save(c, err);
	if (code < 0 || (c->notes.slow && c->best.at.fits))
		return code;
	for (uint32_t i = 0; i < n && (n_done == 0 || !ff_chain_in_hurry(c)); i++) {
		if (!is_due(c, i, n))
			continue;
		code = start_from(c, i, a, &found, err);
		any = any || found;
		/* what one before it has left is for rounds */
		c->run.share_from = fmin(from + n_done * c->run.share, ff_chain_budget_done(c));
		n_done += found || !saves_memory(name(c, i));
		if (code == FF_OK && found && c->frame->proposer.n_all > 0)
			code = walk_start(c, err);
		if (code < 0)
			return code;
	}
	return any ? FF_OK : start_plainly(c, a, err);
}

int ff_chain_walk_starts(struct ff_chain *c, struct ff_error *err)
{
	struct ff_arena starts;
	int code;

	if (!c->notes.tuned_bytes)
		c->notes.tuned_bytes =
				ff_arena_array(c->arena, count(c), sizeof(*c->notes.tuned_bytes));
	if (!c->notes.tuned_bytes)
		return ff_fail_memory(err);
	ff_arena_init(&starts);
	code = walk_starts(c, &starts, err);
	ff_arena_finish(&starts);
	return code;
}
