/* What has arrived at a node: who waits for it, until when, and when that is forgotten.
 * SPDX-License-Identifier: Apache-2.0 */
#include "course.h"

#include <string.h>

/* The phase in which what is made again arrives at `node`: the first that reads it. */
enum ff_phase ff_time_reads_again(const struct ff_course *e, uint32_t node)
{
	return e->program.again[node] ? FF_PHASE_RECOMPUTE : FF_PHASE_BACKWARD;
}

/* Who reads first what is moved again over `edge`: of a prelude that is not computed
 * again the node behind it, if its backward does. */
uint32_t ff_time_reader(const struct ff_course *e, uint32_t edge)
{
	uint32_t node = e->g->edges[edge].node, leader = ff_node_leader(e->g, node);
	bool own = e->program.again[node] || !(ff_op_flags_of(e->g, leader) & FF_OP_BACKWARD_IN);

	return own ? node : leader;
}

void ff_time_forget(struct ff_timed_node *t, uint32_t micro)
{
	memset(ff_timed_ready(t, micro), 0, t->n * sizeof(*t->ready));
	t->arrived[micro] = false;
}
