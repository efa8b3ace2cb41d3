/* The evaluator as its caller has it: the current strategy, another that is tried, and what
 * both stand on.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_HOME_H
#define FF_SIMULATOR_HOME_H

#include "trial.h"

struct ff_evaluator {
	const struct ff_graph *g; /* of the batch */
	const struct ff_machine *m;
	struct ff_pricer *p;
	int64_t *limit; /* by device */
	int64_t bucket_bytes;
	struct ff_micro *micro; /* that were needed so far */
	size_t memo_limit;      /* bytes of blocks before memos are emptied */
	struct ff_arena arena, layout, scratch;
	struct ff_trial *now, *other; /* `other`: the one tried last; NULL: none was */
};

#endif
