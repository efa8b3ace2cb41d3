/* Layers are alike where their operators have the same blocks, what is moved between them has, and
 * their buckets take as long on the same devices: blocks and prices are kept once for all equal
 * ones (memo.c), so they are compared as pointers.  SPDX-License-Identifier: Apache-2.0 */
#include "alike.h"

#include "layer_runs.h"

static bool same_edge(const struct ff_trial *e, uint32_t a)
{
	const struct ff_placed *p = &e->placed;
	uint32_t by = e->order.layers.edges, b = a + by;

	return p->edge[a] == p->edge[b] && p->is_shared[a] == p->is_shared[b] &&
	       ff_is_behind(p->shared_from[a], p->shared_from[b], by) &&
	       ff_is_behind(p->sums.sent[a], p->sums.sent[b], by) &&
	       ff_is_behind(p->sums.added[a], p->sums.added[b], by);
}

static bool rests(const struct ff_trial *e, uint32_t param)
{
	uint32_t edge = e->g->uses[e->g->values[e->g->nodes[param].out].first_use];

	return e->placed.state[FF_FORWARD][edge] == FF_EDGE_STILL &&
	       e->placed.state[FF_BACKWARD][edge] == FF_EDGE_STILL;
}

/* Parameters with one reader each.  Of those that are moved each update waits for its own moves:
 * these are not folded. */
static bool same_param(const struct ff_trial *e, uint32_t a)
{
	const struct ff_placed *p = &e->placed;
	uint32_t b = a + e->order.layers.nodes;

	if (p->synced[a] != p->synced[b] || p->flat[a] != p->flat[b])
		return false;
	if (p->synced[a])
		return p->shards[a].group == p->shards[b].group && p->shards[a].n == p->shards[b].n;
	return p->node[a] == p->node[b] && rests(e, a) && rests(e, b);
}

/* ---- buckets ---- */

static bool same_way(const struct ff_update_way *a, const struct ff_update_way *b)
{
	return a->synced == b->synced && a->flat == b->flat && a->scattered == b->scattered &&
	       a->dropped == b->dropped && a->stage == b->stage && a->later == b->later &&
	       a->runs == b->runs;
}

static bool same_members(const struct ff_trial *e, uint32_t a, uint32_t b)
{
	const struct ff_bucketing *all = &ff_trial_gathered(e)->synced;
	uint32_t i = all->bucket[a].first, k = all->bucket[b].first;

	while (i != FF_NONE && k != FF_NONE &&
			ff_is_behind(all->member[i].param, all->member[k].param,
					e->order.layers.nodes) &&
			all->member[i].group == all->member[k].group) {
		i = all->member[i].next;
		k = all->member[k].next;
	}
	return i == k; /* both FF_NONE */
}

/* Bucket `b` stands where `a` does, a layer behind. */
static bool same_bucket(const struct ff_trial *e, uint32_t a, uint32_t b)
{
	const struct ff_gathered *g = ff_trial_gathered(e);
	const struct ff_bucket_build *x = &g->synced.bucket[a], *y = &g->synced.bucket[b];

	if (g->timed[a].price != g->timed[b].price || x->n_devices != y->n_devices ||
			!same_way(&x->way, &y->way) || x->apart || y->apart ||
			!same_members(e, a, b))
		return false;
	return !x->way.stage || (x->frees - a == y->frees - b && x->frees_later == y->frees_later &&
						same_members(e, x->frees, y->frees));
}

static bool same_closed(const struct ff_trial *e, uint32_t node)
{
	const struct ff_bucketing *all = &ff_trial_gathered(e)->synced;
	uint32_t a = all->first_at[node], b = all->first_at[node + e->order.layers.nodes];

	while (a != FF_NONE && b != FF_NONE && same_bucket(e, a, b)) {
		a = all->bucket[a].next_at;
		b = all->bucket[b].next_at;
	}
	return a == b;
}

static bool same_opened(const struct ff_trial *e, uint32_t node)
{
	const struct ff_bucketing *all = &ff_trial_gathered(e)->synced;
	bool same = true;

	for (int later = 0; later < 2 && all->n_dropped && same; later++) {
		const uint32_t *first = all->first_opened[later];
		uint32_t a = first[node], b = first[node + e->order.layers.nodes];

		while (a != FF_NONE && b != FF_NONE && same_bucket(e, a, b)) {
			a = all->bucket[a].next_opened[later];
			b = all->bucket[b].next_opened[later];
		}
		same = a == b;
	}
	return same;
}

/* ---- nodes ---- */

static bool same_node(const struct ff_trial *e, uint32_t a)
{
	const struct ff_node *n = &e->g->nodes[a];
	uint32_t b = a + e->order.layers.nodes;
	bool same = e->placed.node[a] == e->placed.node[b] &&
		    e->placed.n_added[a] == e->placed.n_added[b] &&
		    ff_trial_gathered(e)->adds[a] == ff_trial_gathered(e)->adds[b];

	for (uint32_t k = n->in; k < n->in + n->n_in && same; k++)
		same = same_edge(e, k) && (!e->ends[k].parameter || same_param(e, e->ends[k].from));
	return same && same_closed(e, a) && same_opened(e, a);
}

void ff_alike_find(struct ff_trial *e)
{
	struct ff_layering *x = &e->layers;
	const bool *regular = e->order.layers.regular;
	uint32_t last = 0;

	for (uint32_t i = 0; i < e->g->n_nodes; i++) {
		bool same = regular[i] &&
			    (ff_node_is_parameter(e->g, i) ? same_param(e, i) : same_node(e, i));

		last = same ? last : i + 1;
		x->behind[i] = last;
	}
	last = e->g->n_nodes;
	for (uint32_t i = e->g->n_nodes; i-- > 0;) {
		last = x->behind[i] == i + 1 ? i : last;
		x->ahead[i] = last;
	}
}

uint32_t ff_alike_from(const struct ff_trial *e, const struct ff_layer_run *r, uint32_t times)
{
	uint32_t by = e->order.layers.nodes, low, high, other;

	if (!r->back) {
		low = r->low + times * by;
		high = r->high + times * by;
		other = high < e->g->n_nodes ? e->layers.ahead[low] : 0;
		return other > high ? (other - 1 - high) / by + 1 : 0;
	}
	if (r->low < (times + 1) * by)
		return 0;
	low = r->low - times * by;
	other = e->layers.behind[r->high - (times + 1) * by];
	return other <= low ? (low - other) / by : 0;
}
