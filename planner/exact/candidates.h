/* The additive costs' inside: candidates and what they cost.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_CANDIDATES_H
#define FF_PLANNER_CANDIDATES_H

#include "eliminate.h"
#include "ff/bucketing.h"
#include "ff/price.h"
#include "space/space.h"

/* One config of a class of operators. */
struct ff_candidate {
	struct ff_config config;
	struct ff_node_block block;
	double compute_us, sync_us, bytes;
	uint32_t draft;    /* its number */
	uint16_t *part_on; /* by device: its part + 1, or 0 */
};
struct ff_kind {
	uint32_t node; /* the first of its class */
	uint32_t n;
	struct ff_candidate *candidate;
};
/* An edge between two classes: by candidate of the producer, then of the consumer. */
struct ff_link_table {
	uint32_t from, to, port, slot; /* classes */
	double *us, *bytes;
	double *sum;   /* of both, while a sum is solved */
	bool *priced;  /* us is no estimate */
	uint32_t edge; /* one of its kind */
};
/* A link of the graph's: which tables hold between which variables. */
struct ff_link_use {
	uint32_t a, b, link;
};

struct ff_additive {
	const struct ff_space *space;
	const struct ff_graph *g;
	const struct ff_machine *m;
	struct ff_pricer *p;
	bool (*stop)(void *ctx);
	void *ctx;
	bool stopped;
	struct ff_arena arena, scratch, inner, drafts;
	uint32_t *class, *position;
	struct ff_kind **kind;         /* by node: its class's */
	uint32_t *variable, *first_of; /* by node; by variable: its first node */
	uint32_t *members;             /* by variable */
	uint32_t n_vars;
	struct ff_link_table *link;
	struct ff_link_use *use;
	struct ff_table links;
	uint32_t n_uses;
	double inside_bytes_per_us, inside_latency_us; /* of what is in the node, about; */
	double link_bytes_per_us, latency_us;          /* of what is not */
	int64_t bucket_bytes; /* of weights that are synchronised together */
	double *lane_us;      /* scratch, by lane */
	uint32_t *lane;
};

/* Drafts all candidates of the class that begins with `node`, with what they compute,
 * the least first. */
int ff_additive_add_kind(struct ff_additive *a, uint32_t node, struct ff_error *err);
/* Prices the rest of those that compute at most `slack_us` longer than the cheapest
 * costs, and keeps the `most` cheapest, in order. */
int ff_additive_price_kind(struct ff_additive *a, struct ff_kind *k, double slack_us, uint32_t most,
		struct ff_error *err);
/* What moving the shards of an edge takes, both ways, and what it brings to be
 * stored.  `from` is NULL for the data set. */
int ff_additive_price_edge(struct ff_additive *a, uint32_t edge, const struct ff_node_block *from,
		const struct ff_node_block *to, double *us, double *bytes, struct ff_error *err);
/* Roughly what an edge takes: what some device lacks crosses a link. */
double ff_additive_estimate(const struct ff_additive *a, const struct ff_link_table *l,
		const struct ff_candidate *from, const struct ff_candidate *to);

#endif
