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
	if (mn->is_row && mn->uniform[FF_FORWARD] && mn->uniform[FF_BACKWARD]) {
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

/* Neighbours, or some devices in ascending order, take so much longer. */
static void slow_row(uint32_t first, uint32_t n, double us, double *slowed)
{
	if (us != 0)
		hold_row(n, us, slowed + first);
}

static void slow(uint32_t n, const uint16_t *device, double us, double *slowed)
{
	if (device[n - 1] - device[0] == (int)n - 1)
		slow_row(device[0], n, us, slowed);
	else
		for (uint32_t i = 0; i < n; i++)
			slowed[device[i]] += us;
}

/* By `mv`, and all that are alike. */
static void count_slowed(double *slowed, const struct ff_memo_move *mv, double us)
{
	uint32_t n = mv->each ? mv->lane[0].n : mv->n_alike * mv->move->n_devices;

	if (mv->beside_us <= 0)
		return;
	if (mv->each || mv->n_alike > 1)
		slow_row(mv->move->device[0], n, us, slowed);
	else
		slow(mv->move->n_devices, mv->move->device, us, slowed);
}

static void count_edge(
		struct ff_trial *e, double *busy, uint32_t edge, enum ff_pass pass, double sign)
{
	double *slowed = busy == e->busy.now ? e->busy.slowed_now : e->busy.slowed_next;
	const struct ff_memo_edge *me = e->placed.edge[edge];
	const struct ff_edge_ends *ends = &e->ends[edge];
	double times;

	if (e->placed.state[pass][edge] != FF_EDGE_MOVES)
		return;
	times = ends->parameter && (pass == FF_BACKWARD || !e->order.program.recomputed[ends->from])
				? sign
				: sign * e->order.program.micro_batches;
	for (uint32_t i = 0; i < me->n_moves[pass]; i += me->move[pass][i].n_alike) {
		const struct ff_memo_move *move = &me->move[pass][i];

		count_slowed(slowed, move, times * move->beside_us);
		for (uint32_t k = 0; k < move->n_lanes; k++) {
			const struct ff_lanes *l = k < 2 ? &move->lane[k] : &move->more[k - 2];

			judge(e, l->first,
					hold_row(move->n_alike * l->n, times * move->us,
							busy + l->first));
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
	memset(e->busy.slowed_now, 0, e->m->n_devices * sizeof(*e->busy.slowed_now));
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

static void begin(struct ff_trial *e)
{
	memcpy(e->busy.next, e->busy.now, ff_lane_count(e->m) * sizeof(*e->busy.now));
	memcpy(e->busy.slowed_next, e->busy.slowed_now,
			e->m->n_devices * sizeof(*e->busy.slowed_now));
}

void ff_busy_begin(struct ff_trial *e, double limit_us)
{
	begin(e);
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
	double *was = e->busy.now, *slowed = e->busy.slowed_now;

	e->busy.now = e->busy.next;
	e->busy.next = was;
	e->busy.slowed_now = e->busy.slowed_next;
	e->busy.slowed_next = slowed;
}

/* ---- buckets ---- */

/* A move of a bucket, so many times: where nothing overlaps it holds lanes that compute. */
static void count_bucket_move(const struct ff_trial *e, const struct ff_bucket_build *k,
		const struct ff_bucket_move *mv, double times, double *busy)
{
	if (mv->beside_us > 0)
		slow(k->n_devices, k->device, times * mv->beside_us, busy);
	for (uint32_t i = 0; i < mv->n_lanes && !e->m->overlap; i++)
		if (mv->lane[i].first < e->m->n_devices)
			hold_row(mv->lane[i].n, times * mv->us, busy + mv->lane[i].first);
}

/* One that is summed in every micro-batch adds from the second on. */
static void count_sums(const struct ff_trial *e, const struct ff_bucket_build *k,
		const struct ff_memo_bucket *b, double *busy)
{
	double times = k->way.stage ? e->order.program.micro_batches : 1;

	count_bucket_move(e, k, &b->sync[0], 1, busy);
	if (times > 1)
		count_bucket_move(e, k, &b->sync[1], times - 1, busy);
	if (k->way.flat && k->n_devices > k->way.runs)
		count_bucket_move(e, k, &b->across, k->way.scattered ? 1 : times, busy);
}

void ff_busy_count_buckets(const struct ff_trial *e, struct ff_gathered *g)
{
	memset(g->busy, 0, e->m->n_devices * sizeof(*g->busy));
	for (uint32_t i = 0; i < g->synced.n_buckets; i++) {
		const struct ff_bucket_build *k = &g->synced.bucket[i];

		if (e->m->n_kinds == 1) /* else what updates take is another time on each */
			slow(k->n_devices, k->device, g->timed[i].update_us, g->busy);
		if (k->n_devices < 2)
			continue;
		count_sums(e, k, g->timed[i].price, g->busy);
		if (k->way.flat && !k->way.dropped)
			count_bucket_move(e, k, &g->timed[i].price->gather, 1, g->busy);
	}
}

void ff_busy_know(struct ff_trial *e, const struct ff_gathered *g)
{
	for (uint32_t d = 0; d < e->m->n_devices; d++) {
		e->busy.known[d] = e->busy.next[d] + e->busy.slowed_next[d] + g->busy[d];
		e->busy.too_slow = e->busy.too_slow || e->busy.known[d] > e->busy.most_us;
	}
}

void ff_busy_limit(struct ff_trial *e, double limit_us)
{
	uint32_t lanes = ff_lane_count(e->m);

	begin(e);
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

/* ---- one by one ---- */

static double slowest_part(const struct ff_memo_node *mn, enum ff_pass pass)
{
	double most = 0;

	if (mn->uniform[pass])
		return mn->each_us[pass];
	for (uint32_t p = 0; p < mn->n_parts; p++)
		most = fmax(most, mn->us[pass][p]);
	return most;
}

static double all_moves(const struct ff_trial *e, uint32_t edge, enum ff_pass pass)
{
	const struct ff_memo_edge *me = e->placed.edge[edge];
	double us = 0;

	if (e->placed.state[pass][edge] != FF_EDGE_MOVES)
		return 0;
	for (uint32_t i = 0; i < me->n_moves[pass]; i++)
		us += me->move[pass][i].us;
	return us;
}

void ff_busy_list(const struct ff_trial *e, double *const node_us[2], double *const edge_us[2])
{
	for (int pass = FF_FORWARD; pass <= FF_BACKWARD; pass++) {
		for (uint32_t i = 0; i < e->g->n_nodes; i++)
			node_us[pass][i] = ff_node_is_computed(e->g, i)
							   ? slowest_part(e->placed.node[i],
									     (enum ff_pass)pass)
							   : 0;
		for (uint32_t k = 0; k < e->g->n_edges; k++)
			edge_us[pass][k] = all_moves(e, k, (enum ff_pass)pass);
	}
}
