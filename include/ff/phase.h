/* Phases of a training step.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PHASE_H
#define FF_PHASE_H

#include "ff/work.h"

/* What is done with a micro-batch.  The first two are kernels' passes too. */
enum ff_phase {
	FF_PHASE_FORWARD = FF_FORWARD,
	FF_PHASE_BACKWARD = FF_BACKWARD,
	FF_PHASE_RECOMPUTE, /* forward once more: for backward what was dropped */
	FF_PHASE_WEIGHTS,   /* backward of halved nodes: the gradients of parameters */
	FF_PHASE_COUNT
};
static inline enum ff_pass ff_phase_pass(enum ff_phase phase)
{
	return phase == FF_PHASE_BACKWARD || phase == FF_PHASE_WEIGHTS ? FF_BACKWARD : FF_FORWARD;
}

#endif
