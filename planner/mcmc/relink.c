/* Path relinking.  A walk seldom ends with a better plan, but often with one that is better
 * somewhere; that of itself no proposal puts into the best.  SPDX-License-Identifier: Apache-2.0 */
#include "relink.h"

#include <string.h>

#include "propose/propose.h"
#include "space/limits.h"

#define FASTER 1e-6             /* of a step, by which it has to help */
#define RELINK_SHARE (1.0 / 64) /* of the budget that is left, for one other plan */

/* What is tried in the current strategy, and until when: a used share of the budget. */
struct relink {
	struct ff_chain *c;
	const struct ff_strategy *other;
	double end;
};

static bool has_ended(const struct relink *r)
{
	return ff_chain_out_of_budget(r->c) || ff_chain_budget_done(r->c) >= r->end;
}

/* Puts the other's config of a node into the proposal, if there it has another. */
static void take_node(struct ff_chain *c, const struct ff_strategy *other, uint32_t node)
{
	const struct ff_frame *f = c->frame;
	const struct ff_config *there = &other->config[node];

	if (!ff_config_equal(&f->graph->nodes[node], there, &c->current.config[node]) &&
			ff_space_admits_in(f->space, &c->current, node, there))
		ff_transaction_set(&c->proposed, node, there);
}

/* Likewise of an operator and its parameters. */
static void take(struct ff_chain *c, const struct ff_strategy *other, uint32_t node)
{
	const struct ff_node *n = &c->graph->nodes[node];

	take_node(c, other, node);
	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		take_node(c, other, ff_edge_source(c->graph, k));
}

/* Those of which the other makes something else; `ret` has room for all. */
static uint32_t list_differing(struct ff_chain *c, const struct ff_strategy *other, uint32_t *ret)
{
	const struct ff_proposer *p = &c->frame->proposer;
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->n_all; i++) {
		ff_transaction_clear(&c->proposed);
		take(c, other, p->all[i]);
		if (c->proposed.n)
			ret[n++] = p->all[i];
	}
	return n;
}

/* `size` operators in a row after the other. */
static int try_rows(const struct relink *r, const uint32_t *node, uint32_t n, uint32_t size,
		struct ff_error *err)
{
	struct ff_chain *c = r->c;
	int code = FF_OK;

	for (uint32_t first = 0; first < n && code == FF_OK && !has_ended(r); first += size) {
		bool kept;

		ff_transaction_clear(&c->proposed);
		for (uint32_t i = first; i < first + size && i < n; i++)
			take(c, r->other, node[i]);
		if (c->proposed.n)
			code = ff_chain_try(c, -FASTER, &kept, err);
	}
	return code;
}

static bool has_phases_of(const struct ff_chain *c, const struct ff_strategy *other)
{
	size_t size = c->graph->n_nodes * sizeof(*other->stage);

	return c->current.micro_batches == other->micro_batches &&
	       !memcmp(c->current.stage, other->stage, size);
}

/* All of which they differ, halves, quarters and so on. */
static int try_all(const struct relink *r, uint32_t *node, struct ff_error *err)
{
	uint32_t n = list_differing(r->c, r->other, node);
	int code = FF_OK;

	for (uint32_t size = n; size && code == FF_OK; size = size > 1 ? (size + 1) / 2 : 0)
		code = try_rows(r, node, n, size, err);
	return code;
}

int ff_chain_relink(struct ff_chain *c, const struct ff_strategy *other, struct ff_error *err)
{
	double done = ff_chain_budget_done(c);
	const struct relink r = {c, other, done + RELINK_SHARE * (1 - done)};
	uint64_t accepted = c->accepted;
	struct ff_arena scratch;
	uint32_t *node;
	int code;

	if (!has_phases_of(c, other))
		return FF_OK;
	ff_arena_init(&scratch);
	node = ff_arena_array(&scratch, c->frame->proposer.n_all, sizeof(*node));
	code = node ? try_all(&r, node, err) : ff_fail_memory(err);
	while (code == FF_OK && c->accepted > accepted && !has_ended(&r)) {
		accepted = c->accepted; /* what is left may be in a row now */
		code = try_all(&r, node, err);
	}
	ff_arena_finish(&scratch);
	return code;
}

int ff_chain_relink_end(struct ff_chain *c, struct ff_error *err)
{
	int code;

	if (c->best.unsaved || !c->best.saved)
		return FF_OK;
	ff_strategy_copy(&c->leap, &c->current);
	code = ff_chain_return(c, err);
	return code == FF_OK ? ff_chain_relink(c, &c->leap, err) : code;
}
