/* Evaluator: the step time of many strategies that differ in a few operators.  It keeps the current
 * strategy as memoised blocks, one an operator and one an edge, replaces the blocks that a proposal
 * changes, and times the step anew.  Its figures equal those of ff_simulate after ff_lower, to the
 * bit.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EVALUATE_H
#define FF_EVALUATE_H

#include "ff/price.h"
#include "ff/strategy.h"

struct ff_evaluator;

struct ff_evaluation {
	double step_us;
	bool fits;          /* on every device the peak of live bytes is within the memory limit */
	bool tight;         /* on some device it is above half the limit, so a layout may not fit */
	int64_t over_bytes; /* bytes above the limits, summed over devices; 0 if it fits */
	int64_t spare_bytes; /* the least that any device has left, if it fits */
};

/* An operator that a proposal changes, and its new config (n_parts 0: a parameter that follows its
 * first reader). */
struct ff_change {
	uint32_t node;
	struct ff_config config;
};

/* `memory_limit` 0: each device's own capacity. */
int ff_evaluator_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		int64_t memory_limit, int64_t bucket_bytes, struct ff_evaluator **ret,
		struct ff_error *err);
void ff_evaluator_destroy(struct ff_evaluator *e);
/* The memory limit of a device. */
int64_t ff_evaluator_memory_bytes(const struct ff_evaluator *e, uint32_t device);
/* Its prices, as ff_evaluator_create got them. */
const struct ff_pricer *ff_evaluator_pricer(const struct ff_evaluator *e);

/* Makes a copy of `s` the current strategy and evaluates it. */
int ff_evaluator_set(struct ff_evaluator *e, const struct ff_strategy *s, struct ff_evaluation *ret,
		struct ff_error *err);
/* Evaluates `s` without changing the current strategy.  If its step takes longer than `limit_us`,
 * *slower is true and `ret` is left alone. */
int ff_evaluator_try(struct ff_evaluator *e, const struct ff_strategy *s, double limit_us,
		bool *slower, struct ff_evaluation *ret, struct ff_error *err);
/* Makes the strategy of the last ff_evaluator_try current.  It must not have been slower, and no
 * other call may lie in between. */
void ff_evaluator_take(struct ff_evaluator *e);
/* Evaluates the current strategy with `n` different operators changed.  ff_evaluator_keep, which
 * makes it current, or ff_evaluator_drop, which forgets it, must follow. */
int ff_evaluator_propose(struct ff_evaluator *e, const struct ff_change *change, uint32_t n,
		struct ff_evaluation *ret, struct ff_error *err);
/* Limits of a proposal. */
struct ff_most {
	double step_us;     /* INFINITY: any */
	int64_t over_bytes; /* INT64_MAX: any */
};
/* As ff_evaluator_propose, but if the proposal exceeds a limit, *worse is true, `ret` is left alone
 * and the proposal is dropped.  That is often known early.  With a limit of bytes only, a proposal
 * that does not fit is not timed: its step is INFINITY. */
int ff_evaluator_propose_within(struct ff_evaluator *e, const struct ff_change *change, uint32_t n,
		struct ff_most most, bool *worse, struct ff_evaluation *ret, struct ff_error *err);
/* Proposes the current strategy with other priorities, by node.  If the step takes longer than
 * `limit_us`, *slower is true, `ret` is left alone and the proposal is dropped. */
int ff_evaluator_reorder(struct ff_evaluator *e, const int32_t *priority, double limit_us,
		bool *slower, struct ff_evaluation *ret, struct ff_error *err);
/* Turns early rejection on or off; the preset is off.  When on, a proposal may be dropped that only
 * seems slower, judged by times of the current strategy's step.  Every call resets what it has
 * learnt, so that equal searches give equal results. */
void ff_evaluator_reject_early(struct ff_evaluator *e, bool on);
/* Whether equal micro-batches and layers are folded, from the next ff_evaluator_set on; the preset
 * is yes. Only the time that an evaluation takes depends on it. */
void ff_evaluator_fold(struct ff_evaluator *e, bool on);
void ff_evaluator_keep(struct ff_evaluator *e);
void ff_evaluator_drop(struct ff_evaluator *e);
/* us[pass][node]: when the last part of the node finished the first micro-batch of the current
 * strategy's step; 0 without such a pass.  Of a split backward: the half for data.  There must be
 * no open proposal. */
int ff_evaluator_done(struct ff_evaluator *e, double *const us[2], struct ff_error *err);
/* Times of one micro-batch of the current strategy, by pass: of each node's slowest part, and of
 * each edge's moves one after another.  Collectives of buckets are not included. */
void ff_evaluator_taken(
		const struct ff_evaluator *e, double *const node_us[2], double *const edge_us[2]);
/* The current strategy; valid until the next keep or set. */
const struct ff_strategy *ff_evaluator_strategy(const struct ff_evaluator *e);
/* Lays the current strategy out in memory as ff_lower does.  *over_bytes: bytes above the limits,
 * summed over devices.  A layout may not fit even if the peak of live bytes does. */
int ff_evaluator_layout(struct ff_evaluator *e, int64_t *over_bytes, struct ff_error *err);
/* Whether that layout fits, which is known sooner. */
int ff_evaluator_lays_out(struct ff_evaluator *e, bool *ret, struct ff_error *err);

#endif
