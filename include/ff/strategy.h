/* Strategies: how each operator is split and where its parts run.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRATEGY_H
#define FF_STRATEGY_H

#include "ff/config.h"
#include "ff/machine.h"
#include "ff/travel.h"

#define FF_MOST_CHUNKS 64 /* stages that the same devices hold */
#define FF_MOST_TICKS 16  /* of a pass */
#define FF_MOST_BUCKET_BYTES ((int64_t)1 << 40)

/* In which order a device takes micro-batches where operators stand in stages. */
enum ff_order_rule {
	FF_ORDER_GPIPE,       /* all forward, then all backward (Huang et al., NeurIPS 2019) */
	FF_ORDER_1F1B,        /* in turn, as soon as the pipeline is full: fewer live at once
			       * (Narayanan et al., PipeDream, SOSP 2019) */
	FF_ORDER_INTERLEAVED, /* 1F1B where devices hold several stages in turn, `chunks`:
			       * shorter bubbles (Narayanan et al., Megatron-LM, SC 2021) */
	FF_ORDER_ZB_H1,       /* as 1F1B, but gradients of parameters are made apart, where a
			       * device would wait (Qi et al., ICLR 2024) */
	FF_ORDER_ZB_V,        /* gradients of parameters apart, and the i-th of p devices holds
			       * stages i and 2 p - 1 - i: a V (Qi et al., ICLR 2024) */
	FF_ORDER_COUNT
};
struct ff_order_row {
	const char *name; /* in strategy files */
	uint32_t chunks;  /* stages that a device holds; 0: as many as the strategy says */
	bool halves;      /* gradients of parameters are made apart from those of data */
};
/* Passes of a micro-batch through a stage.  In the last gradients of parameters are made, where
 * they are made apart. */
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
	uint32_t chunks; /* FF_ORDER_INTERLEAVED: stages that a device holds; at least 1 */
	/* What passes are taken to last, to say which comes first; all 0: as the order has it. */
	uint8_t ticks[FF_STAGE_PASSES];
	int64_t bucket_bytes;     /* of gradients that travel together; 0: ff_bucket_bytes */
	bool scatter;             /* of what is updated flat a device keeps the gradients of its run
				   * alone: they are reduce-scattered in every micro-batch */
	uint32_t shards;          /* that flat updates are cut in: groups of so many devices hold
				   * all of them each; 0: over all devices that read the same */
	struct ff_config *config; /* by node */
	int32_t *priority;        /* by node; among ready nodes the larger is issued first */
	uint16_t *stage;          /* by node: of the pipeline, ascending along every edge */
	bool *recompute;          /* by node: what it makes is dropped after forward and made
				   * again for backward; a parameter's: gathered again */
};

/* The stage of a node, and whether it is recomputed; a prelude has what the node behind it has. */
static inline uint32_t ff_strategy_stage(
		const struct ff_graph *g, const struct ff_strategy *s, uint32_t node)
{
	return s->stage[ff_node_leader(g, node)];
}
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
/* Stages that the same devices hold. */
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
/* Clears `recompute` of parameters without a config of their own: they are gathered nowhere, and
 * files do not have it.  Returns whether it was set of any. */
bool ff_strategy_settle(const struct ff_graph *g, struct ff_strategy *s);
/* Every config legal on `n_devices` devices, and none missing; stages ascend.  `g` is
 * the graph of one micro-batch. */
int ff_strategy_check(const struct ff_graph *g, const struct ff_strategy *s, uint32_t n_devices,
		struct ff_error *err);

/* Rewrites `g` as the strategy file with root `root` has it (ff/rewrite.h); one that is rewritten
 * already stays as it is. */
int ff_strategy_rewrite(const struct ff_json *root, struct ff_arena *a, struct ff_graph *g,
		struct ff_error *err);

/* Nodes in issue order: inputs and parameters, which are there from the start, then
 * topological, stage by stage, larger priority first among the ready, then graph order.  `order`
 * has room for g->n_nodes. */
int ff_strategy_order(const struct ff_graph *g, const struct ff_strategy *s,
		struct ff_arena *scratch, uint32_t *order, struct ff_error *err);

#endif
