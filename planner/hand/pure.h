/* Pure strategies: one way to split a whole network, as ParaDL's oracle has them (Kahira et al.,
 * "An Oracle for Guiding Large-Scale Model/Hybrid Parallel Training of Convolutional Neural
 * Networks", HPDC 2021).  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PURE_H
#define FF_PLANNER_PURE_H

#include "ff/space.h"
#include "ff/strategy.h"

struct ff_pure {
	const char *name;    /* "data", "data + spatial" */
	const char *summary; /* what is split */
};
/* By number; NULL: there are no more. */
const struct ff_pure *ff_pure_row(uint32_t i);

/* Number `i` on all devices of `m`.  What an operator has too little of to split so often is
 * computed by several devices alike.  FF_E_INPUT where it is not for `g` or so many devices.  All
 * memory from `a`. */
int ff_pure_strategy(uint32_t i, const struct ff_space *space, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err);

#endif
