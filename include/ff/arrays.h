/* Arrays that an executor keeps from step to step.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_ARRAYS_H
#define FF_ARRAYS_H

#include "ff/error.h"
#include "ff/optimizer.h"

struct ff_executor;

/* What is kept of every parameter.  Of the last two it is the sum over all devices. */
enum {
	FF_ARRAY_WEIGHTS,
	FF_ARRAY_GRADIENTS,
	FF_ARRAY_STATES, /* + number of the optimizer's state */
	/* Compressed gradients: the error feedback, what was not sent yet; zero for others. */
	FF_ARRAY_RESIDUALS = FF_ARRAY_STATES + FF_MAX_STATES,
	/* Late gradients: + 0 those of the last step, + 1 of the one before, as many as wait.
	 * Asking for them overwrites FF_ARRAY_GRADIENTS. */
	FF_ARRAY_WAITING
};
/* Gathers one of these of the parameter of `node`, whole, on every rank: row-major
 * float32. */
int ff_executor_parameter(struct ff_executor *x, uint32_t node, uint32_t array, float *whole,
		struct ff_error *err);
/* The other way round: hosted devices take their shards of it; of what was not sent yet, or
 * waits, the first one that has a shard, and the others none. */
int ff_executor_put_parameter(struct ff_executor *x, uint32_t node, uint32_t array,
		const float *whole, struct ff_error *err);

/* Gathers `value`, which its operator keeps from step to step, whole; and gives it to hosted
 * devices. */
int ff_executor_kept(struct ff_executor *x, uint32_t value, float *whole, struct ff_error *err);
int ff_executor_put_kept(
		struct ff_executor *x, uint32_t value, const float *whole, struct ff_error *err);

#endif
