/* Stretches of one pass.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_STRETCHES_H
#define FF_SIMULATOR_STRETCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Operators that the same neighbours compute one behind the other, while nothing else happens. */
struct ff_stretches {
	struct ff_stretch {
		size_t from; /* when its devices began: `time` */
		uint32_t n;
	} * at;
	double *time;
	uint32_t n, cap, n_times, cap_times;
	bool off; /* times may not be exact */
};

#endif
