/* How legs went, and those that go so again.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_COURSES_H
#define FF_SIMULATOR_COURSES_H

#include "evaluate/trial.h"

static inline struct ff_leg_kind *ff_leg_kind_of(const struct ff_trial *e, uint32_t leg)
{
	return &e->order.legs.kind[e->order.legs.leg[leg].kind];
}

static inline uint32_t ff_leg_micro(const struct ff_trial *e, uint32_t leg)
{
	return e->order.program.step[e->order.legs.leg[leg].first].micro;
}

/* Copies what leg number `leg`, which begins, may wait for; false: there is no room. */
bool ff_courses_tell(struct ff_trial *e, uint32_t leg);
/* That leg has been timed, from the clocks that are kept in e->legs on. */
void ff_courses_note(struct ff_trial *e, uint32_t leg, struct ff_leg_courses *c);
/* Whether the leg begins as another one did, which is done at once. */
bool ff_courses_follow(struct ff_trial *e, uint32_t leg, struct ff_leg_courses *c);

#endif
