/* The phases of a program in which values are read and gradients are computed.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROGRAM_PHASES_H
#define FF_PROGRAM_PHASES_H

#include "ff/backward.h"
#include "ff/program.h"

/* The node that first reads the value moved again over `edge`: the edge's own node, or the leader
 * of a prelude that is not recomputed if the leader's backward reads it. */
static inline uint32_t ff_edge_reader(
		const struct ff_graph *g, const struct ff_program *p, uint32_t edge)
{
	uint32_t node = g->edges[edge].node, leader = ff_node_leader(g, node);

	return p->recomputed[node] || !(ff_op_flags_of(g, leader) & FF_OP_BACKWARD_IN) ? node
										       : leader;
}
/* The phase in which `node` reads what was moved again. */
static inline enum ff_phase ff_node_reads_in(const struct ff_program *p, uint32_t node)
{
	return p->recomputed[node] ? FF_PHASE_RECOMPUTE : FF_PHASE_BACKWARD;
}
/* The phase in which the gradient at `edge` is computed. */
static inline enum ff_phase ff_edge_made_in(
		const struct ff_graph *g, const struct ff_program *p, uint32_t edge)
{
	uint32_t node = g->edges[edge].node;

	return p->halved[node] && edge >= g->nodes[node].in + g->nodes[node].n_data
			       ? FF_PHASE_WEIGHTS
			       : FF_PHASE_BACKWARD;
}
/* The phase in which backward last reads the value at `edge`. */
static inline enum ff_phase ff_edge_read_in(
		const struct ff_graph *g, const struct ff_program *p, uint32_t edge)
{
	uint32_t node = g->edges[edge].node;

	return p->halved[node] && edge < g->nodes[node].in + g->nodes[node].n_data
			       ? FF_PHASE_WEIGHTS
			       : FF_PHASE_BACKWARD;
}
/* The phase in which backward last reads the gradients of `node`'s outputs. */
static inline enum ff_phase ff_node_ends_in(const struct ff_program *p, uint32_t node)
{
	return p->halved[node] ? FF_PHASE_WEIGHTS : FF_PHASE_BACKWARD;
}
/* Which gradients of the node are computed in `phase`. */
static inline enum ff_grads ff_node_grads(
		const struct ff_program *p, enum ff_phase phase, uint32_t node)
{
	if (phase == FF_PHASE_WEIGHTS)
		return FF_GRADS_PARAMS;
	return phase == FF_PHASE_BACKWARD && p->halved[node] ? FF_GRADS_DATA : FF_GRADS_ALL;
}

#endif
