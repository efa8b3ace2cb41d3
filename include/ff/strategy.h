/* Strategies: how each operator is split and where its parts run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRATEGY_H
#define FF_STRATEGY_H

#include "ff/config.h"
#include "ff/machine.h"
#include "ff/travel.h"

#define FF_MOST_CHUNKS 64 /* stages on the same devices */
#define FF_MOST_TICKS 16  /* length of a pass */
#define FF_MOST_BUCKET_BYTES ((int64_t)1 << 40)

/* Pipeline schedules: the order in which a device takes the passes of micro-batches. */
enum ff_order_rule {
	FF_ORDER_GPIPE,       /* all forward, then all backward (Huang et al., NeurIPS 2019) */
	FF_ORDER_1F1B,        /* one forward, one backward once the pipeline is full: fewer live
			       * activations (Narayanan et al., PipeDream, SOSP 2019) */
	FF_ORDER_INTERLEAVED, /* 1F1B with `chunks` stages a device: shorter bubbles (Narayanan et
			       * al., Megatron-LM, SC 2021) */
	FF_ORDER_ZB_H1,       /* 1F1B with backward split: gradients of parameters are computed
			       * where a device would idle (Qi et al., ICLR 2024) */
	FF_ORDER_ZB_V,        /* backward split, and device i of p holds stages i and 2 p - 1 - i
			       * (Qi et al., ICLR 2024) */
	FF_ORDER_COUNT
};
struct ff_order_row {
	const char *name; /* in strategy files */
	uint32_t chunks;  /* stages a device; 0: the strategy's `chunks` */
	bool halves;      /* backward is split: gradients of parameters apart from those of data */
};
/* Passes of a micro-batch through a stage; the last only where backward is split. */
enum ff_stage_pass { FF_STAGE_FORWARD, FF_STAGE_BACKWARD, FF_STAGE_WEIGHTS, FF_STAGE_PASSES };
const struct ff_order_row *ff_order_row(enum ff_order_rule rule);
static inline const char *ff_order_name(enum ff_order_rule rule)
{
	return ff_order_row(rule)->name;
}
/* Whether there is one of that name. */
bool ff_order_find(const char *name, enum ff_order_rule *ret);

/* With several micro-batches configs cut the graph of one of them (ff_graph_micro). */
struct ff_strategy {
	uint32_t n_nodes;
	uint32_t micro_batches; /* at least 1 */
	enum ff_order_rule rule;
	uint32_t chunks; /* FF_ORDER_INTERLEAVED: stages a device, at least 1 */
	/* Relative lengths of the passes, by which the order of passes is made; all 0: the preset
	 * of the rule. */
	uint8_t ticks[FF_STAGE_PASSES];
	int64_t bucket_bytes;     /* size of gradient buckets; 0: ff_bucket_bytes */
	bool scatter;             /* ZeRO-2: gradients of flat buckets are reduce-scattered in every
				   * micro-batch, and a device keeps those of its run only */
	uint32_t shards;          /* devices that share a flat update: each group of so many holds
				   * all weights (hybrid sharding); 0: all devices of a bucket */
	struct ff_config *config; /* by node */
	int32_t *priority;        /* by node; among ready nodes the larger is issued first */
	uint16_t *stage;          /* by node: its pipeline stage, never falling along an edge */
	bool *recompute; /* by node: its values are dropped after forward and recomputed for
			  * backward; a parameter's are gathered again */
};

/* The stage of a node; a prelude's is its leader's. */
static inline uint32_t ff_strategy_stage(
		const struct ff_graph *g, const struct ff_strategy *s, uint32_t node)
{
	return s->stage[ff_node_leader(g, node)];
}
/* Whether it is recomputed; a prelude is with its leader. */
static inline bool ff_strategy_recomputes(
		const struct ff_graph *g, const struct ff_strategy *s, uint32_t node)
{
	return s->recompute[ff_node_leader(g, node)];
}

/* How many stages there are; 1: no pipeline. */
static inline uint32_t ff_strategy_stages(const struct ff_graph *g, const struct ff_strategy *s)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i) && s->stage[i] >= n)
			n = s->stage[i] + 1u;
	return n;
}
/* Stages a device. */
static inline uint32_t ff_strategy_chunks(const struct ff_strategy *s)
{
	uint32_t chunks = ff_order_row(s->rule)->chunks;

	return chunks ? chunks : s->chunks;
}

/* A strategy with room for every node and nothing decided. */
int ff_strategy_create(const struct ff_graph *g, struct ff_arena *a, struct ff_strategy *ret,
		struct ff_error *err);
/* Every operator on one device. */
int ff_strategy_single(const struct ff_graph *g, uint32_t device, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);
/* Every operator split by sample over the first `n_devices` (or as many as it
 * has samples); those without a sample dim on device 0. */
int ff_strategy_data_parallel(const struct ff_graph *g, uint32_t n_devices, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err);
/* Copies everything from `s` to `ret`, made for the same graph.  Lists are shared. */
void ff_strategy_copy(struct ff_strategy *ret, const struct ff_strategy *s);
/* Clears `recompute` of parameters without a config of their own: they are never gathered, and
 * strategy files do not have the field for them.  Returns whether any was set. */
bool ff_strategy_settle(const struct ff_graph *g, struct ff_strategy *s);
/* FF_E_INPUT with a sentence unless every operator has a config that is legal on `n_devices`
 * devices, and stages never fall along an edge.  `g`: the graph of one micro-batch. */
int ff_strategy_check(const struct ff_graph *g, const struct ff_strategy *s, uint32_t n_devices,
		struct ff_error *err);

/* Rewrites `g` as the strategy file with root `root` says (ff/rewrite.h); a graph that is already
 * rewritten is left alone. */
int ff_strategy_rewrite(const struct ff_json *root, struct ff_arena *a, struct ff_graph *g,
		struct ff_error *err);

/* Nodes in issue order: inputs and parameters first, then all others stage by stage in topological
 * order; among nodes that are ready, the larger priority first, then graph order.  `order` has room
 * for g->n_nodes. */
int ff_strategy_order(const struct ff_graph *g, const struct ff_strategy *s,
		struct ff_arena *scratch, uint32_t *order, struct ff_error *err);

#endif
