/* Evaluator: what a search asks for the step time of many strategies that
 * differ in one operator.  It keeps the schedule as memoised blocks (one an
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
	bool fits; /* every device within the memory limit */
	/* What devices lack, all together: 0 when it fits.  Exact, but for an upper
	 * estimate where weights alone are too much. */
	int64_t over_bytes;
};

/* `memory_limit` 0: each device's own capacity. */
int ff_evaluator_create(const struct ff_graph *g, const struct ff_machine *m, struct ff_pricer *p,
		int64_t memory_limit, int64_t bucket_bytes, struct ff_evaluator **ret,
		struct ff_error *err);
void ff_evaluator_destroy(struct ff_evaluator *e);

/* Makes a copy of `s` the current strategy and evaluates it. */
int ff_evaluator_set(struct ff_evaluator *e, const struct ff_strategy *s, struct ff_evaluation *ret,
		struct ff_error *err);
/* Evaluates the current strategy with `config` (copied) at `node`.  It stays
 * proposed until ff_evaluator_keep makes it current or ff_evaluator_drop
 * forgets it; one of them must follow. */
int ff_evaluator_propose(struct ff_evaluator *e, uint32_t node, const struct ff_config *config,
		struct ff_evaluation *ret, struct ff_error *err);
void ff_evaluator_keep(struct ff_evaluator *e);
void ff_evaluator_drop(struct ff_evaluator *e);
/* The current strategy; valid until the next keep or set. */
const struct ff_strategy *ff_evaluator_strategy(const struct ff_evaluator *e);

#endif
