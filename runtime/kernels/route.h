/* Routing of a part: what kernels of both backends go by.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_ROUTE_H
#define FF_RUNTIME_ROUTE_H

#include "ff/work.h"

/* Places are a sample's.  Elements of the input are so far apart; the output lies sample, place,
 * slot, expert.  Without a limit a place's slots are its choices.  By index outputs are: by place
 * and expert a one where that took it; by expert and slot the place that has it, or -1. */
struct ff_route {
	int64_t samples, places, experts, choices, slots;
	int64_t sample, place, expert;
	int64_t limited, index;
};

/* Whether expert i, which gets a, comes before expert j, which gets b. */
#define FF_ROUTE_BEFORE(a, i, b, j) ((a) > (b) || ((a) == (b) && (i) < (j)))

#ifdef __cplusplus
extern "C" {
#endif
void ff_route_fill(const struct ff_work *w, struct ff_route *ret);
#ifdef __cplusplus
}
#endif

#endif
