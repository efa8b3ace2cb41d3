/* Writing the steps of a program: steps.c writes those of one operator in one pass; stages.c
 * chooses the operator. SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_STEPS_H
#define FF_LOWER_STEPS_H

#include "ff/program.h"

/* Nodes of one stage: `order` from `first` to `end`. */
struct ff_writer_stage {
	uint32_t first, end;
	uint32_t begun[FF_STAGE_PASSES], done[FF_STAGE_PASSES]; /* micro-batches */
};

struct ff_writer;

/* The pass of a micro-batch through a stage that a rank is working on.  It lasts `ticks`, of which
 * some are left; `next` is the next node to write, in forward from the first on, in backward from
 * the last. */
struct ff_writer_pass {
	enum ff_stage_pass kind;
	struct ff_writer_stage *stage;
	uint32_t micro, ticks, left, next;
	uint32_t again; /* backward: the first node after `next` that reads weights gathered again
			 */
};

/* A pipeline rank; its stages are its chunks. */
struct ff_writer_rank {
	uint32_t n_chunks;
	uint32_t begun[FF_STAGE_PASSES]; /* of all chunks together */
	struct ff_writer_pass pass;      /* the current one */
};

/* A step that its rank issues after its current computation: a move to another stage, or the
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
	uint32_t at;     /* the current rank */
	uint32_t *stack; /* nodes to recompute */
	bool again;      /* some parameters are gathered again */
	/* Prefetching of inputs that are moved once: nodes of `order` examined, and their readers
	 * whose inputs are prefetched but not yet read. */
	uint32_t ahead, n_ahead;
	/* Prefetching of weights of flat buckets, likewise. */
	uint32_t gathered, n_gathered;
};

void ff_steps_put(struct ff_writer *w, struct ff_step step);
/* Write the steps of a node in a micro-batch: moves of its inputs, its compute, moves of its
 * results.  `next`: in the last micro-batch, the next node of its stage that reads parameters
 * gathered again; else FF_NONE. ff_steps_weights: the gradients of parameters, if backward is
 * split. */
void ff_steps_forward(struct ff_writer *w, uint32_t node, uint32_t micro);
void ff_steps_backward(struct ff_writer *w, uint32_t node, uint32_t next, uint32_t micro);
void ff_steps_weights(struct ff_writer *w, uint32_t node, uint32_t micro);
/* Writes all synchronisations at the end, if backward is split: a bucket may span several stages,
 * and is complete only when the last of them is. */
void ff_steps_syncs(struct ff_writer *w);

/* Whether a node reads weights that are gathered again. */
bool ff_steps_reads_again(const struct ff_writer *w, uint32_t node);
/* By node: whether it is recomputed for backward; whether its backward is split. */
void ff_steps_find_recomputed(struct ff_writer *w, bool *recomputed);
void ff_steps_find_halved(struct ff_writer *w, bool *halved);

#endif
