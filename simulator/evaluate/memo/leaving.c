/* Gradients that leave the devices where they are made, between the classes and configs at the ends
 * of an edge: every proposal asks for those of all values that it touches.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/grow.h"
#include "ff/sharing.h"
#include "memo.h"

static bool find(const struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to)
{
	struct ff_gradient_way w = {.in = &to->block->in[t->g->edges[edge].slot],
			.out = &from->block->out[t->g->values[t->g->edges[edge].value].port],
			.reader = to->block,
			.producer = from->block};

	return ff_gradient_leaves(&w);
}

bool ff_memo_leaves(struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to)
{
	const struct ff_edge *x = &t->g->edges[edge];
	struct ff_memo_leaving new = {.ends = ff_memo_ends(from, to),
			.use = (uint64_t)t->g->values[x->value].port << 32 | x->slot};
	uint64_t hash = ff_hash_mix(new.use, new.ends);
	uint32_t at, i;

	for (i = ff_table_first(&t->leavings, hash, &at); i != FF_NONE;
			i = ff_table_next(&t->leavings, hash, &at))
		if (t->leaving[i].ends == new.ends && t->leaving[i].use == new.use)
			return t->leaving[i].leaves;
	new.leaves = find(t, edge, from, to);
	i = t->leavings.n;
	/* where there is no memory it is found again */
	if (ff_grow(&t->leaving, i, &t->cap[FF_MEMO_LEAVINGS], sizeof(new), NULL) == FF_OK) {
		t->leaving[i] = new;
		ff_memo_put(&t->leavings, hash, NULL);
	}
	return new.leaves;
}
