/* Gradients that wait until they are applied.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_WAITING_H
#define FF_RUNTIME_WAITING_H

#include "executor.h"

/* Binds a DELAY task: its copies are the job's `addition`. */
int ff_waiting_bind(struct ff_executor *x, const struct ff_task *t, struct ff_job *j,
		struct ff_error *err);
/* Of the gradient that `node`, a parameter, got `age` steps before the last: what each hosted
 * device has made of it is added to the whole. */
int ff_waiting_add(struct ff_executor *x, uint32_t node, uint32_t age, float *whole,
		struct ff_error *err);
/* The other way round: as if of all that make it one had made all of it, the others none. */
int ff_waiting_put(struct ff_executor *x, uint32_t node, uint32_t age, const float *whole,
		struct ff_error *err);

#endif
