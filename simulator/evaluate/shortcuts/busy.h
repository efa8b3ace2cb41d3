/* How long each lane is busy at least.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_BUSY_H
#define FF_SIMULATOR_BUSY_H

#include "evaluate/trial.h"

/* What the blocks in place take (ff_evaluator_taken). */
void ff_busy_list(const struct ff_trial *e, double *const node_us[2], double *const edge_us[2]);
/* Of the blocks in place; then, of a proposal, without what it touches, and
 * with what has come in its place. */
void ff_busy_reset(struct ff_trial *e);
void ff_busy_begin(struct ff_trial *e, double limit_us);
void ff_busy_add_node(struct ff_trial *e, uint32_t node);
/* It will be counted soon: fetches what is moved at it. */
void ff_busy_fetch_edge(const struct ff_trial *e, uint32_t edge);
void ff_busy_add_edge(struct ff_trial *e, uint32_t edge, enum ff_pass pass);
void ff_busy_keep(struct ff_trial *e);
/* How long buckets keep devices busy becomes known. */
void ff_busy_count_buckets(const struct ff_trial *e, struct ff_gathered *g);
/* Before a pass with these buckets: whether what is known is too much. */
void ff_busy_know(struct ff_trial *e, const struct ff_gathered *g);
/* From now on no lane may be busy for longer. */
void ff_busy_limit(struct ff_trial *e, double limit_us);
/* Whether strategy `s`, of `micro`, keeps some device busy for longer than `limit_us`. */
int ff_busy_check(struct ff_trial *e, struct ff_micro *micro, const struct ff_strategy *s,
		double limit_us, bool *slower, struct ff_error *err);

#endif
