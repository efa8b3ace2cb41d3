/* Elimination of variables (Bertele, Brioschi, Nonserial Dynamic Programming, 1972;
 * for this problem Jia, Lin, Qi, Aiken, ICML 2018, who eliminate nodes and edges, and
 * Elango et al., "PaSE", IPDPS 2021, who keep tables of more than two neighbours).
 * SPDX-License-Identifier: Apache-2.0 */
#include "eliminate.h"

#include <math.h>
#include <string.h>

#include "ff/grow.h"

/* A cost of some variables; the last one's choices lie next to each other. */
struct factor {
	uint32_t n, var[FF_MAX_SCOPE];
	const double *cost;
	bool gone;
};
struct user {
	uint32_t factor, next;
};
/* What a variable is to be, once those of its scope are known. */
struct rule {
	uint32_t var, n, scope[FF_MAX_SCOPE];
	const uint8_t *best;
};

struct solver {
	const struct ff_choices *in;
	struct ff_arena *a;
	struct ff_leasts leasts;
	size_t max_table;
	struct factor *factor;
	struct user *user;
	uint32_t n_factors, cap_factors, n_users, cap_users;
	uint32_t *first; /* by variable: the first of its factors */
	uint32_t *kept;  /* by variable: sweeps that kept it */
	uint32_t *mark, stamp;
	bool *done;
	double *weight; /* by variable: entries of its table; < 0: to be found anew */
	struct rule *rule;
	uint32_t n_rules;
	uint32_t *choice;
	bool exact;
};

double ff_choices_cost(const struct ff_choices *c, const uint32_t *choice)
{
	double sum = 0;

	for (uint32_t v = 0; v < c->n_vars; v++)
		sum += c->cost[v][choice[v]];
	for (uint32_t i = 0; i < c->n_pairs; i++) {
		const struct ff_pair *p = &c->pair[i];

		sum += p->cost[(size_t)choice[p->a] * c->n[p->b] + choice[p->b]];
	}
	return sum;
}

static int add_factor(struct solver *s, uint32_t n, const uint32_t *var, const double *cost)
{
	struct factor *f;

	s->factor = ff_grow_in(s->a, s->factor, s->n_factors, &s->cap_factors, sizeof(*s->factor));
	if (!s->factor)
		return FF_E_NOMEM;
	f = &s->factor[s->n_factors];
	*f = (struct factor){.n = n, .cost = cost};
	for (uint32_t i = 0; i < n; i++) {
		s->user = ff_grow_in(s->a, s->user, s->n_users, &s->cap_users, sizeof(*s->user));
		if (!s->user)
			return FF_E_NOMEM;
		f->var[i] = var[i];
		s->user[s->n_users] = (struct user){s->n_factors, s->first[var[i]]};
		s->first[var[i]] = s->n_users++;
	}
	s->n_factors++;
	return FF_OK;
}

/* The variables that share a factor with `v`, at most FF_MAX_SCOPE of them written;
 * returns how many there are. */
static uint32_t neighbours(struct solver *s, uint32_t v, uint32_t *scope)
{
	uint32_t n = 0;

	s->mark[v] = ++s->stamp;
	for (uint32_t u = s->first[v]; u != FF_NONE; u = s->user[u].next) {
		const struct factor *f = &s->factor[s->user[u].factor];

		for (uint32_t i = 0; i < f->n && !f->gone; i++) {
			if (s->mark[f->var[i]] == s->stamp)
				continue;
			s->mark[f->var[i]] = s->stamp;
			if (n < FF_MAX_SCOPE)
				scope[n] = f->var[i];
			n++;
		}
	}
	return n;
}

static double table_weight(struct solver *s, uint32_t v)
{
	uint32_t scope[FF_MAX_SCOPE], n = neighbours(s, v, scope);
	double weight = s->in->n[v];

	if (n >= FF_MAX_SCOPE)
		return INFINITY;
	for (uint32_t i = 0; i < n; i++)
		weight *= s->in->n[scope[i]];
	return weight;
}

/* Where `var` is among `n` others; it goes if it is none of them. */
static uint8_t place_in(const uint32_t *scope, uint32_t n, uint32_t var)
{
	uint32_t i = 0;

	while (i < n && scope[i] != var)
		i++;
	return (uint8_t)(i < n ? i : FF_SCOPE_GOES);
}

/* The factors of `v`, whose neighbours are `scope`; they are gone then. */
static struct ff_least_term *list_terms(
		struct solver *s, uint32_t v, uint32_t n, const uint32_t *scope, uint32_t *n_terms)
{
	struct ff_least_term *term;

	*n_terms = 0;
	for (uint32_t u = s->first[v]; u != FF_NONE; u = s->user[u].next)
		*n_terms += !s->factor[s->user[u].factor].gone;
	term = ff_arena_array(s->a, *n_terms, sizeof(*term));
	for (uint32_t u = s->first[v], k = 0; u != FF_NONE && term; u = s->user[u].next) {
		struct factor *f = &s->factor[s->user[u].factor];

		if (f->gone)
			continue;
		f->gone = true;
		term[k] = (struct ff_least_term){.cost = f->cost, .n = f->n};
		for (uint32_t i = 0; i < f->n; i++)
			term[k].place[i] = place_in(scope, n, f->var[i]);
		k++;
	}
	return term;
}

/* Takes `v` out: the factors that have it become one of its neighbours. */
static int eliminate(struct solver *s, uint32_t v)
{
	struct rule *rule = &s->rule[s->n_rules++];
	struct ff_least_ask ask = {.choices = s->in->n[v]};
	uint32_t scope[FF_MAX_SCOPE];
	struct ff_least least;

	ask.n = neighbours(s, v, scope);
	for (uint32_t i = 0; i < ask.n; i++) {
		ask.size[i] = s->in->n[scope[i]];
		s->weight[scope[i]] = -1;
	}
	ask.term = list_terms(s, v, ask.n, scope, &ask.n_terms);
	if (!ask.term || ff_least_find(&s->leasts, &ask, &least) < 0)
		return FF_E_NOMEM;
	*rule = (struct rule){.var = v, .n = ask.n, .best = least.best};
	memcpy(rule->scope, scope, ask.n * sizeof(*scope));
	s->done[v] = true;
	return ask.n ? add_factor(s, ask.n, scope, least.cost) : FF_OK;
}

/* Keeps `v` at what it is: its factors lose a variable. */
static int keep(struct solver *s, uint32_t v)
{
	uint32_t scope[FF_MAX_SCOPE], n = neighbours(s, v, scope);
	int code = FF_OK;

	s->exact = false;
	s->kept[v]++;
	s->done[v] = true;
	(void)n;
	for (uint32_t u = s->first[v]; u != FF_NONE && code == FF_OK; u = s->user[u].next) {
		struct factor f = s->factor[s->user[u].factor];
		size_t inner = 1, outer = 1;
		uint32_t left[FF_MAX_SCOPE], m = 0, i = 0;
		const double *cost;

		if (f.gone)
			continue;
		s->factor[s->user[u].factor].gone = true;
		for (; f.var[i] != v; i++)
			outer *= s->in->n[left[m++] = f.var[i]];
		for (i++; i < f.n; i++)
			inner *= s->in->n[left[m++] = f.var[i]];
		for (i = 0; i < m; i++)
			s->weight[left[i]] = -1;
		if (m == 0)
			continue;
		code = ff_least_slice(
				&s->leasts, f.cost, outer, s->in->n[v], inner, s->choice[v], &cost);
		if (code == FF_OK)
			code = add_factor(s, m, left, cost);
	}
	return code;
}

/* The one with most neighbours of those kept least often. */
static uint32_t pick_kept(struct solver *s)
{
	uint32_t scope[FF_MAX_SCOPE], best = FF_NONE, most = 0;

	for (uint32_t v = 0; v < s->in->n_vars; v++) {
		uint32_t n;

		if (s->done[v] || (best != FF_NONE && s->kept[v] > s->kept[best]))
			continue;
		n = neighbours(s, v, scope);
		if (best == FF_NONE || s->kept[v] < s->kept[best] || n > most) {
			best = v;
			most = n;
		}
	}
	return best;
}

static void substitute(struct solver *s)
{
	while (s->n_rules > 0) {
		const struct rule *r = &s->rule[--s->n_rules];
		size_t at = 0;

		for (uint32_t i = 0; i < r->n; i++)
			at = at * s->in->n[r->scope[i]] + s->choice[r->scope[i]];
		s->choice[r->var] = r->best[at];
	}
}

static int fill(struct solver *s)
{
	uint32_t n = s->in->n_vars;
	int code = FF_OK;

	s->factor = NULL;
	s->user = NULL;
	s->n_factors = s->cap_factors = s->n_users = s->cap_users = 0;
	s->n_rules = 0;
	memset(s->done, 0, n * sizeof(*s->done));
	memset(s->first, 0xff, n * sizeof(*s->first));
	for (uint32_t v = 0; v < n && code == FF_OK; v++) {
		const double *cost;

		s->weight[v] = -1;
		code = ff_least_same(&s->leasts, s->in->cost[v], s->in->n[v], &cost);
		if (code == FF_OK)
			code = add_factor(s, 1, &v, cost);
	}
	for (uint32_t i = 0; i < s->in->n_pairs && code == FF_OK; i++) {
		const struct ff_pair *p = &s->in->pair[i];

		code = add_factor(s, 2, (const uint32_t[]){p->a, p->b}, p->cost);
	}
	return code;
}

static int sweep(struct solver *s, bool (*stop)(void *ctx), void *ctx, bool *stopped)
{
	int code;

	ff_leasts_trim(&s->leasts);
	code = fill(s);

	for (uint32_t left = s->in->n_vars; left > 0 && code == FF_OK; left--) {
		uint32_t best = FF_NONE;

		if (stop && stop(ctx)) {
			*stopped = true;
			return FF_OK;
		}
		for (uint32_t v = 0; v < s->in->n_vars; v++) {
			if (s->done[v])
				continue;
			if (s->weight[v] < 0)
				s->weight[v] = table_weight(s, v);
			if (best == FF_NONE || s->weight[v] < s->weight[best])
				best = v;
		}
		if (s->weight[best] > (double)s->max_table)
			code = keep(s, pick_kept(s));
		else
			code = eliminate(s, best);
	}
	if (code == FF_OK)
		substitute(s);
	return code;
}

int ff_choices_minimise(const struct ff_choices *c, size_t max_table, uint32_t sweeps,
		bool (*stop)(void *ctx), void *ctx, uint32_t *choice, bool *exact,
		struct ff_error *err)
{
	struct ff_arena arena;
	struct ff_arena_mark mark;
	struct solver s = {.in = c, .a = &arena, .max_table = max_table, .choice = choice};
	uint32_t n = c->n_vars;
	bool stopped = false;
	int code = FF_OK;

	ff_arena_init(&arena);
	ff_leasts_init(&s.leasts);
	s.first = ff_arena_array(&arena, n, sizeof(*s.first));
	s.kept = ff_arena_array(&arena, n, sizeof(*s.kept));
	s.mark = ff_arena_array(&arena, n, sizeof(*s.mark));
	s.done = ff_arena_array(&arena, n, sizeof(*s.done));
	s.weight = ff_arena_array(&arena, n, sizeof(*s.weight));
	s.rule = ff_arena_array(&arena, n, sizeof(*s.rule));
	if (!s.first || !s.kept || !s.mark || !s.done || !s.weight || !s.rule)
		code = FF_E_NOMEM;
	mark = ff_arena_mark(&arena);
	for (uint32_t i = 0; i < sweeps && code == FF_OK && !stopped; i++) {
		s.exact = true;
		code = sweep(&s, i ? stop : NULL, ctx, &stopped);
		ff_arena_rewind(&arena, mark);
		if (s.exact)
			break;
	}
	*exact = s.exact && !stopped;
	ff_leasts_finish(&s.leasts);
	ff_arena_finish(&arena);
	return code < 0 ? ff_fail_memory(err) : FF_OK;
}
