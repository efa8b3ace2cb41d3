/* What a device's memory holds, by kind.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_HELD_H
#define FF_HELD_H

#include "ff/schedule.h"

enum ff_held_kind {
	FF_HELD_WEIGHTS, /* updated weights, and weights in the operators' type */
	FF_HELD_GRADIENTS,
	FF_HELD_STATES,      /* of the optimizer, and state that operators keep between steps */
	FF_HELD_ACTIVATIONS, /* and their gradients */
	FF_HELD_BUFFERS,     /* staging of transfers; gathered weights and gradients */
	FF_HELD_WORKSPACE,
	FF_HELD_GAPS, /* unused bytes between buffers */
	FF_HELD_COUNT
};
const char *ff_held_name(enum ff_held_kind k); /* "weights" */

/* Bytes that a device holds throughout the step.  Activations and buffers vary beyond these; gaps
 * are not included. */
void ff_held_always(const struct ff_schedule *s, uint32_t device, int64_t bytes[FF_HELD_COUNT]);
/* (*ret)[0], [1], by task: the varying bytes of activations, of buffers, while it runs.  Memory
 * from `a`. */
int ff_held_over_tasks(const struct ff_schedule *s, uint32_t device, struct ff_arena *a,
		int64_t *ret[2], struct ff_error *err);

#endif
