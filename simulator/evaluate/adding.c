/* How long backward takes where it adds to gradients that are there already.
 * SPDX-License-Identifier: Apache-2.0 */
#include "adding.h"

#include "ff/program_phases.h"

/* What a part of step `s` adds to gradients that are there already, in bytes. */
static int64_t added_bytes(const struct ff_trial *e, const struct ff_step *s, uint32_t p)
{
	const struct ff_node *n = &e->g->nodes[s->id];
	enum ff_grads grads = ff_node_grads(&e->order.program, s->phase, s->id);
	int64_t bytes = 0;

	for (uint32_t i = 0; i < n->n_in; i++) {
		if (!ff_grads_make(grads, i >= n->n_data))
			continue;
		if (i < n->n_data ? ff_trial_sums(e, n->in + i)
				  : ff_trial_adds(e, n->in + i, s->micro))
			bytes += ff_placement_gradient_bytes(
					&e->placed.node[s->id]->block->in[i], p);
	}
	return bytes;
}

static bool adds_all(const struct ff_trial *e, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &e->g->nodes[node];
	bool all = !e->placed.n_added[node],
	     known = micro > 0 && !ff_trial_gathered(e)->synced.n_scattered;

	for (uint32_t i = n->n_data; i < n->n_in && !known; i++)
		all = all && ff_trial_adds(e, n->in + i, micro);
	return all;
}

/* Whether it may add to any, of its parameters or of its data. */
static bool adds_any(const struct ff_trial *e, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &e->g->nodes[node];
	bool later = micro > 0 && n->n_in > n->n_data;

	if (ff_trial_gathered(e)->adds[node] || (e->placed.n_sums && e->placed.n_added[node]))
		return true;
	if (!later || !ff_trial_gathered(e)->synced.n_scattered)
		return later;
	for (uint32_t i = n->n_data; i < n->n_in; i++)
		if (ff_trial_adds(e, n->in + i, micro))
			return true;
	return false;
}

/* Backward that adds to some gradients of its parameters, but not to all, or of its data. */
static int price_adding(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	const struct ff_timed_node *t = &e->times.node[s->phase][s->id];
	double *us;

	e->times.adding = ff_arena_mark(&e->scratch);
	us = ff_arena_array(&e->scratch, t->n, sizeof(*us));
	if (!us)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < t->n; p++)
		us[p] = t->us[p] + ff_price_add(e->p, e->g, t->device[p], added_bytes(e, s, p));
	e->times.us = us;
	e->times.adds_some = true;
	return FF_OK;
}

int ff_adding_price(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	if (!adds_any(e, s->id, s->micro))
		return FF_OK;
	if (e->order.program.halved[s->id] || !adds_all(e, s->id, s->micro))
		return price_adding(e, s, err);
	e->times.us = ff_memo_adding(e->memo, s->id, e->placed.node[s->id]);
	return e->times.us ? FF_OK : ff_fail_memory(err);
}
