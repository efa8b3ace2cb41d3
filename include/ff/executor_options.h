/* What an executor is told beside the schedule.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXECUTOR_OPTIONS_H
#define FF_EXECUTOR_OPTIONS_H

#include "ff/backend.h"
#include "ff/groups.h"

/* Whether a thread fetches a step's samples while the step before runs.  The preset is yes
 * where samples have to be copied to the device anyway, unless FF_PREFETCH is 0 or 1. */
enum ff_prefetching { FF_PREFETCH_PRESET, FF_PREFETCH_OFF, FF_PREFETCH_ON };

struct ff_executor_options {
	uint64_t seed;           /* initial weights and dropout */
	struct ff_groups groups; /* of parameters: settings of the schedule's optimizer */
	bool keep_gradients;     /* no updates: weights stay as they were */
	uint64_t last; /* where parameters are averaged: a step that does so too, the run's last one
			*/
	double clip;   /* where the schedule clips gradients: what their norm is at most */
	enum ff_prefetching prefetch;
	uint32_t top;          /* tests tell whether labels are among so many; 0: they do not */
	enum ff_beside beside; /* how communication overlaps compute, where it does */
};

#endif
