/* Memory of memos.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_MEMOS_H
#define FF_SIMULATOR_MEMOS_H

#include "home.h"

/* Makes room where memos hold too much, but not of what the current strategy has in place
 * when the other one asks.  `needed_bytes` were needed for one strategy at last. */
void ff_evaluator_empty(struct ff_evaluator *h, const struct ff_trial *asks);
void ff_evaluator_needs(struct ff_evaluator *h, size_t needed_bytes);
size_t ff_evaluator_held(const struct ff_evaluator *h);
/* A long search has seen many blocks that it will not see again: all but those of the
 * current number of micro-batches go.  Whether it still holds too much. */
bool ff_evaluator_trim(struct ff_evaluator *h);

#endif
