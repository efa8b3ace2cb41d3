/* Sweeps: every small change of a strategy, one after another.  SPDX-License-Identifier: Apache-2.0
 */
#include "sweep.h"

#include "at_once.h"
#include "blocks.h"
#include "extras.h"
#include "layers.h"

/* Whether `node` is in the first of the blocks that are repeated, or in none. */
static bool is_first(const struct ff_proposer *p, uint32_t node)
{
	for (uint32_t i = p->next_layer[node]; i != FF_NONE && i != node; i = p->next_layer[i])
		if (i < node)
			return false;
	return true;
}

/* The split of dim `from`, on the devices that it is on, becomes that of dim `to`, and the other
 * way round. */
static bool exchange(const struct ff_node *n, const struct ff_config *own, uint32_t from,
		uint32_t to, struct ff_config *ret)
{
	if (own->list || from == to || own->degree[from] == 1)
		return false;
	if (own->degree[to] > 1 && from > to)
		return false; /* it is the same as to and from */
	if (own->degree[from] > n->dim[to].extent || own->degree[to] > n->dim[from].extent)
		return false;
	*ret = *own;
	ret->degree[from] = own->degree[to];
	ret->stride[from] = own->stride[to];
	ret->degree[to] = own->degree[from];
	ret->stride[to] = own->stride[from];
	return true;
}

/* Aligns `node` with reader number `use` of what it writes. */
static bool lead(struct ff_proposer *p, uint32_t node, uint32_t use, struct ff_config *ret)
{
	const struct ff_graph *g = p->graph;
	const struct ff_node *n = &g->nodes[node];

	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++) {
		const struct ff_value *v = &g->values[k];

		if (use < v->n_uses)
			return ff_proposer_lead(p, ff_value_use(g, v, use), ret);
		use -= v->n_uses;
	}
	return false;
}

static uint32_t count_uses(const struct ff_graph *g, const struct ff_node *n)
{
	uint32_t uses = 0;

	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
		uses += g->values[k].n_uses;
	return uses;
}

/* Config number `i` of those that are near; false: there is none of that number. */
static bool near(struct ff_proposer *p, uint32_t node, uint32_t i, struct ff_config *ret)
{
	const struct ff_node *n = &p->graph->nodes[node];
	uint32_t pairs = n->n_dims * n->n_dims;

	if (i < pairs)
		return exchange(n, &p->base->config[node], i / n->n_dims, i % n->n_dims, ret);
	i -= pairs;
	return i < n->n_data ? ff_proposer_follow(p, node, i, ret)
			     : lead(p, node, i - n->n_data, ret);
}

static uint32_t count_near(const struct ff_proposer *p, uint32_t node)
{
	const struct ff_node *n = &p->graph->nodes[node];

	return n->n_dims * n->n_dims + n->n_data + count_uses(p->graph, n);
}

/* Change number `i` of `node`; false: there are not so many. */
static bool make(struct ff_proposer *p, uint32_t node, uint32_t i)
{
	const struct ff_node *n = &p->graph->nodes[node];
	uint32_t n_near = count_near(p, node);
	struct ff_config config;

	if (i < 2 * n_near) {
		if (!near(p, node, i / 2, &config))
			return true;
		ff_transaction_set(p->t, node, &config);
		if (i % 2)
			ff_proposer_add_followers(p);
		if (i % 2 && p->t->n == 1)
			ff_transaction_clear(p->t); /* tried before */
		return true;
	}
	i -= 2 * n_near;
	if (n->n_in == n->n_data || !(p->space->what & FF_SPACE_UPDATES) ||
			i >= FF_UPDATE_PROPOSALS)
		return false;
	ff_proposer_update(p, node, (enum ff_update_proposal)i, 0);
	return true;
}

/* Number 0 are all operators at once. */
static bool make_of(struct ff_proposer *p, uint32_t number, uint32_t i)
{
	if (number == 0)
		return ff_proposer_at_once(p, i);
	return is_first(p, p->all[number - 1]) && make(p, p->all[number - 1], i);
}

bool ff_sweep_next(struct ff_sweep *s, struct ff_proposer *p)
{
	while (s->n_unchanged <= p->n_all + 1) {
		uint32_t number = s->number % (p->n_all + 1);

		if (make_of(p, number, s->change)) {
			s->change++;
			if (p->t->n == 0)
				continue;
			if (number > 0)
				ff_propose_all_layers(p);
			return true;
		}
		s->number = (number + 1) % (p->n_all + 1);
		s->change = 0;
		s->n_unchanged++;
	}
	return false;
}

void ff_sweep_again(struct ff_sweep *s)
{
	s->n_unchanged = 0;
}
