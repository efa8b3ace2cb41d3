/* Memos of slots: records how a slot went, and replays it where another one begins so.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_SLOT_MEMOS_H
#define FF_SIMULATOR_SLOT_MEMOS_H

#include "evaluate/trial.h"

static inline struct ff_pipe_slot_kind *ff_pipe_slot_kind_of(
		const struct ff_trial *e, uint32_t slot)
{
	return &e->order.slots.kind[e->order.slots.slot[slot].kind];
}

static inline uint32_t ff_pipe_slot_micro(const struct ff_trial *e, uint32_t slot)
{
	return e->order.program.step[e->order.slots.slot[slot].first].micro;
}

/* Copies what slot number `slot`, which begins, may wait for; false: there is no room. */
bool ff_slot_memos_capture(struct ff_trial *e, uint32_t slot);
/* That slot has been timed, from the clocks that are kept in e->slots on. */
void ff_slot_memos_record(struct ff_trial *e, uint32_t slot, struct ff_slot_memos *c);
/* Whether the slot begins as another one did, which is done at once. */
bool ff_slot_memos_replay(struct ff_trial *e, uint32_t slot, struct ff_slot_memos *c);

#endif
