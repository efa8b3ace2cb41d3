/* The chain of parts that every strategy must run one after another.
 * SPDX-License-Identifier: Apache-2.0 */
#include "longest.h"

#include <math.h>

#include "ff/backward.h"

struct longest {
	struct ff_kinds *kinds;
	const struct ff_graph *graph; /* of one micro-batch */
	double *chain_us;   /* by node: earliest that the chain of any of its parts is through */
	double *forward_us; /* and that forward alone is */
};

/* ---- the chain ---- */

/* When what `us` tells of its producers is done: a part waits for some part of every
 * producer whose output it reads.  What is carried it may have none of. */
static double before_us(const struct longest *b, const struct ff_node *n, const struct ff_reads *r,
		const double *us)
{
	double at = 0;

	for (uint32_t i = 0; i < n->n_data - n->n_carried; i++)
		if (r->input[i / 64] >> i % 64 & 1)
			at = fmax(at, us[ff_edge_source(b->graph, n->in + i)]);
	return at;
}

/* Whether the backward of what `node` reads waits for it: not where it gives that no gradient.  A
 * prelude gives none either, but the node behind it does. */
static bool is_waited_for(const struct ff_graph *g, uint32_t node)
{
	return ff_node_needs_grad(g, node) || ff_node_is_prelude(g, node);
}

/* Finds the shortest chain that ends with a part of `node`, and what the longest of
 * those that end with any part takes at least. */
static void chain_of(struct longest *b, uint32_t node, const struct ff_kind *kind, double *last_us)
{
	const struct ff_node *n = &b->graph->nodes[node];
	const double *before = is_waited_for(b->graph, node) ? b->chain_us : b->forward_us;
	double first_us = INFINITY, forward_us = INFINITY, most_us = 0;

	*last_us = INFINITY;
	for (uint32_t i = kind->reads; i < kind->reads + kind->n_reads; i++) {
		const struct ff_reads *r = &b->kinds->reads[i];
		double us = before_us(b, n, r, before);

		first_us = fmin(first_us, us + r->first_us);
		*last_us = fmin(*last_us, us + r->last_us);
		forward_us = fmin(forward_us, before_us(b, n, r, b->forward_us) + r->forward_us);
	}
	for (uint32_t i = kind->mixed; i < kind->mixed + kind->n_mixed; i++) {
		const struct ff_mixed *m = &b->kinds->mixed[i];

		most_us = fmax(most_us,
				before_us(b, n, &b->kinds->reads[m->reads], before) + m->us);
		if (m->ends) {
			*last_us = fmin(*last_us, most_us);
			most_us = 0;
		}
	}
	b->chain_us[node] = first_us;
	b->forward_us[node] = forward_us;
}

/* The longest of all chains. */
static int chains_us(struct longest *b, double *us, struct ff_error *err)
{
	int code = FF_OK;

	*us = 0;
	for (uint32_t i = 0; i < b->graph->n_nodes && code == FF_OK; i++) {
		struct ff_kind kind;
		double last_us;

		if (!ff_node_is_computed(b->graph, i))
			continue;
		code = ff_kinds_find(b->kinds, i, &kind, err);
		if (code == FF_OK && b->kinds->stopped)
			break;
		if (code == FF_OK) {
			chain_of(b, i, &kind, &last_us);
			*us = fmax(*us, last_us);
		}
	}
	return code;
}

static int create(struct longest *b, struct ff_arena *a, struct ff_error *err)
{
	b->chain_us = ff_arena_array(a, b->graph->n_nodes, sizeof(*b->chain_us));
	b->forward_us = ff_arena_array(a, b->graph->n_nodes, sizeof(*b->forward_us));
	return b->chain_us && b->forward_us ? FF_OK : ff_fail_memory(err);
}

int ff_longest_us(struct ff_kinds *k, struct ff_arena *a, double *us, struct ff_error *err)
{
	struct longest b = {.kinds = k, .graph = k->graph};
	int code = create(&b, a, err);

	return code == FF_OK ? chains_us(&b, us, err) : code;
}
