/* The schedule: what every device does in one training step, in a fixed order.
 * The simulator gives its tasks times; the runtime executes them.
 * docs/schedule.md tells how it comes about.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SCHEDULE_H
#define FF_SCHEDULE_H

#include "ff/bucket.h"
#include "ff/strategy.h"
#include "ff/task.h"

/* A piece of a device's memory, and the tasks during which it is in use.  Parameters and their
 * gradients lie in their buckets throughout the step; those of dropped buckets lie within other
 * buffers. */
struct ff_buffer {
	uint32_t device;
	uint32_t first, last; /* tasks; 0 and FF_NONE: the whole step (a bucket's, FF_KEPT) */
	uint32_t bucket; /* it lies in this bucket, or FF_NONE; FF_KEPT: state of an operator */
	uint32_t within; /* the buffer that it is a part of and lives as long as; or FF_NONE */
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
	/* Clipping by the global norm: the last bucket, over all devices that update something.  It
	 * has no shards.  Its first gradient element is a device's sum of squares; its collective
	 * adds these up, and every update waits for that.  FF_NONE: gradients are not clipped. */
	uint32_t clip;
	struct ff_shard *shards;
	const struct ff_config *config; /* by node: the strategy's, parameters resolved */
	const bool *recomputed; /* by node: its values are recomputed for backward; a parameter's
				 * are gathered again */
	const bool *scattered;  /* by node: a parameter whose bucket is scattered */
	uint32_t n_instances;   /* of every value */
	/* Buffers of shards and of their gradients, by instance (ff/instance.h), or FF_NONE. */
	const uint32_t **out, **dout; /* [value, instance][part of its producer] */
	const uint32_t **in, **din;   /* [edge, instance][part of the consumer] */
	const bool *accumulate;       /* by edge: backward of a first micro-batch adds to din */
	/* By edge: another edge of the same value, to whose gradient this edge's is added on the
	 * device, so that only the sum is moved; FF_NONE: it is moved by itself. */
	const uint32_t *added;
	int64_t *live_bytes;   /* by device: the largest sum of buffers that live at once */
	int64_t *memory_bytes; /* by device: what is allocated */
	/* By device: scratch of the running kernel.  It stands at the start of the device's memory,
	 * which is aligned as some libraries ask. */
	int64_t *workspace_bytes;
	/* By device: scratch for the compressed gradients of one bucket at a time. */
	int64_t *packed_offset, *packed_bytes;
	int64_t network_bytes; /* sent in a step by all devices together; at most INT64_MAX */
	int64_t plain_bytes; /* of these, with a codec: gradients sent uncompressed, because several
			      * devices receive them */
	struct ff_travel travel;
	int64_t averaged_bytes; /* sent in addition by a step that averages parameters */
};

/* How much of a schedule is made.  With compressed or delayed gradients always all of it. */
enum ff_lower_what {
	FF_LOWER_ALL,
	/* Memory and traffic: no pieces of moves, and of devices that do the same only one, which
	 * alone has buffers. */
	FF_LOWER_SIZES,
	/* Tasks and traffic: no buffers. */
	FF_LOWER_TASKS,
};

struct ff_lower_options {
	int64_t bucket_bytes;                 /* overrides the strategy's; 0: the strategy's */
	const struct ff_optimizer *optimizer; /* NULL: the preset one */
	const uint8_t *group;                 /* by node: a parameter's group; NULL: one group */
	bool clip;                            /* clip gradients by their global norm */
	struct ff_travel travel;              /* of gradients */
	/* Bytes of scratch that a kernel needs; NULL: none. */
	int64_t (*workspace)(void *ctx, const struct ff_work *w);
	void *ctx;
	enum ff_lower_what what;
	/* SIZES: bytes by device; the layout stops at the first device that needs more, and traffic
	 * is then unknown.  NULL: no limit. */
	const int64_t *limit;
	struct ff_arena *scratch; /* NULL: one of its own */
};

/* Lowers `s`.  Deterministic: equal arguments give equal schedules on every
 * rank.  `g`, `m` and `s` must outlive the schedule; memory from `a`. */
int ff_lower(const struct ff_graph *g, const struct ff_machine *m, const struct ff_strategy *s,
		const struct ff_lower_options *opt, struct ff_arena *a, struct ff_schedule *ret,
		struct ff_error *err);

/* Local SGD: whether step `step` averages parameters, in a run whose last step is `last`. */
static inline bool ff_schedule_averages(const struct ff_schedule *s, uint64_t step, uint64_t last)
{
	uint32_t every = s->travel.average_every;

	return every && ((step + 1) % every == 0 || step == last);
}
/* Bytes that a step sends, on average. */
static inline int64_t ff_schedule_sent_bytes(const struct ff_schedule *s)
{
	uint32_t every = s->travel.average_every;

	return s->network_bytes + (every ? s->averaged_bytes / every : 0);
}
/* The work of a task that computes a part. */
void ff_task_work(const struct ff_schedule *s, const struct ff_task *t, struct ff_work *ret);

/* 64-bit hash of everything above: ranks compare it before they start. */
uint64_t ff_schedule_hash(const struct ff_schedule *s);

#endif
