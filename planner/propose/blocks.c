/* Blocks: proposals that change several operators at once.  Between two good splits
 * of a chain, a class of layers or a pair of branches lie strategies that move data
 * to and fro and that no walk of single changes crosses.
 * SPDX-License-Identifier: Apache-2.0 */
#include "blocks.h"

#include "extras.h"

#define RUN_LENGTH 16   /* operators of a run, at most */
#define MOST_PLACED 2.0 /* nodes of branches that a layout places, for each there is, about */

static uint32_t draw(struct ff_proposer *p, uint32_t n)
{
	return ff_random_below(&p->random, n);
}

static bool has_choice(const struct ff_proposer *p, uint32_t node)
{
	return ff_space_count(p->space, node) > 1;
}

static bool is_changed(const struct ff_proposer *p, uint32_t node)
{
	return p->t->at[node] != 0;
}

/* ---- runs: one operator, and neighbours aligned with it, one after another ---- */

void ff_propose_run(struct ff_proposer *p)
{
	uint32_t limit = 2 + draw(p, RUN_LENGTH - 1), node = p->node[draw(p, p->n_nodes)];
	struct ff_config config;

	ff_proposer_one(p, node, &config);
	ff_transaction_set(p->t, node, &config);
	for (uint32_t tries = 0; p->t->n < limit && tries < 2 * RUN_LENGTH; tries++) {
		uint32_t from = p->t->change[draw(p, p->t->n)].node;

		if (ff_proposer_spread(p, from, &node, &config) && !is_changed(p, node))
			ff_transaction_set(p->t, node, &config);
	}
}

/* ---- what follows: one data input, nothing trained, so nothing of its own to
 * gain from another split ---- */

static bool follows(const struct ff_proposer *p, uint32_t node)
{
	const struct ff_node *n = &p->graph->nodes[node];

	return n->n_data == 1 && n->n_in == 1 && has_choice(p, node);
}

void ff_proposer_add_followers(struct ff_proposer *p)
{
	const struct ff_graph *g = p->graph;
	struct ff_config config;

	for (uint32_t i = 0; i < p->t->n; i++) {
		const struct ff_node *n = &g->nodes[p->t->change[i].node];

		for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
			for (uint32_t u = 0; u < g->values[k].n_uses; u++) {
				uint32_t edge = ff_value_use(g, &g->values[k], u);
				uint32_t to = g->edges[edge].node;

				if (follows(p, to) && !is_changed(p, to) &&
						ff_proposer_follow(p, to, 0, &config))
					ff_transaction_set(p->t, to, &config);
			}
	}
}

/* The first operator before `node` that does not follow. */
static uint32_t leader(const struct ff_proposer *p, uint32_t node)
{
	while (follows(p, node) &&
			has_choice(p, ff_edge_source(p->graph, p->graph->nodes[node].in)))
		node = ff_edge_source(p->graph, p->graph->nodes[node].in);
	return node;
}

void ff_propose_led(struct ff_proposer *p)
{
	uint32_t node = leader(p, p->node[draw(p, p->n_nodes)]);
	struct ff_config config;

	ff_proposer_one(p, node, &config);
	ff_transaction_set(p->t, node, &config);
	ff_proposer_add_followers(p);
}

/* ---- classes: all equal operators take the same config ---- */

void ff_propose_class(struct ff_proposer *p)
{
	uint32_t node = leader(p, p->node[draw(p, p->n_nodes)]), first = p->class[node];
	struct ff_config config = *ff_proposer_config(p, node);

	if (p->next_like[first] == FF_NONE || draw(p, 2))
		ff_proposer_one(p, node, &config);
	for (uint32_t i = first; i != FF_NONE; i = p->next_like[i])
		ff_transaction_set(p->t, i, &config);
	if (draw(p, 4))
		ff_proposer_add_followers(p);
}

/* ---- what feeds them: nothing trained, and nobody else reads it ---- */

static bool feeds_changed(const struct ff_proposer *p, uint32_t node)
{
	const struct ff_graph *g = p->graph;
	const struct ff_node *n = &g->nodes[node];

	if (n->n_in > n->n_data || !has_choice(p, node) || is_changed(p, node))
		return false;
	for (uint32_t k = n->out; k < n->out + n->n_out; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++)
			if (!is_changed(p, ff_value_reader(g, &g->values[k], u)))
				return false;
	return true;
}

/* Aligns all that feeds the changed nodes alone. */
static void add_feeders(struct ff_proposer *p)
{
	const struct ff_graph *g = p->graph;
	struct ff_config config;

	for (uint32_t i = 0; i < p->t->n; i++) {
		const struct ff_node *n = &g->nodes[p->t->change[i].node];

		for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
			uint32_t from = ff_edge_source(g, k);

			if (feeds_changed(p, from) && ff_proposer_lead(p, k, &config))
				ff_transaction_set(p->t, from, &config);
		}
	}
}

/* Their parameters lie where they are read. */
static void keep_parameters(struct ff_proposer *p)
{
	uint32_t end = p->t->n;
	struct ff_config config;

	ff_param_follow(&config);
	for (uint32_t i = 0; i < end; i++) {
		const struct ff_node *n = &p->graph->nodes[p->t->change[i].node];

		for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
			ff_transaction_set(p->t, ff_edge_source(p->graph, k), &config);
	}
}

/* All equal operators elsewhere, with all that is there for them alone: of an unrolled
 * network a layer of all steps. */
void ff_propose_fed(struct ff_proposer *p)
{
	uint32_t node = p->node[draw(p, p->n_nodes)];
	struct ff_config config = *ff_proposer_config(p, node);

	if (draw(p, 2))
		ff_proposer_one(p, node, &config);
	for (uint32_t i = p->class[node]; i != FF_NONE; i = p->next_like[i])
		ff_transaction_set(p->t, i, &config);
	add_feeders(p);
	if (draw(p, 2))
		keep_parameters(p);
}

/* ---- chains: operators in a row take one split, by label, and one view ---- */

/* `n` devices, every `stride`-th from `start` on: one of the sets that tile the
 * machine. */
struct set {
	uint32_t n, start, stride;
};

/* Set number `i` of those with as many devices and the same stride. */
static struct set set_at(const struct ff_proposer *p, uint32_t n, uint32_t stride, uint32_t i)
{
	i %= p->space->n_devices / n;
	return (struct set){n, i / stride * n * stride + i % stride, stride};
}

static struct set draw_set(struct ff_proposer *p)
{
	const struct ff_space *s = p->space;
	uint32_t n = s->divisor[draw(p, s->n_divisors)], stride;

	do
		stride = s->divisor[draw(p, s->n_divisors)];
	while (s->n_devices / n % stride != 0);
	return set_at(p, n, stride, draw(p, s->n_devices / n));
}

/* Splits the first dim of `node` that has label `label` and is long enough. */
static bool split_label(const struct ff_proposer *p, uint32_t node, enum ff_label label,
		struct set set, struct ff_config *ret)
{
	const struct ff_node *at = &p->graph->nodes[node];
	uint16_t degree[FF_MAX_DIMS];
	struct ff_view view = {.start = set.start};
	bool split = set.n == 1;

	for (uint32_t d = 0; d < at->n_dims; d++) {
		bool here = !split && at->dim[d].label == label &&
			    at->dim[d].extent >= (int32_t)set.n;

		degree[d] = here ? (uint16_t)set.n : 1;
		view.stride[d] = here ? set.stride : 0;
		split = split || here;
	}
	if (split)
		ff_view_config(at->n_dims, degree, &view, ret);
	return split;
}

static void split_row(struct ff_proposer *p, uint32_t first, uint32_t end, enum ff_label label,
		struct set set)
{
	struct ff_config config;

	for (uint32_t i = first; i < p->n_nodes && i < end; i++)
		if (split_label(p, p->node[i], label, set, &config))
			ff_transaction_set(p->t, p->node[i], &config);
}

void ff_propose_chain(struct ff_proposer *p)
{
	static const enum ff_label labels[] = {
			FF_DIM_SAMPLE, FF_DIM_SAMPLE, FF_DIM_ATTRIBUTE, FF_DIM_PARAMETER};
	uint32_t from = draw(p, p->n_nodes), length = 1 + draw(p, 4 * RUN_LENGTH);
	enum ff_label label = labels[draw(p, 4)];

	split_row(p, from, from + length, label, draw_set(p));
}

/* ---- branches: what lies between a fork and its join goes to other devices ---- */

/* Where the ways from `a` and `b` meet: join[] of later nodes is known. */
static uint32_t meet(const struct ff_proposer *p, uint32_t a, uint32_t b)
{
	while (a != b && a != FF_NONE && b != FF_NONE) {
		if (a < b)
			a = p->join[a];
		else
			b = p->join[b];
	}
	return a == b ? a : FF_NONE;
}

void ff_proposer_find_forks(struct ff_proposer *p)
{
	const struct ff_graph *g = p->graph;

	for (uint32_t i = g->n_nodes; i-- > 0;) {
		const struct ff_node *n = &g->nodes[i];
		uint32_t first = FF_NONE, readers = 0;

		p->join[i] = FF_NONE;
		for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
			for (uint32_t u = 0; u < g->values[k].n_uses; u++) {
				uint32_t to = ff_value_reader(g, &g->values[k], u);

				if (ff_node_is_prelude(g, to))
					continue; /* no way of its own */
				p->join[i] = readers ? meet(p, p->join[i], to) : to;
				readers += to != first;
				first = to;
			}
		if (readers <= 1 || !ff_node_is_computed(g, i))
			continue;
		p->fork[p->n_forks++] = i;
		p->between += p->join[i] == FF_NONE ? 0 : p->join[i] - i;
	}
}

/* Puts `node` on the stack, behind the `n` that are there, unless it is, or lies from `end` on. */
static uint32_t push(struct ff_proposer *p, uint32_t node, uint32_t end, uint32_t n)
{
	if (node >= end || p->stack.seen[node] == p->stack.stamp)
		return n;
	p->stack.seen[node] = p->stack.stamp;
	p->stack.node[n] = node;
	return n + 1;
}

/* The same of `node` and all that lies behind it. */
static uint32_t collect(struct ff_proposer *p, uint32_t node, uint32_t end, uint32_t n)
{
	const struct ff_graph *g = p->graph;
	uint32_t i = n;

	for (n = push(p, node, end, n); i < n; i++) {
		const struct ff_node *at = &g->nodes[p->stack.node[i]];

		for (uint32_t k = at->out; k < at->out + ff_node_outputs(at); k++)
			for (uint32_t u = 0; u < g->values[k].n_uses; u++)
				n = push(p, ff_value_reader(g, &g->values[k], u), end, n);
	}
	return n;
}

/* The same config on a set of devices: degrees are halved, the largest first, until
 * there are few enough parts. */
static void confine(
		const struct ff_proposer *p, uint32_t node, struct set set, struct ff_config *ret)
{
	const struct ff_node *at = &p->graph->nodes[node];
	const struct ff_config *c = ff_proposer_config(p, node);
	uint16_t degree[FF_MAX_DIMS] = {0};
	struct ff_view view = {.start = set.start};
	uint32_t parts = c->n_parts / c->replicas, stride = set.stride;

	for (uint32_t d = 0; d < at->n_dims; d++)
		degree[d] = c->degree[d];
	while (parts > set.n) {
		uint32_t most = 0;

		for (uint32_t d = 1; d < at->n_dims; d++)
			if (degree[d] > degree[most])
				most = d;
		degree[most] /= 2;
		parts = 1;
		for (uint32_t d = 0; d < at->n_dims; d++)
			parts *= degree[d];
	}
	for (uint32_t d = at->n_dims; d-- > 0; stride *= degree[d])
		view.stride[d] = degree[d] > 1 ? stride : 0;
	ff_view_config(at->n_dims, degree, &view, ret);
}

/* One branch to a set of devices: as it is split now, or by sample. */
static void place_branch(
		struct ff_proposer *p, uint32_t first, uint32_t end, struct set set, bool by_sample)
{
	struct ff_config config;

	for (uint32_t i = first; i < end; i++) {
		uint32_t node = p->stack.node[i];

		if (!has_choice(p, node))
			continue;
		if (!by_sample || !split_label(p, node, FF_DIM_SAMPLE, set, &config))
			confine(p, node, set, &config);
		ff_transaction_set(p->t, node, &config);
	}
}

/* Branches of `fork` to sets like `like`: to all of them in turn, or as chance has it
 * some to others. */
static void place_branches(
		struct ff_proposer *p, uint32_t fork, struct set like, uint32_t turn, bool all)
{
	const struct ff_graph *g = p->graph;
	const struct ff_node *at = &g->nodes[fork];
	uint32_t end = p->join[fork], branch = turn, count = 0;
	bool by_sample = draw(p, 2);

	p->stack.stamp++;
	for (uint32_t k = at->out; k < at->out + ff_node_outputs(at) && end != FF_NONE; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++) {
			uint32_t to = ff_value_reader(g, &g->values[k], u), from = count;

			count = collect(p, to, end, count);
			if (count == from)
				continue;
			branch++;
			if (all || draw(p, 3) == 0)
				place_branch(p, from, count, set_at(p, like.n, like.stride, branch),
						by_sample);
		}
}

void ff_propose_branches(struct ff_proposer *p)
{
	uint32_t fork = p->fork[draw(p, p->n_forks)];

	place_branches(p, fork, draw_set(p), draw(p, p->space->n_devices), draw(p, 3));
}

/* Forks within forks, as cells of unrolled recurrences are: of their branches most would be placed
 * again and again, and the more of them a layout places the less is left of the others.  So there
 * are fewer. */
static bool draw_fork(struct ff_proposer *p)
{
	double most = MOST_PLACED * p->graph->n_nodes;

	return draw(p, 2) &&
	       (p->between / 2 <= most || ff_random_unit(&p->random) < most / (p->between / 2));
}

/* Everything on one set of devices, and some branches of some forks on others like
 * it. */
void ff_propose_layout(struct ff_proposer *p)
{
	struct set set = draw_set(p);

	split_row(p, 0, p->n_nodes, FF_DIM_SAMPLE, set);
	for (uint32_t i = 0; i < p->n_forks; i++)
		if (draw_fork(p))
			place_branches(p, p->fork[i], set, draw(p, p->space->n_devices / set.n),
					false);
}

/* ---- views: everything on some devices goes to others ---- */

static uint32_t base_stride(const struct ff_config *c, uint32_t n_dims)
{
	uint32_t base = 0;

	for (uint32_t d = 0; d < n_dims; d++)
		if (c->degree[d] > 1 && (base == 0 || c->stride[d] < base))
			base = c->stride[d];
	return base;
}

void ff_propose_view(struct ff_proposer *p)
{
	uint32_t node = p->node[draw(p, p->n_nodes)], n_dims = p->graph->nodes[node].n_dims;
	struct ff_config was = *ff_proposer_config(p, node), to;
	uint32_t base = base_stride(&was, n_dims), new_base;
	struct ff_view view;

	if (was.replicas > 1)
		return;
	ff_view_draw(p->space, n_dims, was.degree, p->space->n_devices % was.n_parts == 0,
			&p->random, &view);
	ff_view_config(n_dims, was.degree, &view, &to);
	new_base = base_stride(&to, n_dims);
	for (uint32_t i = 0; i < p->n_nodes; i++) {
		const struct ff_config *c = ff_proposer_config(p, p->node[i]);

		n_dims = p->graph->nodes[p->node[i]].n_dims;
		if (c->list || c->replicas > 1 || c->n_parts != was.n_parts ||
				c->start != was.start || base_stride(c, n_dims) != base)
			continue;
		to = *c;
		to.start = (uint16_t)view.start;
		for (uint32_t d = 0; d < n_dims; d++)
			if (to.degree[d] > 1 && base > 0)
				to.stride[d] = (uint16_t)(to.stride[d] / base * new_base);
		ff_transaction_set(p->t, p->node[i], &to);
	}
}
