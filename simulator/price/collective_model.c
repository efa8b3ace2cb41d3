/* The formulas of bench/collectives.py, which finds their constants with bench/fit_collectives.py.
 * Latencies of hops, bytes over the wire, and the least over what NCCL may choose: Hu et al.,
 * "Demystifying NCCL", 2025; src/graph/tuning.cc of NCCL; Sanders, Speck, Traeff, "Two-tree
 * algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 2009.
 * SPDX-License-Identifier: Apache-2.0 */
#include "collective_model.h"

#include <math.h>

/* What trees keep of a ring's bandwidth, as NCCL's tuning has it. */
#define TREE_SHARE 0.92

/* Chunks follow each other, so that most of the latency is hidden behind the wire, or most of the
 * wire behind latency; of the geometric mean of both a part is not. */
static double pipelined(const struct ff_interconnect *x, double latency_us, double wire_us)
{
	return latency_us + wire_us + x->ramp * sqrt(latency_us * wire_us);
}

/* How many doublings reach so many nodes. */
static double stages(uint32_t nodes)
{
	uint32_t n = 0;

	while (1u << n < nodes)
		n++;
	return n;
}

/* How often the bytes of an array pass a node's cards up and down trees: of two nodes, each is the
 * root of one half and the leaf of the other.  NCCL of V100's time takes rings there, as it expects
 * of trees 0.92 of their rate. */
static double tree_passes(const struct ff_nccl_group *g)
{
	return g->nodes > 2 ? 2 : g->inside->tree_passes;
}

static double latency_us(const struct ff_nccl_group *g, int p, double hops, double crossings)
{
	const struct ff_hop *in = &g->inside->collective[p];
	double us = in->base_us + hops * in->hop_us;

	if (g->nodes > 1) {
		const struct ff_hop *net = &g->between->collective[p];

		us += net->base_us + crossings * net->hop_us;
	}
	return us;
}

/* The slower of what passes links inside nodes and what passes cards. */
static double wire_us(
		const struct ff_nccl_group *g, int p, double inside, double rate, double between)
{
	double us = 0;

	if (g->each > 1)
		us = inside / (rate * g->inside->collective[p].share);
	if (g->nodes > 1)
		us = fmax(us, between / (g->network * g->between->collective[p].share));
	return us;
}

static double ring_us(const struct ff_nccl_group *g, int p, double times, double bytes)
{
	double own = g->inside->own / g->n, crossings = times * (g->nodes - 1);
	double carried = (times * (g->n - 1) / g->n + own) * bytes;

	if (g->each > 1 && !(g->ring > 0))
		return INFINITY;
	return pipelined(g->inside, latency_us(g, p, times * (g->n - 1) - crossings, crossings),
			wire_us(g, p, carried, g->ring, carried));
}

/* Double binary trees between nodes, chains within. */
static double tree_us(const struct ff_nccl_group *g, int p, double bytes)
{
	if (g->each > 1 && !(g->chain > 0))
		return INFINITY;
	return pipelined(g->inside, latency_us(g, p, 2.0 * (g->each - 1), 2 * stages(g->nodes)),
			wire_us(g, p, bytes, g->chain * TREE_SHARE, tree_passes(g) * bytes));
}

/* The switch of a node adds (NVLS), trees between nodes. */
static double switch_us(const struct ff_nccl_group *g, double bytes)
{
	const struct ff_hop *net = g->between ? &g->between->collective[FF_PROTOCOL_SIMPLE] : NULL;
	double us = g->inside->sums.base_us, wire;

	if (!(g->inside->sums.share > 0) || g->fewest < g->inside->sums.least)
		return INFINITY;
	wire = bytes / (g->line * g->inside->sums.share);
	if (g->nodes > 1) {
		us += net->base_us + 2 * stages(g->nodes) * net->hop_us;
		wire = fmax(wire, tree_passes(g) * bytes / (g->network * net->share));
	}
	return pipelined(g->inside, us, wire);
}

/* The network's switches add (SHARP): bytes pass a node's cards once, up and down at once. */
static double network_us(const struct ff_nccl_group *g, double bytes)
{
	const struct ff_hop *in = &g->inside->collective[FF_PROTOCOL_SIMPLE];
	double us, wire;

	if (!g->network_sums || g->nodes < 2 || !(g->between->sums.share > 0) ||
			g->nodes < g->between->sums.least || (g->each > 1 && !(g->chain > 0)))
		return INFINITY;
	us = in->base_us + 2.0 * (g->each - 1) * in->hop_us + g->between->sums.base_us +
	     2 * g->between->collective[FF_PROTOCOL_SIMPLE].hop_us;
	wire = bytes / (g->network * g->between->sums.share);
	if (g->each > 1)
		wire = fmax(wire, bytes / (g->chain * TREE_SHARE * in->share));
	return pipelined(g->inside, us, wire);
}

static bool has_protocol(const struct ff_nccl_group *g, int p)
{
	return g->inside->collective[p].share > 0 &&
	       (g->nodes < 2 || g->between->collective[p].share > 0);
}

double ff_nccl_collective_us(const struct ff_nccl_group *g, enum ff_move_kind kind,
		enum ff_reduce reduce, double bytes)
{
	bool both = kind == FF_MOVE_ALL_REDUCE;
	double least = INFINITY;

	if (g->n < 2)
		return 0;
	for (int p = 0; p < FF_PROTOCOL_COUNT; p++) {
		if (!has_protocol(g, p))
			continue;
		least = fmin(least, ring_us(g, p, both ? 2 : 1, bytes));
		if (both)
			least = fmin(least, tree_us(g, p, bytes));
	}
	if (both && reduce == FF_REDUCE_SUM)
		least = fmin(least, fmin(switch_us(g, bytes), network_us(g, bytes)));
	return least;
}

double ff_nccl_messages_us(const struct ff_nccl_messages *x)
{
	double least = INFINITY;

	if (!x->rounds)
		return 0;
	for (int p = 0; p < FF_PROTOCOL_COUNT; p++) {
		const struct ff_hop *in = &x->inside->message[p];
		double us = in->base_us + (x->rounds - 1) * in->hop_us, wire;

		if (!(in->share > 0))
			continue;
		wire = x->inside_us / in->share;
		if (x->network_us > 0) {
			const struct ff_hop *net = &x->between->message[p];

			if (!(net->share > 0))
				continue;
			us += net->base_us + (x->rounds - 1) * net->hop_us;
			wire = fmax(wire, x->network_us / net->share);
		}
		least = fmin(least, pipelined(x->inside, us, wire));
	}
	return least;
}
