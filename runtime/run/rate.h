/* Learning rates over the steps of a run, as torch.optim.lr_scheduler has them where its step()
 * follows every step of the optimizer.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RATE_H
#define FF_RATE_H

#include <stdint.h>

#include "ff/error.h"

/* As told; what was not is NAN, 0 or NULL. */
struct ff_rate_options {
	const char *schedule;
	uint64_t ramp;      /* LinearLR's total_iters: first steps, in which it rises */
	double ramp_from;   /* its start_factor */
	uint64_t step_size; /* StepLR's, */
	double gamma;       /* and its factor */
	double floor;       /* CosineAnnealingLR's eta_min */
};

struct ff_rate_plan {
	const struct ff_annealing *annealing; /* behind the ramp */
	struct ff_rate_options told;          /* all of it, presets where it was not */
	uint64_t steps;                       /* in all */
};

/* FF_E_INPUT for what is out of range or belongs to another schedule.  `steps` 0: none run. */
int ff_rate_plan_make(const struct ff_rate_options *told, uint64_t steps, struct ff_rate_plan *ret,
		struct ff_error *err);
/* Of step `step`, counted from the beginning, where the rate is `base` without a schedule. */
double ff_rate_at(const struct ff_rate_plan *p, double base, uint64_t step);
#define FF_RATE_TEXT 160
/* What is done, in a few words. */
void ff_rate_text(const struct ff_rate_plan *p, char text[FF_RATE_TEXT]);

#endif
