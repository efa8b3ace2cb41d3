/* Bucketing: which shards of parameters share a bucket, and how their gradients are synchronised.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BUCKETING_H
#define FF_BUCKETING_H

#include "ff/readers.h"

/* Whether a parameter is updated in runs (struct ff_bucket: flat), and why.  FF_FLAT: the strategy
 * says so and all readers are placed alike.  FF_FLAT_APART: likewise, with readers on different
 * devices. FF_FLAT_CUT: its config cuts it along its axes. */
enum ff_flat { FF_FLAT_NOT, FF_FLAT, FF_FLAT_APART, FF_FLAT_CUT };

/* Whether the gradients of a parameter are summed in the buffers that backward writes.  Without a
 * `config` of its own: if its readers are alike or apart.  With one: if its readers are alike and
 * the config has a part on each device that reads it.
 *
 * An update is elementwise, so the device that updates an element may be any.  A parameter whose
 * config cuts it is therefore updated flat (FF_FLAT_CUT), with as many copies of each run as the
 * config has of each element.  Unless `together`, such a parameter is not synchronised. */
bool ff_param_is_synced(const struct ff_block_graph *b, uint32_t param,
		const struct ff_config *config, bool together, enum ff_flat *flat);

/* A parameter's shard in a bucket.  Members stand in the order in which backward completes their
 * gradients. */
struct ff_bucket_member {
	uint32_t param;                      /* the parameter's node */
	const struct ff_weight_group *group; /* its devices */
	uint32_t next;                       /* member of the bucket, or FF_NONE */
};
/* Scattered buckets: reduce-scatters in flight while backward writes the gradients of one more. */
#define FF_BUCKETS_ON_WAY 2
/* How a parameter is updated. */
struct ff_update_way {
	bool synced, flat, scattered, dropped; /* as struct ff_bucket has them */
	/* 0: gradients are synchronised once a step.  Else 1 + the pipeline stage of its readers:
	 * they are synchronised in every micro-batch, as soon as that stage has computed them. */
	uint32_t stage;
	bool later; /* with a stage: gradients are computed in FF_PHASE_WEIGHTS */
	/* Flat: the number of runs.  Before ff_bucketing_add it is a request: 0, or a number that
	 * the devices cannot be grouped by, becomes one run a device. */
	uint32_t runs;
	uint32_t copies; /* requested copies of each run, over all replicas; 0: as `runs` says */
};
struct ff_bucket_build {
	struct ff_update_way way;
	bool open, apart; /* apart: readers of some of its parameters are on different devices */
	uint32_t replica, replicas;
	uint32_t n_devices;
	const uint16_t *device;
	uint32_t first, last; /* members */
	uint32_t close;   /* the node whose backward completes the gradients: the first in forward
			   * that reads one of its weights */
	uint32_t next_at; /* next bucket that closes at the same node, or FF_NONE */
	uint32_t writes;  /* scattered: the node that writes its gradients first, or FF_NONE */
	/* Scattered, in every micro-batch: backward may write the gradients of bucket `frees`,
	 * `frees_later` micro-batches later, once those of this bucket are summed. */
	uint32_t frees, frees_later;
	/* Dropped; [0]: for forward, [1]: for recomputation and backward.  It is gathered at the
	 * step of node `opens`, the first reader of the bucket before it.  Node `closes` is its
	 * last reader; FF_NONE: it has none.  next_opened: the next bucket that is gathered at the
	 * same step. */
	uint32_t opens[2], closes[2], next_opened[2];
	int64_t bytes;
	struct ff_sparse sparse;
	uint64_t set; /* ff_weight_group.set */
};
struct ff_bucketing {
	uint32_t n_buckets, n_members;
	struct ff_bucket_build *bucket; /* room for one a member */
	struct ff_bucket_member *member;
	uint32_t *first_at;        /* by node: first bucket that closes there, or FF_NONE */
	uint32_t *first_opened[2]; /* by node: first dropped one that is gathered there */
	bool *scattered;           /* by node: a parameter whose bucket is scattered */
	uint32_t n_nodes, cap, n_scattered, n_dropped;
	int64_t bucket_bytes;
	enum ff_dtype type;   /* that weights are read as */
	struct ff_table sets; /* sets of devices that have buckets */
	uint32_t *newest;     /* by set: the bucket opened last */
	uint32_t *opened;     /* dropped buckets, in the order in which they are read */
	/* By device: likewise for sets of one device whose buckets are not synced.  An entry is
	 * valid if its `round` is the current one. */
	struct {
		uint32_t round, newest;
	} single[FF_MAX_DEVICES];
	uint32_t round;
};
/* A bucket is closed once it has `bucket_bytes`. */
int ff_bucketing_init(struct ff_bucketing *b, const struct ff_graph *g, int64_t bucket_bytes,
		struct ff_error *err);
void ff_bucketing_finish(struct ff_bucketing *b);
/* Usage: begin; add the parameters that backward completes at each node, nodes in reverse issue
 * order; end.  `group`: the `n` shards of `param`.  Parameters that are updated in different ways
 * never share a bucket. */
void ff_bucketing_begin(struct ff_bucketing *b);
int ff_bucketing_add(struct ff_bucketing *b, uint32_t node, uint32_t param,
		const struct ff_weight_group *group, uint32_t n, struct ff_update_way way,
		struct ff_error *err);
void ff_bucketing_end(struct ff_bucketing *b);
/* After the end: keeps only the buckets that lie on some device for which `device` is true. */
void ff_bucketing_keep(struct ff_bucketing *b, const bool *device);
/* After both: finds the first and last readers of dropped buckets in program `p` of `g`, and the
 * first writers of scattered ones. */
void ff_bucketing_open(
		struct ff_bucketing *b, const struct ff_graph *g, const struct ff_program *p);
/* How `param`, which is synchronised and has config `c`, is updated.  `flat`: from
 * ff_param_is_synced. */
struct ff_update_way ff_param_way(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_program *p, uint32_t param, const struct ff_config *c,
		enum ff_flat flat);
#define FF_BUCKET_BYTES ((int64_t)25 << 20) /* as PyTorch's DistributedDataParallel */
/* The preset size of buckets.  Where communication overlaps compute, a bucket has at most a quarter
 * of all parameters, so that the first buckets are synchronised while backward goes on. */
int64_t ff_bucket_bytes(const struct ff_graph *g, const struct ff_machine *m);

#endif
