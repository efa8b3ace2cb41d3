/* The values by which the null backend tells whether data arrived.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_NULL_PATTERN_H
#define FF_NULL_PATTERN_H

#include "ff/backend.h"
#include "ff/schedule.h"

/* One part's expectations.  Forward, a tensor's element has a whole number made
 * from tensor and position; parts of a split reduction share it out, so that
 * only their sum is right.  Backward, every part contributes 1 to each element
 * of its inputs' gradients, so an element's gradient is the number of cells
 * that read it. */
struct ff_pattern {
	struct ff_work work;
	const struct ff_schedule *s; /* NULL: never told */
	uint32_t partial;            /* parts that share an output element */
	bool lead;
	int32_t *readers[FF_MAX_OUTPUTS]; /* backward: by element of dout */
};

int ff_pattern_init(struct ff_pattern *p, const struct ff_work *w, const struct ff_schedule *s,
		struct ff_error *err);
void ff_pattern_finish(struct ff_pattern *p);
int ff_pattern_forward(
		const struct ff_pattern *p, const struct ff_kernel_io *io, struct ff_error *err);
int ff_pattern_backward(
		const struct ff_pattern *p, const struct ff_kernel_io *io, struct ff_error *err);

#endif
