/* How ranks lie on hosts, and the machine that they are.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LAYOUT_H
#define FF_LAYOUT_H

#include "ff/comm.h"
#include "ff/costs.h"
#include "ff/machine.h"
#include "topology/topology.h"

struct ff_layout {
	uint32_t n_nodes;
	uint32_t *first; /* rank of each node, and behind the last one how many there are */
};

/* All ranks together.  FF_E_INPUT on all of them unless ranks are numbered host by host. */
int ff_layout_find(
		struct ff_layout *l, struct ff_comm *c, struct ff_arena *a, struct ff_error *err);
/* Ranks are the devices of `m`.  FF_E_INPUT unless several hosts are as many nodes of it; on one
 * host nodes are what `m` says, as they are where the runtime is tried on it. */
int ff_layout_settle(struct ff_layout *l, const struct ff_machine *m, struct ff_error *err);
/* Makes of `m`, whose first device says what all are, the machine whose nodes are these, by the
 * name of the file. */
int ff_layout_machine(const struct ff_layout *l, const char *path, struct ff_arena *a,
		struct ff_machine *m, struct ff_error *err);
/* Sets what was measured of them. */
void ff_layout_links(
		struct ff_machine *m, const struct ff_rate *inside, const struct ff_rate *network);
/* Devices share the memory of their hosts: of its smallest share, whole MiB. */
void ff_layout_memory(struct ff_machine *m, const struct ff_topology *t);

#endif
