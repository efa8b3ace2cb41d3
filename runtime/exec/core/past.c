/* What passes leave behind: losses and times of steps, sums of a test.
 * SPDX-License-Identifier: Apache-2.0 */
#include "past.h"

#include "ranks.h"

#include <stdlib.h>

static int keep_past(struct ff_executor *x, const struct ff_tally *tally, double us,
		struct ff_error *err)
{
	struct ff_past *past;

	if (x->losses.n_past == x->losses.cap_past) {
		uint32_t cap = x->losses.cap_past ? 2 * x->losses.cap_past : 256;
		struct ff_past *grown = realloc(x->losses.past, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		x->losses.past = grown;
		x->losses.cap_past = cap;
	}
	past = &x->losses.past[x->losses.n_past++];
	past->us = us;
	for (uint32_t i = 0; i < x->s->graph->n_losses; i++)
		past->loss[i] = (float)tally[i].loss;
	return FF_OK;
}

/* A batch's loss is a mean over what counts in it; a test's last batch may have less. */
static void keep_tested(struct ff_executor *x, const struct ff_tally *tally)
{
	for (uint32_t i = 0; i < x->s->graph->n_losses; i++) {
		x->losses.tested[i].loss += tally[i].loss * tally[i].valid;
		x->losses.tested[i].correct += tally[i].correct;
		x->losses.tested[i].valid += tally[i].valid;
	}
}

int ff_executor_keep(struct ff_executor *x, bool training, uint32_t parity, const float *pinned,
		const int64_t *valid, double us, struct ff_error *err)
{
	struct ff_tally tally[FF_MAX_LOSSES] = {{0}};

	for (uint32_t i = 0; i < x->losses.n_scores; i++) {
		const struct ff_bound_task *j = &x->bound[x->losses.scored[i]];
		const float *score = pinned ? pinned + (size_t)FF_SCORES * i : j->score;

		tally[j->loss].loss += (double)score[0];
		tally[j->loss].correct += (double)score[1];
	}
	for (uint32_t i = 0; i < x->s->graph->n_losses; i++)
		tally[i].valid = (double)valid[i];
	if (training)
		return keep_past(x, tally, us, err);
	keep_tested(x, tally);
	return x->losses.ranks ? ff_ranks_keep(x, parity, err) : FF_OK;
}
