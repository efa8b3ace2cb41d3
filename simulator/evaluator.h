/* The evaluator as its caller has it: the current strategy, another that is tried, and what
 * both stand on.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EVALUATOR_H
#define FF_SIMULATOR_EVALUATOR_H

#include "course.h"

struct ff_evaluator {
	const struct ff_graph *g; /* of the batch */
	const struct ff_machine *m;
	struct ff_pricer *p;
	int64_t *limit; /* by device */
	int64_t bucket_bytes;
	struct ff_micro *micro; /* that were needed so far */
	size_t memo_limit;      /* bytes of blocks before memos are emptied */
	struct ff_arena arena, layout, scratch;
	struct ff_course *now, *other; /* `other`: the one tried last; NULL: none was */
};

/* Makes room where memos hold too much, but not of what the current strategy has in place
 * when the other one asks.  `needed_bytes` were needed for one strategy at last. */
void ff_evaluator_empty(struct ff_evaluator *h, const struct ff_course *asks);
void ff_evaluator_needs(struct ff_evaluator *h, size_t needed_bytes);
size_t ff_evaluator_held(const struct ff_evaluator *h);
/* A long search has seen many blocks that it will not see again: all but those of the
 * current number of micro-batches go.  Whether it still holds too much. */
bool ff_evaluator_trim(struct ff_evaluator *h);

#endif
