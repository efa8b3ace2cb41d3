/* Gradients that wait until they are applied.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_WAITING_H
#define FF_EXEC_WAITING_H

#include "exec/core/state.h"

/* Binds a delay: its copies are the task's `addition`. */
int ff_waiting_bind(struct ff_executor *x, const struct ff_task *t, struct ff_bound_task *j,
		struct ff_error *err);
/* Where nothing is compressed: gradients of `age` steps before the last, of all parameters, come to
 * where they are applied, by the tasks that will bring them there, so that they are added in that
 * order.  All ranks together; they stay there until the next step. */
int ff_waiting_show(struct ff_executor *x, uint32_t age, struct ff_error *err);
bool ff_waiting_is_shown(const struct ff_executor *x);
/* Elsewhere: what each hosted device has made of that of `node`, a parameter, is added to the
 * whole. */
int ff_waiting_add(struct ff_executor *x, uint32_t node, uint32_t age, float *whole,
		struct ff_error *err);
/* The other way round: as if of all that make it one had made all of it, the others none. */
int ff_waiting_put(struct ff_executor *x, uint32_t node, uint32_t age, const float *whole,
		struct ff_error *err);

#endif
