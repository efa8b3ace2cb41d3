/* What proposals are made of: transactions, and one operator's next config.
 * SPDX-License-Identifier: Apache-2.0 */
#include "proposer.h"

#include <string.h>

#define JOIN_TRIES 8      /* at finding one that is elsewhere */
#define REMEMBERED 4096.0 /* proposals of a kind; then half of them are forgotten */
#define FIRST_MADE 64.0   /* what a kind begins with, so that none is written off early */
#define FIRST_HELPED 1.0

double ff_kind_helps(const struct ff_kind_record *r)
{
	return (r->helped + FIRST_HELPED) / (r->made + FIRST_MADE);
}

void ff_kind_learn(struct ff_kind_record *r, bool helped)
{
	if (r->made >= REMEMBERED) {
		r->made /= 2;
		r->helped /= 2;
	}
	r->made++;
	r->helped += helped;
}

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

struct ff_config *ff_transaction_set(
		struct ff_transaction *t, uint32_t node, const struct ff_config *c)
{
	struct ff_config *ret;

	if (t->at[node] == 0) {
		t->change[t->n++].node = node;
		t->at[node] = t->n;
	}
	ret = &t->change[t->at[node] - 1].config;
	*ret = *c;
	return ret;
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

	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
		uses += g->values[k].n_uses;
	return uses;
}

/* A random one of `node`; false when it has none. */
static bool pick_link(struct ff_proposer *p, uint32_t node, struct link *ret)
{
	const struct ff_graph *g = p->graph;
	const struct ff_node *n = &g->nodes[node];
	uint32_t uses = count_uses(g, n), inputs = ff_node_inputs(n), pick;

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
	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++) {
		const struct ff_value *v = &g->values[k];
		const struct ff_edge *edge;

		if (pick >= v->n_uses) {
			pick -= v->n_uses;
			continue;
		}
		edge = &g->edges[ff_value_use(g, v, pick)];
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

bool ff_proposer_neighbour(struct ff_proposer *p, uint32_t node, uint32_t *ret)
{
	struct link l;

	if (!pick_link(p, node, &l))
		return false;
	*ret = l.other;
	return true;
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

struct ff_progression ff_config_progression(const struct ff_node *n, const struct ff_config *c)
{
	struct ff_progression d = {.start = c->list ? c->list[0] : c->start, .n = c->n_parts};

	for (uint32_t i = 0; i < n->n_dims && !c->list; i++)
		if (c->degree[i] > 1 && (!d.step || c->stride[i] < d.step))
			d.step = c->stride[i];
	if (!c->list && c->replicas > 1 && (!d.step || c->replica_stride < d.step))
		d.step = c->replica_stride;
	d.step = d.step ? d.step : 1;
	return d;
}

/* The same degrees where another operator with as many parts is. */
static bool join_other(struct ff_proposer *p, const struct ff_node *node,
		const struct ff_config *own, struct ff_config *ret)
{
	struct ff_progression from = ff_config_progression(node, own), on;
	struct ff_view view = {0};

	if (own->list || own->replicas > 1)
		return false;
	for (uint32_t tries = 0; tries < JOIN_TRIES; tries++) {
		uint32_t other = p->all[ff_random_below(&p->random, p->n_all)];
		const struct ff_config *c = ff_proposer_config(p, other);

		on = ff_config_progression(&p->graph->nodes[other], c);
		if (c->list || c->n_parts != own->n_parts ||
				(on.start == from.start && (on.n == 1 || on.step == from.step)))
			continue;
		view.start = on.start;
		for (uint32_t d = 0; d < node->n_dims; d++)
			view.stride[d] = own->degree[d] > 1 ? own->stride[d] / from.step * on.step
							    : 0;
		if (!ff_view_check(node->n_dims, own->degree, &view, p->space->n_devices))
			continue;
		ff_view_config(node->n_dims, own->degree, &view, ret);
		return true;
	}
	return false;
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

static uint32_t least_factor(uint32_t n)
{
	for (uint32_t k = 2; k * k <= n; k++)
		if (n % k == 0)
			return k;
	return n;
}

/* A prime factor of the number of devices: 2 where that is a power of it. */
static uint32_t draw_factor(struct ff_proposer *p)
{
	uint32_t n = p->space->n_devices, least = least_factor(n), other = n;

	while (other % least == 0)
		other /= least;
	if (n == 1)
		return 2;
	return other > 1 && ff_random_below(&p->random, 2) ? least_factor(other) : least;
}

/* A factor from one dim to another (or to or from the number of parts);
 * first device and base stride stay where they fit. */
static bool shift(struct ff_proposer *p, const struct ff_node *n, const struct ff_config *own,
		struct ff_config *ret)
{
	uint32_t to = ff_random_below(&p->random, n->n_dims + 1);
	uint32_t from = ff_random_below(&p->random, n->n_dims + 1), by = draw_factor(p);
	uint16_t degree[FF_MAX_DIMS];
	struct ff_view view = {0};
	uint32_t stride = UINT32_MAX;

	memcpy(degree, own->degree, sizeof(degree));
	ff_view_of(n->n_dims, own, &view);
	for (uint32_t i = 0; i < n->n_dims; i++)
		if (view.stride[i] > 0 && view.stride[i] < stride)
			stride = view.stride[i];
	stride = stride == UINT32_MAX ? 1 : stride; /* nothing is split */
	if (from == to || (from < n->n_dims && degree[from] % by != 0))
		return false;
	if (to < n->n_dims && by * degree[to] > (uint32_t)n->dim[to].extent)
		return false;
	if (from < n->n_dims)
		degree[from] = (uint16_t)(degree[from] / by);
	if (to < n->n_dims)
		degree[to] = (uint16_t)(by * degree[to]);
	for (uint32_t i = n->n_dims; i-- > 0; stride *= degree[i])
		view.stride[i] = degree[i] > 1 ? stride : 0;
	if (!ff_view_check(n->n_dims, degree, &view, p->space->n_devices))
		return false;
	ff_view_config(n->n_dims, degree, &view, ret);
	return true;
}

/* The dim that a draw picks of those that are split, or are not; FF_NONE: it picked another. */
static uint32_t draw_dim(
		struct ff_proposer *p, const struct ff_node *n, const uint16_t *degree, bool split)
{
	uint32_t d = ff_random_below(&p->random, n->n_dims);

	return (degree[d] > 1) == split ? d : FF_NONE;
}

/* A dim is split instead of another, or of a part of it: every device is next to those that it was
 * next to.  A factor keeps its place, which the order of dims would change. */
static bool hand_over(struct ff_proposer *p, const struct ff_node *n, const struct ff_config *own,
		struct ff_config *ret)
{
	uint32_t from = draw_dim(p, n, own->degree, true);
	uint32_t to = draw_dim(p, n, own->degree, false);
	uint32_t by, kept = 1;

	if (own->list || from == FF_NONE || to == FF_NONE)
		return false;
	by = own->degree[from];
	if (ff_random_below(&p->random, 2))
		kept = least_factor(by);
	by /= kept == by ? 1 : kept;
	kept = own->degree[from] / by;
	if (by > (uint32_t)n->dim[to].extent)
		return false;
	*ret = *own;
	ret->degree[from] = (uint16_t)kept;
	ret->degree[to] = (uint16_t)by;
	ret->stride[to] = (uint16_t)(own->stride[from] * kept);
	ret->stride[from] = kept > 1 ? own->stride[from] : 0;
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
		made = ff_random_below(&p->random, 2) ? shift(p, n, own, ret)
						      : hand_over(p, n, own, ret);
		break;
	case 4:
		made = join_other(p, n, own, ret);
		break;
	default:
		break;
	}
	while (!made || ff_config_equal(n, ret, own)) {
		ff_space_draw(p->space, node, &p->random, ret);
		made = true;
	}
}
