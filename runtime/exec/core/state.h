/* The executor's inside: what its files share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_STATE_H
#define FF_EXEC_STATE_H

#include "ff/comm.h"
#include "ff/dataset.h"
#include "ff/executor_options.h"
#include "ff/schedule.h"
#include "ff/trace.h"

#define FF_SCORES 2 /* numbers that a part of a loss writes, at most */

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
	struct ff_event *turn; /* on it: a task is done that the next one waits for */
	bool normed;           /* a task that adds up squares of gradients is bound */
};

/* What this process does of one task of the schedule. */
struct ff_bound_task {
	bool here;    /* some hosted device takes part */
	bool forward; /* part of a forward pass without training */
	bool traced;  /* ran while its times were kept */
	struct ff_stream *stream;
	uint32_t n_hosts; /* hosted devices that take part */
	uint32_t *hosts;
	struct ff_kernel *kernel; /* compute; NULL: the task before does this one's work, too */
	struct ff_kernel_io *io;
	struct ff_copy *ahead; /* NULL, or backward: the gradient that it reads, put elsewhere */
	/* backward: gradients that are added to others; a delay: those that move up */
	uint32_t n_additions;
	struct ff_copy *addition;
	float *score;               /* a loss's forward: what it wrote in the step */
	uint32_t score_index, loss; /* its number */
	float *rank;                /* ranks.c: NULL, or device memory for its labels', */
	int64_t rank_at;            /* and where they go in a slot */
	struct ff_transfer *transfer;
	/* an update: one for each group of parameters in the bucket, and in those whose updates it
	 * does, too */
	uint32_t n_updates;
	struct ff_update *update;
	struct ff_squares *norm; /* a norm */
	uint32_t n_waits;
	uint32_t *wait;        /* tasks on other streams */
	struct ff_event *done; /* NULL: nobody waits */
	double start_us, finish_us;
};

/* What a step left behind. */
struct ff_past {
	float loss[FF_MAX_LOSSES]; /* the hosted shares */
	double us;                 /* what it took */
};

/* Sums of a pass, or of a test, by loss. */
struct ff_tally {
	double loss, correct, top, valid;
};

/* Pinned memory of the passes of one parity that are captured. */
struct ff_pinned {
	struct ff_figures *figures;
	float *score; /* FF_SCORES each, by score_index */
};

/* Losses, and what tests count. */
struct ff_losses {
	int64_t valid[FF_MAX_LOSSES]; /* by loss: what counts of its global batch */
	uint32_t n_scores, *scored;   /* tasks that have one */
	uint32_t n_past, cap_past;
	struct ff_past *past; /* steps since losses were last asked for */
	struct ff_tally tested[FF_MAX_LOSSES];
	struct ff_ranks *ranks; /* NULL: nobody has asked for them */
};

/* Steps that are launched as a whole (replay.c). */
struct ff_launching {
	struct ff_replay *replay;          /* NULL: it is not open yet */
	struct ff_figures *figures;        /* device memory; NULL until something is captured */
	const struct ff_pinned *capturing; /* NULL: streams run what they are given */
};

/* When tasks ran (ff_executor_spans). */
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
	struct ff_stream *transfers;      /* of its own, or the first host's compute */
	struct ff_stream *messages;       /* of its own, or `transfers` */
	struct ff_event *turn;            /* on one of them, likewise */
	struct ff_bound_task *bound;      /* by task */
	struct ff_prefetched *prefetched; /* NULL: loads are filled in their streams */
	void *load_stage;                 /* host memory that those share, where they need it */
	bool training;                    /* of the step under way */
	uint32_t shown; /* gradients that wait are where they are applied: their age + 1; or 0 */
	uint64_t step;
	struct ff_losses losses;
	struct ff_launching launches;
	struct ff_tracing trace;
};

/* Whether the thread that issues tasks is also the one that communicates, between them. */
static inline bool ff_executor_has_guest(const struct ff_executor *x)
{
	return x->s->machine->overlap && x->b->stream.beside && x->opt.beside == FF_BESIDE_TASKS;
}

/* Updates that have gone before that of the step under way. */
static inline uint64_t ff_executor_updates(const struct ff_executor *x)
{
	return x->step > x->s->travel.staleness ? x->step - x->s->travel.staleness : 0;
}

#endif
