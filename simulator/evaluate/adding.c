/* How long backward takes where it adds to gradients that are there already.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/program_phases.h"
#include "trial.h"

static bool may_add(const struct ff_trial *e, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &e->g->nodes[node];

	return ff_trial_gathered(e)->adds[node] || (e->placed.n_sums && e->placed.n_added[node]) ||
	       (micro > 0 && n->n_in > n->n_data);
}

/* The inputs to whose gradients step `s` adds; whether there are any. */
static bool find_added(
		const struct ff_trial *e, const struct ff_step *s, struct ff_memo_inputs *added)
{
	const struct ff_node *n = &e->g->nodes[s->id];
	enum ff_grads grads = ff_node_grads(&e->order.program, s->phase, s->id);
	uint32_t first = ff_grads_make(grads, false) && e->placed.n_sums ? 0 : n->n_data;
	uint32_t end = ff_grads_make(grads, true) ? n->n_in : n->n_data;
	bool any = false;

	*added = (struct ff_memo_inputs){{0}};
	for (uint32_t i = first; i < end; i++) {
		bool adds = i < n->n_data ? ff_trial_sums(e, n->in + i)
					  : ff_trial_adds(e, n->in + i, s->micro);

		added->word[i / 64] |= (uint64_t)adds << i % 64;
		any = any || adds;
	}
	return any;
}

/* It is the same of all micro-batches but the first, and in all of a pass. */
int ff_adding_find(struct ff_trial *e, const struct ff_step *s, const struct ff_memo_adding **ret,
		struct ff_error *err)
{
	struct ff_timed_node *t = &e->times.node[s->phase][s->id];
	struct ff_timed_adding *known = &t->adding[s->micro > 0];
	struct ff_memo_inputs added;

	if (known->pass == e->times.pass) {
		*ret = known->of;
		return FF_OK;
	}
	*ret = NULL;
	if (may_add(e, s->id, s->micro) && find_added(e, s, &added)) {
		*ret = ff_memo_adding(e->memo, e->placed.node[s->id],
				ff_node_grads(&e->order.program, s->phase, s->id), &added);
		if (!*ret)
			return ff_fail_memory(err);
	}
	*known = (struct ff_timed_adding){e->times.pass, *ret, *ret ? (*ret)->us[0] : t->each_us,
			*ret ? (*ret)->uniform : t->uniform};
	return FF_OK;
}
