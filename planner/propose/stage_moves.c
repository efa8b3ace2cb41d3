/* Where stages are cut, moved.  An operator that goes to the devices of the next stage and stays in
 * its own makes that wait for the next, and one that goes to the next stage and stays where it is
 * is sent for: either is slower alone.  SPDX-License-Identifier: Apache-2.0 */
#include "stage_moves.h"

#include <string.h>

#include "extras.h"
#include "space/carry_config.h"

/* What goes from one stage to another. */
struct cut {
	const struct ff_graph *g;
	struct ff_strategy *s;
	uint32_t from, to;        /* stages */
	struct ff_progression on; /* devices of `to` */
};

/* The devices of the stage that is moved to: those of its operator before `node`, else after it. */
static bool find_devices(struct cut *c, const uint32_t *order, uint32_t n_order, uint32_t node)
{
	uint32_t best = FF_NONE;

	for (uint32_t i = 0; i < n_order; i++) {
		uint32_t other = order[i];

		if (c->s->stage[other] != c->to || c->s->config[other].list)
			continue;
		if (other < node || best == FF_NONE)
			best = other;
		if (other > node)
			break;
	}
	if (best != FF_NONE)
		c->on = ff_config_progression(&c->g->nodes[best], &c->s->config[best]);
	return best != FF_NONE;
}

/* Whether `node` is an operator of the stage that is moved to. */
static bool is_moved(const struct cut *c, uint32_t node)
{
	return ff_node_needs_config(c->g, node) && c->s->stage[node] == c->to;
}

/* Whether `node`, of the stage that is left, reads something that has gone to a later one. */
static bool reads_moved(const struct cut *c, uint32_t node)
{
	const struct ff_node *n = &c->g->nodes[node];

	for (uint32_t k = n->in; k < n->in + n->n_data; k++)
		if (is_moved(c, ff_node_leader(c->g, ff_edge_source(c->g, k))))
			return true;
	return false;
}

/* Whether something that has gone to an earlier one reads what `node` makes. */
static bool feeds_moved(const struct cut *c, uint32_t node)
{
	const struct ff_node *n = &c->g->nodes[node];

	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
		for (uint32_t u = 0; u < c->g->values[k].n_uses; u++)
			if (is_moved(c, ff_node_leader(c->g, ff_value_reader(c->g, &c->g->values[k],
									     u))))
				return true;
	return false;
}

/* Parameters of `node` go where it goes, by as many devices; not `along`: to their readers. */
static void bring_parameters(const struct cut *c, uint32_t node, bool along, int32_t by)
{
	const struct ff_node *n = &c->g->nodes[node];

	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++) {
		struct ff_config *own = &c->s->config[ff_edge_source(c->g, k)];

		if (own->n_parts && along && !own->list && (int32_t)own->start + by >= 0)
			own->start = (uint16_t)((int32_t)own->start + by);
		else if (own->n_parts)
			ff_param_follow(own);
	}
}

static void put(const struct cut *c, uint32_t node)
{
	const struct ff_node *n = &c->g->nodes[node];
	struct ff_config *own = &c->s->config[node];
	struct ff_progression at = ff_config_progression(n, own);
	bool along = !own->list && at.n == c->on.n && (at.n == 1 || at.step == c->on.step);

	c->s->stage[node] = (uint16_t)c->to;
	bring_parameters(c, node, along, (int32_t)c->on.start - (int32_t)at.start);
	if (along)
		own->start = (uint16_t)c->on.start;
	else
		ff_carry_samples(n, c->on.start, c->on.n, own);
}

bool ff_move_cut(const struct ff_graph *g, const uint32_t *order, uint32_t n_order, uint32_t node,
		bool later, struct ff_strategy *s)
{
	struct cut c = {.g = g, .s = s, .from = s->stage[node], .to = s->stage[node] + later};

	if (!later && c.from == 0)
		return false;
	c.to -= !later;
	if (!find_devices(&c, order, n_order, node))
		return false;
	put(&c, node);
	for (uint32_t i = 0; i < n_order; i++) {
		uint32_t other = order[later ? i : n_order - 1 - i];
		bool behind = later ? other > node : other < node;

		if (behind && s->stage[other] == c.from &&
				(later ? reads_moved(&c, other) : feeds_moved(&c, other)))
			put(&c, other);
	}
	return true;
}

bool ff_stage_ends_at(
		const struct ff_graph *g, uint32_t node, bool later, const struct ff_strategy *s)
{
	const struct ff_node *n = &g->nodes[node];

	for (uint32_t k = n->in; k < n->in + n->n_data && !later; k++) {
		uint32_t from = ff_node_leader(g, ff_edge_source(g, k));

		if (ff_node_needs_config(g, from) && s->stage[from] < s->stage[node])
			return true;
	}
	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n) && later; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++)
			if (s->stage[ff_node_leader(g, ff_value_reader(g, &g->values[k], u))] >
					s->stage[node])
				return true;
	return false;
}

/* ---- the order rule ---- */

bool ff_share_devices(const struct ff_graph *g, const struct ff_strategy *s, uint32_t a, uint32_t b)
{
	uint16_t one[FF_MAX_DEVICES], other[FF_MAX_DEVICES];
	uint8_t used[FF_MAX_DEVICES] = {0};
	bool shared = false;

	ff_config_devices(&g->nodes[a], &s->config[a], one);
	ff_config_devices(&g->nodes[b], &s->config[b], other);
	for (uint32_t i = 0; i < s->config[a].n_parts; i++)
		used[one[i]] = 1;
	for (uint32_t i = 0; i < s->config[b].n_parts; i++)
		shared = shared || used[other[i]];
	return shared;
}

/* Operators in a row. */
struct row {
	const struct ff_graph *graph;
	const uint32_t *node, n;
};

/* How many stages the devices of the first hold, where all take turns; 1: no others of its. */
static uint32_t count_chunks(const struct row *r, const struct ff_strategy *s)
{
	uint32_t ranks = UINT32_MAX, stages = 0, first = r->node[0];

	for (uint32_t i = 1; i < r->n; i++)
		if (s->stage[r->node[i]] < s->stage[first])
			first = r->node[i];
	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t stage = (uint32_t)s->stage[r->node[i]] - s->stage[first];

		stages = stage >= stages ? stage + 1 : stages;
		if (stage && stage < ranks && ff_share_devices(r->graph, s, first, r->node[i]))
			ranks = stage;
	}
	return ranks < stages ? (stages + ranks - 1) / ranks : 1;
}

/* The first operator of a stage; FF_NONE: there is none. */
static uint32_t first_of(const struct row *r, const struct ff_strategy *s, uint32_t stage)
{
	uint32_t i = 0;

	while (i < r->n && s->stage[r->node[i]] != stage)
		i++;
	return i < r->n ? r->node[i] : FF_NONE;
}

/* Whether the i-th stage and the i-th from the last share devices, and neighbours do only where the
 * way down turns. */
static bool is_vee(const struct row *r, const struct ff_strategy *s)
{
	uint32_t last = 0;
	bool vee = true;

	for (uint32_t i = 0; i < r->n; i++)
		last = s->stage[r->node[i]] > last ? s->stage[r->node[i]] : last;
	for (uint32_t i = 0; i <= last / 2 && vee; i++) {
		uint32_t down = first_of(r, s, i), up = first_of(r, s, last - i);
		uint32_t next = first_of(r, s, i + 1);

		vee = down != FF_NONE && up != FF_NONE && ff_share_devices(r->graph, s, down, up) &&
		      (next == up || (next != FF_NONE &&
						     !ff_share_devices(r->graph, s, down, next)));
	}
	return vee && last > 1 && last % 2;
}

bool ff_rule_change(struct ff_strategy *s, enum ff_order_rule rule, bool shared)
{
	static const uint8_t ticks[2][FF_STAGE_PASSES] = {{0, 0, 0}, {2, 2, 1}};
	bool changed = s->rule != rule || memcmp(s->ticks, ticks[shared], sizeof(s->ticks)) != 0;

	s->rule = rule;
	s->chunks = 1;
	memcpy(s->ticks, ticks[shared], sizeof(s->ticks));
	return changed && s->micro_batches > 1;
}

bool ff_rule_next(const struct ff_graph *g, const uint32_t *order, uint32_t n_order, bool shared,
		struct ff_strategy *s)
{
	const struct row r = {g, order, n_order};
	static const enum ff_order_rule next[FF_ORDER_COUNT] = {[FF_ORDER_GPIPE] = FF_ORDER_1F1B,
			[FF_ORDER_1F1B] = FF_ORDER_ZB_H1,
			[FF_ORDER_INTERLEAVED] = FF_ORDER_ZB_H1,
			[FF_ORDER_ZB_H1] = FF_ORDER_GPIPE,
			[FF_ORDER_ZB_V] = FF_ORDER_ZB_H1};
	uint32_t chunks = s->rule == FF_ORDER_1F1B ? count_chunks(&r, s) : 1;
	enum ff_order_rule rule = next[s->rule];

	if (s->rule == FF_ORDER_1F1B && is_vee(&r, s))
		rule = FF_ORDER_ZB_V;
	else if (chunks > 1 && chunks <= FF_MOST_CHUNKS)
		rule = FF_ORDER_INTERLEAVED;
	ff_rule_change(s, rule, ff_order_row(rule)->halves && shared);
	s->chunks = rule == FF_ORDER_INTERLEAVED ? chunks : 1;
	return s->micro_batches > 1;
}
