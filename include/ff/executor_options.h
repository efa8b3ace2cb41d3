/* Options of an executor.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXECUTOR_OPTIONS_H
#define FF_EXECUTOR_OPTIONS_H

#include "ff/backend.h"
#include "ff/groups.h"

/* Whether a thread fetches the samples of the next step while a step runs.  The preset is yes if
 * samples must be copied to the device; FF_PREFETCH=0 or 1 in the environment overrides it. */
enum ff_prefetching { FF_PREFETCH_PRESET, FF_PREFETCH_OFF, FF_PREFETCH_ON };

struct ff_executor_options {
	uint64_t seed;           /* initial weights and dropout */
	struct ff_groups groups; /* of parameters: settings of the schedule's optimizer */
	bool keep_gradients;     /* no updates: weights do not change */
	uint64_t last; /* local SGD: the run's last step, which averages parameters, too */
	double clip;   /* with clipping: the largest norm of gradients */
	enum ff_prefetching prefetch;
	uint32_t top; /* evaluation also counts top-k accuracy with this k; 0: it does not */
	enum ff_beside beside; /* how communication is progressed, if it overlaps compute */
};

#endif
