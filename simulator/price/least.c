/* Bytes that a device receives pass its link inside the node or its card, each at the line rate at
 * most; and who hears of many devices waits for rounds, hops or stages.
 * SPDX-License-Identifier: Apache-2.0 */
#include "least.h"

#include <float.h>
#include <math.h>

#include "ff/nodes.h"

/* ---- links as they are described ---- */

static double least_latency_us(const struct ff_links *l)
{
	const struct ff_machine *m = l->machine;
	double us = INFINITY;

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		if (m->nodes[i].count > 1)
			us = fmin(us, l->inside[i].latency_us);
		if (m->n_nodes > 1)
			us = fmin(us, m->nodes[i].network.latency_us);
	}
	return us;
}

/* Each message and each step has a latency, so rounding to the grid of prices makes none less. */
static double plain_received_us(const struct ff_links *l)
{
	const struct ff_machine *m = l->machine;
	double inside = 0, network = 0;

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		if (m->nodes[i].count > 1)
			inside = fmax(inside, l->inside[i].bytes_per_us);
		if (m->n_nodes > 1)
			network = fmax(network, m->nodes[i].network.bytes_per_us);
	}
	return least_latency_us(l) < FF_PRICE_STEP_US || !(inside + network > 0)
			       ? 0
			       : 1 / (inside + network);
}

/* Messages of all with all have n - 1 rounds, rings twice as many steps, stages at least twice
 * those of both. */
static double plain_sum_us(const struct ff_links *l, uint32_t n)
{
	double steps = n - 1.0;

	for (uint32_t nodes = 2; nodes <= l->machine->n_nodes && l->by_nodes; nodes++)
		steps = fmin(steps, 2 * ((n + nodes - 1) / nodes - 1.0) + 2 * (nodes - 1.0));
	return steps * least_latency_us(l);
}

/* ---- as NCCL does them: a byte ---- */

static double base_us(const struct ff_hop *h, double least)
{
	return h->share > 0 ? fmin(least, h->base_us) : least;
}

static double least_base_us(const struct ff_interconnect *x)
{
	double us = x->sums.share > 0 ? x->sums.base_us : INFINITY;

	for (int p = 0; p < FF_PROTOCOL_COUNT; p++)
		us = base_us(&x->message[p], base_us(&x->collective[p], us));
	return us;
}

/* Bytes a microsecond that a device receives at most, by these shares of its lines. */
static double most_rate(
		const struct ff_machine *m, const struct ff_machine_node *n, double in, double out)
{
	double network = m->n_nodes > 1 ? n->network.bytes_per_us / ff_node_cards(n) : 0;

	return n->inside.bytes_per_us * in + network * out;
}

static double share_of(const struct ff_interconnect *x, bool messages, int p)
{
	return !x ? 0 : messages ? x->message[p].share : x->collective[p].share;
}

static double most_share(const struct ff_interconnect *x)
{
	double share = x ? x->sums.share : 0;

	for (int p = 0; p < FF_PROTOCOL_COUNT; p++)
		share = fmax(share, fmax(share_of(x, true, p), share_of(x, false, p)));
	return share;
}

/* Each move has a base.  Of links that stand one by one nothing is known. */
static double wired_received_us(const struct ff_links *l)
{
	const struct ff_machine *m = l->machine;
	double rate = 0;

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const struct ff_machine_node *n = &m->nodes[i];

		if (n->wiring.mesh || least_base_us(n->wiring.inside) < FF_PRICE_STEP_US)
			return 0;
		rate = fmax(rate, most_rate(m, n, most_share(n->wiring.inside),
						  most_share(n->wiring.between)));
	}
	return rate > 0 ? 1 / rate : 0;
}

double ff_links_least_received_us(const struct ff_links *l)
{
	if (l->costs)
		return 0;
	return l->wired.machine ? wired_received_us(l) : plain_received_us(l);
}

/* ---- lines: a move of some bytes ---- */

/* Of latency `base` and bytes at `rate`, as pipelined() has it: what hops add makes it no less. */
static void add_line(struct ff_least_wait *w, double base, double rate, double ramp)
{
	struct ff_least_line x = {.base_us = fmax(base - FF_PRICE_STEP_US, 0),
			.byte_us = 1 / rate,
			.root_us = ramp * sqrt(base / rate)};
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->n; i++) {
		const struct ff_least_line *y = &w->line[i];

		if (y->base_us <= x.base_us && y->byte_us <= x.byte_us && y->root_us <= x.root_us)
			return;
		if (x.base_us > y->base_us || x.byte_us > y->byte_us || x.root_us > y->root_us)
			w->line[n++] = *y;
	}
	w->n = n;
	if (n < FF_LEAST_LINES) {
		w->line[w->n++] = x;
		return;
	}
	w->line[0].base_us = fmin(w->line[0].base_us, x.base_us); /* one for both */
	w->line[0].byte_us = fmin(w->line[0].byte_us, x.byte_us);
	w->line[0].root_us = fmin(w->line[0].root_us, x.root_us);
}

static void add_lines_of(const struct ff_machine *m, const struct ff_machine_node *n,
		struct ff_least_wait *w)
{
	const struct ff_interconnect *in = n->wiring.inside, *out = n->wiring.between;

	for (int messages = 0; messages < 2; messages++)
		for (int p = 0; p < FF_PROTOCOL_COUNT; p++) {
			const struct ff_hop *h = messages ? &in->message[p] : &in->collective[p];
			double across = share_of(out, messages, p);

			if (n->wiring.sums && p == FF_PROTOCOL_SIMPLE && !messages)
				across = fmax(across, out->sums.share);
			if (h->share > 0)
				add_line(w, h->base_us, most_rate(m, n, h->share, across),
						in->ramp);
		}
	if (in->sums.share > 0)
		add_line(w, in->sums.base_us,
				most_rate(m, n, in->sums.share,
						share_of(out, false, FF_PROTOCOL_SIMPLE)),
				in->ramp);
}

static double least_of_lines(const struct ff_least_wait *w)
{
	double us = INFINITY;

	for (uint32_t i = 0; i < w->n; i++)
		us = fmin(us, w->line[i].base_us);
	return us;
}

/* ---- more: what many have ---- */

/* How many doublings reach `n`. */
static double doublings(uint32_t n)
{
	double k = 0;

	for (; n > 1; n = (n + 1) / 2)
		k++;
	return k;
}

/* Sums in switches do not wait for hops: what they take more than some line that is below theirs
 * otherwise. */
static double switch_more_us(
		const struct ff_interconnect *in, const struct ff_least_wait *w, double rate)
{
	double more = 0;

	for (uint32_t i = 0; i < w->n; i++)
		if (w->line[i].byte_us * rate <= 1 &&
				w->line[i].root_us <= in->ramp * sqrt(in->sums.base_us / rate))
			more = fmax(more, in->sums.base_us - FF_PRICE_STEP_US - w->line[i].base_us);
	return more;
}

/* What one move among `n` devices takes more than a base: messages for each round but the first, a
 * ring for each hop, trees for those within nodes and doublings between. */
static double hops_more_us(const struct ff_machine *m, const struct ff_machine_node *x, uint32_t n)
{
	const struct ff_interconnect *in = x->wiring.inside, *out = x->wiring.between;
	double us = INFINITY;

	for (int p = 0; p < FF_PROTOCOL_COUNT; p++) {
		double hop = in->collective[p].hop_us, far = INFINITY;

		if (in->message[p].share > 0)
			us = fmin(us, (n - 2.0) * in->message[p].hop_us);
		if (!(in->collective[p].share > 0))
			continue;
		if (m->n_nodes > 1 && out->collective[p].share > 0)
			far = out->collective[p].hop_us;
		us = fmin(us, (n - 1.0) * fmin(hop, far));
		for (uint32_t nodes = 1; nodes <= m->n_nodes && nodes <= n; nodes++)
			us = fmin(us, 2 * ((n + nodes - 1) / nodes - 1.0) * hop +
							(nodes > 1 ? 2 * doublings(nodes) * far
								   : 0));
	}
	return us;
}

static double wired_more_us(const struct ff_links *l, const struct ff_least_wait *w, uint32_t n)
{
	const struct ff_machine *m = l->machine;
	double us = INFINITY;

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const struct ff_machine_node *x = &m->nodes[i];
		const struct ff_interconnect *in = x->wiring.inside, *out = x->wiring.between;

		if (i && in == m->nodes[i - 1].wiring.inside &&
				out == m->nodes[i - 1].wiring.between &&
				x->wiring.sums == m->nodes[i - 1].wiring.sums)
			continue;
		us = fmin(us, hops_more_us(m, x, n));
		if (in->sums.share > 0)
			us = fmin(us, switch_more_us(in, w,
						      most_rate(m, x, in->sums.share,
								      share_of(out, false,
										      FF_PROTOCOL_SIMPLE))));
		if (x->wiring.sums && m->n_nodes > 1)
			us = fmin(us, out->sums.base_us);
	}
	return us;
}

/* By one move among `n`, or by several, one after another, of which each multiplies of how many a
 * device has heard, and has a base. */
static void find_more(const struct ff_links *l, struct ff_least_wait *w)
{
	double base = least_of_lines(w);

	w->more_us[0] = w->more_us[1] = 0;
	for (uint32_t others = 2; others <= w->most; others++) {
		uint32_t n = others + 1;

		w->more_us[others] = l->wired.machine ? wired_more_us(l, w, n)
						      : (n - 2) * least_latency_us(l);
		for (uint32_t first = 2; first < n; first++)
			w->more_us[others] = fmin(w->more_us[others],
					w->more_us[first - 1] + base +
							w->more_us[(n + first - 1) / first - 1]);
		w->more_us[others] = fmax(w->more_us[others], w->more_us[others - 1]);
	}
}

int ff_links_least_wait(const struct ff_links *l, struct ff_arena *a, struct ff_least_wait *ret,
		struct ff_error *err)
{
	const struct ff_machine *m = l->machine;

	ret->n = 0;
	ret->most = m->n_devices - 1;
	ret->more_us = ff_arena_array(a, m->n_devices + 1, sizeof(*ret->more_us));
	if (!ret->more_us)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < m->n_nodes && l->wired.machine; i++)
		add_lines_of(m, &m->nodes[i], ret);
	if (!l->wired.machine)
		add_line(ret, least_latency_us(l), 1 / ff_links_least_received_us(l), 0);
	find_more(l, ret);
	return FF_OK;
}

double ff_least_wait_us(const struct ff_least_wait *w, double bytes, double others)
{
	double least = INFINITY, root;

	if (!(bytes > 0) || !w->n)
		return 0;
	root = sqrt(bytes);
	for (uint32_t i = 0; i < w->n; i++) {
		const struct ff_least_line *x = &w->line[i];

		least = fmin(least, x->base_us + x->byte_us * bytes + x->root_us * root);
	}
	return least + w->more_us[others < w->most ? (uint32_t)others : w->most];
}

/* ---- sums ---- */

/* Latencies alone: collectives of no bytes, on `nodes` nodes, as evenly as it goes.  `staged`: they
 * go in stages, or may. */
static double wired_reduce_us(const struct ff_machine_node *x, uint32_t n, uint32_t nodes,
		enum ff_reduce reduce, bool may, bool must)
{
	uint32_t each = (n + nodes - 1) / nodes;
	struct ff_nccl_group g = {.n = n,
			.nodes = nodes,
			.each = each,
			.fewest = UINT32_MAX, /* of more devices they may be more */
			.line = 1,
			.ring = 1,
			.chain = 1,
			.network = 1,
			.network_sums = x->wiring.sums,
			.inside = x->wiring.inside,
			.between = x->wiring.between};
	double whole = ff_nccl_collective_us(&g, FF_MOVE_ALL_REDUCE, reduce, 0), us;

	if (!may || nodes < 2)
		return whole;
	g.n = g.nodes;
	g.each = 1;
	us = ff_nccl_collective_us(&g, FF_MOVE_ALL_REDUCE, reduce, 0);
	g.n = g.each = each;
	g.nodes = 1;
	us += 2 * ff_nccl_collective_us(&g, FF_MOVE_REDUCE_SCATTER, reduce, 0);
	return must ? us : fmin(whole, us);
}

/* Messages of each with all others; between nodes where one has too few devices. */
static double exchange_us(const struct ff_machine_node *x, uint32_t n, bool between)
{
	const struct ff_nccl_messages all = {.rounds = n - 1,
			.network_us = between ? DBL_MIN : 0,
			.inside = x->wiring.inside,
			.between = x->wiring.between};

	return ff_nccl_messages_us(&all);
}

/* All devices are as many on each node as they are: there is no other group of so many, and its
 * all-reduce goes in stages for certain. */
static bool must_stage(
		const struct ff_links *l, uint32_t n, enum ff_reduce reduce, int64_t elements)
{
	const struct ff_machine *m = l->machine;
	struct ff_spread s = {m->n_nodes, m->nodes[0].count};

	for (uint32_t i = 0; i < m->n_nodes; i++)
		if (m->nodes[i].count != s.each)
			return false;
	return l->by_nodes && n == m->n_devices &&
	       ff_spread_has_stages(s, FF_MOVE_ALL_REDUCE, reduce, elements, true);
}

static double wired_sum_us(
		const struct ff_links *l, uint32_t n, enum ff_reduce reduce, int64_t elements)
{
	const struct ff_machine *m = l->machine;
	bool must = must_stage(l, n, reduce, elements);
	uint32_t most = 0;
	double us = INFINITY;

	for (uint32_t i = 0; i < m->n_nodes; i++) {
		if (m->nodes[i].wiring.mesh)
			return 0;
		most = m->nodes[i].count > most ? m->nodes[i].count : most;
	}
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		if (i && m->nodes[i].wiring.inside == m->nodes[i - 1].wiring.inside &&
				m->nodes[i].wiring.between == m->nodes[i - 1].wiring.between &&
				m->nodes[i].wiring.sums == m->nodes[i - 1].wiring.sums)
			continue;
		us = fmin(us, exchange_us(&m->nodes[i], n, n > most));
		for (uint32_t k = (n + most - 1) / most; k <= m->n_nodes && k <= n; k++)
			us = fmin(us, wired_reduce_us(&m->nodes[i], n, k, reduce, l->by_nodes,
						      must));
	}
	return us;
}

double ff_links_least_sum_us(
		const struct ff_links *l, uint32_t n, enum ff_reduce reduce, int64_t elements)
{
	if (l->costs || n < 2)
		return 0;
	return l->wired.machine ? wired_sum_us(l, n, reduce, elements) : plain_sum_us(l, n);
}
