/* Equal devices: in most strategies many devices do the same, such as those of one pipeline stage.
 *
 * A device's layout depends on its own tasks, and on which of them wait for others of its own:
 * clocks know nothing of other devices (memory/clocks.c).  So devices whose tasks have the same
 * sizes in the same order have the same layout, and lowering the first of them is enough.  Each
 * device gets a hash of all that it takes part in, in the order of the walk.
 * SPDX-License-Identifier: Apache-2.0 */
#include "equal_devices.h"

#include <string.h>

#include "computes.h"
#include "ff/hash.h"
#include "sent.h"

/* By device: a hash of what it takes part in, so far. */
struct history {
	struct ff_lowering *l;
	uint64_t *hash;
};

static void mix(struct history *h, uint32_t device, uint64_t what)
{
	h->hash[device] = ff_hash_mix(h->hash[device], what);
}

static void mix_node(struct history *h, uint32_t node)
{
	const struct ff_node *n = &h->l->g->nodes[node];
	const struct ff_node_block *b = h->l->node[node];

	for (uint32_t p = 0; b && p < b->n_parts; p++) {
		uint32_t d = b->device[p];

		mix(h, d, node);
		if (b->turns.n > 1)
			mix(h, d, ff_turn_of(b, FF_FORWARD, p));
		for (uint32_t i = 0; i < n->n_in; i++) {
			mix(h, d, (uint64_t)ff_placement_bytes(&b->in[i], p));
			mix(h, d, (uint64_t)ff_placement_gradient_bytes(&b->in[i], p));
		}
		for (uint32_t k = 0; k < n->n_out; k++)
			mix(h, d, (uint64_t)ff_placement_bytes(&b->out[k], p));
		if (ff_node_is_computed(h->l->g, node))
			mix(h, d, (uint64_t)ff_computes_scratch(h->l, node, FF_FORWARD, p));
		if (ff_node_needs_grad(h->l->g, node))
			mix(h, d, (uint64_t)ff_computes_scratch(h->l, node, FF_BACKWARD, p));
	}
}

static void mix_move(struct history *h, const struct ff_move *mv, enum ff_lane_class lane,
		const uint16_t *from, const uint16_t *to)
{
	int64_t most = 0;

	for (uint32_t i = 0; i < mv->n_devices; i++)
		most = mv->stage_bytes[i] > most ? mv->stage_bytes[i] : most;
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		mix(h, mv->device[i], 8u * mv->kind + 2u * lane + (most > 0));
		mix(h, mv->device[i], (uint64_t)mv->stage_bytes[i]);
	}
	for (uint32_t i = 0; i < mv->n_sources && from; i++)
		mix(h, from[mv->source[i]], 1);
	for (uint32_t i = 0; i < mv->n_sinks; i++)
		mix(h, to[mv->sink[i]], 2);
}

/* Which parts of `to` lie where they were made, and what is moved to the others. */
static void mix_moves(struct history *h, uint32_t edge, const struct ff_redistribution *r,
		const struct ff_node_block *from, const struct ff_node_block *to)
{
	for (uint32_t p = 0; r->alias && to && p < to->n_parts; p++)
		mix(h, to->device[p], r->alias[p] != FF_NONE);
	for (uint32_t i = 0; i < r->n_moves; i++)
		mix_move(h, &r->move[i], ff_move_lane(h->l->g, edge, &r->move[i]),
				from ? from->device : NULL, to->device);
}

static void mix_edge(struct history *h, uint32_t edge)
{
	const struct ff_node_block *from = h->l->node[ff_edge_source(h->l->g, edge)];
	const struct ff_node_block *to = h->l->node[h->l->g->edges[edge].node];

	mix_moves(h, edge, &h->l->edge[edge].forward, from, to);
	mix_moves(h, edge, &h->l->edge[edge].backward, to, from);
}

static void mix_bucket(struct history *h, const struct ff_bucket_build *b)
{
	const struct ff_bucket_member *member = h->l->buckets.member;
	uint64_t hash = ff_hash_mix((uint64_t)b->bytes, b->n_devices);

	hash = ff_hash_mix(hash, b->close);
	hash = ff_hash_mix(hash, b->way.synced + 2u * b->way.flat + 4u * b->way.scattered +
						 8u * b->way.dropped + 16u * b->way.stage);
	hash = ff_hash_mix(hash, b->way.runs);
	for (uint32_t m = b->first; m != FF_NONE; m = member[m].next) {
		hash = ff_hash_mix(hash, member[m].param);
		hash = ff_hash_mix(hash, (uint64_t)member[m].group->bytes);
	}
	for (uint32_t d = 0; d < b->n_devices; d++)
		mix(h, b->device[d], hash);
}

static void mix_all(struct history *h)
{
	const struct ff_lowering *l = h->l;

	for (uint32_t i = 0; i < l->g->n_nodes; i++)
		mix_node(h, i);
	for (uint32_t e = 0; e < l->g->n_edges; e++)
		mix_edge(h, e);
	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		mix_bucket(h, &l->buckets.bucket[i]);
}

/* ---- what is left out ---- */

static void keep_moves(struct ff_redistribution *r, const bool *lowered)
{
	struct ff_move *move = (struct ff_move *)r->move;
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->n_moves; i++) {
		bool any = false;

		for (uint32_t d = 0; d < move[i].n_devices && !any; d++)
			any = lowered[move[i].device[d]];
		if (any)
			move[n++] = move[i];
	}
	r->n_moves = n;
}

/* Only moves and buckets stay that a lowered device takes part in. */
static void keep_lowered(struct ff_lowering *l, const bool *lowered)
{
	for (uint32_t e = 0; e < l->g->n_edges; e++) {
		keep_moves(&l->edge[e].forward, lowered);
		keep_moves(&l->edge[e].backward, lowered);
	}
	ff_bucketing_keep(&l->buckets, lowered);
	ff_bucketing_open(&l->buckets, l->g, &l->program);
}

int ff_equal_devices_find(struct ff_lowering *l, struct ff_error *err)
{
	uint32_t n = l->m->n_devices;
	struct history h = {l, ff_arena_array(l->scratch, n, sizeof(*h.hash))};
	uint16_t *like = ff_arena_array(l->scratch, n, sizeof(*like));
	bool *lowered = ff_arena_array(l->scratch, n, sizeof(*lowered));

	if (!h.hash || !like || !lowered)
		return ff_fail_memory(err);
	mix_all(&h);
	for (uint32_t d = 0; d < n; d++) {
		uint32_t first = 0;

		while (h.hash[first] != h.hash[d])
			first++;
		like[d] = (uint16_t)first;
		lowered[d] = first == d;
	}
	l->like = like;
	if (!l->opt->limit) /* else the answer is whether it fits */
		ff_sent_find(l);
	keep_lowered(l, lowered);
	return l->failed ? ff_fail_memory(err) : FF_OK;
}

void ff_equal_devices_copy(struct ff_lowering *l)
{
	for (uint32_t d = 0; l->like && d < l->m->n_devices; d++) {
		l->r.memory_bytes[d] = l->r.memory_bytes[l->like[d]];
		l->r.live_bytes[d] = l->r.live_bytes[l->like[d]];
		l->r.workspace_bytes[d] = l->r.workspace_bytes[l->like[d]];
	}
}
