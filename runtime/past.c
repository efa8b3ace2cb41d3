/* What passes leave behind: losses and times of steps, sums of a test.
 * SPDX-License-Identifier: Apache-2.0 */
#include "executor.h"

#include <stdlib.h>

static int keep_past(struct ff_executor *x, double loss, double us, struct ff_error *err)
{
	if (x->n_past == x->cap_past) {
		uint32_t cap = x->cap_past ? 2 * x->cap_past : 256;
		struct ff_past *grown = realloc(x->past, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		x->past = grown;
		x->cap_past = cap;
	}
	x->past[x->n_past++] = (struct ff_past){(float)loss, us};
	return FF_OK;
}

/* A batch's loss is a mean over its labels; a test's last batch may have fewer. */
int ff_executor_keep(struct ff_executor *x, bool training, const double score[2], int64_t valid,
		double us, struct ff_error *err)
{
	if (training)
		return keep_past(x, score[0], us, err);
	x->tested[0] += score[0] * (double)valid;
	x->tested[1] += score[1];
	x->tested[2] += (double)valid;
	return FF_OK;
}
