/* How long every lane is busy at least: all compute and moves that hold it, one after
 * another (but for what moves a second time, for backward).  No step is shorter, and it is known
 * before a proposal is timed, most of it before its redistributions are built: a search that has
 * drawn what it would accept need not hear how much worse the rest is.  SPDX-License-Identifier:
 * Apache-2.0 */
#include "busy.h"

#include <math.h>
#include <string.h>

/* Sums come about in other orders than times do. */
#define SLACK 1e-9

static void judge(struct ff_trial *e, uint32_t lane, double us)
{
	e->busy.too_slow = e->busy.too_slow || us > e->busy.most_us;
	if (lane < e->m->n_devices && us > e->early.most_busy_us)
		ff_early_add_reason(&e->early, FF_EARLY_BUSY);
}

/* Lanes in a row, all for as long.  Returns how long the one that is busiest now is. */
FF_CLONES static double hold_row(uint32_t n, double us, double *busy)
{
	double most = 0;

	for (uint32_t i = 0; i < n; i++) {
		busy[i] += us;
		most = busy[i] > most ? busy[i] : most;
	}
	return most;
}

static void hold(struct ff_trial *e, double *busy, uint32_t lane, double us)
{
	busy[lane] += us;
	judge(e, lane, busy[lane]);
}

static void count_parts(struct ff_trial *e, double *busy, const struct ff_memo_node *mn,
		double forward, double back)
{
	if (mn->in_line && mn->uniform[FF_FORWARD] && mn->uniform[FF_BACKWARD]) {
		double us = forward * mn->each_us[FF_FORWARD] + back * mn->each_us[FF_BACKWARD];

		judge(e, mn->first, hold_row(mn->n_parts, us, busy + mn->first));
		return;
	}
	for (uint32_t p = 0; p < mn->n_parts; p++)
		hold(e, busy, mn->device[p],
				forward * mn->us[FF_FORWARD][p] + back * mn->us[FF_BACKWARD][p]);
}

static void count_node(struct ff_trial *e, double *busy, uint32_t node, double sign)
{
	double back = sign * e->order.program.micro_batches;

	if (ff_node_is_computed(e->g, node))
		count_parts(e, busy, e->placed.node[node],
				e->order.program.recomputed[node] ? 2 * back : back, back);
}

static void count_edge(
		struct ff_trial *e, double *busy, uint32_t edge, enum ff_pass pass, double sign)
{
	const struct ff_memo_edge *me = e->placed.edge[edge];
	const struct ff_edge_ends *ends = &e->ends[edge];
	double times;

	if (e->placed.state[pass][edge] != FF_EDGE_MOVES)
		return;
	times = ends->parameter && (pass == FF_BACKWARD || !e->order.program.recomputed[ends->from])
				? sign
				: sign * e->order.program.micro_batches;
	for (uint32_t i = 0; i < me->n_moves[pass]; i++) {
		const struct ff_memo_move *move = &me->move[pass][i];

		for (uint32_t k = 0; k < move->n_lanes; k++) {
			const struct ff_lanes *l = k < 2 ? &move->lane[k] : &move->more[k - 2];

			judge(e, l->first, hold_row(l->n, times * move->us, busy + l->first));
		}
	}
}

/* And its prelude, which changes with it and never alone. */
static void count_change(struct ff_trial *e, double *busy, uint32_t node, double sign)
{
	uint32_t prelude = ff_node_prelude(e->g, node);

	if (ff_node_is_prelude(e->g, node))
		return;
	count_node(e, busy, node, sign);
	if (prelude != FF_NONE)
		count_node(e, busy, prelude, sign);
}

void ff_busy_reset(struct ff_trial *e)
{
	memset(e->busy.now, 0, ff_lane_count(e->m) * sizeof(*e->busy.now));
	e->busy.most_us = INFINITY;
	e->busy.too_slow = false;
	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		count_node(e, e->busy.now, i, 1);
	for (uint32_t k = 0; k < e->g->n_edges; k++)
		for (int pass = 0; pass < 2; pass++)
			count_edge(e, e->busy.now, k, (enum ff_pass)pass, 1);
}

void ff_busy_fetch_edge(const struct ff_trial *e, uint32_t edge)
{
	for (int pass = 0; pass < 2; pass++)
		if (e->placed.state[pass][edge] == FF_EDGE_MOVES)
			__builtin_prefetch(e->placed.edge[edge]->move[pass]);
}

void ff_busy_begin(struct ff_trial *e, double limit_us)
{
	memcpy(e->busy.next, e->busy.now, ff_lane_count(e->m) * sizeof(*e->busy.now));
	for (uint32_t i = 0; i < e->proposal.n_changes; i++)
		count_change(e, e->busy.next, e->proposal.changes[i].node, -1);
	for (uint32_t i = 0; i < e->proposal.n_near; i++)
		ff_busy_fetch_edge(e, e->proposal.near[i]);
	for (uint32_t i = 0; i < e->proposal.n_near; i++)
		for (int pass = 0; pass < 2; pass++)
			count_edge(e, e->busy.next, e->proposal.near[i], (enum ff_pass)pass, -1);
	e->busy.most_us = limit_us * (1 + SLACK);
	e->busy.too_slow = false;
}

void ff_busy_add_node(struct ff_trial *e, uint32_t node)
{
	count_change(e, e->busy.next, node, 1);
}

void ff_busy_add_edge(struct ff_trial *e, uint32_t edge, enum ff_pass pass)
{
	count_edge(e, e->busy.next, edge, pass, 1);
}

void ff_busy_keep(struct ff_trial *e)
{
	double *was = e->busy.now;

	e->busy.now = e->busy.next;
	e->busy.next = was;
}

void ff_busy_limit(struct ff_trial *e, double limit_us)
{
	uint32_t lanes = ff_lane_count(e->m);

	memcpy(e->busy.next, e->busy.now, lanes * sizeof(*e->busy.now));
	e->busy.most_us = limit_us * (1 + SLACK);
	for (uint32_t i = 0; i < lanes; i++)
		e->busy.too_slow = e->busy.too_slow || e->busy.now[i] > e->busy.most_us;
}

int ff_busy_check(struct ff_trial *e, struct ff_micro *micro, const struct ff_strategy *s,
		double limit_us, bool *slower, struct ff_error *err)
{
	double times = s->micro_batches;
	int code = FF_OK;

	memset(e->busy.next, 0, ff_lane_count(e->m) * sizeof(*e->busy.next));
	e->busy.most_us = limit_us * (1 + SLACK);
	e->busy.too_slow = false;
	for (uint32_t i = 0; i < micro->g->n_nodes && code == FF_OK && !e->busy.too_slow; i++) {
		struct ff_memo_node *mn;

		if (!ff_node_is_computed(micro->g, i))
			continue;
		code = ff_memo_node(
				&micro->memo, i, &s->config[ff_node_leader(micro->g, i)], &mn, err);
		if (code == FF_OK)
			count_parts(e, e->busy.next, mn, times, times);
	}
	*slower = e->busy.too_slow;
	return code;
}
