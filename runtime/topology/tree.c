/* A topology as people read it.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "topology.h"

#define GIB 1073741824.0
#define MIB 1048576.0

static void print_bytes(int64_t bytes, struct ff_out *o)
{
	if ((double)bytes < GIB)
		ff_out_printf(o, "%.3g MiB", (double)bytes / MIB);
	else
		ff_out_printf(o, "%.4g GiB", (double)bytes / GIB);
}

static bool is_on(const struct ff_topology *t, uint32_t rank, void *core)
{
	return ff_seat_has(&t->seat[rank], *(uint32_t *)core);
}

/* Whether the same ranks may run on both cores. */
static bool share_ranks(const struct ff_topology *t, uint32_t node, uint32_t a, uint32_t b)
{
	for (uint32_t r = t->first[node]; r < t->first[node + 1]; r++)
		if (ff_seat_has(&t->seat[r], a) != ff_seat_has(&t->seat[r], b))
			return false;
	return true;
}

static void print_cores(const struct ff_topology *t, uint32_t node, uint32_t from, uint32_t n,
		struct ff_out *o)
{
	uint32_t ranks = t->first[node + 1] - t->first[node];

	for (uint32_t c = from, to; c < from + n; c = to + 1) {
		for (to = c; to + 1 < from + n && share_ranks(t, node, c, to + 1);)
			to++;
		if (to > c)
			ff_out_printf(o, "      cores %u-%u: ", c, to);
		else
			ff_out_printf(o, "      core %u: ", c);
		ff_topology_name_ranks(t, t->first[node], ranks, is_on, &c, o);
		ff_out_printf(o, "\n");
	}
}

static void print_domain(const struct ff_topology *t, uint32_t node, uint32_t i, uint32_t core,
		struct ff_out *o)
{
	const struct ff_host_domain *d = &t->seat[t->first[node]].host.domain[i];

	ff_out_printf(o, "    NUMA node %u: ", i);
	print_bytes(d->memory_bytes, o);
	ff_out_printf(o, ", %u core%s, %u hardware thread%s", d->cores, d->cores == 1 ? "" : "s",
			d->threads, d->threads == 1 ? "" : "s");
	if (d->cache_bytes) {
		ff_out_printf(o, ", ");
		if (d->caches > 1)
			ff_out_printf(o, "%u times ", d->caches);
		print_bytes(d->cache_bytes, o);
		ff_out_printf(o, " of last cache");
	}
	ff_out_printf(o, "\n");
	print_cores(t, node, core, d->cores, o);
}

static void print_cards(const struct ff_host *h, struct ff_out *o)
{
	for (uint32_t i = 0; i < h->cards; i++) {
		const struct ff_host_card *c = &h->card[i];

		ff_out_printf(o, "  network card %s", c->name);
		if (c->mbit_per_s > 0)
			ff_out_printf(o, ", %g Gbit/s", (double)c->mbit_per_s / 1000);
		if (c->domain >= 0 && h->domains > 1)
			ff_out_printf(o, ", beside NUMA node %d", c->domain);
		ff_out_printf(o, "\n");
	}
}

static bool is_any(const struct ff_topology *t, uint32_t rank, void *arg)
{
	(void)t;
	(void)rank;
	(void)arg;
	return true;
}

static void print_head(const struct ff_topology *t, uint32_t node, struct ff_out *o)
{
	const struct ff_host *h = &t->seat[t->first[node]].host;

	ff_out_printf(o, "%s: ", h->name);
	ff_topology_name_ranks(
			t, t->first[node], t->first[node + 1] - t->first[node], is_any, NULL, o);
	ff_out_printf(o, ", ");
	print_bytes(h->memory_bytes, o);
	ff_out_printf(o, " of memory");
	if (ff_host_room(h) < h->memory_bytes) {
		ff_out_printf(o, ", of which control groups allow ");
		print_bytes(h->limit_bytes, o);
	}
	if (h->threads < h->all_threads)
		ff_out_printf(o, ", %u of %u hardware threads allowed", h->threads, h->all_threads);
}

static void print_node(const struct ff_topology *t, uint32_t node, struct ff_out *o)
{
	const struct ff_host *h = &t->seat[t->first[node]].host;

	print_head(t, node, o);
	ff_out_printf(o, "\n");
	for (uint32_t i = 0, core = 0; i < h->domains; core += h->domain[i++].cores) {
		if (!i || h->domain[i].package != h->domain[i - 1].package)
			ff_out_printf(o, "  package %u%s%s\n", h->domain[i].package,
					h->processor[0] ? ": " : "", h->processor);
		print_domain(t, node, i, core, o);
	}
	print_cards(h, o);
}

/* Whether a node is as the one before it, ranks and all. */
static bool is_alike(const struct ff_topology *t, uint32_t node)
{
	const struct ff_seat *a = &t->seat[t->first[node - 1]], *b = &t->seat[t->first[node]];
	uint32_t n = t->first[node + 1] - t->first[node];

	if (n != t->first[node] - t->first[node - 1])
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct ff_host h = a[i].host;

		memcpy(h.name, b[i].host.name, sizeof(h.name));
		if (memcmp(&h, &b[i].host, sizeof(h)) != 0 ||
				memcmp(a[i].core, b[i].core, sizeof(a[i].core)) != 0)
			return false;
	}
	return true;
}

void ff_topology_print(const struct ff_topology *t, struct ff_out *o)
{
	char fingerprint[FF_FINGERPRINT];

	for (uint32_t i = 0; i < t->n_nodes; i++) {
		if (!i || !is_alike(t, i)) {
			print_node(t, i, o);
			continue;
		}
		print_head(t, i, o);
		ff_out_printf(o, ": as the host before\n");
	}
	ff_topology_fingerprint(t, fingerprint);
	ff_out_printf(o, "fingerprint %s\n", fingerprint);
}
