/* What has arrived at a node: who waits for it, until when, and when that is forgotten; and what is
 * held back, so that it does not arrive too early.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrivals.h"

#include <math.h>
#include <string.h>

/* The phase in which what is made again arrives at `node`: the first that reads it. */
enum ff_phase ff_time_reads_again(const struct ff_trial *e, uint32_t node)
{
	return e->order.program.again[node] ? FF_PHASE_RECOMPUTE : FF_PHASE_BACKWARD;
}

/* Who reads first what is moved again over `edge`: of a prelude that is not computed
 * again the node behind it, if its backward does. */
uint32_t ff_time_reader(const struct ff_trial *e, uint32_t edge)
{
	uint32_t node = e->g->edges[edge].node, leader = ff_node_leader(e->g, node);
	bool own = e->order.program.again[node] ||
		   !(ff_op_flags_of(e->g, leader) & FF_OP_BACKWARD_IN);

	return own ? node : leader;
}

void ff_time_forget(struct ff_timed_node *t, uint32_t micro)
{
	memset(ff_timed_ready(t, micro), 0, t->n * sizeof(*t->ready));
	t->arrived[micro] = false;
}

/* When a limited move may begin: lowering's limit_prefetch. */
double ff_time_held(
		const struct ff_trial *e, const struct ff_step *s, const struct ff_memo_move *tm)
{
	const uint16_t *device;
	double at = 0;

	if (!s->limited || !e->m->overlap)
		return 0;
	device = e->placed.node[e->ends[s->id].to]->device;
	for (uint32_t k = 0; k < tm->n_sinks; k++)
		at = fmax(at, e->times.limited[(size_t)FF_PREFETCH_DISTANCE *
							       device[tm->move->sink[k]] +
					       FF_PREFETCH_DISTANCE - 1]);
	return at;
}

/* What is limited has been computed: lowering's note_limited. */
void ff_time_pace(struct ff_trial *e, const struct ff_timed_node *t)
{
	for (uint32_t p = 0; p < t->n; p++) {
		double *limited = &e->times.limited[(size_t)FF_PREFETCH_DISTANCE * t->device[p]];

		memmove(limited + 1, limited, (FF_PREFETCH_DISTANCE - 1) * sizeof(*limited));
		limited[0] = e->times.lane[t->device[p]]; /* compute lanes are numbered as devices
							     are */
	}
}
