/* Bucketing: which shards of parameters lie together, and how their gradients are synchronised.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BUCKETING_H
#define FF_BUCKETING_H

#include "ff/readers.h"

/* Whether each device of a parameter's bucket updates a run of it, and why: parameters are updated
 * flat (readers are alike, or apart), or cut by their axes. */
enum ff_flat { FF_FLAT_NOT, FF_FLAT, FF_FLAT_APART, FF_FLAT_CUT };

/* Whether the gradients of a parameter are summed where backward puts them.  Without a config of
 * its own they are if its readers are alike or apart; with one, if its readers are alike and its
 * config has a part on each device that reads it.
 *
 * An update is elementwise, so the bucket may say who updates which elements.  A parameter whose
 * config cuts it is therefore flat (FF_FLAT_CUT), with as many copies of each run as the config has
 * of each element; unless `together` such parameters are not synchronised. */
bool ff_param_is_synced(const struct ff_block_graph *b, uint32_t param,
		const struct ff_config *config, bool together, enum ff_flat *flat);

/* Shards of parameters in buckets, in the order in which backward completes their gradients. */
struct ff_bucket_member {
	uint32_t param;                      /* the parameter's node */
	const struct ff_weight_group *group; /* where it lies */
	uint32_t next;                       /* member of the bucket, or FF_NONE */
};
#define FF_BUCKETS_ON_WAY 2 /* whose gradients are being summed while those of one are written */
/* How a parameter is updated. */
struct ff_update_way {
	bool synced, flat, scattered, dropped; /* as struct ff_bucket has them */
	/* 0: gradients are synchronised once a step.  Else 1 + the stage of its readers: they are
	 * in every micro-batch, as soon as that stage has made them. */
	uint32_t stage;
	bool later; /* with a stage: gradients are made in the second half of a backward */
	/* Flat: runs as ff_bucket has them.  Until ff_bucketing_add, what is asked for: 0, or a
	 * number that the devices cannot be grouped by, becomes one run a device. */
	uint32_t runs;
	uint32_t copies; /* asked for: so many of each run, replicas together; 0: `runs` says */
};
struct ff_bucket_build {
	struct ff_update_way way;
	bool open, apart; /* apart: some of its parameters' readers are */
	uint32_t replica, replicas;
	uint32_t n_devices;
	const uint16_t *device;
	uint32_t first, last; /* members */
	uint32_t close;       /* node after whose backward the gradients are complete; the first
			       * that reads one of its weights forward */
	uint32_t next_at;     /* next bucket that closes at the same node, or FF_NONE */
	uint32_t writes;      /* scattered: the node that writes its gradients first, or FF_NONE */
	/* Scattered, in every micro-batch: once its gradients are summed, those of bucket `frees`
	 * may be written, of the micro-batch that is `frees_later` later. */
	uint32_t frees, frees_later;
	/* Dropped; [0]: for forward, [1]: for what comes later.  It is gathered at the step of node
	 * `opens`, the first reader of the bucket before it, and node `closes` reads it last;
	 * FF_NONE: nobody reads it then.  next_opened: the next bucket that is gathered there. */
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
	struct ff_table sets; /* of devices, but for those of one whose gradients are brought */
	uint32_t *newest;     /* by set: the bucket opened last */
	uint32_t *opened;     /* dropped ones, in the order in which they are read */
	struct {
		uint32_t round, newest;
	} single[FF_MAX_DEVICES]; /* those: holds where the round is this one */
	uint32_t round;
};
/* Buckets of `bucket_bytes` or a little more, of parameters of `g`. */
int ff_bucketing_init(struct ff_bucketing *b, const struct ff_graph *g, int64_t bucket_bytes,
		struct ff_error *err);
void ff_bucketing_finish(struct ff_bucketing *b);
/* Once: begin, then the parameters that backward completes at each node, nodes in
 * reverse order of issue, then end.  `group` are the `n` shards of `param`; those that are
 * synchronised among several devices, and flat, have buckets of their own, one kind each way. */
void ff_bucketing_begin(struct ff_bucketing *b);
int ff_bucketing_add(struct ff_bucketing *b, uint32_t node, uint32_t param,
		const struct ff_weight_group *group, uint32_t n, struct ff_update_way way,
		struct ff_error *err);
void ff_bucketing_end(struct ff_bucketing *b);
/* Behind the end: those alone that lie on some of `device`, by number of the device. */
void ff_bucketing_keep(struct ff_bucketing *b, const bool *device);
/* Behind both: who reads dropped buckets first and last in program `p` of `g`, and who writes
 * scattered ones first. */
void ff_bucketing_open(
		struct ff_bucketing *b, const struct ff_graph *g, const struct ff_program *p);
/* How `param`, which is synchronised and has config `c`, is updated; `flat` unless FF_FLAT_NOT. */
struct ff_update_way ff_param_way(const struct ff_graph *g, const struct ff_strategy *s,
		const struct ff_program *p, uint32_t param, const struct ff_config *c,
		enum ff_flat flat);
#define FF_BUCKET_BYTES ((int64_t)25 << 20) /* as PyTorch's DistributedDataParallel */
/* The preset.  Where communication overlaps compute, buckets are a quarter of all parameters at
 * most, so that those which backward finishes first are synchronised while it goes on. */
int64_t ff_bucket_bytes(const struct ff_graph *g, const struct ff_machine *m);

#endif
