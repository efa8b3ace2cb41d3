/* Stretches of a pass: operators that the same neighbours compute one behind the other, each part
 * as long as any, while nothing is moved to them.  What they take is added up, and added once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_STRETCH_H
#define FF_SIMULATOR_STRETCH_H

#include "evaluate/trial.h"

/* A pass begins: none of its stretches is there yet. */
void ff_stretch_begin(struct ff_trial *e);
/* Computes the stretch that begins with step `i`, as far as step `end`, before which the pass looks
 * at something else.  The active step behind it; `i`: it begins none. */
uint32_t ff_stretch_compute(struct ff_trial *e, uint32_t i, uint32_t end);
void ff_stretch_finish(struct ff_stretches *x);
/* `finish` of what a stretch has computed. */
void ff_stretch_tell(const struct ff_trial *e, const struct ff_timed_node *t, uint32_t micro);
/* When the parts of a node were done, in a micro-batch; or where that is to be put. */
static inline double *ff_time_finish(
		const struct ff_trial *e, const struct ff_timed_node *t, uint32_t micro)
{
	if (t->stretched[micro].in != FF_NONE)
		ff_stretch_tell(e, t, micro);
	return t->finish + (size_t)micro * t->n;
}

#endif
