/* What of a search's budget goes to what.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "job.h"
#include "vary.h"
#include "why.h"

#define REGULAR_SHARE 0.05 /* for making equal layers alike, */
#define LAST_SHARE 0.4     /* and at most for what comes after the search: */
#define LAST_PREDICTIONS 2 /* in predictions of data parallelism */

/* What comes after the search: lowering the plan takes longer than data parallelism, and so does
 * what the summary tells of it. */
double ff_job_after_seconds(const struct ff_job *j)
{
	return fmin(LAST_PREDICTIONS * j->predict_s, LAST_SHARE * j->opt.seconds) +
	       ff_job_bound_seconds(j);
}

/* Of the budget, what is kept for questions about the plan. */
double ff_job_answers_share(const struct ff_job *j)
{
	double of_each = 0;
	struct ff_variation v[FF_MOST_VARIATIONS];
	uint32_t n;

	if (j->opt.vary.n && ff_variations_parse(&j->opt.vary, v, &n, NULL) == FF_OK)
		of_each = n / (n + 1.0);
	return 1 - (1 - (j->opt.explain ? FF_WHY_SHARE : 0)) * (1 - of_each);
}

/* What the budget leaves for the search, after what went before it and without
 * what comes after it. */
double ff_job_search_seconds(const struct ff_job *j)
{
	double regular_s = REGULAR_SHARE * j->opt.seconds;

	if (j->opt.seconds <= 0)
		return 0;
	return fmax((j->opt.seconds - (ff_job_now_s() - j->from)) * (1 - ff_job_answers_share(j)) -
					ff_job_after_seconds(j) - regular_s,
			1e-3);
}

/* The time for the search and for what comes right behind it is up, or would be behind one more
 * strategy, which takes about as long as a prediction. */
bool ff_job_late(void *ctx)
{
	struct ff_job *j = ctx;
	double most_s = j->opt.seconds * (1 - ff_job_answers_share(j)) - ff_job_after_seconds(j);
	bool up = j->opt.seconds > 0 && ff_job_now_s() + j->predict_s - j->from > most_s;

	return up || ff_job_interrupted(j);
}
