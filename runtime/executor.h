/* The executor's inside: what its files share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RUNTIME_EXECUTOR_H
#define FF_RUNTIME_EXECUTOR_H

#include "ff/executor.h"
#include "prefetch.h"

#define FF_SCORES 2 /* numbers that a part of a loss writes, at most */

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

struct ff_fill {
	void *memory;
	int64_t n; /* elements */
};

/* A communication task as what this process does of it, in this order: fills, copies
 * into the stage, what is posted, copies out of it; or a load. */
struct ff_transfer {
	struct ff_executor *x;
	const struct ff_task *task;
	enum ff_move_kind kind;
	uint32_t n_fills, n_before, n_after, n_parcels;
	struct ff_fill *fill;
	struct ff_copy *before, *after;
	struct ff_parcel *parcel;
	struct ff_collective collective; /* n_devices 0: none */
	void *sink, *load;               /* LOAD: where to, and the host memory on the way there */
	size_t prefetched;               /* LOAD: or else the place in a slot */
};

/* What this process does of one task of the schedule. */
struct ff_job {
	bool here;    /* some hosted device takes part */
	bool forward; /* part of a forward pass without training */
	bool traced;  /* ran while its times were kept */
	struct ff_stream *stream;
	uint32_t n_hosts; /* hosted devices that take part */
	uint32_t *hosts;
	struct ff_kernel *kernel; /* compute; NULL: the task before does this one's work, too */
	struct ff_kernel_io *io;
	uint32_t n_additions; /* backward: gradients that are added to others */
	struct ff_copy *addition;
	float *score;               /* a loss's forward: what it wrote in the step */
	uint32_t score_index, loss; /* its number */
	struct ff_transfer *transfer;
	uint32_t n_updates; /* UPDATE: one for each group of parameters in the bucket */
	struct ff_update *update;
	struct ff_squares *norm; /* NORM */
	uint32_t n_waits;
	uint32_t *wait;        /* tasks on other streams */
	struct ff_event *done; /* NULL: nobody waits */
	double start_us, finish_us;
};

/* What a pass over the schedule loads: pinned memory where the backend has that. */
struct ff_samples {
	char *memory;
	int64_t valid[FF_MAX_LOSSES]; /* by loss: what counts of its global batch */
};

/* Load tasks of step k copy from slot ff_batch_slot(k), always the same bytes of it, and that is
 * all they do; meanwhile a thread fills the other slot for step k + 1.  It begins with that when
 * all of step k - 1 has ended, so that nobody reads what is overwritten. */
struct ff_prefetched {
	struct ff_prefetch *prefetch;
	struct ff_samples slot[FF_SLOTS];
};

/* What a step left behind. */
struct ff_past {
	float loss[FF_MAX_LOSSES]; /* the hosted shares */
	double us;                 /* what it took */
};

/* Pinned memory of the passes of one parity that are captured. */
struct ff_pinned {
	struct ff_figures *figures;
	float *score; /* FF_SCORES each, by score_index */
};

/* Sums of a pass, or of a test, by loss. */
struct ff_tally {
	double loss, correct, valid;
};

struct ff_replay; /* replay.c */

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
	struct ff_event *turn;            /* on it, likewise */
	struct ff_job *job;               /* by task */
	struct ff_prefetched *prefetched; /* NULL: loads are filled in their streams */
	void *load_stage;                 /* host memory that those share, where they need it */
	bool training;                    /* of the step under way */
	uint64_t step;
	int64_t valid[FF_MAX_LOSSES]; /* by loss: what counts of its global batch */
	uint32_t n_scores, *scored;   /* tasks that have one */
	uint32_t n_past, cap_past;
	struct ff_past *past; /* steps since losses were last asked for */
	struct ff_tally tested[FF_MAX_LOSSES];
	struct ff_replay *replay;          /* NULL: it is not open yet */
	struct ff_figures *figures;        /* device memory; NULL until something is captured */
	const struct ff_pinned *capturing; /* NULL: streams run what they are given */
	bool tracing;
	double origin_us;
	uint32_t n_spans;
	struct ff_span *span;
};

/* issue.c: whether the pass under way has this task; all of its tasks to the streams. */
bool ff_executor_runs(const struct ff_executor *x, uint32_t task);
int ff_executor_issue(struct ff_executor *x, struct ff_error *err);

/* past.c: what a pass left behind: its scores, in pinned memory or (NULL) as jobs have them, what
 * counted in it by loss, its time. */
int ff_executor_keep(struct ff_executor *x, bool training, const float *pinned,
		const int64_t *valid, double us, struct ff_error *err);

/* replay.c: passes that are captured once for each parity of the step and launched from then
 * on.  Opened when jobs are bound. */
int ff_replay_open(struct ff_executor *x, struct ff_error *err);
void ff_replay_close(struct ff_executor *x);
/* A pass has run without; the first time, ranks agree on what they do from then on. */
int ff_replay_warm(struct ff_executor *x, struct ff_error *err);
/* Whether the next pass is launched. */
bool ff_replay_serves(const struct ff_executor *x, bool training);
/* Posts it, maybe the `last` of its kind; what it leaves is kept later, at the latest when it is
 * waited for.  Does nothing where passes turn out not to be launched. */
int ff_replay_post(struct ff_executor *x, bool last, struct ff_error *err);
int ff_replay_wait(struct ff_executor *x, struct ff_error *err);
/* NULL, or why steps are not launched. */
const char *ff_replay_obstacle(const struct ff_executor *x);

/* address.c: the memory of `buffer`; NULL for FF_NONE and for devices hosted elsewhere. */
void *ff_address_buffer(const struct ff_executor *x, uint32_t buffer);
/* The weights of a bucket's device at `position`, NULL if hosted elsewhere;
 * gradients and the optimizer's states follow, each bucket->bytes long. */
char *ff_address_bucket(const struct ff_executor *x, uint32_t bucket, uint32_t position);
/* In the bucket at `at`: its weights rounded to what the graph computes in, or NULL where
 * that is float32. */
uint16_t *ff_address_rounded(const struct ff_executor *x, uint32_t bucket, char *at);
/* The sending or receiving shards' side of a move. */
struct ff_ends {
	const uint32_t *source, *sink; /* buffers by part */
	uint32_t source_node, sink_node;
	const struct ff_operand *source_map, *sink_map;
};
void ff_address_ends(const struct ff_transfer *t, struct ff_ends *ret);
/* The position of `device` in a move. */
uint32_t ff_address_position(const struct ff_move *mv, uint32_t device);
void *ff_address_stage(const struct ff_transfer *t, uint32_t position);

/* bind.c: pointers, kernels and streams of compute tasks and updates. */
int ff_bind_jobs(struct ff_executor *x, struct ff_error *err);

/* fuse.c: two tasks by one kernel, where the backend has that. */
int ff_fuse_jobs(struct ff_executor *x, struct ff_error *err);

/* transfer.c: moves and synchronisations. */
int ff_transfer_build(struct ff_executor *x, const struct ff_task *task, struct ff_transfer **ret,
		struct ff_error *err);
int ff_transfer_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

/* load.c: those from the data set. */
int ff_load_build(struct ff_transfer *t, struct ff_error *err);
/* Host memory and the thread that fills it, once all transfers are built. */
int ff_load_open(struct ff_executor *x, struct ff_error *err);
void ff_load_close(struct ff_executor *x);
/* Before the pass of x->step, x->training is issued: its samples are there, x->valid is known
 * and, unless it is the `last`, those of the next are on their way. */
int ff_load_begin(struct ff_executor *x, bool last, struct ff_error *err);
int ff_load_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

/* collective.c: the collectives among them. */
int ff_collective_build(struct ff_transfer *t, struct ff_error *err);
int ff_sync_build(struct ff_transfer *t, struct ff_error *err);

/* gather.c: whole weights. */
int ff_executor_init_weights(struct ff_executor *x, struct ff_error *err);
/* kept.c: what operators keep from step to step, as it begins. */
int ff_executor_init_kept(struct ff_executor *x, struct ff_error *err);

#endif
