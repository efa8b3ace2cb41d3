/* Proposals: how a search changes one operator.  SPDX-License-Identifier: Apache-2.0 */
#include "propose.h"

#include <string.h>

#include "ff/node_class.h"

#define PRESET_EVERY 4    /* one proposal in so many is of a kind drawn by preset weight */
#define REMEMBERED 4096.0 /* proposals of a kind; then half of them are forgotten */
#define FIRST_MADE 64.0   /* what a kind begins with, so that none is written off early */
#define FIRST_HELPED 1.0
#define MOST_ORDERS 0.35 /* for each proposal of another kind */

int ff_transaction_init(const struct ff_graph *g, struct ff_arena *a, struct ff_transaction *ret,
		struct ff_error *err)
{
	struct ff_transaction t = {.n = 0};

	t.change = ff_arena_array(a, g->n_nodes, sizeof(*t.change));
	t.at = ff_arena_array(a, g->n_nodes, sizeof(*t.at));
	if (!t.change || !t.at)
		return ff_fail_memory(err);
	*ret = t;
	return FF_OK;
}

void ff_transaction_clear(struct ff_transaction *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		t->at[t->change[i].node] = 0;
	t->n = 0;
}

void ff_transaction_set(struct ff_transaction *t, uint32_t node, const struct ff_config *c)
{
	if (t->at[node] == 0) {
		t->change[t->n++].node = node;
		t->at[node] = t->n;
	}
	t->change[t->at[node] - 1].config = *c;
}

/* Links nodes that are alike, in order. */
static void link_classes(struct ff_proposer *p)
{
	for (uint32_t i = p->graph->n_nodes; i-- > 0;)
		p->next_like[i] = FF_NONE;
	for (uint32_t i = 0; i < p->graph->n_nodes; i++)
		p->stack[i] = i;
	/* stack: by class, its last node so far */
	for (uint32_t i = 0; i < p->graph->n_nodes; i++)
		if (p->class[i] != i) {
			p->next_like[p->stack[p->class[i]]] = i;
			p->stack[p->class[i]] = i;
		}
}

int ff_proposer_init(const struct ff_space *s, const struct ff_graph *g, uint64_t seed,
		uint32_t stream, struct ff_arena *a, struct ff_proposer *ret, struct ff_error *err)
{
	struct ff_proposer p = {.space = s, .graph = g};
	int code = ff_classes_find(g, a, &p.class, err);

	if (code < 0)
		return code;
	p.random.seed = seed;
	p.random.stream = ff_philox_stream(stream, 'p');
	p.node = ff_arena_array(a, g->n_nodes, sizeof(*p.node));
	p.fork = ff_arena_array(a, g->n_nodes, sizeof(*p.fork));
	p.join = ff_arena_array(a, g->n_nodes, sizeof(*p.join));
	p.next_like = ff_arena_array(a, g->n_nodes, sizeof(*p.next_like));
	p.stack = ff_arena_array(a, g->n_nodes, sizeof(*p.stack));
	if (!p.node || !p.fork || !p.join || !p.next_like || !p.stack)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_space_count(s, i) > 1)
			p.node[p.n_nodes++] = i;
	link_classes(&p);
	ff_proposer_find_forks(&p);
	code = ff_proposer_find_readers(&p, a, err);
	if (code == FF_OK)
		*ret = p;
	return code;
}

const struct ff_config *ff_proposer_config(const struct ff_proposer *p, uint32_t node)
{
	uint32_t at = p->t->at[node];

	return at ? &p->t->change[at - 1].config : &p->base->config[node];
}

/* The dim that splits `axis`, or FF_NONE. */
static uint32_t axis_dim(const struct ff_operand *o, uint32_t axis)
{
	return o->axis[axis].n_terms > 0 ? (uint32_t)o->axis[axis].term[0].dim : FF_NONE;
}

/* A use of a tensor as a node at one end sees it: its own operand there, the
 * node at the other end, and what the tensor is to that. */
struct link {
	uint32_t other;
	const struct ff_operand *own_map, *other_map;
};

/* Uses of what `node` writes. */
static uint32_t count_uses(const struct ff_graph *g, const struct ff_node *n)
{
	uint32_t uses = 0;

	for (uint32_t k = n->out; k < n->out + n->n_out; k++)
		uses += g->values[k].n_uses;
	return uses;
}

/* A random one of `node`; false when it has none. */
static bool pick_link(struct ff_proposer *p, uint32_t node, struct link *ret)
{
	const struct ff_graph *g = p->graph;
	const struct ff_node *n = &g->nodes[node];
	uint32_t uses = count_uses(g, n), inputs = n->n_data - n->n_prelude, pick;

	if (inputs + uses == 0)
		return false;
	pick = ff_random_below(&p->random, inputs + uses);
	if (pick < inputs) {
		const struct ff_value *v = &g->values[g->edges[n->in + pick].value];

		ret->other = v->producer;
		ret->own_map = &n->in_map[pick];
		ret->other_map = &g->nodes[ret->other].out_map[v->port];
		return true;
	}
	pick -= inputs;
	for (uint32_t k = n->out; k < n->out + n->n_out; k++) {
		const struct ff_value *v = &g->values[k];
		const struct ff_edge *edge;

		if (pick >= v->n_uses) {
			pick -= v->n_uses;
			continue;
		}
		edge = &g->edges[g->uses[v->first_use + pick]];
		/* a prelude reads as the node does that it goes before */
		ret->other = ff_node_leader(g, edge->node);
		ret->own_map = &n->out_map[k - n->out];
		ret->other_map = &g->nodes[edge->node].in_map[edge->slot];
		return true;
	}
	return false;
}

/* Gives `node` the split of the tensor between that `from` has, on the same
 * devices.  `own` and `other` are the tensor as node and `from` see it. */
static bool align(struct ff_proposer *p, uint32_t node, const struct ff_operand *own, uint32_t from,
		const struct ff_operand *other, struct ff_config *ret)
{
	const struct ff_config *c = ff_proposer_config(p, from);
	const struct ff_node *n = &p->graph->nodes[node];
	uint16_t degree[FF_MAX_DIMS];
	struct ff_view seen, view = {0};

	if (c->n_parts == 0)
		return false;
	ff_view_of(p->graph->nodes[from].n_dims, c, &seen);
	for (uint32_t i = 0; i < n->n_dims; i++)
		degree[i] = 1;
	view.start = seen.start;
	for (uint32_t axis = 0; axis < own->rank && axis < other->rank; axis++) {
		uint32_t d = axis_dim(own, axis), e = axis_dim(other, axis);

		if (d == FF_NONE || e == FF_NONE || degree[d] > 1)
			continue;
		degree[d] = c->degree[e];
		if (degree[d] > n->dim[d].extent)
			degree[d] = (uint16_t)n->dim[d].extent;
		view.stride[d] = seen.stride[e];
	}
	if (!ff_view_check(n->n_dims, degree, &view, p->space->n_devices))
		return false;
	ff_view_config(n->n_dims, degree, &view, ret);
	return true;
}

bool ff_proposer_follow(struct ff_proposer *p, uint32_t node, uint32_t slot, struct ff_config *ret)
{
	const struct ff_node *n = &p->graph->nodes[node];
	const struct ff_value *v = &p->graph->values[p->graph->edges[n->in + slot].value];

	return align(p, node, &n->in_map[slot], v->producer,
			&p->graph->nodes[v->producer].out_map[v->port], ret);
}

bool ff_proposer_lead(struct ff_proposer *p, uint32_t edge, struct ff_config *ret)
{
	const struct ff_edge *e = &p->graph->edges[edge];
	const struct ff_value *v = &p->graph->values[e->value];

	return align(p, v->producer, &p->graph->nodes[v->producer].out_map[v->port], e->node,
			&p->graph->nodes[e->node].in_map[e->slot], ret);
}

/* Aligns `node` with a neighbour. */
static bool follow(struct ff_proposer *p, uint32_t node, struct ff_config *ret)
{
	struct link l;

	return pick_link(p, node, &l) && align(p, node, l.own_map, l.other, l.other_map, ret);
}

bool ff_proposer_spread(
		struct ff_proposer *p, uint32_t from, uint32_t *node, struct ff_config *config)
{
	struct link l;

	if (!pick_link(p, from, &l) || ff_space_count(p->space, l.other) == 1)
		return false;
	*node = l.other;
	return align(p, l.other, l.other_map, from, l.own_map, config);
}

/* The same degrees elsewhere. */
static void move(struct ff_proposer *p, const struct ff_config *own, uint32_t n_dims,
		struct ff_config *ret)
{
	bool tidy = p->space->n_devices % own->n_parts == 0 && ff_random_below(&p->random, 4) > 0;
	struct ff_view view;

	ff_view_draw(p->space, n_dims, own->degree, tidy, &p->random, &view);
	ff_view_config(n_dims, own->degree, &view, ret);
}

/* A factor of two from one dim to another (or to or from the number of parts);
 * first device and base stride stay where they fit. */
static bool shift(struct ff_proposer *p, const struct ff_node *n, const struct ff_config *own,
		struct ff_config *ret)
{
	uint32_t to = ff_random_below(&p->random, n->n_dims + 1);
	uint32_t from = ff_random_below(&p->random, n->n_dims + 1);
	uint16_t degree[FF_MAX_DIMS];
	struct ff_view view = {0};
	uint32_t stride = UINT32_MAX;

	memcpy(degree, own->degree, sizeof(degree));
	ff_view_of(n->n_dims, own, &view);
	for (uint32_t i = 0; i < n->n_dims; i++)
		if (view.stride[i] > 0 && view.stride[i] < stride)
			stride = view.stride[i];
	stride = stride == UINT32_MAX ? 1 : stride; /* nothing is split */
	if (from == to || (from < n->n_dims && degree[from] % 2 != 0))
		return false;
	if (to < n->n_dims && 2 * degree[to] > n->dim[to].extent)
		return false;
	if (from < n->n_dims)
		degree[from] /= 2;
	if (to < n->n_dims)
		degree[to] = (uint16_t)(2 * degree[to]);
	for (uint32_t i = n->n_dims; i-- > 0; stride *= degree[i])
		view.stride[i] = degree[i] > 1 ? stride : 0;
	if (!ff_view_check(n->n_dims, degree, &view, p->space->n_devices))
		return false;
	ff_view_config(n->n_dims, degree, &view, ret);
	return true;
}

void ff_proposer_one(struct ff_proposer *p, uint32_t node, struct ff_config *ret)
{
	const struct ff_node *n = &p->graph->nodes[node];
	const struct ff_config *own = ff_proposer_config(p, node);
	bool made = false;

	switch (ff_random_below(&p->random, 8)) {
	case 0:
	case 1:
		made = follow(p, node, ret);
		break;
	case 2:
		move(p, own, n->n_dims, ret);
		made = true;
		break;
	case 3:
		made = shift(p, n, own, ret);
		break;
	default:
		break;
	}
	while (!made || ff_config_equal(n, ret, own)) {
		ff_space_draw(p->space, node, &p->random, ret);
		made = true;
	}
}

/* Takes out what would change nothing. */
static void drop_equal(struct ff_proposer *p)
{
	struct ff_transaction *t = p->t;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t node = t->change[i].node;

		t->at[node] = 0;
		if (ff_config_equal(&p->graph->nodes[node], &t->change[i].config,
				    &p->base->config[node]))
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
	struct link l;

	if (p->space->what & FF_SPACE_REPLICAS && ff_random_below(&p->random, 2))
		ff_propose_replicas(p);
	else
		propose_one(p);
	if (p->t->n == 0 || !pick_link(p, p->t->change[0].node, &l) ||
			ff_space_count(p->space, l.other) == 1)
		return;
	ff_proposer_one(p, l.other, &config);
	ff_transaction_set(p->t, l.other, &config);
}

static const struct {
	void (*propose)(struct ff_proposer *p);
	uint32_t weight; /* preset */
	uint32_t what;   /* FF_SPACE_*: of the space; 0: always */
	bool forks;      /* only where there are some */
} kinds[FF_PROPOSAL_KINDS] = {
		{propose_one, 80, 0, false},
		{propose_pair, 10, 0, false},
		{ff_propose_run, 30, 0, false},
		{ff_propose_class, 15, 0, false},
		{ff_propose_fed, 5, 0, false},
		{ff_propose_branches, 15, 0, true},
		{ff_propose_led, 5, 0, false},
		{ff_propose_chain, 5, 0, false},
		{ff_propose_layout, 5, 0, false},
		{ff_propose_view, 5, 0, false},
		{ff_propose_updates, 11, FF_SPACE_UPDATES, false},
		{ff_propose_trade, 11, FF_SPACE_UPDATES, false},
		{ff_propose_replicas, 10, FF_SPACE_REPLICAS, false},
		[FF_PROPOSAL_ORDER] = {NULL, 30, 0, false},
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

/* Half of the draws are by preset weight, so that no kind is ever given up; the others
 * by how often one of its kind helped lately (as large neighbourhood search chooses
 * among its neighbourhoods: Ropke and Pisinger, Transportation Science 2006). */
static uint32_t draw_kind(struct ff_proposer *p)
{
	bool preset = ff_random_below(&p->random, PRESET_EVERY) == 0;
	double weight[FF_PROPOSAL_KINDS], sum = 0, at;
	uint32_t kind = 0;

	for (uint32_t i = 0; i < FF_PROPOSAL_KINDS; i++) {
		const struct ff_kind_record *r = &p->record[i];

		weight[i] = preset ? kinds[i].weight
				   : (r->helped + FIRST_HELPED) / (r->made + FIRST_MADE);
		weight[i] = is_possible(p, i) ? weight[i] : 0;
		sum += i == FF_PROPOSAL_ORDER ? 0 : weight[i];
	}
	/* orders make many steps a little faster: there would be nothing else */
	if (weight[FF_PROPOSAL_ORDER] > MOST_ORDERS * sum)
		weight[FF_PROPOSAL_ORDER] = MOST_ORDERS * sum;
	sum += weight[FF_PROPOSAL_ORDER];
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
	if (!kinds[p->kind].propose)
		return;
	kinds[p->kind].propose(p);
	drop_equal(p);
	if (ret->n == 0) {
		ff_proposer_learn(p, false);
		p->kind = 0;
		propose_one(p);
	}
}

void ff_proposer_learn(struct ff_proposer *p, bool helped)
{
	struct ff_kind_record *r = &p->record[p->kind];

	if (r->made >= REMEMBERED) {
		r->made /= 2;
		r->helped /= 2;
	}
	r->made++;
	r->helped += helped;
}
