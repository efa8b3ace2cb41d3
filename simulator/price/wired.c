/* From a machine's wiring to what nccl.c asks for.  SPDX-License-Identifier: Apache-2.0 */
#include "wired.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "ff/nodes.h"

/* ---- the machine ---- */

static bool says_all(const struct ff_machine *m)
{
	for (uint32_t i = 0; i < m->n_nodes; i++)
		if (!m->nodes[i].wiring.inside || (m->n_nodes > 1 && !m->nodes[i].wiring.between))
			return false;
	return m->n_nodes > 0;
}

/* Nodes of one description share what was found of it. */
static int find_ways(struct ff_wired *w, const struct ff_machine *m, struct ff_error *err)
{
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		const struct ff_mesh *mesh = m->nodes[i].wiring.mesh;

		if (mesh && i && m->nodes[i - 1].wiring.mesh == mesh) {
			w->ways[i] = w->ways[i - 1];
			continue;
		}
		w->ways[i] = mesh ? malloc(sizeof(*w->ways[i])) : NULL;
		if (mesh && !w->ways[i])
			return ff_fail_memory(err);
		if (mesh)
			ff_mesh_find(mesh, w->ways[i]);
	}
	return FF_OK;
}

int ff_wired_init(struct ff_wired *w, const struct ff_machine *m, struct ff_error *err)
{
	*w = (struct ff_wired){0};
	if (!says_all(m))
		return FF_OK;
	w->machine = m;
	w->ways = calloc(m->n_nodes, sizeof(struct ff_mesh_ways *));
	w->card = calloc(m->n_devices, sizeof(*w->card));
	w->inside = calloc(m->n_nodes, sizeof(*w->inside));
	if (!w->ways || !w->card || !w->inside)
		return ff_fail_memory(err);
	return find_ways(w, m, err);
}

void ff_wired_finish(struct ff_wired *w)
{
	for (uint32_t i = 0; w->ways && i < w->machine->n_nodes; i++)
		if (!i || w->ways[i] != w->ways[i - 1])
			free(w->ways[i]);
	free(w->ways);
	free(w->card);
	free(w->inside);
}

/* ---- collectives ---- */

/* The part of a group that lies on one node. */
struct part {
	uint32_t node, n;
	const uint16_t *device;
};

/* The part that begins at `device`, of which `n` are left. */
static struct part first_part(const struct ff_wired *w, uint32_t n, const uint16_t *device)
{
	struct part p = {w->machine->node_of[device[0]], 1, device};

	while (p.n < n && w->machine->node_of[device[p.n]] == p.node)
		p.n++;
	return p;
}

static uint32_t set_of(const struct ff_wired *w, const struct part *p)
{
	uint32_t set = 0;

	for (uint32_t i = 0; i < p->n; i++)
		set |= 1u << (p->device[i] - w->machine->nodes[p->node].first);
	return set;
}

/* By links that join any two alike: a ring through all of them, half of it for chains. */
static void join_all(struct ff_nccl_group *g, const struct ff_link *link,
		const struct ff_interconnect *x)
{
	g->inside = x;
	g->line = g->ring = link->bytes_per_us;
	g->chain = g->ring / 2;
}

/* Of a node whose links stand one by one: as many rings as close, else one chain. */
static void join_mesh(const struct ff_mesh_ways *ways, uint32_t set, double rate,
		struct ff_nccl_group *g, uint32_t n)
{
	g->line = rate;
	g->ring = (n > 2 ? 2 : 1) * ways->rings[set] * rate;
	g->chain = ways->rings[set] ? g->ring / 2 : ways->chains[set] * rate;
}

/* `g` has what the parts have in common. */
static double part_us(const struct ff_wired *w, struct ff_nccl_group *g, const struct part *p,
		enum ff_move_kind kind, enum ff_reduce reduce, double bytes)
{
	const struct ff_machine_node *node = &w->machine->nodes[p->node];
	const struct ff_mesh_ways *ways = w->ways[p->node];
	double us = INFINITY;

	g->between = node->wiring.between;
	g->network_sums = node->wiring.sums;
	join_all(g, &node->inside, node->wiring.inside);
	if (p->n < 2) { /* its links carry nothing */
		g->line = g->ring = g->chain = INFINITY;
		return ff_nccl_collective_us(g, kind, reduce, bytes);
	}
	if (ways) {
		uint32_t set = set_of(w, p);

		join_mesh(ways, set, node->inside.bytes_per_us, g, p->n);
		us = ff_nccl_collective_us(g, kind, reduce, bytes);
		if (ways->rings[set])
			return us;
		join_all(g, &node->wiring.mesh->otherwise, node->wiring.mesh->interconnect);
	}
	return fmin(us, ff_nccl_collective_us(g, kind, reduce, bytes));
}

/* A shape that nodes with the same description and equally many cards have in common is priced
 * once. */
static bool alike(const struct ff_wired *w, const struct part *a, const struct part *b)
{
	const struct ff_machine_node *x = &w->machine->nodes[a->node];
	const struct ff_machine_node *y = &w->machine->nodes[b->node];

	return a->n == b->n && x->wiring.inside == y->wiring.inside &&
	       x->wiring.between == y->wiring.between && x->wiring.mesh == y->wiring.mesh &&
	       x->inside.bytes_per_us == y->inside.bytes_per_us &&
	       x->network.bytes_per_us == y->network.bytes_per_us &&
	       (!x->wiring.mesh || set_of(w, a) == set_of(w, b));
}

static void count_parts(const struct ff_wired *w, uint32_t n, const uint16_t *device,
		struct ff_nccl_group *g)
{
	*g = (struct ff_nccl_group){.n = n, .fewest = n};
	for (uint32_t i = 0; i < n;) {
		struct part p = first_part(w, n - i, device + i);

		g->nodes++;
		g->each = p.n > g->each ? p.n : g->each;
		g->fewest = p.n < g->fewest ? p.n : g->fewest;
		i += p.n;
	}
}

double ff_wired_collective_us(const struct ff_wired *w, enum ff_move_kind kind,
		enum ff_reduce reduce, uint32_t n, const uint16_t *device, double bytes)
{
	struct part last = {0};
	struct ff_nccl_group g;
	double worst = 0;

	count_parts(w, n, device, &g);
	for (uint32_t i = 0; i < n;) {
		struct part p = first_part(w, n - i, device + i);
		double rate = ff_cards_rate(w->machine, p.n, p.device);

		if (!i || rate != g.network || !alike(w, &p, &last)) {
			g.network = rate;
			worst = fmax(worst, part_us(w, &g, &p, kind, reduce, bytes));
		}
		last = p;
		i += p.n;
	}
	return worst;
}

double ff_wired_across_us(const struct ff_wired *w, enum ff_move_kind kind, enum ff_reduce reduce,
		uint32_t n, uint32_t each, const uint16_t *device, double bytes)
{
	struct ff_nccl_group g = {.n = n / each, .nodes = n / each, .each = 1, .fewest = 1};
	double worst = 0;

	for (uint32_t i = 0; i < n; i += each) {
		struct part p = first_part(w, each, device + i);

		g.network = ff_cards_rate(w->machine, p.n, p.device) / each;
		p.n = 1;
		worst = fmax(worst, part_us(w, &g, &p, kind, reduce, bytes));
	}
	return worst;
}

/* ---- messages ---- */

/* Bytes a microsecond from a device to those of its node that take part, and by which links. */
static double sent_rate(
		const struct ff_wired *w, const struct part *p, const struct ff_interconnect **x)
{
	const struct ff_machine_node *node = &w->machine->nodes[p->node];
	const struct ff_mesh_ways *ways = w->ways[p->node];
	uint8_t links = ways && p->n > 1 ? ways->joined[set_of(w, p)] : 1;

	*x = links ? node->wiring.inside : node->wiring.mesh->interconnect;
	if (!links)
		return node->wiring.mesh->otherwise.bytes_per_us;
	return ways && p->n > 1 ? (p->n - 1) * links * node->inside.bytes_per_us
				: node->inside.bytes_per_us;
}

static struct ff_card_tally *tally_of(const struct ff_wired *w, uint32_t device)
{
	const struct ff_machine *m = w->machine;

	return &w->card[m->nodes[m->node_of[device]].first + ff_device_card(m, device)];
}

static void tally(const struct ff_wired *w, const struct ff_move *mv)
{
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_traffic *t = &mv->traffic[i];
		struct ff_card_tally *card = tally_of(w, mv->device[i]);

		card->out_bytes += (double)t->sent_outside;
		card->in_bytes += (double)t->received_outside;
		w->inside[w->machine->node_of[mv->device[i]]] += (double)t->sent_inside;
	}
}

/* What a device's messages take on the links and the card that it uses. */
static double device_us(const struct ff_wired *w, const struct part *p, uint32_t device,
		const struct ff_traffic *t, uint32_t rounds)
{
	const struct ff_machine_node *node = &w->machine->nodes[p->node];
	const struct ff_card_tally *card = tally_of(w, device);
	struct ff_nccl_messages x = {.rounds = rounds, .between = node->wiring.between};
	double rate = sent_rate(w, p, &x.inside);
	double inside = fmax((double)t->sent_inside, (double)t->received_inside);

	if (node->inside.shared)
		inside = w->inside[p->node];
	x.inside_us = inside / rate;
	if (t->sent_outside || t->received_outside)
		x.network_us = fmax(card->out_bytes, card->in_bytes) * ff_node_cards(node) /
			       node->network.bytes_per_us;
	return ff_nccl_messages_us(&x);
}

double ff_wired_messages_us(const struct ff_wired *w, const struct ff_move *mv)
{
	uint32_t rounds = 0;
	double worst = 0;

	for (uint32_t i = 0; i < mv->n_devices; i++) {
		const struct ff_traffic *t = &mv->traffic[i];

		rounds = t->n_sent > rounds ? t->n_sent : rounds;
		rounds = t->n_received > rounds ? t->n_received : rounds;
	}
	if (!rounds)
		return 0;
	tally(w, mv);
	for (uint32_t i = 0, k = 0; i < mv->n_devices; i += k) {
		struct part p = first_part(w, mv->n_devices - i, mv->device + i);

		for (k = 0; k < p.n; k++)
			worst = fmax(worst,
					device_us(w, &p, p.device[k], &mv->traffic[i + k], rounds));
	}
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		*tally_of(w, mv->device[i]) = (struct ff_card_tally){0};
		w->inside[w->machine->node_of[mv->device[i]]] = 0;
	}
	return worst;
}
