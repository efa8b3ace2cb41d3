/* The program of a training step: what is done in which order, operator by operator,
 * however each is split.  The walk (ff/walk.h) goes through its steps; the account of memory
 * numbers them.  docs/schedule.md tells the order and why.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROGRAM_H
#define FF_PROGRAM_H

#include "ff/backward.h"
#include "ff/phase.h"
#include "ff/strategy.h"

enum ff_step_kind {
	FF_STEP_MOVES,   /* redistribution at edge `id`: values forward, gradients backward */
	FF_STEP_COMPUTE, /* all parts of node `id`, and what is carried from part to part */
	/* All-gathers of flat buckets.  Not limited: those whose weights node `id` is the first to
	 * read, once for all micro-batches.  Limited: dropped ones, for this micro-batch's forward
	 * or (FF_PHASE_RECOMPUTE) what comes later, each when the bucket before it is first read,
	 * which is by node `id`. */
	FF_STEP_GATHER,
	/* Buckets whose gradients node `id` completes: where it is limited those that are
	 * synchronised in every micro-batch, else the others, in the last. */
	FF_STEP_SYNC,
	FF_STEP_UPDATE, /* all buckets */
};
/* Limited steps.  Inputs and parameters are there from the start.  Where they are brought several
 * times, and moves run beside compute, nothing but memory would keep all these moves from being
 * made at once.  So at most FF_PREFETCH_DISTANCE readers, the one that runs among them, have what
 * they were brought: a device's limited moves begin when the last but FF_PREFETCH_DISTANCE - 1 of
 * its limited computes before them has ended. */
#define FF_PREFETCH_DISTANCE 3

struct ff_step {
	enum ff_step_kind kind;
	enum ff_phase phase;
	uint32_t micro; /* micro-batch */
	uint32_t id;
	/* MOVES, GATHER: what it moves is brought several times.  COMPUTE: it is the first to read
	 * such.  SYNC: its gradients are summed in every micro-batch. */
	bool limited;
};

/* A value has an instance for each micro-batch, and a second one where it is dropped
 * and made (a parameter: gathered) again.  Parameters that are not gathered again are
 * there once for all micro-batches. */
struct ff_program {
	uint32_t n, micro_batches, n_nodes, n_edges;
	uint32_t n_ahead; /* steps from the first on that are forward, of the first micro-batch */
	uint32_t gathers_end; /* behind the last FF_STEP_GATHER that is not limited */
	const struct ff_step *step;
	const bool *recomputed; /* by node: for backward its values are made once more */
	/* By node: its backward is computed in two, data's gradients in FF_PHASE_BACKWARD,
	 * parameters' in FF_PHASE_WEIGHTS. */
	const bool *halved;
	bool halves; /* of any node */
	/* Gradients that are scattered are so in every micro-batch, not in the last alone. */
	bool scatters;
	/* By phase; the step, or FF_NONE: ff_program_compute, ff_program_moves. */
	uint32_t *compute[FF_PHASE_COUNT], *moves[FF_PHASE_COUNT];
	/* Limited FF_STEP_GATHER, forward and later: ff_program_gathers. */
	uint32_t *gathers[2];
	uint32_t *syncs, *sync_once; /* ff_program_syncs, by node */
};

/* `order` are the nodes in issue order (ff_strategy_order), `g` the graph of one
 * micro-batch.  Memory from `a`. */
int ff_program_build(const struct ff_graph *g, const struct ff_strategy *s, const uint32_t *order,
		struct ff_arena *a, struct ff_program *ret, struct ff_error *err);

/* The step that computes `node`, or that moves what is at `edge` (what is carried, the one that
 * computes the node); FF_NONE: none does. */
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
/* The last step in which `node` reads weights forward, or `later`; FF_NONE: it reads none. */
static inline uint32_t ff_program_reads(
		const struct ff_program *p, bool later, uint32_t micro, uint32_t node)
{
	uint32_t back = ff_program_compute(p, FF_PHASE_BACKWARD, micro, node);

	if (!later)
		return ff_program_compute(p, FF_PHASE_FORWARD, micro, node);
	return back != FF_NONE ? back : ff_program_compute(p, FF_PHASE_RECOMPUTE, micro, node);
}
/* The step in which `node` makes gradients of parameters; FF_NONE: it makes none. */
static inline uint32_t ff_program_writes(const struct ff_program *p, uint32_t micro, uint32_t node)
{
	return ff_program_compute(
			p, p->halved[node] ? FF_PHASE_WEIGHTS : FF_PHASE_BACKWARD, micro, node);
}
/* The limited step that gathers what `node` is the first to read forward, or (`later`) again. */
static inline uint32_t ff_program_gathers(
		const struct ff_program *p, bool later, uint32_t micro, uint32_t node)
{
	return p->gathers[later][(size_t)micro * p->n_nodes + node];
}

/* The limited step that sums gradients which `node` completes; FF_NONE: none does.  Of those that
 * are summed once the step is `sync_once`. */
static inline uint32_t ff_program_syncs(const struct ff_program *p, uint32_t micro, uint32_t node)
{
	return p->syncs[(size_t)micro * p->n_nodes + node];
}
/* Whether the value at `edge` is read once more behind forward. */
static inline bool ff_edge_read_recomputed(
		const struct ff_graph *g, const struct ff_program *p, uint32_t edge)
{
	return ff_edge_read_backward(g, edge) || p->recomputed[g->edges[edge].node];
}
/* The micro-batch that instance of a value of `node` is of. */
static inline uint32_t ff_program_instance(
		const struct ff_graph *g, const struct ff_program *p, uint32_t node, uint32_t micro)
{
	return ff_node_is_parameter(g, node) && !p->recomputed[node] ? 0 : micro;
}

#endif
