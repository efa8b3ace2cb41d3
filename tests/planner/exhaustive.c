/* Brute force: every strategy of a small space.  SPDX-License-Identifier: Apache-2.0 */
#include "exhaustive.h"

#include <string.h>

/* ---- what there is to choose ---- */

static int create(uint32_t n_nodes, struct ff_arena *a, struct choices *ret, struct ff_error *err)
{
	ret->n_nodes = n_nodes;
	ret->n = ff_arena_array(a, n_nodes, sizeof(*ret->n));
	ret->config = ff_arena_array(a, n_nodes, sizeof(struct ff_config *));
	return ret->n && ret->config ? FF_OK : ff_fail_memory(err);
}

int choices_of_space(const struct ff_space *s, const struct ff_graph *g, struct ff_arena *a,
		struct choices *ret, struct ff_error *err)
{
	int code = create(g->n_nodes, a, ret, err);

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		ret->n[i] = ff_space_count(s, i);
		ret->config[i] = ff_arena_array(a, ret->n[i], sizeof(**ret->config));
		if (!ret->config[i])
			return ff_fail_memory(err);
		for (uint64_t k = 0; k < ret->n[i]; k++)
			ff_space_config(s, i, k, &ret->config[i][k]);
	}
	return code;
}

/* Configs of one node, of which the first pass only counts. */
struct list {
	struct ff_config *config; /* NULL: count */
	uint64_t n;
	uint32_t n_devices;
	struct ff_arena *arena;
	bool failed;
};

static void add(struct list *l, const struct ff_config *c, const uint16_t *device)
{
	struct ff_config *to = l->config ? &l->config[l->n] : NULL;

	l->n++;
	if (!to)
		return;
	*to = *c;
	if (!c->n_parts)
		return;
	to->list = ff_arena_copy(l->arena, device, c->n_parts, sizeof(*device));
	l->failed = l->failed || !to->list;
}

/* Its parts on any devices in any order: those from `from` on are still to be found. */
static void add_places(struct list *l, const struct ff_config *c, uint16_t *device, uint32_t from)
{
	if (from == c->n_parts) {
		add(l, c, device);
		return;
	}
	for (uint16_t d = 0; d < l->n_devices; d++) {
		uint32_t i = 0;

		while (i < from && device[i] != d)
			i++;
		device[from] = d;
		if (i == from)
			add_places(l, c, device, from + 1);
	}
}

static void add_replicas(struct list *l, struct ff_config c, bool several)
{
	uint16_t device[FF_MAX_DEVICES];
	uint32_t cells = c.n_parts;

	for (c.replicas = 1; c.replicas * cells <= l->n_devices; c.replicas++) {
		c.n_parts = c.replicas * cells;
		add_places(l, &c, device, 0);
		if (!several)
			return;
	}
}

static void list_configs(struct list *l, const struct ff_graph *g, uint32_t node, uint32_t with)
{
	bool param = ff_node_is_parameter(g, node);
	uint32_t most = param || with & WITH_SPLITS ? l->n_devices : 1;
	struct ff_config c = {.replicas = 1};

	for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
		c.degree[d] = 1;
	if (!ff_node_needs_config(g, node))
		add(l, &c, NULL); /* none, or a parameter's that follows */
	if (!ff_node_needs_config(g, node) && (!param || !(with & WITH_UPDATES)))
		return;
	while (ff_config_next_degrees(&g->nodes[node], most, &c))
		add_replicas(l, c, param || with & WITH_REPLICAS);
}

int choices_of_all(const struct ff_graph *g, uint32_t n_devices, uint32_t with, struct ff_arena *a,
		struct choices *ret, struct ff_error *err)
{
	int code = create(g->n_nodes, a, ret, err);

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		struct list l = {.n_devices = n_devices, .arena = a};

		list_configs(&l, g, i, with);
		l.config = ff_arena_array(a, l.n, sizeof(*l.config));
		if (!l.config)
			return ff_fail_memory(err);
		ret->n[i] = l.n;
		ret->config[i] = l.config;
		l.n = 0;
		list_configs(&l, g, i, with);
		if (l.failed)
			return ff_fail_memory(err);
	}
	return code;
}

uint64_t choices_count(const struct choices *c, uint64_t limit)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < c->n_nodes; i++) {
		if (c->n[i] > limit / n)
			return limit + 1;
		n *= c->n[i];
	}
	return n;
}

/* ---- all of it ---- */

struct walk {
	const struct choices *choices;
	struct ff_evaluator *evaluator;
	uint64_t *digit, *best; /* config number of each node */
	struct ff_evaluation at, at_best;
	uint64_t visited;
	bool found;
};

static void note(struct walk *w)
{
	w->visited++;
	if (!w->at.fits || (w->found && w->at.step_us >= w->at_best.step_us))
		return;
	w->at_best = w->at;
	w->found = true;
	memcpy(w->best, w->digit, w->choices->n_nodes * sizeof(*w->best));
}

/* Writes the strategy that the digits say. */
static int strategy_of(const struct walk *w, const uint64_t *digit, const struct ff_strategy *like,
		const struct ff_graph *g, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err)
{
	int code = ff_strategy_create(g, a, ret, err);

	if (code == FF_OK)
		ff_strategy_copy(ret, like);
	for (uint32_t i = 0; code == FF_OK && i < g->n_nodes; i++)
		ret->config[i] = w->choices->config[i][digit[i]];
	return code;
}

/* Counts up the digits, node 0 fastest; every change goes to the evaluator.
 * False when all have come round. */
static int next(struct walk *w, bool *more, struct ff_error *err)
{
	const struct choices *c = w->choices;

	for (uint32_t i = 0; i < c->n_nodes; i++) {
		struct ff_change change = {.node = i};
		int code;

		if (c->n[i] == 1)
			continue;
		w->digit[i] = (w->digit[i] + 1) % c->n[i];
		change.config = c->config[i][w->digit[i]];
		code = ff_evaluator_propose(w->evaluator, &change, 1, &w->at, err);
		if (code < 0)
			return code;
		ff_evaluator_keep(w->evaluator);
		if (w->digit[i] > 0) {
			*more = true;
			return FF_OK;
		}
	}
	*more = false;
	return FF_OK;
}

int search_exhaustive(const struct choices *c, const struct ff_strategy *like,
		struct ff_evaluator *e, const struct ff_graph *g, uint64_t limit,
		struct ff_arena *a, struct ff_search_result *ret, struct ff_error *err)
{
	struct walk w = {.choices = c, .evaluator = e};
	struct ff_strategy s;
	bool more = true;
	int code;

	if (choices_count(c, limit) > limit)
		return ff_fail(err, FF_E_INPUT, "more than %llu strategies are too many to try all",
				(unsigned long long)limit);
	w.digit = ff_arena_array(a, g->n_nodes, sizeof(*w.digit));
	w.best = ff_arena_array(a, g->n_nodes, sizeof(*w.best));
	if (!w.digit || !w.best)
		return ff_fail_memory(err);
	code = strategy_of(&w, w.digit, like, g, a, &s, err);
	if (code == FF_OK)
		code = ff_evaluator_set(e, &s, &w.at, err);
	while (code == FF_OK && more) {
		note(&w);
		code = next(&w, &more, err);
	}
	if (code == FF_OK && !w.found)
		return ff_fail(err, FF_E_NOFIT, "none of %llu strategies fits in memory",
				(unsigned long long)w.visited);
	if (code == FF_OK)
		code = strategy_of(&w, w.best, like, g, a, &s, err);
	if (code < 0)
		return code;
	*ret = (struct ff_search_result){.best = s,
			.evaluation = w.at_best,
			.proposals = w.visited,
			.accepted = w.visited};
	return FF_OK;
}
