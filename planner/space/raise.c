/* Exponentiated subgradient steps over weights; the chain that is longest where the last weights
 * have their least is taken in after each.  SPDX-License-Identifier: Apache-2.0 */
#include "raise.h"

#include <math.h>
#include <string.h>

#include "sections.h"

#define STEPS 400
#define FIRST_STEP 12.0 /* of the exponent, times how far a term is from the mean, relatively */
#define SLOWER 0.02     /* by which steps get shorter */
#define NEW_SHARE 0.1   /* of a chain that is new */
#define MOST_IDLE 40    /* steps without success before it ends */
#define LIGHT 1e-3      /* a weight that may go, where the bound falls by no more than */
#define LITTLE 1e-4     /* this share */

struct raiser {
	struct ff_weighted *w;
	struct ff_weights now, *best;
	double us;     /* of the best */
	uint32_t idle; /* steps since that rose by much */
	/* by node: the longest chain up to it, and what is before it there */
	double *chain_us;
	uint32_t *before;
	struct ff_region *box; /* scratch of tracing */
	struct ff_arena *a;
};

/* The end of the chain that is longest by what is chosen. */
static uint32_t longest(struct raiser *r)
{
	const struct ff_weighted *w = r->w;
	const struct ff_graph *g = w->graph;
	uint32_t end = FF_NONE;

	for (uint32_t i = 0; i < g->n_nodes; i++) {
		double us = 0;

		r->before[i] = FF_NONE;
		r->chain_us[i] = 0;
		if (!w->split[i])
			continue;
		for (uint32_t k = 0; k < g->nodes[i].n_in; k++) {
			uint32_t e = g->nodes[i].in + k, from = ff_edge_source(g, e);

			if (ff_chain_may_pass(g, e) && r->chain_us[from] > us) {
				us = r->chain_us[from];
				r->before[i] = from;
			}
		}
		r->chain_us[i] = us + w->split[i][w->chosen[i]].first_us;
		if (w->received && r->before[i] != FF_NONE && r->before[i] == ff_node_prelude(g, i))
			r->chain_us[i] += w->split[i][w->chosen[i]].sum_us;
		if (end == FF_NONE || r->chain_us[i] > r->chain_us[end])
			end = i;
	}
	return end;
}

static int new_chain(struct raiser *r, uint32_t end, struct ff_chain *ret, struct ff_error *err)
{
	uint32_t n = 0;

	for (uint32_t i = end; i != FF_NONE; i = r->before[i])
		n++;
	*ret = (struct ff_chain){.n = n};
	ret->node = ff_arena_array(r->a, n, sizeof(*ret->node));
	ret->named = ff_arena_array(r->a, n, sizeof(*ret->named));
	ret->edge = ff_arena_array(r->a, n, sizeof(*ret->edge));
	if (!ret->node || !ret->named || !ret->edge)
		return ff_fail_memory(err);
	for (uint32_t i = end; i != FF_NONE; i = r->before[i])
		ret->node[--n] = i;
	return FF_OK;
}

static bool is_known(const struct ff_weights *w, const struct ff_chain *c)
{
	for (uint32_t i = 0; i < w->n_chains; i++)
		if (!w->chain[i].n_sections && w->chain[i].n == c->n &&
				!memcmp(w->chain[i].node, c->node, c->n * sizeof(*c->node)))
			return true;
	return false;
}

static void scale(struct ff_weights *w, double by)
{
	w->compute *= by;
	w->communication *= by;
	for (uint32_t i = 0; i < w->n_chains; i++)
		w->chain[i].weight *= by;
}

/* A chain that was lightest goes where there are too many. */
static void take_in(struct ff_weights *w, struct ff_chain c)
{
	uint32_t at = 0;

	if (w->n_chains < FF_MOST_CHAINS)
		at = w->n_chains++;
	for (uint32_t i = 0; at + 1 != w->n_chains && i < w->n_chains; i++)
		if (w->chain[i].weight < w->chain[at].weight)
			at = i;
	w->chain[at].weight = 0;
	scale(w, 1 - NEW_SHARE);
	c.weight = NEW_SHARE;
	w->chain[at] = c;
}

/* Whether `b` has the operators of `a` but within sections, of which both have some. */
static bool is_same_outside(const struct ff_chain *a, const struct ff_chain *b)
{
	uint32_t i = 0, k = 0;

	while (a->n_sections == b->n_sections && i < a->n && k < b->n) {
		if (ff_section_has(a, i))
			i++;
		else if (ff_section_has(b, k))
			k++;
		else if (a->node[i++] != b->node[k++])
			return false;
	}
	return i == a->n && k == b->n;
}

static bool is_known_outside(const struct ff_weights *w, const struct ff_chain *c)
{
	for (uint32_t i = 0; i < w->n_chains; i++)
		if (w->chain[i].n_sections && is_same_outside(&w->chain[i], c))
			return true;
	return false;
}

/* The same with sections, where it may have some. */
static int add_sections(struct raiser *r, struct ff_chain c, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(r->a);
	int code = ff_sections_choose(r->w->graph, &c, r->a, err);

	if (code == FF_OK && c.n_sections && !is_known_outside(&r->now, &c))
		take_in(&r->now, c);
	else
		ff_arena_rewind(r->a, mark);
	return code;
}

/* `n` places of a chain from `from` on. */
static struct ff_chain some_of(const struct ff_chain *c, uint32_t from, uint32_t n)
{
	struct ff_chain some = *c;

	some.n = n;
	some.node += from;
	some.edge += from;
	some.named += from;
	return some;
}

/* The most places at one end of a chain that are one; some of them are where all are. */
static struct ff_chain longest_end(struct raiser *r, const struct ff_chain *c, bool first)
{
	uint32_t yes = 0, no = c->n;
	struct ff_chain some;

	while (no - yes > 1) {
		uint32_t n = yes + (no - yes) / 2;

		some = some_of(c, first ? 0 : c->n - n, n);
		if (ff_chain_trace(r->w->graph, &some, r->box))
			yes = n;
		else
			no = n;
	}
	return some_of(c, first ? 0 : c->n - yes, yes);
}

/* Where `c` is no chain, as what is read at one place is nothing that those before wait for, the
 * longer of its ends.  False: none is. */
static bool trace(struct raiser *r, struct ff_chain *c)
{
	struct ff_chain head, tail;
	double all_us = r->chain_us[c->node[c->n - 1]], head_us, tail_us;

	if (ff_chain_trace(r->w->graph, c, r->box))
		return true;
	head = longest_end(r, c, true);
	tail = longest_end(r, c, false);
	head_us = head.n ? r->chain_us[head.node[head.n - 1]] : 0;
	tail_us = tail.n ? all_us - r->chain_us[c->node[c->n - tail.n - 1]] : 0;
	*c = head_us > tail_us ? head : tail;
	return c->n && ff_chain_trace(r->w->graph, c, r->box);
}

static int add_longest(struct raiser *r, struct ff_error *err)
{
	uint32_t end = longest(r);
	struct ff_arena_mark mark = ff_arena_mark(r->a);
	struct ff_chain c;
	int code;

	if (end == FF_NONE)
		return FF_OK;
	code = new_chain(r, end, &c, err);
	if (code == FF_OK && (is_known(&r->now, &c) || !trace(r, &c) || is_known(&r->now, &c)))
		ff_arena_rewind(r->a, mark);
	else if (code == FF_OK) {
		take_in(&r->now, c);
		if (r->w->received && r->w->micro_batches == 1)
			code = add_sections(r, c, err);
	}
	return code;
}

/* Weights of what is above the mean grow. */
static void step(struct raiser *r, double by)
{
	struct ff_weights *w = &r->now;
	double compute = r->w->compute_us, moved = r->w->communication_us;
	double mean = w->compute * compute + w->communication * moved, sum;
	const double *us = r->w->chain_us;

	for (uint32_t i = 0; i < w->n_chains; i++)
		mean += w->chain[i].weight * us[i];
	w->compute *= exp(fmin(by * (compute / mean - 1), 3));
	w->communication *= exp(fmin(by * (moved / mean - 1), 3));
	sum = w->compute + w->communication;
	for (uint32_t i = 0; i < w->n_chains; i++) {
		w->chain[i].weight *= exp(fmin(by * (us[i] / mean - 1), 3));
		sum += w->chain[i].weight;
	}
	scale(w, 1 / sum);
}

static void judge(struct raiser *r)
{
	double us = ff_weighted_us(r->w, &r->now);

	r->idle = us > r->us * (1 + LITTLE) ? 0 : r->idle + 1;
	if (us > r->us) {
		r->us = us;
		*r->best = r->now;
	}
}

/* Leaves out what weighs next to nothing, where little is lost by it. */
static void tidy(struct raiser *r)
{
	uint32_t n = 0;
	double us;

	r->now = *r->best;
	if (r->now.communication <= LIGHT)
		r->now.communication = 0;
	for (uint32_t i = 0; i < r->now.n_chains; i++)
		if (r->now.chain[i].weight > LIGHT)
			r->now.chain[n++] = r->now.chain[i];
	r->now.n_chains = n;
	us = r->now.compute + r->now.communication;
	for (uint32_t i = 0; i < n; i++)
		us += r->now.chain[i].weight;
	scale(&r->now, 1 / us);
	us = ff_weighted_us(r->w, &r->now);
	if (us < r->us * (1 - LITTLE))
		return;
	r->us = us;
	*r->best = r->now;
}

/* A weight that is 0 stays so. */
static void start_communication(struct raiser *r)
{
	if (!r->w->received || r->w->n_devices > FF_RECEIVED_DEVICES)
		return;
	scale(&r->now, 1 - NEW_SHARE);
	r->now.communication = NEW_SHARE;
}

static int allocate(struct raiser *r, struct ff_error *err)
{
	uint32_t n = r->w->graph->n_nodes;

	r->chain_us = ff_arena_array(r->a, n, sizeof(*r->chain_us));
	r->before = ff_arena_array(r->a, n, sizeof(*r->before));
	r->box = ff_arena_array(r->a, n, sizeof(*r->box));
	if (!r->chain_us || !r->before || !r->box)
		return ff_fail_memory(err);
	return FF_OK;
}

int ff_weights_raise(struct ff_weighted *w, bool (*stop)(void *ctx), void *ctx, struct ff_arena *a,
		struct ff_weights *ret, double *us, struct ff_error *err)
{
	struct raiser r = {.w = w, .a = a, .best = ret};
	int code = allocate(&r, err);

	r.now = (struct ff_weights){.compute = 1};
	*ret = r.now;
	for (uint32_t i = 0; i < STEPS && code == FF_OK; i++) {
		judge(&r);
		if (i + 1 == STEPS || r.idle > MOST_IDLE || (stop && stop(ctx)))
			break;
		if (!i)
			start_communication(&r);
		else
			step(&r, FIRST_STEP / (1 + SLOWER * i));
		code = add_longest(&r, err);
	}
	if (code == FF_OK)
		tidy(&r);
	*us = r.us;
	return code;
}
