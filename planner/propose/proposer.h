/* What proposals are made of: transactions, and configs of one operator.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PROPOSER_H
#define FF_PLANNER_PROPOSER_H

#include "ff/evaluate.h"
#include "space/space.h"

/* Operators changed together, each at most once.  What the evaluator is asked
 * about; kept or dropped as a whole. */
struct ff_transaction {
	struct ff_change *change;
	uint32_t n;
	uint32_t *at; /* by node: number of its change + 1; 0: unchanged */
};
int ff_transaction_init(const struct ff_graph *g, struct ff_arena *a, struct ff_transaction *ret,
		struct ff_error *err);
void ff_transaction_clear(struct ff_transaction *t);
/* A node that is changed already gets `c` instead.  What it has now, in the transaction. */
struct ff_config *ff_transaction_set(
		struct ff_transaction *t, uint32_t node, const struct ff_config *c);

/* What became of the proposals of one kind. */
struct ff_kind_record {
	double made, helped; /* those long ago count less */
};
/* How often one of it helped: what its next draws are weighed by. */
double ff_kind_helps(const struct ff_kind_record *r);
void ff_kind_learn(struct ff_kind_record *r, bool helped);
#define FF_PRESET_EVERY 4 /* one draw in so many is by preset weight, so that none is given up */
#define FF_PROPOSAL_KINDS 15
#define FF_PROPOSAL_ORDER 14 /* the kind that changes nobody's config but when all are issued */

/* What else a proposal changes alike: nothing, the next blocks of those that are repeated, or all.
 */
enum ff_reach { FF_REACH_ONE, FF_REACH_SOME, FF_REACH_ALL, FF_REACHES };

struct ff_proposer {
	const struct ff_space *space;
	const struct ff_graph *graph;
	uint32_t *all, n_all;        /* those with a choice */
	uint32_t *node, n_nodes;     /* some of them in a row: who else is left as it is */
	uint32_t *fork, n_forks;     /* whose outputs several nodes read, until `join` */
	uint32_t *join;              /* by node: where all ways from it meet; FF_NONE: nowhere */
	uint32_t between;            /* nodes between forks and their joins, a node for each */
	uint32_t *class;             /* by node: the first one equal to it */
	uint32_t *next_like;         /* by node: the next equal one, or FF_NONE */
	uint32_t *next_layer;        /* by node: who is in its place of the next block, after the
				      * last the first; FF_NONE: it is in none */
	uint32_t n_layers;           /* blocks that are repeated; 0: none are */
	uint32_t *chain_dim;         /* by node: what devices that share a chain of products split;
				      * FF_NONE: nothing; NULL: there are no chains */
	uint32_t *reader, n_readers; /* those with parameters */
	int64_t *reader_bytes;       /* by reader: of its parameters */
	struct ff_proposer_heavy {
		uint32_t *group, n; /* by node: its group, that of the most parameters for each
				     * operation first; FF_NONE: none */
	} heavy;
	struct ff_proposer_stack {
		uint32_t *node;        /* scratch: n_nodes; */
		uint32_t *seen, stamp; /* by node: the stamp of when it was put there */
	} stack;
	struct ff_transaction *t;       /* the one in the making */
	const struct ff_strategy *base; /* what it changes */
	struct ff_kind_record record[FF_PROPOSAL_KINDS];
	struct ff_kind_record reached[FF_REACHES];
	uint32_t kind; /* of the last proposal */
	enum ff_reach reach;
	const struct ff_machine_node *alone; /* all operators may be put on it at once */
	bool orders; /* another order may be proposed; at first it may not */
	bool scarce; /* memory is, and fewer orders are proposed */
	struct ff_random random;
};

/* The config that `node` has under the transaction in the making. */
const struct ff_config *ff_proposer_config(const struct ff_proposer *p, uint32_t node);
/* One operator: a config of the space for `node`, other than it has.
 *
 * Three of eight are drawn from the space, whatever the current strategy.  A quarter
 * aligns the node with a neighbour: the axes of the tensor between them are split
 * alike and on the same devices, so that nothing has to move.  A quarter varies the
 * node's own config: the same degrees on another view, or a factor of two moved
 * between dims on the same devices.  An eighth takes its degrees to where another operator with as
 * many parts is.  The last three are not symmetric and their
 * asymmetry is not corrected for: this chain looks for a minimum and does not
 * sample a distribution. */
void ff_proposer_one(struct ff_proposer *p, uint32_t node, struct ff_config *ret);
/* One that `node` shares a value with, at random; false when there is none. */
bool ff_proposer_neighbour(struct ff_proposer *p, uint32_t node, uint32_t *ret);
/* A neighbour of `from` and the config that aligns it with `from`; false when
 * chance picked one that has none.  It may be the neighbour's own already. */
bool ff_proposer_spread(
		struct ff_proposer *p, uint32_t from, uint32_t *node, struct ff_config *config);
/* Aligns `node` with the one that makes its data input `slot`. */
bool ff_proposer_follow(struct ff_proposer *p, uint32_t node, uint32_t slot, struct ff_config *ret);
/* Aligns the node that makes what is at `edge` with the one that reads it there. */
bool ff_proposer_lead(struct ff_proposer *p, uint32_t edge, struct ff_config *ret);

/* `n` devices, `step` apart. */
struct ff_progression {
	uint32_t start, step, n;
};

/* Devices of a config on a view; of a list, its first and so many behind it. */
struct ff_progression ff_config_progression(const struct ff_node *n, const struct ff_config *c);

#endif
