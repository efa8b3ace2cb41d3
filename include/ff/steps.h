/* How a GPU is given the steps of a recurrence: what its backend goes by, and who prices them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STEPS_H
#define FF_STEPS_H

#include <stdbool.h>
#include <stdint.h>

/* A step of fewer multiplications is short: a multiprocessor of an A100 or H100 has some
 * microseconds of them, which is what two launches take.  Never timed. */
#define FF_SHORT_STEP ((int64_t)1 << 24)
/* Of a kernel of all steps: samples that a warp multiplies with what it reads of the weights once,
 * features of the state whose gradients it makes of them, warps of a multiprocessor. */
#define FF_STEP_SAMPLES 8
#define FF_STEP_FEATURES 2
#define FF_STEP_WARPS 8

/* Whether one kernel has all steps, of so many `rows` of weights: else each is a product and a
 * kernel. */
static inline bool ff_steps_are_whole(int64_t samples, int64_t rows, int64_t hidden, int64_t halves)
{
	return halves == 1 && samples * rows * hidden <= FF_SHORT_STEP;
}

#endif
