/* Blocks in place, and what they replaced.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PLACE_H
#define FF_SIMULATOR_PLACE_H

#include "trial.h"

/* The config of node `i` under the proposal; a prelude has its leader's. */
const struct ff_config *ff_place_config(const struct ff_trial *e, uint32_t i);
/* Those of all nodes anew; all that moves is found. */
int ff_place_all(struct ff_trial *e, struct ff_error *err);
/* For another program: which of its steps move something. */
void ff_place_activate(struct ff_trial *e);
/* Those of a proposal's nodes, of the parameters they read and of the edges between them
 * and others, unless it turns out to be too slow. */
int ff_place_changes(struct ff_trial *e, struct ff_error *err);
/* What becomes of the gradients of `value`, in the order and the blocks of the moment: in
 * `sums_next`, first_use and first_edge. */
void ff_place_find_sums(struct ff_trial *e, uint32_t value);
/* Into `shared_next`: which of its uses are moved with which. */
void ff_place_find_sharing(struct ff_trial *e, uint32_t value);
/* What is moved at `edge` in `pass` was not known: finds it, and how long that keeps
 * lanes busy. */
int ff_place_resolve(struct ff_trial *e, uint32_t edge, enum ff_pass pass, struct ff_error *err);
/* The same for all edges of the proposal. */
int ff_place_resolve_touched(struct ff_trial *e, struct ff_error *err);
/* Puts back what was there; another time, what the proposal brought. */
void ff_place_exchange(struct ff_trial *e);

#endif
