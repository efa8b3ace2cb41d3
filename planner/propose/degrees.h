/* Degrees of parallelism of a whole network: moves from one regular strategy to another.  Between
 * the two lie strategies of which each is slower, so no walk of small changes crosses.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_DEGREES_H
#define FF_PLANNER_DEGREES_H

#include "proposer.h"
#include "space/repeats.h"

/* Chains of products that devices may share, for ff_propose_degrees. */
int ff_proposer_find_chains(struct ff_proposer *p, struct ff_arena *a, struct ff_error *err);
/* A kind of proposal: all operators on as many devices are split less within samples and more by
 * sample, by a prime factor of the devices, or the other way round, or both. */
void ff_propose_degrees(struct ff_proposer *p);

/* Parts of most operators, of the numbers that divide the devices. */
uint32_t ff_proposer_usual_parts(const struct ff_proposer *p, const struct ff_strategy *s);
/* Change number *i: all operators that are on as many devices as most are take some number of
 * shares of samples; or all operators do, on all devices or on one node.  Each share is cut along
 * the dim that cuts most data, or as chains of products are.  False: there are not so many changes,
 * and *i is less by as many as there are. */
bool ff_proposer_share(struct ff_proposer *p, uint32_t *i);

/* Where stages may be cut, and what is to be equal in them. */
struct ff_depths {
	const struct ff_graph *graph; /* of the batch */
	struct ff_repeats repeats;
	double *cost_s; /* by node: by the roofline of a device, forward and backward */
	struct ff_depths_stage *stage; /* scratch: by stage, as many as there are nodes */
};
int ff_depths_init(struct ff_depths *d, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_arena *a, struct ff_error *err);
/* Twice as many stages, each on half of its devices with half of the shares of samples; or two each
 * become one.  False, with `s` in pieces, where stages or devices are too irregular for that.
 * Whether it is legal is the caller's to ask. */
bool ff_depths_twice(const struct ff_depths *d, struct ff_strategy *s);
bool ff_depths_half(const struct ff_depths *d, struct ff_strategy *s);

#endif
