/* What a device's memory holds, by kind.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_HELD_H
#define FF_HELD_H

#include "ff/schedule.h"

enum ff_held_kind {
	FF_HELD_WEIGHTS, /* as they are updated, and as they are read */
	FF_HELD_GRADIENTS,
	FF_HELD_STATES,      /* of the optimizer, and what operators keep from step to step */
	FF_HELD_ACTIVATIONS, /* and their gradients */
	FF_HELD_BUFFERS,     /* of transfers; weights and gradients that are gathered for a while */
	FF_HELD_WORKSPACE,
	FF_HELD_GAPS, /* between buffers, and what could be in use at once but never is */
	FF_HELD_COUNT
};
const char *ff_held_name(enum ff_held_kind k); /* "weights" */

/* What is held all the time; of FF_HELD_BUFFERS and FF_HELD_ACTIVATIONS more comes and goes, and
 * gaps are not known yet. */
void ff_held_always(const struct ff_schedule *s, uint32_t device, int64_t bytes[FF_HELD_COUNT]);
/* By task what comes and goes while it runs: activations, then buffers, s->n_tasks of each. Memory
 * from `a`. */
int ff_held_over_tasks(const struct ff_schedule *s, uint32_t device, struct ff_arena *a,
		int64_t *ret[2], struct ff_error *err);

#endif
