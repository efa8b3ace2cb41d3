/* Folding of equal layers, of stages that do as before and of passes between other updates: it
 * leaves out something, and changes nothing. SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fold_pair.h"

#define LAYERED 20
#define STAGED 40
#define REJOINED 24
#define UPDATES 40

/* ---- layers ---- */

struct seen_layers {
	uint32_t folded, proposals, live, limited, recomputed, buckets, micro, back, ragged;
};

/* All layers as the first, on one stage; mostly parameters are where they are read. */
static void make_regular(struct pair *w)
{
	const struct ff_memo *t = w->folds->now->memo;
	bool follow = ff_random_below(w->r, 4);

	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		w->s.stage[i] = 0;
		w->s.priority[i] = 0;
		if (follow && ff_node_is_parameter(&w->g, i))
			w->s.config[i] = (struct ff_config){
					.n_parts = 0, .flat = w->s.config[i].flat};
	}
	for (uint32_t i = t->period_at + t->period; i < w->g.n_nodes; i++)
		if (t->class[i] == t->class[i - t->period]) {
			w->s.config[i] = w->s.config[i - t->period];
			w->s.recompute[i] = w->s.recompute[i - t->period];
		}
}

/* Samples over `n` devices, where there are enough, or all of it on the first. */
static void cut_on(const struct pair *w, uint32_t node, uint32_t first, uint32_t n)
{
	const struct ff_node *at = &w->micro.nodes[node];
	struct ff_config *c = &w->s.config[node];
	bool cut = false;

	*c = (struct ff_config){.n_parts = 1, .replicas = 1, .start = (uint16_t)first};
	for (uint32_t d = 0; d < FF_MAX_DIMS; d++) {
		bool here = d < at->n_dims && !cut && at->dim[d].label == FF_DIM_SAMPLE &&
			    at->dim[d].extent >= (int32_t)n;

		c->degree[d] = here ? (uint16_t)n : 1;
		c->stride[d] = here;
		c->n_parts = (uint16_t)(here ? n : c->n_parts);
		cut = cut || here;
	}
}

/* Samples over all devices, where there are enough. */
static void cut_samples(struct pair *w)
{
	for (uint32_t i = 0; i < w->micro.n_nodes; i++)
		if (ff_node_needs_config(&w->micro, i))
			cut_on(w, i, 0, w->h.m.n_devices);
}

static void set_layers(struct pair *w)
{
	draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	if (w->s.rule != FF_ORDER_GPIPE)
		w->s.rule = FF_ORDER_1F1B;
	pair_evaluate(w);
	if (ff_random_below(w->r, 2))
		cut_samples(w);
	make_regular(w);
	pair_evaluate(w);
}

/* A change of one operator, in its layer or in all. */
static void propose_layers(struct pair *w, struct seen *seen)
{
	const struct ff_memo *t = w->folds->now->memo;
	struct ff_change *change = calloc(w->g.n_nodes, sizeof(*change));
	uint32_t n = 1;

	change[0] = pair_draw_change(w);
	for (uint32_t i = change[0].node + t->period; i < w->g.n_nodes && ff_random_below(w->r, 9);
			i += t->period)
		if (t->class[i] == t->class[change[0].node])
			change[n++] = (struct ff_change){i, change[0].config};
	pair_propose(w, change, n, seen);
	free(change);
}

/* Other updates of some parameters, and of nothing else. */
static void propose_updates(struct pair *w, struct seen *seen)
{
	struct ff_change *change = calloc(w->g.n_nodes, sizeof(*change));
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		struct ff_change *c = &change[n];

		if (!ff_node_is_parameter(&w->g, i) || ff_random_below(w->r, 4))
			continue;
		*c = (struct ff_change){i, {.flat = !w->s.config[i].flat}};
		if (!ff_random_below(w->r, 4))
			draw_config(w->r, &w->micro, i, w->h.m.n_devices, &w->a, &c->config);
		n++;
	}
	if (n)
		pair_propose(w, change, n, seen);
	free(change);
}

static void look_at_layers(const struct pair *w, void *to, bool proposed)
{
	struct seen_layers *seen = to;
	const struct ff_trial *e = w->folds->now;
	bool folded = e->layers.n_folded > 0;

	seen->folded += folded && !proposed;
	seen->proposals += folded && proposed;
	seen->micro += folded && w->s.micro_batches > 1;
	for (uint32_t i = 0; i < e->order.layers.n_runs && folded; i++) {
		seen->live += e->order.layers.run[i].n_live > 0;
		seen->limited += e->order.layers.run[i].limited;
		seen->back += e->order.layers.run[i].back;
	}
	for (uint32_t i = 0; i < w->g.n_nodes && folded; i++)
		seen->recomputed += w->s.recompute[i];
	seen->buckets += folded && ff_trial_gathered(e)->synced.n_buckets > 2;
	seen->ragged += proposed && !folded;
	ck_assert_uint_eq(w->plain->now->layers.n_folded, 0);
}

/* Networks of equal layers, and some proposals of each, until all that is counted was met. */
struct equals {
	uint64_t seed;
	uint32_t networks, stream; /* of random numbers */
	void (*set)(struct pair *w);
	uint32_t proposals; /* of each network */
	void (*propose)(struct pair *w, struct seen *seen);
	void (*look)(const struct pair *w, void *seen, bool proposed);
	const char *what;
	void *seen; /* counts: networks that were folded, proposals, and more */
	size_t n_counts;
};

static void propose_equals(struct pair *w, const struct equals *x)
{
	struct seen other = {0};

	pair_open(w, draw_layered_graph);
	x->set(w);
	x->look(w, x->seen, false);
	for (uint32_t k = 0; k < x->proposals; k++) {
		w->folds->now->layers.n_folded = 0;
		w->folds->now->slots.n_folded = 0;
		w->folds->now->rejoin.n_folded = 0;
		x->propose(w, &other);
		x->look(w, x->seen, true);
	}
	pair_close(w);
}

static void check_equals(const struct equals *x)
{
	uint64_t seed = ff_test_seed(x->seed);
	uint32_t rounds = ff_test_rounds(x->networks), most = 10 * x->networks;
	const uint32_t *count = x->seen;

	for (uint32_t i = 0;
			i < rounds || (i < most && ff_test_unmet(count, x->n_counts) < x->n_counts);
			i++) {
		struct ff_random r = {seed, i, x->stream};
		struct pair w = {.r = &r};

		propose_equals(&w, x);
	}
	printf("# of %u networks %s: %u, and %u of proposals\n", rounds, x->what, count[0],
			count[1]);
	ck_assert_msg(ff_test_unmet(count, x->n_counts) == x->n_counts, "%s: count %zu is zero",
			x->what, ff_test_unmet(count, x->n_counts));
	ck_assert_uint_gt(4 * count[0], rounds);
}

START_TEST(equal_layers)
{
	struct seen_layers seen = {0};

	check_equals(&(struct equals){1, LAYERED, 0, set_layers, PROPOSALS, propose_layers,
			look_at_layers, "folded layers", &seen, sizeof(seen) / sizeof(uint32_t)});
}
END_TEST

/* ---- stages of equal layers ---- */

struct seen_slots {
	uint32_t folded, proposals, gpipe, once, interleaved, halves, vee, recomputed, flat, cut,
			elsewhere;
};

/* Which of the ranks holds a stage. */
static uint32_t rank_of(const struct ff_strategy *s, uint32_t stage, uint32_t ranks)
{
	return s->rule == FF_ORDER_ZB_V && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
}

/* Some operators are left where they were drawn, which is anywhere. */
static void make_stages(struct pair *w)
{
	uint32_t devices = w->h.m.n_devices, n = w->g.n_nodes;
	uint32_t ranks = 1 + ff_random_below(w->r, devices < 4 ? devices : 4), chunks, each;
	bool all = ff_random_below(w->r, 4), again = ff_random_below(w->r, 2);

	w->s.rule = ff_random_below(w->r, FF_ORDER_COUNT);
	w->s.chunks = w->s.rule == FF_ORDER_INTERLEAVED ? 2 : 1;
	chunks = ff_strategy_chunks(&w->s);
	each = devices / ranks;
	for (uint32_t i = 0; i < n; i++) {
		bool param = ff_node_is_parameter(&w->g, i);

		w->s.priority[i] = 0;
		w->s.recompute[i] = again && ff_node_is_computed(&w->g, i) &&
				    !ff_node_is_loss(&w->g, i) && ff_random_below(w->r, 4);
		w->s.stage[i] = (uint16_t)((uint64_t)i * ranks * chunks / n);
		if (param && ff_random_below(w->r, 16))
			w->s.config[i] = (struct ff_config){
					.n_parts = 0, .flat = w->s.config[i].flat};
		if (ff_node_needs_config(&w->g, i) && !param && (all || ff_random_below(w->r, 16)))
			cut_on(w, i, rank_of(&w->s, w->s.stage[i], ranks) * each, each);
	}
}

static void set_stages(struct pair *w)
{
	do
		draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	while (w->s.micro_batches < 4);
	make_stages(w);
	pair_evaluate(w);
}

static void look_at_slots(const struct pair *w, void *to, bool proposed)
{
	struct seen_slots *seen = to;
	const struct ff_trial *e = w->folds->now;
	bool folded = e->slots.n_folded > 0;

	ck_assert_uint_eq(w->plain->now->slots.n_folded, 0);
	if (!folded)
		return;
	seen->folded += !proposed;
	seen->proposals += proposed;
	seen->gpipe += w->s.rule == FF_ORDER_GPIPE;
	seen->once += w->s.rule == FF_ORDER_1F1B;
	seen->interleaved += w->s.rule == FF_ORDER_INTERLEAVED;
	seen->halves += w->s.rule == FF_ORDER_ZB_H1;
	seen->vee += w->s.rule == FF_ORDER_ZB_V;
	seen->flat += e->placed.n_flat > 0;
	for (uint32_t i = 0; i < w->g.n_nodes; i++)
		seen->recomputed += w->s.recompute[i];
	for (uint32_t k = 0; k < e->order.slots.n_kinds; k++) {
		const struct ff_pipe_slot_kind *kind = &e->order.slots.kind[k];
		const struct ff_slot_memos *c = &kind->memos[kind->now];

		seen->cut += c->n && c->n_own > 1;
		seen->elsewhere += c->n && c->n_lanes > c->n_own;
	}
}

/* With seed 1 nothing depends on what arrives. */
START_TEST(equal_slots)
{
	struct seen_slots seen = {0};

	check_equals(&(struct equals){2, STAGED, 1, set_stages, PROPOSALS, propose_layers,
			look_at_slots, "folded slots of stages", &seen,
			sizeof(seen) / sizeof(uint32_t)});
}
END_TEST

/* ---- passes that rejoin the current strategy's ---- */

struct seen_rejoined {
	uint32_t networks, passes, stages, once, halves, flat, moved, brought, recomputed;
};

static void look_at_rejoined(const struct pair *w, void *to, bool proposed)
{
	struct seen_rejoined *seen = to;
	const struct ff_trial *e = w->folds->now;

	ck_assert_uint_eq(w->plain->now->rejoin.n_folded, 0);
	seen->networks += !proposed && e->order.rejoin.at[FF_REJOIN_FROM] != FF_NONE;
	if (!e->rejoin.n_folded)
		return;
	seen->passes++;
	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		seen->stages += w->s.stage[i] > 0;
		seen->recomputed += w->s.recompute[i];
	}
	seen->once += w->s.rule == FF_ORDER_1F1B;
	seen->halves += e->order.program.halves;
	seen->flat += e->placed.n_flat > 0;
	seen->moved += e->proposal.n_swaps > 0;
	for (uint32_t i = 0; i < e->order.rejoin.n_brings; i++)
		seen->brought += e->placed.state[FF_FORWARD][e->order.rejoin.brings[i].edge] ==
				 FF_EDGE_MOVES;
}

START_TEST(rejoined)
{
	struct seen_rejoined seen = {0};

	check_equals(&(struct equals){1, REJOINED, 2, set_stages, UPDATES, propose_updates,
			look_at_rejoined, "whose passes may be rejoined", &seen,
			sizeof(seen) / sizeof(uint32_t)});
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("fold_layers");
	TCase *c = tcase_create("layers");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, equal_layers);
	suite_add_tcase(s, c);
	c = tcase_create("slots");
	tcase_set_timeout(c, 0);
	tcase_add_test(c, equal_slots);
	suite_add_tcase(s, c);
	c = tcase_create("rejoined");
	tcase_set_timeout(c, 0);
	tcase_add_test(c, rejoined);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
