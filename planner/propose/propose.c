/* Proposals: how a search changes one operator.  SPDX-License-Identifier: Apache-2.0 */
#include "propose.h"

#include <math.h>
#include <string.h>

#include "at_once.h"
#include "blocks.h"
#include "degrees.h"
#include "extras.h"
#include "ff/node_class.h"
#include "heavy.h"
#include "layers.h"
#include "space/limits.h"

#define MOST_ORDERS 0.35 /* for each proposal of another kind */
#define MOST_WHOLE 0.02  /* likewise, of a kind that changes all operators */
#define ORDERED 160.0    /* nodes above which there are fewer */
#define LIMIT_TRIES 64   /* at drawing a config that limits of the space admit */
#define SCARCE 0.5       /* of them where memory is scarce: phases and updates matter more there */

/* Links nodes that are alike, in order. */
static void link_classes(struct ff_proposer *p)
{
	for (uint32_t i = p->graph->n_nodes; i-- > 0;)
		p->next_like[i] = FF_NONE;
	for (uint32_t i = 0; i < p->graph->n_nodes; i++)
		p->stack.node[i] = i;
	/* stack: by class, its last node so far */
	for (uint32_t i = 0; i < p->graph->n_nodes; i++)
		if (p->class[i] != i) {
			p->next_like[p->stack.node[p->class[i]]] = i;
			p->stack.node[p->class[i]] = i;
		}
}

int ff_proposer_init(const struct ff_space *s, const struct ff_graph *g, uint64_t seed,
		uint32_t stream, struct ff_arena *a, struct ff_proposer *ret, struct ff_error *err)
{
	struct ff_proposer p = {.space = s, .graph = g, .alone = &s->machine->nodes[0]};
	int code = ff_classes_find(g, a, &p.class, err);

	if (code < 0)
		return code;
	p.random.seed = seed;
	p.random.stream = ff_philox_stream(stream, 'p');
	p.all = ff_arena_array(a, g->n_nodes, sizeof(*p.all));
	p.fork = ff_arena_array(a, g->n_nodes, sizeof(*p.fork));
	p.join = ff_arena_array(a, g->n_nodes, sizeof(*p.join));
	p.next_like = ff_arena_array(a, g->n_nodes, sizeof(*p.next_like));
	p.stack.node = ff_arena_array(a, g->n_nodes, sizeof(*p.stack.node));
	p.stack.seen = ff_arena_array(a, g->n_nodes, sizeof(*p.stack.seen));
	if (!p.all || !p.fork || !p.join || !p.next_like || !p.stack.node || !p.stack.seen)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_space_count(s, i) > 1)
			p.all[p.n_all++] = i;
	ff_proposer_focus(&p, 0, p.n_all);
	link_classes(&p);
	ff_proposer_find_forks(&p);
	code = ff_proposer_find_layers(&p, a, err);
	if (code == FF_OK)
		code = ff_proposer_find_readers(&p, a, err);
	if (code == FF_OK)
		code = ff_proposer_find_chains(&p, a, err);
	if (code == FF_OK)
		code = ff_proposer_find_heavy(&p, a, err);
	if (code == FF_OK)
		*ret = p;
	return code;
}

void ff_proposer_focus(struct ff_proposer *p, uint32_t first, uint32_t n)
{
	p->node = p->all + first;
	p->n_nodes = n;
}

/* Parameters are where they are first read. */
bool ff_proposer_is_in_focus(const struct ff_proposer *p, uint32_t node)
{
	const struct ff_graph *g = p->graph;

	if (p->n_nodes == p->n_all)
		return true;
	if (ff_node_is_parameter(g, node))
		node = g->edges[g->uses[g->values[g->nodes[node].out].first_use]].node;
	return node >= p->node[0] && node <= p->node[p->n_nodes - 1];
}

/* Takes out what would change nothing, what is to be left as it is, and what the space does not
 * have. */
static void drop_idle(struct ff_proposer *p)
{
	struct ff_transaction *t = p->t;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t node = t->change[i].node;

		t->at[node] = 0;
		if (!ff_proposer_is_in_focus(p, node) ||
				ff_config_equal(&p->graph->nodes[node], &t->change[i].config,
						&p->base->config[node]) ||
				!ff_space_admits_in(p->space, p->base, node, &t->change[i].config))
			continue;
		t->change[n++] = t->change[i];
		t->at[node] = n;
	}
	t->n = n;
}

static void propose_one(struct ff_proposer *p)
{
	uint32_t node = p->node[ff_random_below(&p->random, p->n_nodes)];
	struct ff_config config;

	ff_proposer_one(p, node, &config);
	ff_transaction_set(p->t, node, &config);
}

/* Two neighbours, neither of which would change without the other: say a sum that is
 * made twice and who reads it on twice as many devices. */
static void propose_pair(struct ff_proposer *p)
{
	struct ff_config config;
	uint32_t other;

	if (p->space->what & FF_SPACE_REPLICAS && ff_random_below(&p->random, 2))
		ff_propose_replicas(p);
	else
		propose_one(p);
	if (p->t->n == 0 || !ff_proposer_neighbour(p, p->t->change[0].node, &other) ||
			ff_space_count(p->space, other) == 1)
		return;
	ff_proposer_one(p, other, &config);
	ff_transaction_set(p->t, other, &config);
}

static const struct {
	void (*propose)(struct ff_proposer *p);
	uint32_t weight; /* preset */
	uint32_t what;   /* FF_SPACE_*: of the space; 0: always */
	bool forks;      /* only where there are some */
	bool whole;      /* it changes all layers, and takes as long as a strategy does */
} kinds[FF_PROPOSAL_KINDS] = {
		{propose_one, 80, 0, false, false},
		{propose_pair, 10, 0, false, false},
		{ff_propose_run, 30, 0, false, false},
		{ff_propose_class, 15, 0, false, false},
		{ff_propose_fed, 5, 0, false, false},
		{ff_propose_branches, 15, 0, true, false},
		{ff_propose_led, 5, 0, false, false},
		{ff_propose_chain, 5, 0, false, false},
		{ff_propose_layout, 5, 0, false, false},
		{ff_propose_view, 5, 0, false, false},
		{ff_propose_updates, 11, FF_SPACE_UPDATES, false, false},
		{ff_propose_trade, 11, FF_SPACE_UPDATES, false, false},
		{ff_propose_replicas, 10, FF_SPACE_REPLICAS, false, false},
		{ff_propose_degrees, 5, 0, false, true},
		[FF_PROPOSAL_ORDER] = {NULL, 30, 0, false, false},
};

static bool is_possible(const struct ff_proposer *p, uint32_t kind)
{
	if (!kinds[kind].propose)
		return p->orders;
	if (kinds[kind].what & ~p->space->what)
		return false;
	if (kinds[kind].what == FF_SPACE_UPDATES && p->n_readers == 0)
		return false;
	return !kinds[kind].forks || p->n_forks > 0;
}

/* For each proposal of another kind.  An order has the whole step built and timed anew, which
 * takes the longer the more nodes there are, and one of many nodes matters less. */
static double most_orders(const struct ff_proposer *p)
{
	double share = ORDERED / p->graph->n_nodes,
	       most = p->scarce ? SCARCE * MOST_ORDERS : MOST_ORDERS;

	return share < 1 ? most * share * share : most;
}

static bool is_limited(uint32_t kind)
{
	return kinds[kind].whole || !kinds[kind].propose;
}

/* Orders make many steps a little faster, and there would be nothing else; what changes all
 * operators takes long. */
static double most_of(const struct ff_proposer *p, uint32_t kind)
{
	return kinds[kind].whole ? MOST_WHOLE : most_orders(p);
}

/* One draw of FF_PRESET_EVERY is by preset weight, so that no kind is ever given up; the others
 * by how often one of its kind helped lately (as large neighbourhood search chooses
 * among its neighbourhoods: Ropke and Pisinger, Transportation Science 2006). */
static uint32_t draw_kind(struct ff_proposer *p)
{
	bool preset = ff_random_below(&p->random, FF_PRESET_EVERY) == 0;
	double weight[FF_PROPOSAL_KINDS], others = 0, sum, at;
	uint32_t kind = 0;

	for (uint32_t i = 0; i < FF_PROPOSAL_KINDS; i++) {
		weight[i] = preset ? kinds[i].weight : ff_kind_helps(&p->record[i]);
		weight[i] = is_possible(p, i) ? weight[i] : 0;
		others += is_limited(i) ? 0 : weight[i];
	}
	sum = others;
	for (uint32_t i = 0; i < FF_PROPOSAL_KINDS; i++)
		if (is_limited(i)) {
			weight[i] = fmin(weight[i], most_of(p, i) * others);
			sum += weight[i];
		}
	at = ff_random_unit(&p->random) * sum;
	for (uint32_t i = 0; i < FF_PROPOSAL_KINDS && at >= 0; at -= weight[i++])
		kind = weight[i] > 0 ? i : kind;
	return kind;
}

void ff_proposer_next(struct ff_proposer *p, const struct ff_strategy *current,
		struct ff_transaction *ret)
{
	p->t = ret;
	p->base = current;
	ff_transaction_clear(ret);
	p->kind = draw_kind(p);
	p->reach = FF_REACH_ONE;
	if (!kinds[p->kind].propose)
		return;
	kinds[p->kind].propose(p);
	if (!kinds[p->kind].whole)
		ff_propose_layers(p);
	drop_idle(p);
	if (ret->n == 0) {
		ff_proposer_learn(p, false);
		p->kind = 0;
		p->reach = FF_REACH_ONE;
	}
	for (uint32_t i = 0; ret->n == 0 && i < LIMIT_TRIES; i++) {
		propose_one(p);
		drop_idle(p);
	}
}

bool ff_proposer_sweep(struct ff_proposer *p, struct ff_sweep *s, const struct ff_strategy *current,
		struct ff_transaction *ret)
{
	p->t = ret;
	p->base = current;
	do {
		ff_transaction_clear(ret);
		if (!ff_sweep_next(s, p))
			return false;
		drop_idle(p);
	} while (ret->n == 0);
	return true;
}

bool ff_proposer_shares(struct ff_proposer *p, uint32_t i, const struct ff_strategy *current,
		struct ff_transaction *ret)
{
	p->t = ret;
	p->base = current;
	ff_transaction_clear(ret);
	if (!ff_proposer_at_once(p, i))
		return false;
	drop_idle(p);
	return true;
}

void ff_proposer_learn(struct ff_proposer *p, bool helped)
{
	ff_kind_learn(&p->record[p->kind], helped);
	if (p->n_layers && kinds[p->kind].propose && !kinds[p->kind].whole)
		ff_kind_learn(&p->reached[p->reach], helped);
}
