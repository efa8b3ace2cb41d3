/* The schedule: what every device does in one training step, in a fixed order.
 * The simulator gives its tasks times; the runtime executes them.
 * docs/schedule.md tells how it comes about.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SCHEDULE_H
#define FF_SCHEDULE_H

#include "ff/move.h"
#include "ff/optimizer.h"
#include "ff/strategy.h"
#include "ff/work.h"

/* Elements `region` go from a source part's shard to a sink part's shard.  As
 * no device has two parts of one operator, a pair of devices exchanges at most
 * one piece a move: a piece between two devices is one message. */
struct ff_piece {
	uint16_t source, sink; /* part numbers on either side */
	uint16_t from, to;     /* their devices */
	bool add;              /* add to the sink instead of overwriting it */
	struct ff_region region;
	/* from != to: where the message lies in the stage of the sender and of
	 * the receiver, in bytes; -1: straight from the source shard, straight
	 * into the sink shard (the region is one run of it, ff_region_is_run). */
	int64_t send_stage, recv_stage;
};

/* What one device sends and receives in a move. */
struct ff_traffic {
	int64_t sent_inside, received_inside;   /* bytes, within its node */
	int64_t sent_outside, received_outside; /* to and from other nodes */
	uint32_t n_sent, n_received;            /* messages */
};

/* One communication task: shards `sources` of one operator become the shards
 * `sinks` of another; a sink element is the reduction of all sources that cover it.
 * Messages: receivers fill, then take the pieces without `add`, then those
 * with, in order.  Collectives: every device has one source and one sink;
 * all-gather and reduce-scatter have one piece a device, in device order, that
 * says which part of `region` is whose (all-gather: the source has it;
 * reduce-scatter: the sink gets it). */
struct ff_move {
	enum ff_move_kind kind;
	enum ff_dtype type;    /* of the elements */
	bool accumulate;       /* add to what the sinks hold already */
	enum ff_reduce reduce; /* what "add" means */
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	uint32_t n_sources, n_sinks;
	const uint16_t *source;       /* part numbers, in the order of their devices */
	const uint16_t *sink;         /* likewise */
	const bool *fill;             /* n_sinks: the sink begins as the reduction of nothing */
	struct ff_region region;      /* collectives: the whole; LOAD: the sink's */
	uint32_t n_pieces;            /* NULL and 0 where a search asks */
	const struct ff_piece *piece; /* by from, then to */
	/* Collectives: the stage holds what is packed to be sent, if
	 * send_staged, and behind it (64-byte aligned) what is received, if
	 * recv_staged: piece after piece in device order, each dense. */
	bool send_staged, recv_staged;
	const int64_t *stage_bytes; /* n_devices */
	/* Over the network, all devices together.  Collectives as a ring sends them: an
	 * all-reduce 2(p-1)n, reduce-scatter and all-gather (p-1)n, n bytes of `region`. */
	int64_t network_bytes;
	int64_t chunk_bytes;              /* collectives: the largest chunk of one device */
	int64_t busiest_bytes;            /* messages: most that one device sends or receives */
	const struct ff_traffic *traffic; /* messages: n_devices */
	int64_t copied_bytes; /* most that one device packs, unpacks, clears or copies */
	int64_t added_bytes;  /* most that one device adds to what is there */
};

/* One shard of a parameter: the same elements on every device of its bucket. */
struct ff_shard {
	uint32_t node, cell, bucket; /* the parameter's node and part */
	struct ff_region region;
	int64_t offset; /* bytes in the bucket; multiple of 64 */
};

/* Shards of parameters that live on the same devices and are updated together.
 * Where their gradients are synchronised together too (`synced`), an all-reduce
 * sums them in place; the others are brought by moves of their own.  Each device
 * holds arrays of `bytes`: weights, gradients, the optimizer's states. */
struct ff_bucket {
	bool synced;
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	uint32_t first_shard, n_shards;
	int64_t bytes;
	const int64_t *offset; /* n_devices: of its arrays, one behind the other */
};

enum ff_task_kind { FF_TASK_FORWARD, FF_TASK_BACKWARD, FF_TASK_MOVE, FF_TASK_SYNC, FF_TASK_UPDATE };

struct ff_task {
	enum ff_task_kind kind;
	enum ff_pass pass;
	bool again;      /* FORWARD, MOVE: once more, for backward */
	uint32_t micro;  /* micro-batch: compute and MOVE */
	uint32_t node;   /* compute; MOVE: the consumer */
	uint32_t part;   /* compute */
	uint32_t device; /* compute and UPDATE */
	uint32_t edge;   /* MOVE */
	uint32_t bucket; /* SYNC, UPDATE */
	const struct ff_move *move;
	uint32_t stage; /* MOVE: first of n_devices buffers (FF_NONE where no stage) */
	uint32_t first_lane, n_lanes; /* ff_schedule.lanes */
	uint32_t first_dep, n_deps;   /* ff_schedule.deps: earlier tasks */
};

/* A piece of a device's memory and when it holds something.  Shards of
 * parameters and their gradients lie in their buckets for good. */
struct ff_buffer {
	uint32_t device;
	uint32_t first, last;  /* tasks; of a bucket's: 0 and all */
	uint32_t bucket;       /* or FF_NONE */
	int64_t offset, bytes; /* multiples of 64 */
};

/* Buffer of each part, by value or by edge and by instance (ff/instance.h);
 * FF_NONE where there is none. */
struct ff_schedule {
	const struct ff_graph *graph; /* of one micro-batch */
	const struct ff_machine *machine;
	const struct ff_strategy *strategy;
	const struct ff_optimizer *optimizer;
	uint32_t n_tasks, n_buffers, n_buckets, n_shards;
	struct ff_task *tasks; /* the total order */
	uint32_t *lanes, *deps;
	struct ff_buffer *buffers;
	struct ff_bucket *buckets;
	struct ff_shard *shards;
	const struct ff_config *config; /* by node: the strategy's, parameters resolved */
	const bool *again;    /* by node: for backward its values are made, a parameter's brought,
			       * once more */
	uint32_t n_instances; /* of every value */
	const uint32_t **out, **dout; /* [value, instance][part of its producer] shards, their
				       * gradients */
	const uint32_t **in, **din;   /* [edge, instance][part of the consumer] */
	const bool *accumulate;       /* by edge: backward of a first micro-batch adds to din */
	int64_t *live_bytes;          /* by device: the most that is in use at once */
	int64_t *memory_bytes;        /* by device: all there is to allocate */
	int64_t *workspace_offset;    /* by device: scratch of the running kernel */
	int64_t *workspace_bytes;
	int64_t network_bytes; /* a step, all devices together */
};

struct ff_lower_options {
	int64_t bucket_bytes;                 /* gradients all-reduced together; 0: 25 MiB */
	const struct ff_optimizer *optimizer; /* NULL: the preset one */
	/* Scratch that a kernel needs; NULL: none. */
	int64_t (*workspace)(void *ctx, const struct ff_work *w);
	void *ctx;
};

/* Lowers `s`.  Deterministic: equal arguments give equal schedules on every
 * rank.  `g`, `m` and `s` must outlive the schedule; memory from `a`. */
int ff_lower(const struct ff_graph *g, const struct ff_machine *m, const struct ff_strategy *s,
		const struct ff_lower_options *opt, struct ff_arena *a, struct ff_schedule *ret,
		struct ff_error *err);

/* 64-bit hash of everything above: ranks compare it before they start. */
uint64_t ff_schedule_hash(const struct ff_schedule *s);

#endif
