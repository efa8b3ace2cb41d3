/* What the evaluator's pass makes preludes wait for that replace gradients.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

static bool takes_from(const struct ff_memo_move *tm, uint32_t part)
{
	uint32_t k = 0;

	if (tm->source_range)
		return part - tm->first_source < tm->n_sources;
	while (k < tm->n_sources && tm->move->source[k] != part)
		k++;
	return k < tm->n_sources;
}

void ff_time_replaced(struct ff_trial *e, const struct ff_step *s, const struct ff_memo_move *tm,
		double at)
{
	const struct ff_memo_edge *me = e->placed.edge[s->id];
	struct ff_timed_node *t = &e->times.node[FF_PHASE_BACKWARD][e->ends[s->id].prelude];
	double *ready = ff_time_expect(e, t, s->micro);

	for (uint32_t k = 0; k < t->n; k++)
		if (me->alias[k] != FF_NONE && takes_from(tm, me->alias[k]) && ready[k] < at)
			ready[k] = at;
}
