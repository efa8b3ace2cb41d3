/* Rings through a node whose links stand one by one.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_MESH_H
#define FF_SIMULATOR_MESH_H

#include "ff/machine.h"

#define FF_MESH_GROUPS (1u << FF_MOST_PAIRED)

/* By the set of devices, a bit each. */
struct ff_mesh_ways {
	uint8_t rings[FF_MESH_GROUPS];  /* closed ones that share no link, each used both ways */
	uint8_t chains[FF_MESH_GROUPS]; /* 1: links lead through all of them */
	uint8_t joined[FF_MESH_GROUPS]; /* least links between two of them */
};

/* Hamiltonian cycles of a multigraph, as many as fit; of two devices, their links. */
void ff_mesh_find(const struct ff_mesh *m, struct ff_mesh_ways *ret);

#endif
