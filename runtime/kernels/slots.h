/* Slots of experts and the places that have them, of a part: what kernels of both backends go by.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_SLOTS_H
#define FF_RUNTIME_SLOTS_H

#include "ff/work.h"

/* Elements from one to the next. */
struct ff_slot_rows {
	int64_t sample, place, feature;
};
struct ff_slot_sides {
	int64_t sample, expert, slot, feature;
};

/* Rows of places, and those of slots: features each.  Indices count the places of a sample, of
 * which the part has those from `first` on.  By sample, place and expert, which lie so, a table
 * says which of the part's slots the place has, or -1: an expert takes a place once.  Of its
 * `columns` the part's experts have those from `column` on. */
struct ff_slots {
	int64_t samples, experts, slots, places, first, features;
	int64_t columns, column;
	struct ff_slot_rows row;
	struct ff_slot_sides side;
	struct ff_slot_rows index; /* sample, expert, slot */
	struct ff_slot_rows share; /* of combine: sample, place, expert */
};

#ifdef __cplusplus
extern "C" {
#endif
void ff_slots_of_dispatch(const struct ff_work *w, struct ff_slots *ret);
void ff_slots_of_combine(const struct ff_work *w, struct ff_slots *ret);
#ifdef __cplusplus
}
#endif

#endif
