/* How long every lane is busy at least: all compute and moves that hold it, one after
 * another (but for what moves a second time, for backward).  No step is shorter, and it is known
 * before a proposal is timed, most of it before its redistributions are built: a search that has
 * drawn what it would accept need not hear how much worse the rest is.  SPDX-License-Identifier:
 * Apache-2.0 */
#include <string.h>

#include "evaluate.h"

/* Sums come about in other orders than times do. */
#define SLACK 1e-9

static void hold(struct ff_evaluator *e, double *busy, uint32_t lane, double us)
{
	busy[lane] += us;
	e->too_slow = e->too_slow || busy[lane] > e->most_us;
}

static void count_node(struct ff_evaluator *e, double *busy, uint32_t node, double sign)
{
	const struct ff_memo_node *mn = e->node[node];
	double back = sign * e->program.micro_batches;
	double forward = e->program.again[node] ? 2 * back : back;

	if (!ff_node_is_computed(e->g, node))
		return;
	for (uint32_t p = 0; p < mn->block.n_parts; p++)
		hold(e, busy, mn->block.device[p],
				forward * mn->us[FF_FORWARD][p] + back * mn->us[FF_BACKWARD][p]);
}

static void count_moves(struct ff_evaluator *e, double *busy, uint32_t n,
		const struct ff_memo_move *move, double sign)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < move[i].n_lanes; k++) {
			const struct ff_lanes *l = k < 2 ? &move[i].lane[k] : &move[i].more[k - 2];

			for (uint32_t j = l->first; j < l->first + l->n; j++)
				hold(e, busy, j, sign * move[i].us);
		}
}

static void count_edge(struct ff_evaluator *e, double *busy, uint32_t edge, double sign)
{
	const struct ff_memo_edge *me = e->edge[edge];
	uint32_t from = ff_edge_source(e->g, edge);
	double all = sign * e->program.micro_batches;
	double forward = ff_node_is_parameter(e->g, from) && !e->program.again[from] ? sign : all;
	double back = ff_node_is_parameter(e->g, from) ? sign : all;

	if (!me)
		return;
	if (e->g->edges[edge].shared == FF_NONE)
		count_moves(e, busy, me->block.forward.n_moves, me->move[FF_FORWARD], forward);
	count_moves(e, busy, me->block.backward.n_moves, me->move[FF_BACKWARD], back);
}

/* And its prelude, which changes with it and never alone. */
static void count_change(struct ff_evaluator *e, double *busy, uint32_t node, double sign)
{
	uint32_t prelude = ff_node_prelude(e->g, node);

	if (ff_node_is_prelude(e->g, node))
		return;
	count_node(e, busy, node, sign);
	if (prelude != FF_NONE)
		count_node(e, busy, prelude, sign);
}

void ff_busy_reset(struct ff_evaluator *e)
{
	memset(e->busy, 0, ff_lane_count(e->m) * sizeof(*e->busy));
	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		count_node(e, e->busy, i, 1);
	for (uint32_t k = 0; k < e->g->n_edges; k++)
		count_edge(e, e->busy, k, 1);
}

void ff_busy_begin(struct ff_evaluator *e, double limit_us)
{
	memcpy(e->busy_next, e->busy, ff_lane_count(e->m) * sizeof(*e->busy));
	for (uint32_t i = 0; i < e->n_changes; i++)
		count_change(e, e->busy_next, e->changes[i].node, -1);
	for (uint32_t i = 0; i < e->n_touched; i++) {
		const struct ff_value *v = &e->g->values[e->touched[i]];

		for (uint32_t u = 0; u < v->n_uses; u++)
			count_edge(e, e->busy_next, e->g->uses[v->first_use + u], -1);
	}
	e->most_us = limit_us * (1 + SLACK);
	e->too_slow = false;
}

void ff_busy_add_node(struct ff_evaluator *e, uint32_t node)
{
	count_change(e, e->busy_next, node, 1);
}

void ff_busy_add_uses(struct ff_evaluator *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];

	for (uint32_t u = 0; u < v->n_uses; u++)
		count_edge(e, e->busy_next, e->g->uses[v->first_use + u], 1);
}

void ff_busy_keep(struct ff_evaluator *e)
{
	double *was = e->busy;

	e->busy = e->busy_next;
	e->busy_next = was;
}
