/* Figures of a candidate's measured steps, and of two beside each other.
 * SPDX-License-Identifier: Apache-2.0 */
#include "measured.h"

#include <math.h>
#include <stdlib.h>

int ff_measured_of(const struct ff_run_plan *p, const struct ff_outcome *o, struct ff_measured *ret,
		struct ff_error *err)
{
	uint64_t n = p->steps - p->warmup, tail = p->steps < 10 ? p->steps : 10;
	int code = ff_quantiles_of(o->step_us + p->warmup, n, &ret->step_us, err);

	if (code < 0)
		return code;
	ret->samples_per_s = (double)p->graph.batch * 1e6 / ret->step_us.median;
	ret->step_bytes = o->sent_bytes / (int64_t)p->steps;
	ret->most_memory = 0;
	for (uint32_t d = 0; d < p->machine.n_devices; d++)
		if (o->memory_bytes[d] > ret->most_memory)
			ret->most_memory = o->memory_bytes[d];
	ret->loss = 0;
	for (uint64_t i = p->steps - tail; i < p->steps; i++)
		ret->loss += o->loss[i] / (double)tail;
	return FF_OK;
}

int ff_measured_speedup(const struct ff_run_plan *p, const struct ff_outcome *o, double *ret,
		struct ff_error *err)
{
	uint64_t n = p->steps - p->warmup;
	double *ratio = malloc(n * sizeof(*ratio));
	struct ff_quantiles spread;
	int code;

	if (!ratio)
		return ff_fail_memory(err);
	for (uint64_t i = 0; i < n; i++)
		ratio[i] = o[1].step_us[p->warmup + i] / o[0].step_us[p->warmup + i];
	code = ff_quantiles_of(ratio, n, &spread, err);
	free(ratio);
	if (code == FF_OK)
		*ret = spread.median;
	return code;
}

double ff_losses_apart(const struct ff_outcome *o, uint64_t n)
{
	double worst = 0;

	for (uint64_t i = 0; i < n; i++) {
		double d = fabs(o[0].loss[i] - o[1].loss[i]) / fabs(o[1].loss[i]);

		worst = d > worst || isnan(d) ? d : worst;
	}
	return worst;
}

uint64_t ff_losses_alike(const struct ff_outcome *o, uint64_t n, double tolerance)
{
	uint64_t i = 0;

	while (i < n && fabs(o[0].loss[i] - o[1].loss[i]) <= tolerance * fabs(o[1].loss[i]))
		i++;
	return i;
}
