/* Hosts and ranks, brought together.  SPDX-License-Identifier: Apache-2.0 */
#include "topology.h"

#include <inttypes.h>
#include <stdio.h>

#include "ff/hash.h"
#include "process/agree.h"

int ff_topology_gather(struct ff_topology *t, const struct ff_seat *own, struct ff_comm *c,
		uint32_t n_nodes, const uint32_t *first, struct ff_arena *a, struct ff_error *err)
{
	struct ff_seat *seat = ff_arena_array(a, c->n_ranks, sizeof(*seat));
	int code = seat ? FF_OK : ff_fail_memory(err);

	code = ff_agree_code(c, code, err);
	if (code == FF_OK)
		code = ff_agree_gather(c, own, sizeof(*own), seat, err);
	if (code == FF_OK)
		*t = (struct ff_topology){c->n_ranks, n_nodes, first, seat};
	return code;
}

/* What kernels run on, not what is called how or how much memory there is to the byte. */
static uint64_t hash_host(const struct ff_host *h, uint64_t hash)
{
	for (uint32_t i = 0; i < h->domains; i++) {
		const struct ff_host_domain *d = &h->domain[i];
		const uint64_t figures[] = {hash, d->package, d->caches, (uint64_t)d->cache_bytes,
				d->cores, d->threads};

		hash = ff_fnv1a(figures, sizeof(figures));
	}
	return hash;
}

/* How many cores of each domain the ranks of a node have, each and all together: which ones is
 * another matter every time. */
static uint64_t hash_ranks(const struct ff_topology *t, uint32_t node, uint64_t hash)
{
	const struct ff_host *h = &t->seat[t->first[node]].host;

	for (uint32_t i = 0, core = 0; i < h->domains; core += h->domain[i++].cores) {
		uint64_t all[] = {hash, 0};

		for (uint32_t r = t->first[node]; r < t->first[node + 1]; r++) {
			uint64_t own[] = {all[0], 0};

			for (uint32_t k = 0; k < h->domain[i].cores; k++)
				own[1] += ff_seat_has(&t->seat[r], core + k);
			all[0] = ff_fnv1a(own, sizeof(own));
		}
		for (uint32_t k = 0; k < h->domain[i].cores; k++) {
			uint32_t r = t->first[node];

			while (r < t->first[node + 1] && !ff_seat_has(&t->seat[r], core + k))
				r++;
			all[1] += r < t->first[node + 1];
		}
		hash = ff_fnv1a(all, sizeof(all));
	}
	return hash;
}

void ff_topology_fingerprint(const struct ff_topology *t, char text[FF_FINGERPRINT])
{
	const struct ff_host *h = &t->seat[0].host;
	uint64_t hash = 0;

	text[0] = '\0';
	if (!ff_topology_known(t))
		return;
	for (uint32_t i = 0; i < t->n_nodes; i++) {
		hash = hash_host(&t->seat[t->first[i]].host, hash);
		hash = hash_ranks(t, i, hash);
	}
	snprintf(text, FF_FINGERPRINT, "%uh%up%un%uc%ut-%08" PRIx32, t->n_nodes, h->packages,
			h->domains, h->cores, h->threads, (uint32_t)(hash ^ hash >> 32));
}

void ff_topology_name_ranks(const struct ff_topology *t, uint32_t first, uint32_t n,
		bool (*has)(const struct ff_topology *t, uint32_t rank, void *arg), void *arg,
		struct ff_out *o)
{
	uint32_t end = first + n, found = 0, last = 0, told = 0;

	for (uint32_t r = first; r < end; r++)
		if (has(t, r, arg)) {
			found++;
			last = r;
		}
	ff_out_printf(o, found == 0 ? "no rank" : found == 1 ? "rank " : "ranks ");
	for (uint32_t r = first, to; r < end; r = to + 1) {
		to = r;
		if (!has(t, r, arg))
			continue;
		while (to + 1 < end && has(t, to + 1, arg))
			to++;
		if (told++)
			ff_out_printf(o, to == last ? " and " : ", ");
		if (to == r + 1)
			ff_out_printf(o, to == last && told == 1 ? "%u and %u" : "%u, %u", r, to);
		else if (to > r)
			ff_out_printf(o, "%u-%u", r, to);
		else
			ff_out_printf(o, "%u", r);
	}
}
