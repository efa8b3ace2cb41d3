/* Stretches: most operators of most strategies wait for nothing but their own devices, and nobody
 * asks when they were done.  So only where their stretch began is kept, and how long behind it each
 * was done; who asks is told then.  Sums are exact (ff/price.h), whatever is added first.
 * SPDX-License-Identifier: Apache-2.0 */
#include "stretch.h"

#include <stdlib.h>
#include <string.h>

#include "evaluate/lane_runs.h"
#include "ff/grow.h"
#include "ff/program_phases.h"

void ff_stretch_begin(struct ff_trial *e)
{
	struct ff_stretches *x = &e->times.stretches;

	x->n = x->n_times = 0;
	x->off = false;
	e->times.pass++;
}

void ff_stretch_finish(struct ff_stretches *x)
{
	free(x->at);
	free(x->time);
}

void ff_stretch_tell(const struct ff_trial *e, const struct ff_timed_node *t, uint32_t micro)
{
	const struct ff_stretches *x = &e->times.stretches;
	struct ff_stretched *s = &t->stretched[micro];
	double *finish = t->finish + (size_t)micro * t->n;

	/* what is left of another pass is written before it is read */
	if (s->in < x->n && x->at[s->in].n == t->n && t->is_row)
		for (uint32_t p = 0; p < t->n; p++)
			finish[p] = x->time[x->at[s->in].from + t->device[p] - t->first] + s->us;
	s->in = FF_NONE;
}

/* Whether all parts of step `s` of backward, `t`, take equally long, and how long. */
static bool is_even(struct ff_trial *e, const struct ff_step *s, const struct ff_timed_node *t,
		double *us)
{
	const struct ff_timed_adding *known = &t->adding[s->micro > 0];
	const struct ff_memo_adding *adding;

	if (known->pass != e->times.pass &&
			(!ff_trial_gathered(e)->holds_synced ||
					ff_adding_find(e, s, &adding, NULL) < 0))
		return false;
	*us = known->each_us;
	return known->uniform;
}

/* What step `i` computes, if it belongs to a stretch, and how long. */
static inline const struct ff_timed_node *plain_at(struct ff_trial *e, uint32_t i, double *us)
{
	const struct ff_step *s = &e->order.program.step[i];
	const struct ff_timed_node *t;

	if (s->kind != FF_STEP_COMPUTE || s->limited)
		return NULL;
	t = &e->times.node[s->phase][s->id];
	if (!t->plain || t->arrived[s->micro])
		return NULL;
	*us = t->each_us;
	return ff_phase_pass(s->phase) == FF_FORWARD || is_even(e, s, t, us) ? t : NULL;
}

/* Notes when `n` devices begin; false: there is no room for it. */
static bool begin(struct ff_stretches *x, uint32_t n, const double *lane)
{
	if (ff_grow(&x->at, x->n, &x->cap, sizeof(*x->at), NULL) < 0 ||
			ff_grow(&x->time, x->n_times + n, &x->cap_times, sizeof(*x->time), NULL) <
					0)
		return false;
	x->at[x->n] = (struct ff_stretch){x->n_times, n};
	memcpy(x->time + x->n_times, lane, n * sizeof(*lane));
	return true;
}

uint32_t ff_stretch_compute(struct ff_trial *e, uint32_t i, uint32_t end)
{
	struct ff_stretches *x = &e->times.stretches;
	double us = 0, each_us;
	const struct ff_timed_node *t = i < end && !x->off ? plain_at(e, i, &each_us) : NULL;
	uint32_t at = i, first = t ? t->first : 0, n = t ? t->n : 0;
	double *lane = e->times.lane + first; /* compute lanes are numbered as devices are */

	if (!t || !begin(x, n, lane))
		return i;
	while (t && t->first == first && t->n == n) {
		us += each_us;
		t->stretched[e->order.program.step[at].micro] = (struct ff_stretched){us, x->n};
		at = ff_active_from(&e->order, at + 1);
		t = at < end && at < e->order.program.n ? plain_at(e, at, &each_us) : NULL;
	}
	x->off = latest(n, lane, 0) + us >= FF_TIMES_EXACT_US;
	if (x->off)
		return i;
	delay_each(n, us, lane);
	x->n++;
	x->n_times += n;
	return at;
}
