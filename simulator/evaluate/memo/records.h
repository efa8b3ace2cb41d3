/* What the memo keeps: of operators, of redistributions, of buckets.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_RECORDS_H
#define FF_SIMULATOR_RECORDS_H

#include "buffers.h"
#include "ff/block.h"
#include "ff/hash.h"
#include "ff/price.h"

#define FF_MEMO_LINE 64 /* bytes of a cache line */

/* One class of operators under one degree vector. */
struct ff_memo_shape {
	uint32_t class;
	uint16_t degree[FF_MAX_DIMS], replicas;
	struct ff_placement *place; /* inputs, then outputs */
	double **us[2];             /* by pass, by kind of device, by part */
	int64_t *workspace[2];      /* by pass, by part */
	int64_t **out_bytes;        /* by output, by part: rounded up to 64 */
	int64_t **in_bytes;         /* by slot, by part */
	int64_t **din_bytes;        /* of their gradients */
	bool even;                  /* these are the same of all parts */
};

/* What the block of a node is known by: its class and its config, word by word.  Strides
 * that say nothing are as the config has them: searches write zeros, and another block of
 * the same view does no harm. */
struct ff_memo_key {
	uint64_t word[2 + FF_MAX_DIMS / 2];
};

/* One class of operators under one config.  What every proposal with it looks at lies here,
 * in two cache lines: there are many, far apart from each other. */
struct ff_memo_node {
	struct ff_memo_key key;
	double each_us[2];      /* by pass: of every part, where they are uniform */
	const double *us[2];    /* by pass, by part */
	const uint16_t *device; /* by part */
	const struct ff_node_block *block;
	struct ff_memo_rest *rest;
	uint32_t id, n_parts;
	uint16_t first;  /* the lowest device */
	bool is_row;     /* parts run on it and on those behind it, in some order, */
	bool in_line;    /* part p on device first + p */
	bool uniform[2]; /* by pass: all parts take equally long */
} __attribute__((aligned(FF_MEMO_LINE)));

/* Inputs of a node, as bits. */
struct ff_memo_inputs {
	uint64_t word[(FF_MAX_INPUTS + 63) / 64];
};

/* Backward that makes some gradients, and adds those of some inputs to what is there. */
struct ff_memo_adding {
	struct ff_memo_adding *next;
	enum ff_grads grads;
	struct ff_memo_inputs added;
	const double *us; /* by part */
	bool uniform;     /* all take equally long */
};

/* What is asked for seldom. */
struct ff_memo_rest {
	struct ff_config config; /* its own copy */
	struct ff_node_block block;
	const struct ff_memo_shape *shape;
	/* backward computed in two: of data, of parameters; NULL until someone asks */
	const double *half_us[2];
	bool half_uniform[2];          /* all parts take equally long */
	struct ff_memo_adding *adding; /* what was asked for so far */
	/* of a parameter: shards that lie on one device each */
	struct ff_memo_cell {
		int64_t bytes;
		uint16_t device, part;
	} * cell;
	uint32_t n_cells;
	bool shares; /* and there are others */
};

/* Lanes that follow each other. */
struct ff_lanes {
	uint32_t first, n;
};

/* One redistribution task, ready to be timed: what a pass reads of it lies in one
 * cache line. */
struct ff_memo_move {
	double us, beside_us; /* the latter: that its devices take longer for what they compute */
	uint16_t n_sources, n_sinks, first_source, first_sink;
	uint16_t n_lanes; /* runs of neighbours */
	/* the sources are first_source and the n_sources - 1 behind it, in some order */
	bool source_range, sink_range, accumulate;
	bool each; /* it stands for one move of each device: source and sink number i and lane i */
	uint16_t n_alike; /* so many from this one on take as long, each on the lanes and devices
			   * behind those of the one before */
	struct ff_lanes lane[2];     /* the first runs */
	const struct ff_lanes *more; /* the others */
	const struct ff_move *move;
};

/* One edge between two configs, and all like it.  What is moved is found when it is
 * asked for: many a proposal is given up before. */
struct ff_memo_edge {
	uint64_t ends, use;  /* ids of producer (FF_NONE for inputs) and consumer; port, slot and
			      * whether it is the first use */
	uint32_t n_moves[2]; /* by pass */
	struct ff_memo_move *move[2];
	struct ff_memo_moved *moved; /* by pass; NULL: none was asked for */
	const uint32_t *alias;       /* backward: of what is moved */
	bool first_use;
	bool built[2]; /* by pass */
	/* backward: the producer's parts are the consumer's, each its own; none is any's */
	bool all_alike, none_alike;
	bool stays[2]; /* by pass: each part has what the part of its number made, where it lies */
} __attribute__((aligned(FF_MEMO_LINE)));

/* A bucket of so many bytes on some devices: what its moves take, and the lanes that they hold. */
struct ff_memo_bucket {
	/* Of a flat one, weights gathered; synchronised, and then each device adds what earlier
	 * micro-batches have left; summed among groups. */
	struct ff_bucket_move {
		double us, beside_us; /* as of moves */
		uint32_t n_lanes;
		const struct ff_lanes *lane;
	} gather, sync[2], across;
	uint32_t n_devices;
	const uint16_t *device;
	int64_t bytes;
	uint32_t runs;
};

/* Whether most of a gradient leaves the devices where it is made. */
struct ff_memo_leaving {
	uint64_t ends, use; /* as of edges, in any order */
	bool leaves;
};

struct ff_memo {
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *p;
	const bool *first_use; /* by edge, in the issue order of the moment */
	bool has_workspace;    /* some kernel needs scratch */
	uint32_t *class;       /* by node: the first node equal to it */
	uint32_t period; /* nodes of a layer: as many behind there is an equal one; 0: no layers */
	uint32_t period_at; /* the first of those that have */
	struct ff_arena arena, scratch;
	struct ff_arena_mark empty;
	struct ff_table shapes, nodes, edges, buckets, leavings;
	struct ff_memo_shape **shape;
	struct ff_memo_node **node; /* FF_MEMO_ROW in a row */
	struct ff_memo_edge **edge; /* likewise */
	struct ff_memo_bucket **bucket;
	struct ff_memo_leaving *leaving;
	uint32_t cap[5];
};
#define FF_MEMO_ROW 64u

/* ---- among the memo's own files ---- */

enum { FF_MEMO_SHAPES, FF_MEMO_NODES, FF_MEMO_EDGES, FF_MEMO_BUCKETS, FF_MEMO_LEAVINGS };

static inline int ff_memo_put(struct ff_table *table, uint64_t hash, struct ff_error *err)
{
	return ff_table_put(table, hash, table->n) < 0 ? ff_fail_memory(err) : FF_OK;
}

/* Entries do not move once they are there, so they stand in rows. */
static inline void *ff_memo_new_row(struct ff_memo *t, size_t size)
{
	char *row = ff_arena_array(&t->arena, FF_MEMO_ROW + 1, size);

	return row ? row + -(uintptr_t)row % FF_MEMO_LINE : NULL;
}

#endif
