/* Blocks: the pieces a schedule is put together from.  A node block depends on
 * one operator's config, an edge block on the configs at its two ends, and on
 * nothing else; so a search keeps them and replaces only what a proposal
 * touches.  ff_lower and the evaluator build schedules from the same blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BLOCK_H
#define FF_BLOCK_H

#include "ff/schedule.h"

/* One shard of one weight and the devices that hold it. */
struct ff_weight_group {
	uint32_t weight;
	struct ff_region region;
	uint32_t n_devices;
	const uint16_t *device; /* ascending */
	int64_t bytes;          /* rounded up to 64 */
	uint64_t set;           /* hash of the devices: equal sets can share a bucket */
};

/* One operator under one config. */
struct ff_node_block {
	uint32_t n_parts;
	const uint16_t *device;      /* by part */
	const struct ff_region *out; /* by part */
	const struct ff_region **in; /* by slot, by part */
	bool out_disjoint;           /* no two parts write the same element (no R split) */
	uint32_t n_groups;
	const struct ff_weight_group *group;
	const uint32_t *weight_group; /* [part * FF_MAX_WEIGHTS + w]: group, or FF_NONE */
};
/* c->device must outlive the block. */
int ff_node_block_build(const struct ff_graph *g, uint32_t node, const struct ff_config *c,
		struct ff_arena *a, struct ff_node_block *ret, struct ff_error *err);

/* One end of a redistribution: regions of one tensor on devices. */
struct ff_side {
	uint32_t n;
	const struct ff_region *region; /* empty ones take no part */
	const uint16_t *device;         /* all different */
	bool disjoint;                  /* known that no two regions overlap */
};

/* How sinks come to hold the sum of the sources that cover them. */
struct ff_redistribution {
	uint32_t n_moves;
	const struct ff_move *move;
	const uint32_t *alias; /* by sink: the source whose shard it simply is, or FF_NONE */
};

/* `first`: sinks hold nothing yet, may be aliased, and are zeroed where no
 * source covers them; otherwise everything is added to them.  `scratch` is
 * rewound to where it was. */
int ff_redistribute(const struct ff_side *source, const struct ff_side *sink, bool first,
		struct ff_arena *a, struct ff_arena *scratch, struct ff_redistribution *ret,
		struct ff_error *err);

/* One use of a tensor between two configs. */
struct ff_edge_block {
	struct ff_redistribution forward;  /* producer's outputs -> consumer's inputs */
	struct ff_redistribution backward; /* consumer's input gradients -> producer's
					    * output gradients; n_moves 0 and alias NULL
					    * where no gradient is needed */
};
/* `first_use`: this edge is the first of its tensor that backward reaches.
 * `producer` is NULL for data-set inputs, whose sinks are loaded. */
int ff_edge_block_build(const struct ff_graph *g, uint32_t edge, bool first_use,
		const struct ff_node_block *producer, const struct ff_node_block *consumer,
		struct ff_arena *a, struct ff_arena *scratch, struct ff_edge_block *ret,
		struct ff_error *err);

/* Whether backward visits `edge` before all other uses of its tensor, when the
 * forward pass issues nodes at `position[node]`. */
bool ff_edge_is_first_use(const struct ff_graph *g, const uint32_t *position, uint32_t edge);

/* Lanes that a transfer among `device` (ascending) holds: their communication
 * lanes, shared links inside nodes, network cards when it crosses nodes.
 * `lane` has room for 3 * n_devices.  Returns how many. */
uint32_t ff_transfer_lanes(const struct ff_machine *m, uint32_t n_devices, const uint16_t *device,
		uint32_t *lane);

/* Weight groups gathered into buckets, walking the nodes backward. */
struct ff_bucket_member {
	uint32_t node, group, bucket, next; /* next member of the bucket, or FF_NONE */
	int64_t offset;
};
struct ff_bucket_build {
	uint32_t n_devices;
	const uint16_t *device;
	uint64_t set;
	uint32_t first, last; /* members */
	uint32_t close;       /* node after whose backward the gradients are complete */
	uint32_t next_at;     /* next bucket that closes at the same node, or FF_NONE */
	int64_t bytes;
	bool open;
};
struct ff_bucketing {
	uint32_t n_buckets, n_members;
	struct ff_bucket_build *bucket; /* room for one a member */
	struct ff_bucket_member *member;
	uint32_t *first_at; /* by node: first bucket that closes there, or FF_NONE */
};
/* Room for `max_members` weight groups. */
int ff_bucketing_create(uint32_t n_nodes, uint32_t max_members, struct ff_arena *a,
		struct ff_bucketing *ret, struct ff_error *err);
/* `order` are the nodes in issue order, `block` by node (NULL for sources). */
void ff_bucketing_build(struct ff_bucketing *b, uint32_t n_nodes, const uint32_t *order,
		const struct ff_node_block *const *block, int64_t bucket_bytes);
#define FF_BUCKET_BYTES ((int64_t)25 << 20) /* as PyTorch's DistributedDataParallel */

static inline int64_t ff_align64(int64_t bytes)
{
	return (bytes + 63) & ~(int64_t)63;
}

#endif
