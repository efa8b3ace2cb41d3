/* What a prediction rests on that is not sure.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "job.h"

/* Predictions are as good as the figures they are made of. */
static void warn_if_unsteady(const struct ff_job *j)
{
	double share = j->in.costs ? ff_costs_steady_share(j->in.costs) : 1;

	if (share < FF_STEADY)
		fprintf(stderr,
				"%s: %.0f %% of the costs in %s rest on samples that something "
				"else "
				"disturbed, so predictions may be off; ffprof --again measures "
				"them "
				"anew\n",
				ff_job_command.name, 100 * (1 - share), j->opt.costs_path);
}

static void warn_of_communication(const struct ff_job *j)
{
	const char *planned = j->in.planned_info.communication, *here = ff_job_communication(j);

	if (planned && *here && strcmp(planned, here) != 0)
		fprintf(stderr,
				"%s: %s was planned for ranks that communicate over %s, but %s was "
				"measured over %s\n",
				ff_job_command.name, j->opt.simulate, planned, j->opt.costs_path,
				here);
}

/* What predictions by models of devices rest on. */
static void warn_of_models(const struct ff_job *j)
{
	const struct ff_summary *s = &j->summary;
	const char *before = "";

	if (s->unmodelled)
		fprintf(stderr,
				"%s: There is no model of devices of kind \"%s\": they cost what "
				"their peak rates say.\n",
				ff_job_command.name, s->unmodelled->name);
	if (ff_inferred_share(&s->plan) <= FF_MUCH_INFERRED)
		return;
	fprintf(stderr,
			"%s: %.0f %% of the step rests on kernels that were not measured on such "
			"devices (",
			ff_job_command.name, 100 * ff_inferred_share(&s->plan));
	for (uint32_t c = 0; c < FF_KERNEL_CLASS_COUNT; c++)
		if (s->plan.simulation.inferred.classes >> c & 1) {
			fprintf(stderr, "%s%s", before,
					ff_kernel_class_name((enum ff_kernel_class)c));
			before = ", ";
		}
	fprintf(stderr, "), but inferred from others.\n");
}

void ff_job_warn(const struct ff_job *j)
{
	warn_if_unsteady(j);
	warn_of_communication(j);
	warn_of_models(j);
}
