/* Sweeps of a chain: before rounds every small change of the best is tried, and those that help are
 * kept.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SWEEPS_H
#define FF_PLANNER_SWEEPS_H

#include "chain.h"
#include "propose/sweep.h"

/* How far the sweep from the best is.  Zero is a beginning. */
struct ff_sweeps {
	struct ff_sweep sweep;
	struct ff_evaluation at; /* when it was left */
};

/* A part of the sweep from the current strategy, which is the best: once all changes were tried in
 * vain, none. */
int ff_chain_sweep(struct ff_chain *c, struct ff_sweeps *s, struct ff_error *err);
/* The same, and sweeps from strategies that all operators at once lead to: on all devices, on the
 * first node, or on as many as now, with more or fewer shares of samples.  Back to the best. */
int ff_chain_sweep_all(struct ff_chain *c, struct ff_sweeps *s, struct ff_error *err);

/* Tries micro-batches, order rules and cuts of stages next to those of the current strategy, and
 * keeps what helps, until nothing does. */
int ff_chain_sweep_phases(struct ff_chain *c, struct ff_error *err);

#endif
