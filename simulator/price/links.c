/* The link model: tables that were measured, messages, rings, and collectives in stages.
 * docs/simulator.md derives the formulas.  SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <math.h>
#include <stdlib.h>

#include "ff/nodes.h"

int ff_links_init(struct ff_links *l, const struct ff_machine *m, enum ff_estimate estimate,
		const struct ff_costs *costs, struct ff_error *err)
{
	struct ff_rate link = {0};

	*l = (struct ff_links){.machine = m,
			.estimate = estimate,
			.costs = costs,
			.inside_times = 1,
			.between_times = 1};
	l->inside = calloc(m->n_nodes, sizeof(*l->inside));
	l->node = calloc(m->n_nodes, sizeof(*l->node));
	l->traffic = calloc(m->n_devices, sizeof(*l->traffic));
	if (!l->inside || !l->node || !l->traffic)
		return ff_fail_memory(err);
	if (costs) {
		link = ff_costs_link(costs);
		l->by_nodes = ff_origin_is_by_nodes(ff_costs_origin(costs));
		ff_tables_pair(costs, 1, &l->beside);
		ff_tables_pair(costs, 2, &l->pair);
	}
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		l->inside[i] = m->nodes[i].inside;
		if (link.bytes_per_us > 0) {
			l->inside[i].latency_us = link.latency_us;
			l->inside[i].bytes_per_us = link.bytes_per_us;
		}
	}
	return costs || estimate != FF_ESTIMATE_MODEL ? FF_OK : ff_wired_init(&l->wired, m, err);
}

void ff_links_finish(struct ff_links *l)
{
	free(l->inside);
	free(l->node);
	free(l->traffic);
	ff_wired_finish(&l->wired);
}

/* ---- collectives ---- */

/* From one node to another, whose card is sent to and from at once: as measured of two, or by
 * the machine file. */
static double network_us(const struct ff_links *l, const struct ff_link *card, double bytes)
{
	return l->pair.both_ways ? ff_table_us(l->pair.both_ways, bytes)
				 : card->latency_us + bytes / card->bytes_per_us;
}

/* One step of a ring in which every device sends `bytes` to its successor: the
 * slowest of the links used.  A shared link carries all hops of its node. */
static double ring_step_us(
		const struct ff_links *l, uint32_t n, const uint16_t *device, double bytes)
{
	const struct ff_machine *m = l->machine;
	double worst = 0;

	for (uint32_t i = 0, k; i < n; i += k) {
		uint32_t node = m->node_of[device[i]];
		const struct ff_link *in, *net;
		uint32_t hops;

		for (k = 1; i + k < n && m->node_of[device[i + k]] == node;)
			k++;
		in = &l->inside[node];
		net = &m->nodes[node].network;
		hops = k == n ? n : k - 1;
		if (hops)
			worst = fmax(worst, in->latency_us + bytes * (in->shared ? hops : 1) /
									     in->bytes_per_us);
		if (k < n)
			worst = fmax(worst, network_us(l, net, bytes));
	}
	return worst;
}

/* Rings of Thakur, Rabenseifner, Gropp 2005: all-reduce is a reduce-scatter
 * and an all-gather, each p - 1 steps of the largest chunk. */
static double ring_us(const struct ff_links *l, enum ff_move_kind kind, uint32_t n,
		const uint16_t *device, double bytes, double chunk_bytes)
{
	const struct ff_comm_cost *table = ff_tables_find(l->costs, l->machine, kind, n, device);
	double steps = kind == FF_MOVE_ALL_REDUCE ? 2.0 * (n - 1) : n - 1.0;

	if (table)
		return ff_table_us(table, bytes);
	return steps * ring_step_us(l, n, device, chunk_bytes);
}

static double reduce_chunk_bytes(int64_t elements, uint32_t n, int64_t size)
{
	int64_t chunk = (elements + n - 1) / n;

	return (double)(chunk * size);
}

/* All nodes at once: gather or scatter among the devices of each. */
static double inside_us(const struct ff_links *l, const struct ff_shared *x, struct ff_spread s,
		enum ff_move_kind kind, double chunk_bytes)
{
	double worst = 0;

	for (uint32_t i = 0; i < s.nodes; i++)
		worst = fmax(worst, ring_us(l, kind, s.each, x->device + (size_t)i * s.each,
						    s.each * chunk_bytes, chunk_bytes));
	return worst;
}

/* One step of the rings between nodes, of devices with equal places in them: all at once, so that
 * a node's card carries as many as it has devices.  Messages of all with their peers are measured
 * so; without them, two nodes that exchange the bytes of all are. */
static double across_step_us(const struct ff_links *l, const struct ff_shared *x,
		struct ff_spread s, double bytes)
{
	const struct ff_comm_cost *peers = ff_tables_find(
			l->costs, l->machine, FF_MOVE_POINT_TO_POINT, x->n, x->device);
	const struct ff_machine *m = l->machine;
	double worst = 0;

	if (peers)
		return ff_table_us(peers, bytes);
	for (uint32_t i = 0; i < s.nodes; i++) {
		const struct ff_link *net =
				&m->nodes[m->node_of[x->device[(size_t)i * s.each]]].network;

		worst = fmax(worst, network_us(l, net, s.each * bytes));
	}
	return worst;
}

/* As runtime/comm/stages.c has them. */
static double stages_us(const struct ff_links *l, const struct ff_shared *x, struct ff_spread s)
{
	int64_t part = x->elements / s.each, rest = x->elements % s.each;
	double chunk = (double)x->chunk_bytes, us;

	if (x->kind != FF_MOVE_ALL_REDUCE)
		return (s.nodes - 1) * across_step_us(l, x, s, chunk) +
		       inside_us(l, x, s, x->kind, s.nodes * chunk);
	chunk = (double)(part * x->size);
	us = inside_us(l, x, s, FF_MOVE_REDUCE_SCATTER, chunk) +
	     2 * (s.nodes - 1) *
			     across_step_us(l, x, s, reduce_chunk_bytes(part, s.nodes, x->size)) +
	     inside_us(l, x, s, FF_MOVE_ALL_GATHER, chunk);
	if (rest)
		us += ring_us(l, x->kind, x->n, x->device, (double)(rest * x->size),
				reduce_chunk_bytes(rest, x->n, x->size));
	return us;
}

/* Of the whole array; chunks of several lengths wait for the longest. */
static double whole_bytes(const struct ff_shared *x)
{
	return x->kind == FF_MOVE_ALL_REDUCE ? (double)(x->elements * x->size)
					     : (double)x->n * (double)x->chunk_bytes;
}

static double wired_inside_us(const struct ff_wired *w, const struct ff_shared *x,
		struct ff_spread s, enum ff_move_kind kind, double bytes)
{
	double worst = 0;

	for (uint32_t i = 0; i < s.nodes; i++)
		worst = fmax(worst, ff_wired_collective_us(w, kind, x->reduce, s.each,
						    x->device + (size_t)i * s.each, bytes));
	return worst;
}

/* Stages as NCCL has each of them. */
static double wired_stages_us(
		const struct ff_wired *w, const struct ff_shared *x, struct ff_spread s)
{
	double bytes = whole_bytes(x), part = bytes / s.each;

	if (x->kind != FF_MOVE_ALL_REDUCE)
		return ff_wired_across_us(w, x->kind, x->reduce, x->n, s.each, x->device, part) +
		       wired_inside_us(w, x, s, x->kind, bytes);
	return wired_inside_us(w, x, s, FF_MOVE_REDUCE_SCATTER, bytes) +
	       ff_wired_across_us(w, x->kind, x->reduce, x->n, s.each, x->device, part) +
	       wired_inside_us(w, x, s, FF_MOVE_ALL_GATHER, bytes);
}

static double wired_us(const struct ff_links *l, const struct ff_shared *x)
{
	struct ff_spread s;

	if (l->by_nodes && ff_spread_find(l->machine->node_of, x->n, x->device, &s) &&
			ff_spread_has_stages(s, x->kind, x->reduce, x->elements, x->regular))
		return wired_stages_us(&l->wired, x, s);
	return ff_wired_collective_us(
			&l->wired, x->kind, x->reduce, x->n, x->device, whole_bytes(x));
}

/* As long as what takes `us` alone takes in a step. */
static double in_step_us(const struct ff_links *l, uint32_t n, const uint16_t *device, double us)
{
	const uint32_t *node_of = l->machine->node_of;
	bool inside = n < 2 || node_of[device[0]] == node_of[device[n - 1]];

	return us * (inside ? l->inside_times : l->between_times);
}

double ff_links_shared_us(const struct ff_links *l, const struct ff_shared *x)
{
	bool reduce = x->kind == FF_MOVE_ALL_REDUCE;
	struct ff_spread s;
	double us;

	if (l->wired.machine)
		return wired_us(l, x);

	if (l->by_nodes && !ff_tables_find(l->costs, l->machine, x->kind, x->n, x->device) &&
			ff_spread_find(l->machine->node_of, x->n, x->device, &s) &&
			ff_spread_has_stages(s, x->kind, x->reduce, x->elements, x->regular))
		us = stages_us(l, x, s);
	else
		us = ring_us(l, x->kind, x->n, x->device, (double)(x->elements * x->size),
				reduce ? reduce_chunk_bytes(x->elements, x->n, x->size)
				       : (double)x->chunk_bytes);
	return in_step_us(l, x->n, x->device, us);
}

/* Devices of a group may be in several nodes, or several groups in one: whose hops leave a node
 * share its card, and whose stay its link, if that is shared. */
static double hops_us(const struct ff_links *l, uint32_t n, uint32_t each, const uint16_t *device,
		double bytes)
{
	const struct ff_machine *m = l->machine;
	double worst = 0;

	for (uint32_t i = 0, k; i < n; i += k) {
		uint32_t node = m->node_of[device[i]], inside = 0;
		const struct ff_link *in = &l->inside[node];

		for (k = 0; i + k < n && m->node_of[device[i + k]] == node; k++)
			inside += m->node_of[device[(i + k + each) % n]] == node;
		if (inside)
			worst = fmax(worst, in->latency_us + bytes * (in->shared ? inside : 1) /
									     in->bytes_per_us);
		if (inside < k)
			worst = fmax(worst, network_us(l, &m->nodes[node].network,
							    (k - inside) * bytes));
	}
	return worst;
}

double ff_links_across_us(const struct ff_links *l, uint32_t n, uint32_t each,
		const uint16_t *device, int64_t elements, int64_t size)
{
	const struct ff_shared x = {.n = n, .device = device};
	uint32_t groups = n / each;
	double chunk = reduce_chunk_bytes(elements, groups, size);
	struct ff_spread s;
	bool by_nodes = ff_spread_find(l->machine->node_of, n, device, &s) && s.each == each;

	if (l->wired.machine)
		return ff_wired_across_us(&l->wired, FF_MOVE_ALL_REDUCE, FF_REDUCE_SUM, n, each,
				device, (double)(elements * size));
	return in_step_us(l, n, device,
			2 * (groups - 1) *
					(by_nodes ? across_step_us(l, &x, s, chunk)
						  : hops_us(l, n, each, device, chunk)));
}

/* ---- messages ---- */

/* What links take for the bytes of a move. */
struct load {
	double inside_us, network_us, latency_us; /* the latter of the slowest that is used */
	double card_bytes;                        /* most of a node that go in, or out */
	bool both_ways;                           /* some node's go in and out */
	uint32_t rounds;                          /* messages of the busiest device */
};

/* Widens `us` and `latency_us` to a link that carries `bytes`, if any. */
static void use_link(const struct ff_link *link, double bytes, double *us, double *latency_us)
{
	if (!(bytes > 0))
		return;
	*us = fmax(*us, bytes / link->bytes_per_us);
	*latency_us = fmax(*latency_us, link->latency_us);
}

static void tally(const struct ff_links *l, const struct ff_move *mv, struct load *x)
{
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_traffic *t = &mv->traffic[i];
		struct ff_node_tally *node = &l->node[l->machine->node_of[mv->device[i]]];

		node->inside_bytes += (double)t->sent_inside;
		node->out_bytes += (double)t->sent_outside;
		node->in_bytes += (double)t->received_outside;
		x->rounds = t->n_sent > x->rounds ? t->n_sent : x->rounds;
		x->rounds = t->n_received > x->rounds ? t->n_received : x->rounds;
	}
}

static void add_up(const struct ff_links *l, const struct ff_move *mv, struct load *x)
{
	const uint32_t *node_of = l->machine->node_of;

	tally(l, mv, x);
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		uint32_t node = node_of[mv->device[i]];
		const struct ff_link *in = &l->inside[node];
		const struct ff_traffic *t = &mv->traffic[i];
		const struct ff_node_tally *all = &l->node[node];
		double card = fmax(all->out_bytes, all->in_bytes);

		use_link(in,
				in->shared ? all->inside_bytes
					   : fmax((double)t->sent_inside,
							     (double)t->received_inside),
				&x->inside_us, &x->latency_us);
		use_link(&l->machine->nodes[node].network, card, &x->network_us, &x->latency_us);
		x->card_bytes = fmax(x->card_bytes, card);
		x->both_ways |= all->out_bytes > 0 && all->in_bytes > 0;
	}
	for (uint32_t i = 0; i < mv->n_devices; i++)
		l->node[node_of[mv->device[i]]] = (struct ff_node_tally){0};
}

/* What the cards take, as measured of as many devices or of two, and the first round's latency
 * with it; less than 0: neither was. */
static double cards_us(
		const struct ff_links *l, const struct ff_comm_cost *same, const struct load *x)
{
	const struct ff_comm_cost *pair =
			x->both_ways || !l->pair.one_way ? l->pair.both_ways : l->pair.one_way;

	if (same && (x->both_ways || !pair)) /* each of a node's devices sends to another node */
		return ff_table_us(same, x->card_bytes * same->shape.nodes / same->shape.ranks);
	return pair ? ff_table_us(pair, x->card_bytes) : -1;
}

/* The first round and all bytes, by tables; less than 0: nothing like it was measured.  Where the
 * busiest device has messages with all others that was measured as such, with all rounds. */
static double measured_us(const struct ff_links *l, const struct ff_move *mv, struct load *x)
{
	const struct ff_comm_cost *table = NULL;
	double us;

	if (x->rounds + 1 == mv->n_devices)
		table = ff_tables_find(l->costs, l->machine, FF_MOVE_ALL_TO_ALL, mv->n_devices,
				mv->device);
	if (table) {
		x->rounds = 1;
		return ff_table_us(table, (double)mv->busiest_bytes);
	}
	table = ff_tables_find(
			l->costs, l->machine, FF_MOVE_POINT_TO_POINT, mv->n_devices, mv->device);
	if (!(x->card_bytes > 0)) {
		if (mv->n_devices == 2 && !(mv->traffic[0].n_sent && mv->traffic[1].n_sent) &&
				l->beside.one_way)
			table = l->beside.one_way;
		return table && table->shape.nodes == 1
				       ? ff_table_us(table, (double)mv->busiest_bytes)
				       : -1;
	}
	us = cards_us(l, table, x);
	return us < 0 ? us : fmax(us, x->inside_us);
}

/* The busiest link's time, and a latency for each message of the busiest device. */
double ff_links_messages_us(const struct ff_links *l, const struct ff_move *mv)
{
	struct load x = {.rounds = 0};
	double us;

	if (l->wired.machine)
		return ff_wired_messages_us(&l->wired, mv);
	add_up(l, mv, &x);
	us = x.rounds ? measured_us(l, mv, &x) : -1;
	us = us < 0 ? fmax(x.inside_us, x.network_us) + x.rounds * x.latency_us
		    : us + (x.rounds - 1) * x.latency_us;
	return in_step_us(l, mv->n_devices, mv->device, us);
}

double ff_links_all_to_all_us(
		const struct ff_links *l, uint32_t n, const uint16_t *device, int64_t bytes)
{
	const uint32_t *node_of = l->machine->node_of;
	const struct ff_move mv = {.kind = FF_MOVE_ALL_TO_ALL,
			.n_devices = n,
			.device = device,
			.traffic = l->traffic,
			.busiest_bytes = (n - 1) * bytes};

	for (uint32_t i = 0, k; i < n; i += k) {
		int64_t inside, outside;

		for (k = 1; i + k < n && node_of[device[i + k]] == node_of[device[i]];)
			k++;
		inside = (k - 1) * bytes;
		outside = (n - k) * bytes;
		for (uint32_t d = i; d < i + k; d++)
			l->traffic[d] = (struct ff_traffic){
					inside, inside, outside, outside, n - 1, n - 1};
	}
	return ff_links_messages_us(l, &mv);
}
