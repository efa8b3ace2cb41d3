/* What a search tells beside its plan.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "found.h"

static double percent_more(double us, double than_us)
{
	return 100 * (us / than_us - 1);
}

void ff_found_print(const struct ff_found *f, double us, FILE *to)
{
	if (f->seeds.n > 1)
		fprintf(to, "Best of %u seeds, which end within %.1f %% of each other.\n",
				f->seeds.n, percent_more(f->seeds.most_us, f->seeds.least_us));
	if (f->ragged_us > 0)
		fprintf(to,
				"Equal layers were made alike; ragged, a step takes %.3f ms, "
				"%.1f %% less.\n",
				f->ragged_us / 1e3, -percent_more(f->ragged_us, us));
	if (f->whole_us > 0 && f->whole_us < us)
		fprintf(to,
				"Without --space torch a plan was found that takes %.3f ms, "
				"%.1f %% less.\n",
				f->whole_us / 1e3, -percent_more(f->whole_us, us));
	else if (f->whole_us > 0)
		fprintf(to, "Without --space torch no faster plan was found.\n");
	if (f->used_reserve)
		fprintf(to,
				"No %s that leaves %g %% of memory free (--reserve):\nthis one "
				"needs what was to stay free.\n",
				f->needed_reserve ? "data parallelism was found" : "plan was found",
				f->reserve);
	/* less, where the plan was made regular, or leaves memory free */
	for (uint32_t i = 0; i < f->n_others; i++)
		fprintf(to, "Plan %u, of another shape, takes %.3f ms, %.1f %% %s.\n", i + 2,
				f->other_us[i] / 1e3, fabs(percent_more(f->other_us[i], us)),
				f->other_us[i] < us ? "less" : "more");
}

void ff_found_write(const struct ff_found *f, struct ff_out *o)
{
	ff_out_real(o, "reserve_percent", f->reserve);
	ff_out_bool(o, "reserve_used", f->used_reserve);
	ff_out_u64(o, "seeds", f->seeds.n);
	if (f->seeds.n) {
		ff_out_real(o, "best_seed_us", f->seeds.least_us);
		ff_out_real(o, "worst_seed_us", f->seeds.most_us);
	}
	if (f->first_s > 0)
		ff_out_real(o, "first_plan_s", f->first_s);
	ff_out_u64(o, "irregular", f->n_ragged);
	if (f->ragged_us > 0)
		ff_out_real(o, "irregular_us", f->ragged_us);
	if (f->whole_us > 0)
		ff_out_real(o, "whole_space_us", f->whole_us);
	ff_out_array(o, "others_us");
	for (uint32_t i = 0; i < f->n_others; i++)
		ff_out_real(o, NULL, f->other_us[i]);
	ff_out_close(o);
}
