/* Where stages are cut, and the rule of their order.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROPOSE_STAGE_MOVES_H
#define FF_PROPOSE_STAGE_MOVES_H

#include "proposer.h"

/* Operator `node` goes to the next stage, or to the one before, with all operators of its own that
 * stages could not ascend without: to that stage's devices, split as they are where these are as
 * many, else by sample.  Parameters that have devices of their own go along, or to their readers.
 * `order`: operators in a row.  False, with `s` in pieces, where there is no such stage, or it
 * cannot be said where its devices are.  Whether it is legal is the caller's to ask. */
bool ff_move_cut(const struct ff_graph *g, const uint32_t *order, uint32_t n_order, uint32_t node,
		bool later, struct ff_strategy *s);
/* Whether `node` is the last of its stage, or not `later` the first, on some way. */
bool ff_stage_ends_at(
		const struct ff_graph *g, uint32_t node, bool later, const struct ff_strategy *s);

/* Whether two operators do. */
bool ff_share_devices(
		const struct ff_graph *g, const struct ff_strategy *s, uint32_t a, uint32_t b);

/* Another rule, for stages that take turns on no devices.  `shared`: gradients of parameters take
 * less than the others, where these wait for messages inside the stage.  False: it is the same, or
 * there is one micro-batch. */
bool ff_rule_change(struct ff_strategy *s, enum ff_order_rule rule, bool shared);
/* The next rule: interleaved only where devices hold several stages, in a V only where they do in
 * one.  `shared`: as above, where backward is in halves. */
bool ff_rule_next(const struct ff_graph *g, const uint32_t *order, uint32_t n_order, bool shared,
		struct ff_strategy *s);

#endif
