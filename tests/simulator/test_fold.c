/* Folding of equal micro-batches and layers: what it leaves out changes nothing, and it does leave
 * out.  Random graphs, and networks of equal layers, in up to 64 micro-batches, under both orders,
 * in stages, with values recomputed and parameters gathered again; step time to the bit and memory
 * to the byte are those of an evaluator that does not fold and of a fresh lowering and simulation.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../simulator/evaluate/home.h"
#include "check_main.h"
#include "ff/simulate.h"
#include "ff/zoo.h"
#include "simulator/drawn.h"

#define CASES 400
#define PROPOSALS 8
#define LAYERED 20
#define STAGED 40
#define REJOINED 24
#define UPDATES 40

struct seen {
	uint32_t deep, folded, stages, recomputed, gpipe, live, limited, fits, misfits, slower,
			kept;
	uint32_t summed;         /* gradients in what was folded */
	uint32_t tried, in_vain; /* trials that were right, that were not */
};

struct pair {
	struct ff_random *r;
	struct hand_machine h;
	struct ff_arena a, scratch;
	struct ff_graph g, micro;
	struct ff_strategy s;
	struct ff_pricer *p;
	struct ff_evaluator *folds, *plain;
	int64_t limit, bucket;
	struct ff_error err;
};

/* Input and reshape nodes say how many samples there are. */
static void say_batch(struct ff_graph *g, int32_t batch)
{
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_op_row *row = ff_op_row(g->nodes[i].op);

		for (uint32_t k = 0; k < row->n_attrs; k++) {
			int32_t *shape = (int32_t *)((char *)&g->nodes[i].attrs +
						     row->attrs[k].offset);

			if (row->attrs[k].of_batch && shape[0] > 0 && shape[1] == g->batch)
				shape[1] = batch;
		}
	}
	g->batch = batch;
}

/* A random graph of as many samples as 64 allow. */
static void draw_deep_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *ret)
{
	struct ff_error err = {0};
	struct ff_graph g;

	do { /* until samples do not meet */
		draw_graph(r, a, &g);
		say_batch(&g, 2 * g.batch * (64 / g.batch));
	} while (ff_graph_micro(&g, 2, a, ret, &err) < 0);
}

/* A network of some equal layers. */
static void draw_layered_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *ret)
{
	static const char *const net[] = {"gpt2", "llama", "bert_large", "vit_b16"};
	static const char *const size[] = {"width=8", "heads=2", "sequence=4", "vocabulary=12"};
	static const char *const image[] = {"width=8", "heads=2", "image=32", "classes=4"};
	uint32_t which = ff_random_below(r, 4);
	const char *set[6];
	struct ff_error err = {0};
	char layers[16];

	snprintf(layers, sizeof(layers), "layers=%u", 8 + ff_random_below(r, 8));
	memcpy(set, which == 3 ? image : size, sizeof(size));
	set[4] = layers;
	set[5] = "key_heads=1";
	ck_assert_msg(ff_zoo_build(net[which], 32, set, which == 1 ? 6 : 5, a, ret, &err) == FF_OK,
			"%s", err.text);
}

static void open_pair(struct pair *w,
		void (*draw)(struct ff_random *, struct ff_arena *, struct ff_graph *))
{
	struct ff_random *r = w->r;
	uint32_t nodes = 1 + ff_random_below(r, 2), lanes = ff_random_below(r, 4);
	int64_t limit = 4000 + ff_random_below(r, 200000);

	ff_arena_init(&w->a);
	ff_arena_init(&w->scratch);
	hand_machine_init(&w->h, nodes, 1 + ff_random_below(r, 4), lanes > 1);
	hand_message_lane(&w->h, lanes == 3);
	for (uint32_t i = 0; i < nodes; i++) {
		w->h.node[i].inside.shared = ff_random_below(r, 2);
		if (ff_random_below(r, 3) == 0)
			w->h.node[i].inside = (struct ff_link){0, 1e9, true};
	}
	if (ff_random_below(r, 2))
		hand_wire(&w->h, 1 + ff_random_below(r, 4));
	w->h.node[nodes - 1].kind = nodes > 1 && ff_random_below(r, 2);
	w->h.kind[0].memory_bytes = w->h.kind[1].memory_bytes = limit;
	w->limit = limit;
	w->bucket = draw == draw_deep_graph || ff_random_below(r, 3) == 0
				    ? 1 + ff_random_below(r, 3000)
				    : 1; /* each parameter's own, so that layers have equal ones */
	draw(r, &w->a, &w->g);
	ck_assert_msg(ff_pricer_create(&w->g, &w->h.m, hand_estimate(&w->h), NULL, "c", "g", &w->p,
				      &w->err) == FF_OK,
			"%s", w->err.text);
	if (w->bucket % 2)
		ff_pricer_set_overlap(w->p, (struct ff_overlap_cost){0.4, 0.1, 0, 0.3});
	ck_assert_int_eq(ff_evaluator_create(&w->g, &w->h.m, w->p, limit, w->bucket, &w->folds,
					 &w->err),
			FF_OK);
	ck_assert_int_eq(ff_evaluator_create(&w->g, &w->h.m, w->p, limit, w->bucket, &w->plain,
					 &w->err),
			FF_OK);
	ff_evaluator_fold(w->plain, false);
}

static void close_pair(struct pair *w)
{
	ff_evaluator_destroy(w->folds);
	ff_evaluator_destroy(w->plain);
	ff_pricer_destroy(w->p);
	ff_arena_finish(&w->scratch);
	ff_arena_finish(&w->a);
}

static void same(struct ff_evaluation a, struct ff_evaluation b)
{
	ck_assert_msg(a.step_us == b.step_us, "%.17g us, else %.17g us", a.step_us, b.step_us);
	ck_assert_int_eq(a.over_bytes, b.over_bytes);
	ck_assert_int_eq(a.fits, b.fits);
	ck_assert_int_eq(a.tight, b.tight);
}

/* Every lane is free when it would be, and devices were idle for as long. */
static void same_lanes(const struct pair *w)
{
	for (uint32_t i = 0; i < ff_lane_count(&w->h.m); i++)
		ck_assert_double_eq(w->folds->now->times.lane[i], w->plain->now->times.lane[i]);
	for (uint32_t i = 0; i < w->h.m.n_devices; i++)
		ck_assert_double_eq(w->folds->now->times.idle[i], w->plain->now->times.idle[i]);
}

/* What a fresh lowering of w->s says. */
static struct ff_evaluation fresh(struct pair *w)
{
	struct ff_lower_options opt = {
			.bucket_bytes = w->bucket, .workspace = ff_price_workspace, .ctx = w->p};
	struct ff_arena_mark mark = ff_arena_mark(&w->scratch);
	struct ff_evaluation ret = {0};
	struct ff_simulation sim;
	struct ff_schedule plan;

	ck_assert_msg(ff_lower(&w->g, &w->h.m, &w->s, &opt, &w->scratch, &plan, &w->err) == FF_OK,
			"%s", w->err.text);
	ck_assert_int_eq(ff_simulate(&plan, w->p, &w->scratch, &sim, &w->err), FF_OK);
	ret.step_us = sim.step_us;
	for (uint32_t d = 0; d < w->h.m.n_devices; d++) {
		ret.tight |= plan.live_bytes[d] > w->limit / 2;
		if (plan.live_bytes[d] > w->limit)
			ret.over_bytes += plan.live_bytes[d] - w->limit;
	}
	ret.fits = ret.over_bytes == 0;
	ff_arena_rewind(&w->scratch, mark);
	return ret;
}

/* Each stage on a device: stages take unequally long, and what waits for a slow one piles up
 * or is worked off. */
static void make_pipeline(struct pair *w)
{
	uint32_t stages = w->h.m.n_devices;

	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		struct ff_config *c = &w->s.config[i];

		w->s.stage[i] = (uint16_t)(i * stages / w->g.n_nodes);
		if (ff_node_is_parameter(&w->g, i))
			*c = (struct ff_config){.n_parts = 0};
		if (!ff_node_needs_config(&w->g, i))
			continue;
		*c = (struct ff_config){.n_parts = 1, .replicas = 1, .start = w->s.stage[i]};
		for (uint32_t d = 0; d < FF_MAX_DIMS; d++)
			c->degree[d] = 1;
	}
}

/* Both evaluate w->s. */
static void evaluate(struct pair *w)
{
	struct ff_evaluation a, b;

	ck_assert_msg(ff_evaluator_set(w->folds, &w->s, &a, &w->err) == FF_OK, "%s", w->err.text);
	ck_assert_msg(ff_evaluator_set(w->plain, &w->s, &b, &w->err) == FF_OK, "%s", w->err.text);
	same(a, b);
	same(a, fresh(w));
	same_lanes(w);
}

/* A strategy in several micro-batches. */
static void set(struct pair *w)
{
	do
		draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	while (w->s.micro_batches < 4);
	if (ff_random_below(w->r, 2))
		make_pipeline(w);
	evaluate(w);
}

/* Whether gradients are summed in each micro-batch of a run. */
static bool sums(const struct ff_order *o, const struct ff_run *r)
{
	bool any = false;

	for (uint32_t i = r->first; i < r->first + r->period; i++)
		any = any || (o->program.step[i].kind == FF_STEP_SYNC &&
					     (o->active[i / 64] >> i % 64 & 1));
	return any;
}

static void look(const struct pair *w, struct seen *seen)
{
	const struct ff_folding *f = &w->folds->now->fold;
	const struct ff_order *o = &w->folds->now->order;

	seen->deep += w->s.micro_batches >= 8;
	seen->folded += w->s.micro_batches >= 8 && f->n_folded > 0;
	seen->gpipe += f->n_folded > 0 && w->s.rule == FF_ORDER_GPIPE;
	for (uint32_t i = 0; i < w->g.n_nodes; i++) {
		seen->stages += f->n_folded > 0 && w->s.stage[i] > 0;
		seen->recomputed += f->n_folded > 0 && w->s.recompute[i];
	}
	for (uint32_t i = 0; i < o->n_runs; i++) {
		seen->live += f->n_folded > 0 && o->run[i].n_live > 0;
		seen->limited += f->n_folded > 0 && o->run[i].limited;
		seen->summed += f->n_folded > 0 && sums(o, &o->run[i]);
	}
	seen->tried += f->n_trials > f->n_in_vain;
	seen->in_vain += f->n_in_vain > 0;
	ck_assert_uint_eq(w->plain->now->fold.n_folded, 0);
}

static struct ff_change draw_change(struct pair *w)
{
	struct ff_change change;

	do
		change.node = ff_random_below(w->r, w->g.n_nodes);
	while (ff_node_is_source(&w->g, change.node) || ff_node_is_prelude(&w->g, change.node));
	draw_config(w->r, &w->micro, change.node, w->h.m.n_devices, &w->a, &change.config);
	return change;
}

/* Some operators or parameters elsewhere, now and then with a limit. */
static void propose(struct pair *w, const struct ff_change *change, uint32_t n, struct seen *seen)
{
	static const double share[] = {0.5, 0.9, 1, 1.1, 2};
	struct ff_evaluation a, b;
	bool slow_a, slow_b;
	double limit;

	ck_assert_int_eq(ff_evaluator_propose(w->plain, change, n, &b, &w->err), FF_OK);
	limit = b.step_us * share[ff_random_below(w->r, 5)];
	ck_assert_int_eq(ff_evaluator_propose_within(w->folds, change, n,
					 (struct ff_most){limit, INT64_MAX}, &slow_a, &a, &w->err),
			FF_OK);
	slow_b = b.step_us > limit;
	ck_assert_int_eq(slow_a, slow_b);
	seen->slower += slow_a;
	seen->fits += b.fits;
	seen->misfits += !b.fits;
	if (slow_a) {
		ff_evaluator_drop(w->plain);
		return;
	}
	same(a, b);
	same_lanes(w);
	if (ff_random_below(w->r, 2)) {
		ff_evaluator_drop(w->plain);
		ff_evaluator_drop(w->folds);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		w->s.config[change[i].node] = change[i].config;
	ff_evaluator_keep(w->plain);
	ff_evaluator_keep(w->folds);
	seen->kept++;
}

START_TEST(folded_equals_unfolded)
{
	uint64_t seed = ff_test_seed(12); /* of 1 to 12, it meets all in the fewest cases */
	uint32_t rounds = ff_test_rounds(CASES);
	struct seen seen = {0};
	const uint32_t *count = (const uint32_t *)&seen;
	const size_t kinds = sizeof(seen) / sizeof(*count);

	/* more than the rounds until all was met, of which no number of them is sure */
	for (uint32_t i = 0; i < rounds || (i < 10 * CASES && ff_test_unmet(count, kinds) < kinds);
			i++) {
		struct ff_random r = {seed, i, 0};
		struct pair w = {.r = &r};

		open_pair(&w, draw_deep_graph);
		set(&w);
		for (int k = 0; k < PROPOSALS; k++) {
			struct ff_change change = draw_change(&w);

			propose(&w, &change, 1, &seen);
		}
		set(&w);
		look(&w, &seen);
		close_pair(&w);
	}
	printf("# of %u cases with 8 micro-batches or more %u were folded, %u after trials; %u had "
	       "some in vain\n",
			seen.deep, seen.folded, seen.tried, seen.in_vain);
	ck_assert_msg(ff_test_unmet(count, kinds) == kinds, "count %zu of struct seen is zero",
			ff_test_unmet(count, kinds));
	ck_assert_uint_gt(10 * seen.folded, 7 * seen.deep);
}
END_TEST

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

/* Samples over all devices, where there are enough. */
static void cut_samples(struct pair *w)
{
	uint32_t n = w->h.m.n_devices;

	for (uint32_t i = 0; i < w->micro.n_nodes; i++) {
		const struct ff_node *at = &w->micro.nodes[i];
		struct ff_config *c = &w->s.config[i];
		bool cut = false;

		if (!ff_node_needs_config(&w->micro, i))
			continue;
		*c = (struct ff_config){.n_parts = 1, .replicas = 1};
		for (uint32_t d = 0; d < FF_MAX_DIMS; d++) {
			bool here = d < at->n_dims && !cut && at->dim[d].label == FF_DIM_SAMPLE &&
				    at->dim[d].extent >= (int32_t)n;

			c->degree[d] = here ? (uint16_t)n : 1;
			c->stride[d] = here;
			c->n_parts = (uint16_t)(here ? n : c->n_parts);
			cut = cut || here;
		}
	}
}

static void set_layers(struct pair *w)
{
	draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	if (w->s.rule != FF_ORDER_GPIPE)
		w->s.rule = FF_ORDER_1F1B;
	evaluate(w);
	if (ff_random_below(w->r, 2))
		cut_samples(w);
	make_regular(w);
	evaluate(w);
}

/* A change of one operator, in its layer or in all. */
static void propose_layers(struct pair *w, struct seen *seen)
{
	const struct ff_memo *t = w->folds->now->memo;
	struct ff_change *change = calloc(w->g.n_nodes, sizeof(*change));
	uint32_t n = 1;

	change[0] = draw_change(w);
	for (uint32_t i = change[0].node + t->period; i < w->g.n_nodes && ff_random_below(w->r, 9);
			i += t->period)
		if (t->class[i] == t->class[change[0].node])
			change[n++] = (struct ff_change){i, change[0].config};
	propose(w, change, n, seen);
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
		propose(w, change, n, seen);
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

	open_pair(w, draw_layered_graph);
	x->set(w);
	x->look(w, x->seen, false);
	for (uint32_t k = 0; k < x->proposals; k++) {
		w->folds->now->layers.n_folded = 0;
		w->folds->now->slots.n_folded = 0;
		w->folds->now->rejoin.n_folded = 0;
		x->propose(w, &other);
		x->look(w, x->seen, true);
	}
	close_pair(w);
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

/* Samples over the devices of the stage, where there are enough, or all of it on its first. */
static void put_in_stage(const struct pair *w, uint32_t node, uint32_t first, uint32_t n)
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
			put_in_stage(w, i, rank_of(&w->s, w->s.stage[i], ranks) * each, each);
	}
}

static void set_stages(struct pair *w)
{
	do
		draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	while (w->s.micro_batches < 4);
	make_stages(w);
	evaluate(w);
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
	Suite *s = suite_create("fold");
	TCase *c = tcase_create("property");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, folded_equals_unfolded);
	suite_add_tcase(s, c);
	c = tcase_create("layers");
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
