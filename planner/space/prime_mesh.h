/* Meshes: configs whose parts are equal and lie as on a mesh whose axes are the prime factors of
 * the number of devices, the largest first and the last one fastest, each of which cuts one dim or
 * none.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PRIME_MESH_H
#define FF_PLANNER_PRIME_MESH_H

#include "space.h"

/* What a mesh can have of a graph. */
struct ff_prime_mesh {
	/* by node, FF_MAX_DIMS each: what the degree of a dim divides (1: it is not cut; 0: its
	 * extent alone), of the whole batch */
	const uint32_t *length;
	/* by node: the first of those that are one operator there, which are cut by all axes and
	 * in one stage; FF_NONE: it is one by itself */
	const uint32_t *joint;
	uint32_t batch; /* samples of the graph */
};

/* Devices in a row, and micro-batches, that a config is for. */
struct ff_prime_mesh_frame {
	uint32_t first, width, micro;
};

/* Of one stage: all devices, and the micro-batches that the space's graph is of. */
struct ff_prime_mesh_frame ff_prime_mesh_whole(const struct ff_space *s);
/* Of stage `stage` of `n_stages` in `plan`; width 0: there are no equal ones. */
struct ff_prime_mesh_frame ff_prime_mesh_stage(const struct ff_space *s,
		const struct ff_strategy *plan, uint32_t stage, uint32_t n_stages);
/* Of what `node` has in `plan`, which is admitted. */
struct ff_prime_mesh_frame ff_prime_mesh_kept(
		const struct ff_space *s, const struct ff_strategy *plan, uint32_t node);

/* Whether a node may have config `c`.  Parameters are updated where they are read, or flat if they
 * have an axis that the devices divide. */
bool ff_prime_mesh_admits(const struct ff_space *s, uint32_t node,
		const struct ff_prime_mesh_frame *f, const struct ff_config *c);
/* By sample as often as can be, and the same on the devices left over; a parameter where it is
 * read. */
void ff_prime_mesh_fit(const struct ff_space *s, uint32_t node, const struct ff_prime_mesh_frame *f,
		struct ff_config *ret);

#endif
