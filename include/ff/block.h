/* Blocks: the pieces a schedule is put together from.  A node block depends on
 * one operator's config, an edge block on the configs at its two ends, and on
 * nothing else; so a search keeps them and replaces only what a proposal
 * touches.  ff_lower and the evaluator build schedules from the same blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BLOCK_H
#define FF_BLOCK_H

#include "ff/move_lanes.h"
#include "ff/program.h"
#include "ff/redistribution.h"
#include "ff/schedule.h"

/* Elements of a parameter that lie on some devices alike: one cell of its
 * placement at a reader, for each replica of that. */
struct ff_weight_group {
	uint32_t slot; /* the reader's; FF_NONE: the parameter's node, replicas together */
	uint32_t cell, replica, replicas;
	uint16_t n_devices, first;
	int64_t bytes;          /* rounded up to 64 */
	int64_t sparse_rows;    /* of a table with a sparse gradient; 0: it is dense */
	const uint16_t *device; /* ascending; device[0] is `first` */
	const uint16_t *part;   /* the reader's part on each */
	bool in_line;           /* number k is part[0] + k */
	uint64_t set;           /* hash of all replicas' devices: equal sets can share a bucket */
	struct ff_region region;
};

/* Parts between which something is carried run in turn, forward in this order and backward in the
 * other. */
struct ff_turns {
	uint32_t n;           /* 1: all at once */
	const uint16_t *of;   /* by part: its turn; NULL where all run at once */
	const uint16_t *part; /* those of a turn stand together */
};

/* One operator under one config. */
struct ff_node_block {
	uint32_t n_parts;
	struct ff_turns turns;
	const uint16_t *device;              /* by part */
	const struct ff_placement *in, *out; /* by slot, by output */
	const uint64_t *key; /* by slot: equal keys, equal elements in equal parts on equal devices
			      */
	uint32_t n_groups;
	/* of all its parameters, by slot and cell; of a parameter's node: its own cells */
	const struct ff_weight_group *group;
	uint32_t first_param;     /* the slot that `group_at` begins with */
	const uint32_t *group_at; /* by slot of parameters: its first; then one behind all */
};
/* A node's block from placements that are there: of its inputs, then of its outputs. */
int ff_node_block_place(const struct ff_node *n, const struct ff_config *c,
		const struct ff_placement *place, struct ff_arena *a, struct ff_node_block *ret,
		struct ff_error *err);
/* The groups of input `slot`, or those of a parameter's node itself (FF_NONE). */
static inline const struct ff_weight_group *ff_node_block_groups(
		const struct ff_node_block *b, uint32_t slot, uint32_t *n)
{
	uint32_t i = slot == FF_NONE ? 0 : slot - b->first_param;

	*n = b->group_at[i + 1] - b->group_at[i];
	return b->group + b->group_at[i];
}
/* `c` has parts: a parameter's is resolved.  What `c` lists must outlive the block. */
int ff_node_block_build(const struct ff_graph *g, uint32_t node, const struct ff_config *c,
		struct ff_arena *a, struct ff_node_block *ret, struct ff_error *err);

/* A graph whose nodes have blocks; those of inputs may be NULL. */
struct ff_block_graph {
	const struct ff_graph *g;
	const uint32_t *position; /* by node, as forward issues them; NULL: it does not matter */
	const struct ff_node_block *const *block; /* by node */
};

/* One use of a value between two configs. */
struct ff_edge_block {
	struct ff_redistribution forward;  /* producer's outputs -> consumer's inputs */
	struct ff_redistribution backward; /* consumer's input gradients -> producer's
					    * output gradients; n_moves 0 and alias NULL
					    * where no gradient is needed */
};
/* The turn of `part`, and the part number `i` in turn. */
static inline uint32_t ff_turn_of(const struct ff_node_block *b, enum ff_pass pass, uint32_t part)
{
	uint32_t turn = b->turns.of ? b->turns.of[part] : 0;

	return pass == FF_FORWARD ? turn : b->turns.n - 1 - turn;
}
static inline uint32_t ff_turn_part(const struct ff_node_block *b, enum ff_pass pass, uint32_t i)
{
	if (!b->turns.part)
		return i;
	return b->turns.part[pass == FF_FORWARD ? i : b->n_parts - 1 - i];
}
/* What edge blocks are built with. */
struct ff_edge_builder {
	const struct ff_graph *g;
	const struct ff_codec *codec; /* of parameters' gradients, or NULL: they go as they are */
	struct ff_redistributor move;
};
/* An edge, and how its two ends are cut. */
struct ff_edge_cut {
	uint32_t edge;
	bool first_use; /* of its value's gradient its moves are the first in backward */
	const struct ff_node_block *producer; /* NULL: an input of the data set, which is loaded */
	const struct ff_node_block *consumer;
};
/* Moves of what is carried stand in the order of the turns that they go to. */
int ff_edge_block_build(const struct ff_edge_builder *b, const struct ff_edge_cut *cut,
		struct ff_edge_block *ret, struct ff_error *err);
/* One of the two alone: what is moved in pass `pass`. */
int ff_edge_block_build_pass(const struct ff_edge_builder *b, const struct ff_edge_cut *cut,
		enum ff_pass pass, struct ff_redistribution *ret, struct ff_error *err);

/* Whether backward visits `edge` before all other uses of its value, when the
 * forward pass issues nodes at `position[node]`. */
bool ff_edge_is_first_use(const struct ff_graph *g, const uint32_t *position, uint32_t edge);

/* Whether backward visits `edge` after all other uses of its value. */
bool ff_edge_completes(const struct ff_graph *g, const uint32_t *position, uint32_t edge);

#endif
