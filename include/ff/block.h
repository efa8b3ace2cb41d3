/* Blocks: the memoisable pieces of a schedule.  A node block depends only on one operator's config,
 * an edge block only on the configs at its two ends.  So a search keeps all blocks and replaces
 * those that a proposal touches.  ff_lower and the evaluator use the same blocks.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_BLOCK_H
#define FF_BLOCK_H

#include "ff/move_lanes.h"
#include "ff/program.h"
#include "ff/redistribution.h"
#include "ff/schedule.h"

/* A cell of a parameter's placement at a reader: elements that several devices hold alike.  Each
 * replica of the reader has a group of its own. */
struct ff_weight_group {
	uint32_t slot; /* the reader's; FF_NONE: the parameter's node, replicas together */
	uint32_t cell, replica, replicas;
	uint16_t n_devices, first;
	int64_t bytes;          /* rounded up to 64 */
	int64_t sparse_rows;    /* rows of a sparse gradient; 0: it is dense */
	const uint16_t *device; /* ascending; device[0] is `first` */
	const uint16_t *part;   /* the reader's part on each */
	bool in_line;           /* part[k] is part[0] + k */
	uint64_t set;           /* hash of all replicas' devices; equal sets may share a bucket */
	struct ff_region region;
};

/* Parts that carry state to each other run in turns: forward in this order, backward in reverse. */
struct ff_turns {
	uint32_t n;           /* 1: all parts run at once */
	const uint16_t *of;   /* by part: its turn; NULL: all run at once */
	const uint16_t *part; /* all parts, by turn */
};

/* One operator under one config. */
struct ff_node_block {
	uint32_t n_parts;
	struct ff_turns turns;
	const uint16_t *device;              /* by part */
	const struct ff_placement *in, *out; /* by slot, by output */
	const uint64_t *key; /* by slot: equal if the same parts on the same devices read the same
			      * elements */
	uint32_t n_groups;
	/* Of all its parameters, by slot and cell; of a parameter's node: its own cells. */
	const struct ff_weight_group *group;
	uint32_t first_param;     /* the first slot of `group_at` */
	const uint32_t *group_at; /* by slot of parameters: its first group; the last entry is
				     n_groups */
};
/* Builds a node's block from given placements: of its inputs, then of its outputs. */
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
/* `c` must have parts (a parameter's is resolved); its list must outlive the block. */
int ff_node_block_build(const struct ff_graph *g, uint32_t node, const struct ff_config *c,
		struct ff_arena *a, struct ff_node_block *ret, struct ff_error *err);

/* A graph whose nodes have blocks; those of inputs may be NULL. */
struct ff_block_graph {
	const struct ff_graph *g;
	const uint32_t *position; /* by node: its place in issue order; NULL: not needed */
	const struct ff_node_block *const *block; /* by node */
};

/* The redistributions of one use of a value. */
struct ff_edge_block {
	struct ff_redistribution forward;  /* producer's outputs -> consumer's inputs */
	struct ff_redistribution backward; /* consumer's input gradients -> producer's
					    * output gradients; n_moves 0 and alias NULL
					    * where no gradient is needed */
};
/* The turn of `part` in `pass`. */
static inline uint32_t ff_turn_of(const struct ff_node_block *b, enum ff_pass pass, uint32_t part)
{
	uint32_t turn = b->turns.of ? b->turns.of[part] : 0;

	return pass == FF_FORWARD ? turn : b->turns.n - 1 - turn;
}
/* The part that runs at place `i` in `pass`. */
static inline uint32_t ff_turn_part(const struct ff_node_block *b, enum ff_pass pass, uint32_t i)
{
	if (!b->turns.part)
		return i;
	return b->turns.part[pass == FF_FORWARD ? i : b->n_parts - 1 - i];
}
struct ff_edge_builder {
	const struct ff_graph *g;
	const struct ff_codec *codec; /* compresses gradients of parameters; or NULL */
	struct ff_redistributor move;
};
/* An edge and the blocks of its two ends. */
struct ff_edge_cut {
	uint32_t edge;
	bool first_use; /* its backward moves are the first for the gradient of its value */
	const struct ff_node_block *producer; /* NULL: an input, loaded from the data set */
	const struct ff_node_block *consumer;
};
/* Moves of carried values stand in the order of the turns that read them. */
int ff_edge_block_build(const struct ff_edge_builder *b, const struct ff_edge_cut *cut,
		struct ff_edge_block *ret, struct ff_error *err);
/* Builds only the redistribution of pass `pass`. */
int ff_edge_block_build_pass(const struct ff_edge_builder *b, const struct ff_edge_cut *cut,
		enum ff_pass pass, struct ff_redistribution *ret, struct ff_error *err);

/* Whether backward visits `edge` before all other uses of its value, when the
 * forward pass issues nodes at `position[node]`. */
bool ff_edge_is_first_use(const struct ff_graph *g, const uint32_t *position, uint32_t edge);

/* Whether backward visits `edge` after all other uses of its value. */
bool ff_edge_completes(const struct ff_graph *g, const uint32_t *position, uint32_t edge);

#endif
