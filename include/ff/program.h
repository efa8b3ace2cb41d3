/* The program of a training step: the order in which operators run, whatever their splits.
 * The walk (ff/walk.h) goes through its steps; the memory account refers to them by number.
 * docs/schedule.md has the order and its reasons.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROGRAM_H
#define FF_PROGRAM_H

#include "ff/backward.h"
#include "ff/phase.h"
#include "ff/strategy.h"

enum ff_step_kind {
	FF_STEP_MOVES,   /* redistribution at edge `id`: values forward, gradients backward */
	FF_STEP_COMPUTE, /* all parts of node `id`, with the messages carried between them */
	/* All-gathers of flat buckets.  Not limited: the buckets that node `id` reads first,
	 * gathered once for all micro-batches.  Limited: dropped buckets, gathered for this
	 * micro-batch's forward pass or, with FF_PHASE_RECOMPUTE, for its backward pass.  Such a
	 * bucket is prefetched: its gather is issued when node `id` first reads the bucket before
	 * it. */
	FF_STEP_GATHER,
	/* Synchronises the buckets whose gradients node `id` completes.  Limited: buckets that are
	 * synchronised in every micro-batch.  Not limited: all others, after the last one. */
	FF_STEP_SYNC,
	FF_STEP_UPDATE, /* all buckets */
};
/* Limited steps bound the memory of prefetching.  Inputs and parameters are available from the
 * start, so all moves that bring them to their readers could be issued at once.  A value that is
 * moved several times a step is held only by the next FF_PREFETCH_DISTANCE readers, the running one
 * included: a device's limited move begins when all its earlier limited computes but the last
 * FF_PREFETCH_DISTANCE - 1 have ended. */
#define FF_PREFETCH_DISTANCE 3

struct ff_step {
	enum ff_step_kind kind;
	enum ff_phase phase;
	uint32_t micro; /* micro-batch */
	uint32_t id;
	/* MOVES, GATHER: moves a value that is moved several times a step.  COMPUTE: is the first
	 * reader of such a value.  SYNC: synchronises in every micro-batch. */
	bool limited;
};

/* A value has one instance a micro-batch, and a second one where it is dropped after forward and
 * recomputed (a parameter: gathered again).  A parameter that is gathered at most once has a single
 * instance for all micro-batches. */
struct ff_program {
	uint32_t n, micro_batches, n_nodes, n_edges;
	uint32_t n_ahead;     /* the leading steps that are forward and of the first micro-batch */
	uint32_t gathers_end; /* index after the last FF_STEP_GATHER that is not limited */
	const struct ff_step *step;
	const bool *recomputed; /* by node: its values are made once more for backward */
	/* By node: backward is split in two, the gradients of data in FF_PHASE_BACKWARD and those
	 * of parameters in FF_PHASE_WEIGHTS (zero-bubble schedules). */
	const bool *halved;
	bool halves;   /* some node is halved */
	bool scatters; /* gradients are reduce-scattered in every micro-batch, not only in the last
			*/
	/* By phase: indices of steps, or FF_NONE; read by ff_program_compute, ff_program_moves. */
	uint32_t *compute[FF_PHASE_COUNT], *moves[FF_PHASE_COUNT];
	uint32_t *gathers[2]; /* limited gathers, forward and later: ff_program_gathers */
	uint32_t *syncs;      /* limited ones: ff_program_syncs */
	uint32_t *sync_once;  /* by node: the step that is not limited, or FF_NONE */
};

/* `g`: the graph of one micro-batch.  `order`: its nodes in issue order (ff_strategy_order).  All
 * memory from `a`. */
int ff_program_build(const struct ff_graph *g, const struct ff_strategy *s, const uint32_t *order,
		struct ff_arena *a, struct ff_program *ret, struct ff_error *err);

/* The step that computes `node`; the step that moves the value at `edge`, which for a carried value
 * is the node's compute step.  FF_NONE: there is none. */
static inline uint32_t ff_program_compute(
		const struct ff_program *p, enum ff_phase phase, uint32_t micro, uint32_t node)
{
	return p->compute[phase][(size_t)micro * p->n_nodes + node];
}
static inline uint32_t ff_program_moves(
		const struct ff_program *p, enum ff_phase phase, uint32_t micro, uint32_t edge)
{
	return p->moves[phase][(size_t)micro * p->n_edges + edge];
}
/* The last step in which `node` reads its weights: in the forward pass, or (`later`) in
 * recomputation and backward.  FF_NONE: there is none. */
static inline uint32_t ff_program_reads(
		const struct ff_program *p, bool later, uint32_t micro, uint32_t node)
{
	uint32_t back = ff_program_compute(p, FF_PHASE_BACKWARD, micro, node);

	if (!later)
		return ff_program_compute(p, FF_PHASE_FORWARD, micro, node);
	return back != FF_NONE ? back : ff_program_compute(p, FF_PHASE_RECOMPUTE, micro, node);
}
/* The step in which `node` computes gradients of parameters; FF_NONE: there is none. */
static inline uint32_t ff_program_writes(const struct ff_program *p, uint32_t micro, uint32_t node)
{
	return ff_program_compute(
			p, p->halved[node] ? FF_PHASE_WEIGHTS : FF_PHASE_BACKWARD, micro, node);
}
/* The limited gather that is issued at `node`, for the forward pass or (`later`) for backward. */
static inline uint32_t ff_program_gathers(
		const struct ff_program *p, bool later, uint32_t micro, uint32_t node)
{
	return p->gathers[later][(size_t)micro * p->n_nodes + node];
}
/* The limited step that synchronises gradients which `node` completes; FF_NONE: there is none. */
static inline uint32_t ff_program_syncs(const struct ff_program *p, uint32_t micro, uint32_t node)
{
	return p->syncs[(size_t)micro * p->n_nodes + node];
}
/* Whether the value at `edge` is read again after forward: by backward or by recomputation. */
static inline bool ff_edge_read_recomputed(
		const struct ff_graph *g, const struct ff_program *p, uint32_t edge)
{
	return ff_edge_read_backward(g, edge) || p->recomputed[g->edges[edge].node];
}
/* The micro-batch whose instance of `node`'s value serves `micro`: 0 where one serves all. */
static inline uint32_t ff_program_instance(
		const struct ff_graph *g, const struct ff_program *p, uint32_t node, uint32_t micro)
{
	return ff_node_is_parameter(g, node) && !p->recomputed[node] ? 0 : micro;
}

#endif
