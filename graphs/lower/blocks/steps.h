/* Steps of a program, inside: what one operator has of a pass, written one behind the other.  Which
 * operator's turn it is says stages.c.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_STEPS_H
#define FF_LOWER_STEPS_H

#include "ff/program.h"

/* Nodes of one stage: `order` from `first` to `end`. */
struct ff_writer_stage {
	uint32_t first, end;
	uint32_t begun[FF_STAGE_PASSES], done[FF_STAGE_PASSES]; /* micro-batches */
};

struct ff_writer;

/* A pass of a micro-batch that a rank is at: so many ticks, of which some are left, and of the
 * stage's nodes the next to be put, from the first or (backward) the last. */
struct ff_writer_pass {
	enum ff_stage_pass kind;
	struct ff_writer_stage *stage;
	uint32_t micro, ticks, left, next;
	uint32_t again; /* backward, of those behind `next` the first that reads weights again */
};

/* Who holds some stages: its chunks. */
struct ff_writer_rank {
	uint32_t n_chunks;
	uint32_t begun[FF_STAGE_PASSES]; /* of all chunks together */
	struct ff_writer_pass pass;      /* what it does now */
};

/* A step that its rank issues when it has computed: a move to another stage, or the
 * synchronisation of gradients. */
struct ff_writer_late {
	struct ff_step step;
	uint32_t rank;
};

struct ff_writer {
	const struct ff_graph *g;
	const struct ff_strategy *s;
	const uint32_t *order;
	struct ff_program p;
	struct ff_step *step;
	uint32_t n_stages, n_ranks;
	struct ff_writer_stage *stage;
	struct ff_writer_rank *rank;
	struct ff_writer_late *late, *held; /* moves; synchronisations */
	uint32_t n_late, n_held;
	uint32_t at;     /* the rank that computes */
	uint32_t *stack; /* of nodes to be recomputed */
	bool again;      /* some parameters are gathered again */
	/* Inputs that are brought once: nodes of `order` that were looked at, and how many of
	 * those that read such have theirs on the way. */
	uint32_t ahead, n_ahead;
	/* Weights, whose flat buckets may have to be gathered: nodes of `order` that were looked
	 * at, and how many of those that read weights have theirs on the way. */
	uint32_t gathered, n_gathered;
};

void ff_steps_put(struct ff_writer *w, struct ff_step step);
/* Puts what a node has in a micro-batch: what it needs, what it computes, what moves from there.
 * `next` is, in the last micro-batch, the next node of its stage that reads parameters which are
 * gathered again, or FF_NONE.  ff_steps_weights: gradients of parameters, where backward is halved.
 */
void ff_steps_forward(struct ff_writer *w, uint32_t node, uint32_t micro);
void ff_steps_backward(struct ff_writer *w, uint32_t node, uint32_t next, uint32_t micro);
void ff_steps_weights(struct ff_writer *w, uint32_t node, uint32_t micro);
/* Synchronisations behind all of them, where gradients of parameters are made apart: buckets may be
 * of several stages, so they are complete when the last stage is. */
void ff_steps_syncs(struct ff_writer *w);

/* Whether a node reads weights that are brought several times. */
bool ff_steps_reads_again(const struct ff_writer *w, uint32_t node);
/* By node: what is recomputed for backward; whose backward is computed in two. */
void ff_steps_find_recomputed(struct ff_writer *w, bool *recomputed);
void ff_steps_find_halved(struct ff_writer *w, bool *halved);

#endif
