/* Chains: parts that wait for each other whatever the degrees.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_CHAIN_H
#define FF_CHECK_CHAIN_H

#include "ff/graph.h"

/* How an operator of a chain counts: by the part that has its element, or in sections otherwise
 * (section.h). */
enum ff_chain_part {
	FF_CHAIN_FIRST,  /* the first part of all: its element is the first of every dim */
	FF_CHAIN_PLACED, /* the cheapest of those that are the first along all places */
	FF_CHAIN_ANY,    /* the cheapest of all */
	FF_CHAIN_WIDE,   /* forward the cheapest of the first along all places, backward likewise */
	FF_CHAIN_OPEN,   /* forward all parts of some channels, backward all, on average */
	FF_CHAIN_ALL     /* all parts, on average */
};

struct ff_section {
	uint32_t first, last; /* places in the chain */
	uint32_t n, *node;    /* all that is computed from the one to the other */
};

/* Operators of which each reads what the one before writes, and brings its gradient back.  Of each
 * some element can be named such that the part with one waits for the part with the one before,
 * forward, and the other way round backward: one after another all of these parts run, both passes,
 * in one micro-batch. */
struct ff_chain {
	uint32_t n;
	uint32_t *node;
	uint32_t *edge;            /* to each from the one before */
	enum ff_chain_part *named; /* by place: what is known of the part that has its element */
	uint32_t n_sections;
	struct ff_section *section;
	enum ff_chain_part *part; /* by place, with sections; NULL: as they are named */
	double weight;
};

/* Whether backward brings a gradient from `node` to what it reads at `edge`, and so waits. */
bool ff_chain_may_pass(const struct ff_graph *g, uint32_t edge);
/* Names the elements; false: there are none, and it is no chain.  Sets c->named and c->edge.
 * `box` has room for c->n. */
bool ff_chain_trace(const struct ff_graph *g, struct ff_chain *c, struct ff_region *box);

#endif
