/* Memo: blocks with their prices, one for each config of a node and each pair
 * of configs at an edge, built once.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_MEMO_H
#define FF_SIMULATOR_MEMO_H

#include "ff/block.h"
#include "ff/price.h"

/* One operator under one config. */
struct ff_memo_node {
	uint64_t hash;
	uint32_t id, node;
	struct ff_config config; /* its own copy */
	struct ff_node_block block;
	double *us[2];         /* by pass, by part */
	int64_t *weight_bytes; /* by part: weights, gradients, momentum */
	int64_t *bytes;        /* by part: all else it may hold */
};

/* One redistribution task, ready to be timed. */
struct ff_memo_move {
	double us;
	const struct ff_move *move;
	uint32_t n_lanes;
	const uint32_t *lane;
};

/* One edge between two configs. */
struct ff_memo_edge {
	uint64_t hash;
	uint32_t edge, from, to; /* ids of the memo nodes; `from` FF_NONE for sources */
	struct ff_edge_block block;
	struct ff_memo_move *move[2]; /* by pass */
	struct ff_memo_bytes {
		uint16_t device;
		int64_t bytes;
	} * bytes; /* shards and stages it may hold, by device */
	uint32_t n_bytes;
};

struct ff_memo {
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *p;
	const bool *first_use; /* by edge; the memo is for one issue order */
	struct ff_arena arena, scratch;
	void **node, **edge; /* open addressing; caps are powers of two */
	uint32_t n_nodes, node_cap, n_edges, edge_cap;
};

int ff_memo_init(struct ff_memo *t, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, const bool *first_use, struct ff_error *err);
void ff_memo_finish(struct ff_memo *t);
/* Forgets everything; pointers handed out die. */
void ff_memo_clear(struct ff_memo *t);

int ff_memo_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		const struct ff_memo_node **ret, struct ff_error *err);
/* `from` is NULL for edges from the data set. */
int ff_memo_edge(struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to, const struct ff_memo_edge **ret,
		struct ff_error *err);

#endif
