/* The evaluator's pass: when every task of a strategy starts and ends, from where that may
 * be taken up again, and the buckets it needs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_PASS_H
#define FF_SIMULATOR_PASS_H

#include "ff/bucketing.h"
#include "ff/clones.h"
#include "ff/program.h"

struct ff_trial;
struct ff_memo_adding;
struct ff_memo_move;
struct ff_memo_bucket;

/* What the pass reads of one operator, for one phase. */
struct ff_timed_node {
	const double *us;
	double each_us; /* of every part, where they are uniform */
	/* By micro-batch and part.  `ready`: when what was moved to it arrived; zero but
	 * between mover and reader. */
	double *finish, *ready;
	bool *arrived; /* by micro-batch: `ready` is not zero */
	/* By micro-batch: which stretch of this pass has computed it, and when, from where that
	 * began; FF_NONE: `finish` says (stretch.c). */
	struct ff_stretched {
		double us;
		uint32_t in;
	} * stretched;
	/* What its backward takes where it adds to gradients, of a first micro-batch and of others:
	 * as this pass knows (adding.c); NULL: it adds to none. */
	struct ff_timed_adding {
		uint64_t pass;
		const struct ff_memo_adding *of;
		double each_us; /* of every part, adding or not, where they are uniform */
		bool uniform;
	} adding[2];
	const uint16_t *device;
	uint32_t n, cap, cap_micro; /* parts, 0: not in place; room for so many times, and of
				     * `stretched` */
	uint16_t first;             /* as ff_memo_node's, */
	bool is_row, in_line;       /* and these */
	bool uniform;               /* all parts take equally long */
	bool plain;                 /* in a row, and parts do not run in turn */
};

static inline double *ff_timed_ready(const struct ff_timed_node *t, uint32_t micro)
{
	return t->ready + (size_t)micro * t->n;
}

/* What is known of the moves at an edge, for one pass. */
enum ff_edge_state { FF_EDGE_STILL, FF_EDGE_MOVES, FF_EDGE_UNKNOWN };

/* Where a parameter lies that is synchronised and has one reader; n: 0 for others. */
struct ff_shards {
	const struct ff_weight_group *group;
	uint32_t n;
};

/* The buckets of the parameters, with their times.  Backward needs those that are
 * synchronised, and they are few; when it is over those whose gradients are brought are needed,
 * too.  Of these only the ones of several devices are here: updates.c finds the others. */
struct ff_gathered {
	struct ff_bucketing synced, brought;
	struct ff_timed_bucket {
		const struct ff_memo_bucket *price;
		double update_us, done_us;
	} * timed; /* by bucket that is synchronised */
	uint32_t cap_timed;
	struct ff_arena apart; /* groups of parameters whose readers are apart */
	double *busy; /* by device: how long at least it is busy, or slowed down, with them */
	bool *adds;   /* by node: backward of a first micro-batch adds to gradients */
	bool holds_synced, holds_all; /* of the blocks in place when they were gathered */
};

/* Buckets of one device, in the order in which they were filled; by device the one that is
 * being filled (opened: FF_NONE if none is), and those that are. */
struct ff_updates {
	struct ff_single_bucket {
		uint32_t device, opened; /* by which parameter, as backward completes them */
		uint32_t next;           /* of the device; or FF_NONE */
		int64_t bytes;
		double at; /* all is there */
	} * single;
	uint32_t n, cap;
	int64_t *packed; /* by device; scratch */
	struct ff_open_bucket {
		uint32_t opened, first, last;
		uint32_t next; /* of those, to be timed */
		int64_t bytes;
		double at;
	} * open;
	uint16_t *device; /* those that update something */
};

/* The pass over the current strategy, as it stood before one of its steps. */
struct ff_snapshot {
	uint32_t step;
	double *lane, *idle, *limited;
	struct ff_arena_mark planned, end; /* of the memory of all up to this one */
	uint32_t n_read, n_saved;
	struct ff_saved {
		struct ff_timed_node *node;
		uint32_t micro;
		bool ready; /* `ready` is meant, else `finish` */
		double *times;
	} * read, *saved; /* what may be read behind it; what there was of it */
};
#define FF_SNAPSHOTS 16

/* Something was moved to a node, in a micro-batch, and not taken out yet. */
struct ff_arrival {
	struct ff_timed_node *node;
	uint32_t micro;
};

/* time.c: one step of the walk, in the order of the program. */
int ff_time_step(struct ff_trial *e, const struct ff_step *s, struct ff_error *err);
/* adding.c: what step `s` of backward takes where it adds to gradients, of its parameters or of its
 * data; NULL: it adds to none.  Buckets are gathered. */
int ff_adding_find(struct ff_trial *e, const struct ff_step *s, const struct ff_memo_adding **ret,
		struct ff_error *err);
/* run_pass.c: the longest-path pass over the blocks in place.  It stops, and `too_slow` is
 * true, as soon as some lane has been idle and will be busy for longer than `most_us`
 * together, or where a proposal is rejected for another reason.  `first`, `last`: of the
 * steps of forward that differ from the current strategy's. */
int ff_trial_time(struct ff_trial *e, uint32_t first, uint32_t last, double *step_us,
		struct ff_error *err);
/* As far as snapshots are taken, for the current strategy, taking them. */
int ff_trial_record(struct ff_trial *e, struct ff_error *err);
/* updates.c: all buckets, once backward is over; of those the pass ended with, what weights,
 * gradients and states take, added up by device. */
int ff_updates_create(struct ff_trial *e, struct ff_error *err);
int ff_updates_time(struct ff_trial *e, struct ff_error *err);
/* Which there are, where nothing was timed yet. */
int ff_updates_find(struct ff_trial *e, struct ff_error *err);
void ff_updates_count(const struct ff_trial *e, int64_t *bytes);
/* The scratch of kernels, by device, becomes at least that of the gradients' norm. */
void ff_updates_scratch(const struct ff_trial *e, int64_t *bytes);

/* buckets.c */
int ff_gathered_init(struct ff_gathered *b, const struct ff_graph *g, const struct ff_machine *m,
		int64_t bucket_bytes, struct ff_arena *a, struct ff_error *err);
void ff_gathered_finish(struct ff_gathered *b);
/* Buckets of so many bytes from now on. */
void ff_gathered_limit(struct ff_gathered *b, int64_t bucket_bytes);
/* The buckets of the blocks in place, the proposal's if it changes them: those that are
 * synchronised, or `all` that are gathered. */
int ff_trial_gather(struct ff_trial *e, bool all, struct ff_gathered **ret, struct ff_error *err);
void ff_gathered_forget(struct ff_gathered *b);
/* What updating a bucket takes on `device`, one of its own. */
double ff_gathered_update_us(
		const struct ff_trial *e, const struct ff_bucket_build *k, uint32_t device);

/* snapshot.c */
/* For a new program: where snapshots are to be taken. */
int ff_snapshots_plan(struct ff_trial *e, struct ff_error *err);
int ff_snapshot_take(struct ff_trial *e, struct ff_snapshot *s, struct ff_error *err);
/* The strategy becomes one that differs from step `first` on: what was taken before holds. */
void ff_snapshots_keep(struct ff_trial *e, uint32_t first);
/* The first behind step `last`; NULL: none. */
const struct ff_snapshot *ff_snapshot_behind(const struct ff_trial *e, uint32_t last);
/* Restores the latest that is not behind step `first`; the step to go on from. */
uint32_t ff_snapshots_resume(struct ff_trial *e, uint32_t first);

#endif
