/* How ranks lie on hosts, and the machine that they are.  SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

#include "comm/mpi_job.h"
#include "process/agree.h"

int ff_layout_find(struct ff_layout *l, struct ff_comm *c, struct ff_arena *a, struct ff_error *err)
{
	uint32_t own = 0, *first = ff_arena_array(a, c->n_ranks + 1, sizeof(*first));
	int code = first ? FF_OK : ff_fail_memory(err);

	if (code == FF_OK && c->n_ranks > 1)
		code = ff_mpi_host(&own, err);
	if (code == FF_OK)
		code = ff_agree_gather(c, &own, sizeof(own), first, err);
	if (code < 0)
		return code;
	l->first = first;
	l->n_nodes = 0;
	for (uint32_t r = 0, k; r < c->n_ranks; r += k) {
		uint32_t host = first[r];

		if (host != r)
			return ff_fail(err, FF_E_INPUT,
					"rank %u is on the host of rank %u, but rank %u between "
					"them is not: "
					"expected ranks that are numbered host by host",
					r, host, r - 1);
		for (k = 1; r + k < c->n_ranks && first[r + k] == host;)
			k++;
		l->first[l->n_nodes++] = r;
	}
	l->first[l->n_nodes] = c->n_ranks;
	return FF_OK;
}

/* Whether ranks `r` and `r` - 1 are on one host. */
static bool is_beside(const struct ff_layout *l, uint32_t r)
{
	for (uint32_t i = 0; i < l->n_nodes; i++)
		if (l->first[i] == r)
			return false;
	return true;
}

/* The nodes of `m` as far as there are ranks for its devices. */
static void take_nodes(struct ff_layout *l, const struct ff_machine *m)
{
	uint32_t n = l->first[l->n_nodes];

	l->n_nodes = 0;
	for (uint32_t i = 0; i < m->n_nodes && m->nodes[i].first < n; i++)
		l->first[l->n_nodes++] = m->nodes[i].first;
	l->first[l->n_nodes] = n < m->n_devices ? n : m->n_devices;
}

int ff_layout_settle(struct ff_layout *l, const struct ff_machine *m, struct ff_error *err)
{
	uint32_t n = l->first[l->n_nodes];

	for (uint32_t r = 1; r < n && r < m->n_devices && l->n_nodes > 1; r++) {
		bool beside = is_beside(l, r);

		if (beside != (m->node_of[r] == m->node_of[r - 1]))
			return ff_fail(err, FF_E_INPUT,
					"ranks %u and %u are on %s, devices %u and %u of machine "
					"%s on %s: expected a machine that is as ranks lie, which "
					"--write-machine FILE writes",
					r - 1, r, beside ? "one host" : "two hosts", r - 1, r,
					m->name, beside ? "two nodes" : "one node");
	}
	take_nodes(l, m);
	return FF_OK;
}

/* What a path is called without its folder and ".json". */
static const char *name_of(const char *path, struct ff_arena *a)
{
	const char *slash = strrchr(path, '/');
	char *name = ff_arena_strdup(a, slash ? slash + 1 : path);
	size_t n = name ? strlen(name) : 0;

	if (n > 5 && !strcmp(name + n - 5, ".json"))
		name[n - 5] = '\0';
	return name;
}

int ff_layout_machine(const struct ff_layout *l, const char *path, struct ff_arena *a,
		struct ff_machine *m, struct ff_error *err)
{
	uint32_t n = l->first[l->n_nodes];
	struct ff_machine made = {.n_devices = n, .n_nodes = l->n_nodes, .n_kinds = 1};

	made.overlap = m->overlap;
	made.message_lane = m->message_lane;
	made.name = name_of(path, a);
	made.kinds = ff_arena_copy(a, ff_device_kind(m, 0), 1, sizeof(*made.kinds));
	made.nodes = ff_arena_array(a, made.n_nodes, sizeof(*made.nodes));
	made.node_of = ff_arena_array(a, n, sizeof(*made.node_of));
	if (!made.name || !made.kinds || !made.nodes || !made.node_of)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < made.n_nodes; i++) {
		made.nodes[i] = m->nodes[0];
		made.nodes[i].first = l->first[i];
		made.nodes[i].count = l->first[i + 1] - l->first[i];
		made.nodes[i].kind = 0;
		for (uint32_t r = l->first[i]; r < l->first[i + 1]; r++)
			made.node_of[r] = i;
	}
	ff_machine_number_cards(&made);
	*m = made;
	return FF_OK;
}

void ff_layout_links(
		struct ff_machine *m, const struct ff_rate *inside, const struct ff_rate *network)
{
	for (uint32_t i = 0; i < m->n_nodes; i++) {
		struct ff_machine_node *n = &m->nodes[i];

		if (inside->bytes_per_us > 0) {
			n->inside.latency_us = inside->latency_us;
			n->inside.bytes_per_us = inside->bytes_per_us;
		}
		if (network->bytes_per_us > 0)
			n->network = (struct ff_link){
					network->latency_us, network->bytes_per_us, true};
	}
}

void ff_layout_memory(struct ff_machine *m, const struct ff_topology *t)
{
	struct ff_device_kind *k = m->kinds;

	for (uint32_t i = 0; i < t->n_nodes; i++) {
		uint32_t ranks = t->first[i + 1] - t->first[i];
		int64_t bytes = ff_host_room(&t->seat[t->first[i]].host) / ranks >> 20 << 20;

		k->memory_bytes = !i || bytes < k->memory_bytes ? bytes : k->memory_bytes;
	}
}
