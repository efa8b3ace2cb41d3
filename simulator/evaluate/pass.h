/* The timing pass of the evaluator: start and end of every task of a strategy, the snapshots that a
 * later pass may resume from, and the buckets that it needs.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_SIMULATOR_PASS_H
#define FF_SIMULATOR_PASS_H

#include "ff/bucketing.h"
#include "ff/clones.h"
#include "ff/program.h"

struct ff_trial;
struct ff_memo_adding;
struct ff_memo_move;
struct ff_memo_bucket;

/* One operator in one phase, as the pass reads it. */
struct ff_timed_node {
	const double *us;
	double each_us; /* uniform: of every part */
	/* By micro-batch and part.  `ready`: when its inputs have arrived; zero before the moves
	 * and after the operator has read it. */
	double *finish, *ready;
	bool *arrived; /* by micro-batch: `ready` is not zero */
	/* By micro-batch: the stretch of this pass that computed it, and its time relative to the
	 * stretch's start; FF_NONE: see `finish` (stretch.c). */
	struct ff_stretched {
		double us;
		uint32_t in;
	} * stretched;
	/* Backward's time if it accumulates gradients, in the first micro-batch and in later ones,
	 * as of pass number `pass` (adding.c).  `of` NULL: it accumulates none. */
	struct ff_timed_adding {
		uint64_t pass;
		const struct ff_memo_adding *of;
		double each_us; /* uniform: of every part, with or without accumulation */
		bool uniform;
	} adding[2];
	const uint16_t *device;
	uint32_t n, cap, cap_micro; /* parts, 0: no block in place; capacities of times, of
				     * `stretched` */
	uint16_t first;             /* first, is_row and in_line are as in ff_memo_node */
	bool is_row, in_line;
	bool uniform; /* all parts take equally long */
	bool plain;   /* is_row, and parts do not run in turns */
};

static inline double *ff_timed_ready(const struct ff_timed_node *t, uint32_t micro)
{
	return t->ready + (size_t)micro * t->n;
}

/* Whether anything moves at an edge in one pass. */
enum ff_edge_state { FF_EDGE_STILL, FF_EDGE_MOVES, FF_EDGE_UNKNOWN };

/* The groups of a synchronised parameter with a single reader; n is 0 for other parameters. */
struct ff_shards {
	const struct ff_weight_group *group;
	uint32_t n;
};

/* Buckets of parameters, with their times.  During backward only synchronised ones are needed,
 * which are few; after it also those whose gradients are moved one by one (`brought`).  Of the
 * latter only buckets of several devices are here; updates.c finds the others. */
struct ff_gathered {
	struct ff_bucketing synced, brought;
	struct ff_timed_bucket {
		const struct ff_memo_bucket *price;
		double update_us, done_us;
	} * timed; /* by synchronised bucket */
	uint32_t cap_timed;
	struct ff_arena apart; /* groups of parameters whose readers are apart */
	double *busy; /* by device: the least time that buckets keep it busy or slow it down */
	bool *adds;   /* by node: backward accumulates in the first micro-batch, too */
	bool holds_synced, holds_all; /* whether the lists are valid for the current blocks */
};

/* Buckets of single devices, in the order in which they were filled; `open`, by device: the bucket
 * that is being filled, if `opened` is not FF_NONE. */
struct ff_updates {
	struct ff_single_bucket {
		uint32_t device, opened; /* number of its first parameter in backward's order */
		uint32_t next;           /* the device's next bucket, or FF_NONE */
		int64_t bytes;
		double at; /* all its gradients are complete */
	} * single;
	uint32_t n, cap;
	int64_t *packed; /* by device; scratch */
	struct ff_open_bucket {
		uint32_t opened, first, last;
		uint32_t next; /* the next of its buckets to time */
		int64_t bytes;
		double at;
	} * open;
	uint16_t *device; /* the devices that update something */
};

/* The state of the pass over the current strategy before one of its steps. */
struct ff_snapshot {
	uint32_t step;
	double *lane, *idle, *limited;
	struct ff_arena_mark planned, end; /* end of the memory of all snapshots up to this one */
	uint32_t n_read, n_saved;
	struct ff_saved {
		struct ff_timed_node *node;
		uint32_t micro;
		bool ready; /* saves `ready`, else `finish` */
		double *times;
	} * read, *saved; /* times that later steps may read; those that existed */
};
#define FF_SNAPSHOTS 16

/* A node and micro-batch whose `ready` is not zero. */
struct ff_arrival {
	struct ff_timed_node *node;
	uint32_t micro;
};

/* time.c: one step of the walk, in the order of the program. */
int ff_time_step(struct ff_trial *e, const struct ff_step *s, struct ff_error *err);
/* adding.c: the times of step `s` of backward with accumulation of gradients, of its parameters or
 * its data; NULL: it accumulates none.  Requires that buckets are gathered. */
int ff_adding_find(struct ff_trial *e, const struct ff_step *s, const struct ff_memo_adding **ret,
		struct ff_error *err);
/* run_pass.c: the longest-path pass over the current blocks.  It stops with `too_slow` as soon as
 * the idle time of some lane plus its remaining work exceeds `most_us`, or if the proposal is
 * rejected otherwise. `first`, `last`: range of the forward steps that differ from the current
 * strategy's. */
int ff_trial_time(struct ff_trial *e, uint32_t first, uint32_t last, double *step_us,
		struct ff_error *err);
/* A pass over the current strategy that takes all snapshots and ends with the last. */
int ff_trial_record(struct ff_trial *e, struct ff_error *err);
/* updates.c: times the updates of all buckets, after backward. */
int ff_updates_create(struct ff_trial *e, struct ff_error *err);
int ff_updates_time(struct ff_trial *e, struct ff_error *err);
/* Finds the buckets without timing them. */
int ff_updates_find(struct ff_trial *e, struct ff_error *err);
/* Adds the bytes of all buckets, that is weights, gradients and states, to bytes[device]. */
void ff_updates_count(const struct ff_trial *e, int64_t *bytes);
/* Raises bytes[device], scratch of kernels, to the scratch of the gradients' norm. */
void ff_updates_scratch(const struct ff_trial *e, int64_t *bytes);

/* buckets.c */
int ff_gathered_init(struct ff_gathered *b, const struct ff_graph *g, const struct ff_machine *m,
		int64_t bucket_bytes, struct ff_arena *a, struct ff_error *err);
void ff_gathered_finish(struct ff_gathered *b);
/* Sets the size of buckets. */
void ff_gathered_limit(struct ff_gathered *b, int64_t bucket_bytes);
/* Gathers the buckets of the current blocks, the proposal's if it changes them: the synchronised
 * ones, or `all`. */
int ff_trial_gather(struct ff_trial *e, bool all, struct ff_gathered **ret, struct ff_error *err);
void ff_gathered_forget(struct ff_gathered *b);
/* The time of a bucket's update on `device`, one of its own. */
double ff_gathered_update_us(
		const struct ff_trial *e, const struct ff_bucket_build *k, uint32_t device);

/* snapshot.c */
/* Chooses the steps of snapshots for a new program. */
int ff_snapshots_plan(struct ff_trial *e, struct ff_error *err);
int ff_snapshot_take(struct ff_trial *e, struct ff_snapshot *s, struct ff_error *err);
/* The current strategy changes from step `first` on: keeps the snapshots before. */
void ff_snapshots_keep(struct ff_trial *e, uint32_t first);
/* The first snapshot after step `last`; NULL: none. */
const struct ff_snapshot *ff_snapshot_behind(const struct ff_trial *e, uint32_t last);
/* Restores the latest snapshot at or before step `first`; returns the step to resume from. */
uint32_t ff_snapshots_resume(struct ff_trial *e, uint32_t first);

#endif
