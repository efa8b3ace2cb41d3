/* What hosts are made of, and where ranks lie on them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TOPOLOGY_H
#define FF_TOPOLOGY_H

#include "ff/comm.h"
#include "ff/json.h"
#include "ff/machine.h"
#include "host.h"

struct ff_topology {
	uint32_t n_ranks, n_nodes;
	const uint32_t *first;      /* rank of each node, and behind the last one n_ranks */
	const struct ff_seat *seat; /* of each rank */
};

#define FF_FINGERPRINT 64

/* All ranks together, of which each comes with its own seat; nodes are as `first` has them. */
int ff_topology_gather(struct ff_topology *t, const struct ff_seat *own, struct ff_comm *c,
		uint32_t n_nodes, const uint32_t *first, struct ff_arena *a, struct ff_error *err);
/* Whether hwloc was there to ask. */
static inline bool ff_topology_known(const struct ff_topology *t)
{
	return t->seat[0].host.cores;
}

/* As a tree for people. */
void ff_topology_print(const struct ff_topology *t, struct ff_out *o);
/* A line for each thing that makes figures doubtful, "WHO: warning: " before it.  `m`: whose
 * devices share the memory of the hosts; NULL: they do not, or it was made of them. */
void ff_topology_warn(const struct ff_topology *t, const struct ff_machine *m, const char *who,
		struct ff_out *o);
/* Short, and the same where hosts are made alike and ranks lie alike: "2h1p1n2c2t-1f0a93c2", of the
 * first host packages, NUMA nodes, cores and hardware threads; "": nothing is known. */
void ff_topology_fingerprint(const struct ff_topology *t, char text[FF_FINGERPRINT]);

/* "rank 3", "ranks 0-3 and 7": those of n from `first` on for which `has` holds. */
void ff_topology_name_ranks(const struct ff_topology *t, uint32_t first, uint32_t n,
		bool (*has)(const struct ff_topology *t, uint32_t rank, void *arg), void *arg,
		struct ff_out *o);

#endif
