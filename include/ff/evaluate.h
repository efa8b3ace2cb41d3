/* Evaluator: what a search asks for the step time of many strategies that
 * differ in a few operators.  It keeps the schedule as memoised blocks (one an
 * operator, one an edge), replaces those a proposal touches and re-times; its
 * figures equal ff_simulate of a fresh ff_lower to the bit.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EVALUATE_H
#define FF_EVALUATE_H

#include "ff/price.h"
#include "ff/strategy.h"

struct ff_evaluator;

struct ff_evaluation {
	double step_us;
	bool fits;           /* on every device what lives at once is within the memory limit */
	bool tight;          /* on some device it is more than half of it: no layout may fit */
	int64_t over_bytes;  /* what devices lack for that, all together: 0 when it fits */
	int64_t spare_bytes; /* the least that a device has left then */
};

/* One operator of a proposal and its config to be (n_parts 0: a parameter that
 * follows its first reader). */
struct ff_change {
	uint32_t node;
	struct ff_config config;
};

/* `memory_limit` 0: each device's own capacity. */
int ff_evaluator_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		int64_t memory_limit, int64_t bucket_bytes, struct ff_evaluator **ret,
		struct ff_error *err);
void ff_evaluator_destroy(struct ff_evaluator *e);
/* What a device may use of its memory. */
int64_t ff_evaluator_memory_bytes(const struct ff_evaluator *e, uint32_t device);

/* Makes a copy of `s` the current strategy and evaluates it. */
int ff_evaluator_set(struct ff_evaluator *e, const struct ff_strategy *s, struct ff_evaluation *ret,
		struct ff_error *err);
/* Evaluates a copy of `s` beside the current strategy, which stays as it is.  Where a step takes
 * longer than `limit_us` *slower is true, and `ret` is left alone. */
int ff_evaluator_try(struct ff_evaluator *e, const struct ff_strategy *s, double limit_us,
		bool *slower, struct ff_evaluation *ret, struct ff_error *err);
/* Makes what was tried, and is not slower, current; nothing else was asked for in between. */
void ff_evaluator_take(struct ff_evaluator *e);
/* Evaluates the current strategy with `n` operators changed, all different.  It
 * stays proposed until ff_evaluator_keep makes it current or ff_evaluator_drop
 * forgets it; one of them must follow. */
int ff_evaluator_propose(struct ff_evaluator *e, const struct ff_change *change, uint32_t n,
		struct ff_evaluation *ret, struct ff_error *err);
/* Limits of a proposal. */
struct ff_most {
	double step_us;     /* INFINITY: any */
	int64_t over_bytes; /* INT64_MAX: any */
};
/* As ff_evaluator_propose, but where the proposal is beyond a limit *worse is true, `ret` is left
 * alone and the proposal forgotten.  That is often known long before all of it has been looked at.
 * Where only bytes have a limit, what lacks some is not timed: its step is INFINITY. */
int ff_evaluator_propose_within(struct ff_evaluator *e, const struct ff_change *change, uint32_t n,
		struct ff_most most, bool *worse, struct ff_evaluation *ret, struct ff_error *err);
/* Proposes the current strategy with other priorities, by node.  Where the step takes longer than
 * `limit_us` *slower is true, `ret` is left alone and the proposal forgotten. */
int ff_evaluator_reorder(struct ff_evaluator *e, const int32_t *priority, double limit_us,
		bool *slower, struct ff_evaluation *ret, struct ff_error *err);
/* Turns early rejection on or off (early.c); at first it is off.  On, proposals are also forgotten
 * that only seem to be slower, by what is known of the current strategy's step.  What it has
 * learnt it forgets with every call, so that equal searches are equal. */
void ff_evaluator_reject_early(struct ff_evaluator *e, bool on);
/* Whether equal micro-batches and layers are folded (fold.c, layers.c), from the next
 * ff_evaluator_set on.  At first they are; nothing but the time that it takes depends on it. */
void ff_evaluator_fold(struct ff_evaluator *e, bool on);
void ff_evaluator_keep(struct ff_evaluator *e);
void ff_evaluator_drop(struct ff_evaluator *e);
/* When all parts of each node were done with the first micro-batch of the current strategy's step:
 * us[pass][node], 0 where there is no such pass.  Of a backward computed in two it is the half for
 * data.  Nothing may be proposed meanwhile. */
int ff_evaluator_done(struct ff_evaluator *e, double *const us[2], struct ff_error *err);
/* What each node's slowest part takes in the current strategy, and moves over each edge one after
 * another, by pass: of one micro-batch.  What is summed or gathered in buckets is not among it. */
void ff_evaluator_taken(
		const struct ff_evaluator *e, double *const node_us[2], double *const edge_us[2]);
/* The current strategy; valid until the next keep or set. */
const struct ff_strategy *ff_evaluator_strategy(const struct ff_evaluator *e);
/* Lays the current strategy out in memory, as ff_lower does: what the devices
 * lack for that, all together.  What lives at once may fit where no layout does. */
int ff_evaluator_layout(struct ff_evaluator *e, int64_t *over_bytes, struct ff_error *err);
/* The same for who asks only whether they lack nothing: that is known sooner. */
int ff_evaluator_lays_out(struct ff_evaluator *e, bool *ret, struct ff_error *err);

#endif
