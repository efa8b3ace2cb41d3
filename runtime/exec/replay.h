/* Passes that are captured once for each parity of the step and launched from then on.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_REPLAY_H
#define FF_EXEC_REPLAY_H

#include "exec/core/state.h"

/* Opened when jobs are bound. */
int ff_replay_open(struct ff_executor *x, struct ff_error *err);
void ff_replay_close(struct ff_executor *x);
/* A pass has run without; the first time, ranks agree on what they do from then on. */
int ff_replay_warm(struct ff_executor *x, struct ff_error *err);
/* Whether the next pass is launched. */
bool ff_replay_serves(const struct ff_executor *x, bool training);
/* Posts it, maybe the `last` of its kind; what it leaves is kept later, at the latest when it is
 * waited for.  Does nothing where passes turn out not to be launched. */
int ff_replay_post(struct ff_executor *x, bool last, struct ff_error *err);
int ff_replay_wait(struct ff_executor *x, struct ff_error *err);
/* NULL, or why steps are not launched. */
const char *ff_replay_obstacle(const struct ff_executor *x);

#endif
