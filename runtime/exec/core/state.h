/* The state of the executor, shared by its files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_STATE_H
#define FF_EXEC_STATE_H

#include "ff/comm.h"
#include "ff/dataset.h"
#include "ff/executor_options.h"
#include "ff/schedule.h"
#include "ff/trace.h"

#define FF_SCORES 2 /* the most numbers that a part of a loss writes */

struct ff_prefetched; /* load.h */
struct ff_replay;     /* replay.c */
struct ff_transfer;   /* communication.h */

/* A device that this process hosts. */
struct ff_host {
	uint32_t device;
	struct ff_device *dev;
	char *memory; /* memory_bytes of the schedule, in one piece */
	int64_t bytes;
	struct ff_stream *compute;
	struct ff_event *turn; /* on `compute`: the task before is done */
	bool normed;           /* a norm task is bound */
};

/* This process's share of one task of the schedule. */
struct ff_bound_task {
	bool here;    /* some hosted device takes part */
	bool forward; /* it belongs to evaluation, too */
	bool traced;  /* it ran while tracing was on */
	struct ff_stream *stream;
	uint32_t n_hosts; /* hosted devices that take part */
	uint32_t *hosts;
	struct ff_kernel *kernel; /* compute; NULL: fused into the task before */
	struct ff_kernel_io *io;
	struct ff_copy *ahead; /* backward: copies the gradient that it reads elsewhere; or NULL */
	/* Backward: gradients added to others.  Delays: gradients that move one step up. */
	uint32_t n_additions;
	struct ff_copy *addition;
	float *score;               /* a loss's forward: the numbers that it wrote in the step */
	uint32_t score_index, loss; /* index of these numbers; number of the loss */
	float *rank;     /* ranks.c: device memory for the ranks of its labels, or NULL, */
	int64_t rank_at; /* and their place in a slot */
	struct ff_transfer *transfer;
	/* Updates: one for each group of parameters in its bucket, and in the buckets whose updates
	 * are merged into this task. */
	uint32_t n_updates;
	struct ff_update *update;
	struct ff_squares *norm; /* of a norm task */
	uint32_t n_waits;
	uint32_t *wait;        /* tasks on other streams */
	struct ff_event *done; /* NULL: no task waits for it */
	double start_us, finish_us;
};

/* Results of a past step. */
struct ff_past {
	float loss[FF_MAX_LOSSES]; /* the shares of hosted devices */
	double us;                 /* its duration */
};

/* Sums of a pass, or of a test, by loss. */
struct ff_tally {
	double loss, correct, top, valid;
};

/* Pinned memory of captured passes; even and odd steps have their own. */
struct ff_pinned {
	struct ff_figures *figures;
	float *score; /* FF_SCORES each, by score_index */
};

/* Losses, and the counts of evaluation. */
struct ff_losses {
	int64_t valid[FF_MAX_LOSSES]; /* by loss: labels of the global batch that are not ignored */
	uint32_t n_scores, *scored;   /* tasks with a score */
	uint32_t n_past, cap_past;
	struct ff_past *past; /* steps since losses were last read */
	struct ff_tally tested[FF_MAX_LOSSES];
	struct ff_ranks *ranks; /* NULL: top-k accuracy was not asked for */
};

/* Steps that are launched as a whole (replay.c). */
struct ff_launching {
	struct ff_replay *replay;          /* NULL: not opened yet */
	struct ff_figures *figures;        /* device memory; NULL: nothing was captured yet */
	const struct ff_pinned *capturing; /* NULL: streams execute, they do not capture */
};

/* Times of tasks (ff_executor_spans). */
struct ff_tracing {
	bool on;
	double origin_us;
	uint32_t n;
	struct ff_span *span;
};

struct ff_executor {
	const struct ff_schedule *s;
	const struct ff_backend *b;
	struct ff_comm *comm;
	const struct ff_dataset *data;
	struct ff_executor_options opt;
	struct ff_arena arena;
	uint32_t n_hosts;
	struct ff_host *host;
	uint32_t *host_of;                /* by device; FF_NONE: elsewhere */
	struct ff_stream *transfers;      /* its own, or the first host's `compute` */
	struct ff_stream *messages;       /* its own, or `transfers` */
	struct ff_event *turn;            /* on one of these, as ff_host.turn */
	struct ff_bound_task *bound;      /* by task */
	struct ff_prefetched *prefetched; /* NULL: samples are loaded in the streams */
	void *load_stage;                 /* host memory for such loads, if they need it */
	bool training;                    /* the current step trains */
	uint32_t shown; /* delayed gradients stand where they are applied: their age + 1; else 0 */
	uint64_t step;
	struct ff_losses losses;
	struct ff_launching launches;
	struct ff_tracing trace;
};

/* Whether the thread that issues tasks also progresses communication, between tasks. */
static inline bool ff_executor_has_guest(const struct ff_executor *x)
{
	return x->s->machine->overlap && x->b->stream.beside && x->opt.beside == FF_BESIDE_TASKS;
}

/* How many updates precede that of the current step. */
static inline uint64_t ff_executor_updates(const struct ff_executor *x)
{
	return x->step > x->s->travel.staleness ? x->step - x->s->travel.staleness : 0;
}

#endif
