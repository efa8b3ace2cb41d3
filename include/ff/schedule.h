/* The schedule: what every device does in one training step, in a fixed order.
 * The simulator gives its tasks times; the runtime executes them.
 * docs/schedule.md tells how it comes about.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SCHEDULE_H
#define FF_SCHEDULE_H

#include "ff/bucket.h"
#include "ff/strategy.h"
#include "ff/task.h"

/* A piece of a device's memory and when it holds something.  Shards of
 * parameters and their gradients lie in their buckets for good, those of dropped buckets within
 * other buffers. */
struct ff_buffer {
	uint32_t device;
	uint32_t first, last;  /* tasks; in a bucket, or FF_KEPT: 0 and FF_NONE, for good */
	uint32_t bucket;       /* that it lies in, or FF_NONE; FF_KEPT: an operator keeps it */
	uint32_t within;       /* the buffer that it is a part of, and lives as long as; FF_NONE */
	int64_t offset, bytes; /* multiples of 64 */
};

#define FF_KEPT (FF_NONE - 1)

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
	/* Where gradients are clipped by their global norm: the last bucket, of all devices that
	 * update something.  It has no shards; what its devices add up is the first of its
	 * gradients, which its move makes one and every update waits for.  FF_NONE: they are not.
	 */
	uint32_t clip;
	struct ff_shard *shards;
	const struct ff_config *config; /* by node: the strategy's, parameters resolved */
	const bool *recomputed; /* by node: for backward its values are made, a parameter's brought,
				 * once more */
	const bool *scattered;  /* by node: a parameter whose bucket is scattered */
	uint32_t n_instances;   /* of every value */
	/* Buffers of shards and of their gradients, by instance (ff/instance.h); FF_NONE where
	 * there is none. */
	const uint32_t **out, **dout; /* [value, instance][part of its producer] */
	const uint32_t **in, **din;   /* [edge, instance][part of the consumer] */
	const bool *accumulate;       /* by edge: backward of a first micro-batch adds to din */
	/* By edge: the one to whose din backward adds, once it is made, its own, which nobody else
	 * reads; FF_NONE: none.  What is moved of both gradients is their sum. */
	const uint32_t *added;
	int64_t *live_bytes;   /* by device: the most that is in use at once */
	int64_t *memory_bytes; /* by device: all there is to allocate */
	/* By device: scratch of the running kernel, where the device's memory begins, as some
	 * libraries want it to be as aligned as what was allocated. */
	int64_t *workspace_bytes;
	/* By device: where a bucket's gradients lie while they are compressed, one bucket's at a
	 * time. */
	int64_t *packed_offset, *packed_bytes;
	int64_t network_bytes; /* a step, all devices together; at most INT64_MAX */
	int64_t plain_bytes;   /* of it gradients that moves bring to several devices, as they
				* are, where others are compressed */
	struct ff_travel travel;
	int64_t averaged_bytes; /* what a step that averages parameters sends besides */
};

/* What of a schedule is asked for.  Where gradients are compressed or late it is always all. */
enum ff_lower_what {
	FF_LOWER_ALL,
	/* Memory, and bytes sent: which elements are moved is left out, and what devices do that do
	 * what another does.  Only of others there are buffers. */
	FF_LOWER_SIZES,
	/* Tasks, and bytes sent: there are no buffers. */
	FF_LOWER_TASKS,
};

struct ff_lower_options {
	int64_t bucket_bytes;                 /* whatever the strategy says; 0: as it says */
	const struct ff_optimizer *optimizer; /* NULL: the preset one */
	const uint8_t *group;                 /* by node, a parameter's; NULL: all are of one */
	bool clip;                            /* gradients by their global norm */
	struct ff_travel travel;              /* of gradients */
	/* Scratch that a kernel needs; NULL: none. */
	int64_t (*workspace)(void *ctx, const struct ff_work *w);
	void *ctx;
	enum ff_lower_what what;
	/* SIZES: the layout ends with a device that needs more (by device; NULL: there is none),
	 * and what is sent is not known then. */
	const int64_t *limit;
	struct ff_arena *scratch; /* NULL: one of its own */
};

/* Lowers `s`.  Deterministic: equal arguments give equal schedules on every
 * rank.  `g`, `m` and `s` must outlive the schedule; memory from `a`. */
int ff_lower(const struct ff_graph *g, const struct ff_machine *m, const struct ff_strategy *s,
		const struct ff_lower_options *opt, struct ff_arena *a, struct ff_schedule *ret,
		struct ff_error *err);

/* Whether step `step` averages, of a run whose last one is number `last`. */
static inline bool ff_schedule_averages(const struct ff_schedule *s, uint64_t step, uint64_t last)
{
	uint32_t every = s->travel.average_every;

	return every && ((step + 1) % every == 0 || step == last);
}
/* What a step sends in the mean. */
static inline int64_t ff_schedule_sent_bytes(const struct ff_schedule *s)
{
	uint32_t every = s->travel.average_every;

	return s->network_bytes + (every ? s->averaged_bytes / every : 0);
}
/* What a task computes, of a part. */
void ff_task_work(const struct ff_schedule *s, const struct ff_task *t, struct ff_work *ret);

/* 64-bit hash of everything above: ranks compare it before they start. */
uint64_t ff_schedule_hash(const struct ff_schedule *s);

#endif
