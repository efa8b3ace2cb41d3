/* Lower bound: no strategy of the space takes less time than this.  Two
 * arguments, shown in docs/simulator.md: the weighed sum of work and chains
 * (raise.h), and the chain of parts that every strategy must run one after
 * another.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "ff/backward.h"
#include "ff/micro.h"
#include "ff/search.h"
#include "raise.h"

struct bound {
	struct ff_kinds kinds;
	const struct ff_graph *graph; /* of one micro-batch */
	double *chain_us;   /* by node: earliest that the chain of any of its parts is through */
	double *forward_us; /* and that forward alone is */
};

/* ---- the chain ---- */

/* When what `us` tells of its producers is done: a part waits for some part of every
 * producer whose output it reads.  What is carried it may have none of. */
static double before_us(const struct bound *b, const struct ff_node *n, const struct ff_reads *r,
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
static void chain_of(struct bound *b, uint32_t node, const struct ff_kind *kind, double *last_us)
{
	const struct ff_node *n = &b->graph->nodes[node];
	const double *before = is_waited_for(b->graph, node) ? b->chain_us : b->forward_us;
	double first_us = INFINITY, forward_us = INFINITY, most_us = 0;

	*last_us = INFINITY;
	for (uint32_t i = kind->reads; i < kind->reads + kind->n_reads; i++) {
		const struct ff_reads *r = &b->kinds.reads[i];
		double us = before_us(b, n, r, before);

		first_us = fmin(first_us, us + r->first_us);
		*last_us = fmin(*last_us, us + r->last_us);
		forward_us = fmin(forward_us, before_us(b, n, r, b->forward_us) + r->forward_us);
	}
	for (uint32_t i = kind->mixed; i < kind->mixed + kind->n_mixed; i++) {
		const struct ff_mixed *m = &b->kinds.mixed[i];

		most_us = fmax(most_us, before_us(b, n, &b->kinds.reads[m->reads], before) + m->us);
		if (m->ends) {
			*last_us = fmin(*last_us, most_us);
			most_us = 0;
		}
	}
	b->chain_us[node] = first_us;
	b->forward_us[node] = forward_us;
}

/* The longest of all chains. */
static int chains_us(struct bound *b, double *us, struct ff_error *err)
{
	int code = FF_OK;

	*us = 0;
	for (uint32_t i = 0; i < b->graph->n_nodes && code == FF_OK; i++) {
		struct ff_kind kind;
		double last_us;

		if (!ff_node_is_computed(b->graph, i))
			continue;
		code = ff_kinds_find(&b->kinds, i, &kind, err);
		if (code == FF_OK && b->kinds.stopped)
			break;
		if (code == FF_OK) {
			chain_of(b, i, &kind, &last_us);
			*us = fmax(*us, last_us);
		}
	}
	return code;
}

static int create(struct bound *b, struct ff_arena *a, struct ff_error *err)
{
	b->chain_us = ff_arena_array(a, b->graph->n_nodes, sizeof(*b->chain_us));
	b->forward_us = ff_arena_array(a, b->graph->n_nodes, sizeof(*b->forward_us));
	return b->chain_us && b->forward_us ? FF_OK : ff_fail_memory(err);
}

static int run(struct bound *b, struct ff_weighed *w, uint32_t micro_batches, struct ff_arena *a,
		struct ff_weights *weights, double *us, struct ff_error *err)
{
	double weighed_us = 0, longest_us = 0;
	int code = ff_weighed_init(w, &b->kinds, micro_batches, a, err);

	if (code == FF_OK && !b->kinds.stopped)
		code = chains_us(b, &longest_us, err);
	if (code == FF_OK && !b->kinds.stopped)
		code = ff_weights_raise(
				w, b->kinds.stop, b->kinds.ctx, a, weights, &weighed_us, err);
	if (code == FF_OK)
		*us = b->kinds.stopped ? NAN : fmax(weighed_us, longest_us);
	return code;
}

int ff_lower_bound(const struct ff_graph *g, uint32_t micro_batches, const struct ff_machine *m,
		struct ff_pricer *p, bool (*stop)(void *ctx), void *ctx, double *us,
		struct ff_error *err)
{
	struct ff_weights *weights;
	struct ff_weighed weighed;
	struct ff_arena scratch;
	struct ff_graph micro;
	struct bound b = {.graph = &micro};
	int code;

	ff_arena_init(&scratch);
	weights = ff_arena_alloc(&scratch, sizeof(*weights));
	code = weights ? ff_graph_micro(g, micro_batches, &scratch, &micro, err)
		       : ff_fail_memory(err);
	if (code == FF_OK)
		code = ff_kinds_init(&b.kinds, &micro, m, p, stop, ctx, &scratch, err);
	if (code == FF_OK)
		code = create(&b, &scratch, err);
	if (code == FF_OK)
		code = run(&b, &weighed, micro_batches, &scratch, weights, us, err);
	ff_kinds_finish(&b.kinds);
	ff_arena_finish(&scratch);
	return code;
}
