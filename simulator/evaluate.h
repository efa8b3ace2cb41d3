/* The evaluator's inside: what its files share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_EVALUATE_H
#define FF_SIMULATOR_EVALUATE_H

#include "ff/evaluate.h"
#include "ff/program.h"
#include "memo.h"

/* What a proposal replaced: a node's or an edge's block. */
struct ff_swap {
	bool is_edge;
	uint32_t id;
	union {
		struct ff_memo_node *node;
		const struct ff_memo_edge *edge;
	} was;
};

/* What the pass reads of one operator, for one phase. */
struct ff_timed_node {
	const double *us;
	/* By micro-batch and part.  `ready`: when what was moved to it arrived; zero but
	 * between mover and reader. */
	double *finish, *ready;
	const uint16_t *device;
	uint32_t n, cap; /* parts; room for so many times */
	uint16_t first;
	bool in_line, uniform; /* part p on device first + p; all take equally long */
	bool watched;          /* someone asks for `finish` */
	bool moved;            /* something is moved to it in this phase */
};

struct ff_timed_bucket {
	double sync_us, update_us, done_us;
};

struct ff_evaluator {
	const struct ff_graph *g, *whole; /* of one micro-batch, of the batch */
	const struct ff_machine *m;
	struct ff_pricer *p;
	struct ff_micro {
		uint32_t micro_batches;
		const struct ff_graph *g;
		const struct ff_micro *next;
	} * micro;      /* graphs that were needed so far */
	int64_t *limit; /* by device */
	int64_t bucket_bytes;
	size_t memo_limit; /* bytes of blocks before the memo is emptied */
	struct ff_arena arena, scratch;
	struct ff_memo memo;
	uint32_t *order, *position, *first_edge;
	bool *first_use, *completes; /* by edge */

	struct ff_memo_node **node;         /* by node; NULL for inputs and synced parameters */
	const struct ff_node_block **block; /* by node: its block */
	const struct ff_memo_edge **edge;   /* NULL for those of synced parameters */
	bool *synced;                       /* by node */
	bool has_scratch;                   /* some parameter has several readers */
	struct ff_bucketing buckets;
	struct ff_strategy strategy; /* current */

	const struct ff_change *change; /* the proposal: a copy */
	struct ff_change *changes;
	uint32_t n_changes, cap_changes;
	struct ff_swap *swap;
	uint32_t n_swaps, cap_swaps;
	bool proposed;
	uint32_t *mark, stamp; /* by value: the stamp of when it was last listed */
	uint32_t *touched, n_touched;

	struct ff_program program;
	struct ff_arena order_arena;                 /* of the program */
	struct ff_timed_node *timed[FF_PHASE_COUNT]; /* by phase, by node */
	uint8_t *moves[2];                           /* by pass, by edge: it has some */
	bool *adds; /* by node: backward of a first micro-batch adds to gradients */
	bool buckets_hold;
	struct ff_timed_bucket *timed_bucket;
	uint32_t bucket_cap;
	double *lane;  /* when it is free */
	double *paced; /* by device: ends of its last FF_PACE paced computes, last first */
	uint32_t *sync_lane;

	/* busy.c: how long each lane is at least, now and with the proposal */
	double *busy, *busy_next, most_us;
	bool too_slow;  /* some lane is busy for longer than `most_us` */
	bool refreshed; /* the records are the proposal's */

	/* account.c: bytes that come (and, behind their last step, go), by step and
	 * device; what they come to. */
	int64_t *change_bytes;         /* [steps of the program + 1][devices] */
	int64_t *pinned, *live, *peak; /* by device */
};

/* Whether backward adds to the gradient of a parameter at `edge`: another use or an
 * earlier micro-batch has written it. */
static inline bool ff_evaluator_adds(const struct ff_evaluator *e, uint32_t edge, uint32_t micro)
{
	return micro > 0 || (!e->first_use[edge] && e->synced[ff_edge_source(e->g, edge)]);
}

/* time.c: the longest-path pass over the blocks in place. */
int ff_evaluator_time(struct ff_evaluator *e, double *step_us, struct ff_error *err);
/* The records of what has changed: edges first, then the nodes at their ends. */
void ff_time_refresh_edge(struct ff_evaluator *e, uint32_t edge);
int ff_time_refresh_node(struct ff_evaluator *e, uint32_t node, struct ff_error *err);
void ff_time_finish(struct ff_evaluator *e);

/* busy.c: of the blocks in place; then, of a proposal, without what it touches, and
 * with what has come in its place. */
void ff_busy_reset(struct ff_evaluator *e);
void ff_busy_begin(struct ff_evaluator *e, double limit_us);
void ff_busy_add_node(struct ff_evaluator *e, uint32_t node);
void ff_busy_add_uses(struct ff_evaluator *e, uint32_t value);
void ff_busy_keep(struct ff_evaluator *e);

/* account.c */
int ff_account_create(struct ff_evaluator *e, struct ff_error *err);
/* For a new program: forgets all bytes. */
int ff_account_reset(struct ff_evaluator *e, struct ff_error *err);
/* Adds (sign 1) or takes away (-1) all buffers of one value: its shards, their
 * gradients, what was moved of either, and stages. */
void ff_account_value(struct ff_evaluator *e, uint32_t value, int64_t sign);
/* What devices lack, and whether some device is more than half full. */
int64_t ff_account_over(struct ff_evaluator *e, bool *tight);

#endif
