/* The link model: tables that were measured, messages, rings, and collectives in stages.
 * docs/simulator.md derives the formulas.  SPDX-License-Identifier: Apache-2.0 */
#include "links.h"

#include <math.h>
#include <stdlib.h>

#include "ff/nodes.h"

int ff_links_init(struct ff_links *l, const struct ff_machine *m, const struct ff_costs *costs,
		struct ff_error *err)
{
	struct ff_rate link = {0};

	*l = (struct ff_links){.machine = m, .costs = costs};
	l->inside = calloc(m->n_nodes, sizeof(*l->inside));
	l->node = calloc(m->n_nodes, sizeof(*l->node));
	if (!l->inside || !l->node)
		return ff_fail_memory(err);
	if (costs) {
		link = ff_costs_link(costs);
		l->by_nodes = ff_origin_is_by_nodes(ff_costs_origin(costs));
	}
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		l->inside[i] = m->nodes[i].inside;
		if (link.bytes_per_us > 0) {
			l->inside[i].latency_us = link.latency_us;
			l->inside[i].bytes_per_us = link.bytes_per_us;
		}
	}
	return FF_OK;
}

void ff_links_finish(struct ff_links *l)
{
	free(l->inside);
	free(l->node);
}

/* ---- tables ---- */

/* Piecewise linear; below the first size its time, beyond the last the last
 * slope (or proportional, where noise made that slope useless). */
static double table_us(const struct ff_comm_cost *t, double bytes)
{
	uint32_t i = 1;
	double last, size;
	double slope = 0;

	if (bytes <= t->bytes[0])
		return t->us[0];
	while (i < t->n && t->bytes[i] < bytes)
		i++;
	if (i < t->n) {
		double share = (bytes - t->bytes[i - 1]) / (t->bytes[i] - t->bytes[i - 1]);

		return t->us[i - 1] + share * (t->us[i] - t->us[i - 1]);
	}
	last = t->us[t->n - 1];
	size = t->bytes[t->n - 1];
	if (t->n > 1)
		slope = (last - t->us[t->n - 2]) / (size - t->bytes[t->n - 2]);
	if (!(slope > 0))
		slope = size > 0 ? last / size : 0;
	return last + slope * (bytes - size);
}

/* The measured table that applies, or NULL: among as many devices that lie on as many nodes. */
static const struct ff_comm_cost *find_table(const struct ff_links *l, enum ff_move_kind kind,
		uint32_t n, const uint16_t *device)
{
	struct ff_spread s;

	if (!l->costs || !ff_spread_find(l->machine->node_of, n, device, &s))
		return NULL;
	return ff_costs_comm(l->costs, kind, n, s.nodes);
}

/* ---- collectives ---- */

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
			worst = fmax(worst, net->latency_us + bytes / net->bytes_per_us);
	}
	return worst;
}

/* Rings of Thakur, Rabenseifner, Gropp 2005: all-reduce is a reduce-scatter
 * and an all-gather, each p - 1 steps of the largest chunk. */
static double ring_us(const struct ff_links *l, enum ff_move_kind kind, uint32_t n,
		const uint16_t *device, double bytes, double chunk_bytes)
{
	const struct ff_comm_cost *table = find_table(l, kind, n, device);
	double steps = kind == FF_MOVE_ALL_REDUCE ? 2.0 * (n - 1) : n - 1.0;

	if (table)
		return table_us(table, bytes);
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
 * a node's card carries as many as it has devices.  Tables of one such ring do not say that. */
static double across_step_us(const struct ff_links *l, const struct ff_shared *x,
		struct ff_spread s, double bytes)
{
	const struct ff_machine *m = l->machine;
	double worst = 0;

	for (uint32_t i = 0; i < s.nodes; i++) {
		const struct ff_link *net =
				&m->nodes[m->node_of[x->device[(size_t)i * s.each]]].network;

		worst = fmax(worst, net->latency_us + s.each * bytes / net->bytes_per_us);
	}
	return worst;
}

/* As runtime/cuda/nccl_nodes.c has them. */
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

double ff_links_shared_us(const struct ff_links *l, const struct ff_shared *x)
{
	bool reduce = x->kind == FF_MOVE_ALL_REDUCE;
	struct ff_spread s;

	if (l->by_nodes && !find_table(l, x->kind, x->n, x->device) &&
			ff_spread_find(l->machine->node_of, x->n, x->device, &s) &&
			ff_spread_has_stages(s, x->kind, x->reduce, x->elements, x->regular))
		return stages_us(l, x, s);
	return ring_us(l, x->kind, x->n, x->device, (double)(x->elements * x->size),
			reduce ? reduce_chunk_bytes(x->elements, x->n, x->size)
			       : (double)x->chunk_bytes);
}

/* ---- messages ---- */

/* Widens `us` and `latency_us` to a link that carries `bytes`, if any. */
static void use_link(const struct ff_link *link, double bytes, double *us, double *latency_us)
{
	if (!(bytes > 0))
		return;
	*us = fmax(*us, bytes / link->bytes_per_us);
	*latency_us = fmax(*latency_us, link->latency_us);
}

/* Where the busiest device has messages with all others that was measured as such; else the
 * first of its rounds was, where every device sends to one. */
static bool by_table(const struct ff_links *l, const struct ff_move *mv, uint32_t rounds,
		double latency_us, double *us)
{
	bool all = rounds + 1 == mv->n_devices;
	const struct ff_comm_cost *table =
			all ? find_table(l, FF_MOVE_ALL_TO_ALL, mv->n_devices, mv->device) : NULL;

	if (table) {
		*us = table_us(table, (double)mv->busiest_bytes);
		return true;
	}
	table = find_table(l, FF_MOVE_POINT_TO_POINT, mv->n_devices, mv->device);
	/* among several devices of several nodes it matters who sends to whom */
	if (!rounds || !table || (table->nodes > 1 && table->nodes < table->ranks))
		return false;
	*us = table_us(table, (double)mv->busiest_bytes) + (rounds - 1) * latency_us;
	return true;
}

/* The busiest link's time, and a latency for each message of the busiest device. */
double ff_links_messages_us(const struct ff_links *l, const struct ff_move *mv)
{
	const uint32_t *node_of = l->machine->node_of;
	double us = 0, latency_us = 0, measured_us;
	uint32_t rounds = 0;

	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_traffic *t = &mv->traffic[i];
		struct ff_node_tally *node = &l->node[node_of[mv->device[i]]];

		node->inside_bytes += (double)t->sent_inside;
		node->out_bytes += (double)t->sent_outside;
		node->in_bytes += (double)t->received_outside;
		rounds = t->n_sent > rounds ? t->n_sent : rounds;
		rounds = t->n_received > rounds ? t->n_received : rounds;
	}
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		uint32_t node = node_of[mv->device[i]];
		const struct ff_link *in = &l->inside[node];
		const struct ff_traffic *t = &mv->traffic[i];
		const struct ff_node_tally *all = &l->node[node];

		use_link(in,
				in->shared ? all->inside_bytes
					   : fmax((double)t->sent_inside,
							     (double)t->received_inside),
				&us, &latency_us);
		use_link(&l->machine->nodes[node].network, fmax(all->out_bytes, all->in_bytes), &us,
				&latency_us);
	}
	for (uint32_t i = 0; i < mv->n_devices; i++)
		l->node[node_of[mv->device[i]]] = (struct ff_node_tally){0};
	return by_table(l, mv, rounds, latency_us, &measured_us) ? measured_us
								 : us + rounds * latency_us;
}
