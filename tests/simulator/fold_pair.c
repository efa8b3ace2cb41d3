/* Draws pairs, and proposes to both alike.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fold_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/simulate.h"
#include "ff/zoo.h"

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
void draw_deep_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *ret)
{
	struct ff_error err = {0};
	struct ff_graph g;

	do { /* until samples do not meet */
		draw_graph(r, a, &g);
		say_batch(&g, 2 * g.batch * (64 / g.batch));
	} while (ff_graph_micro(&g, 2, a, ret, &err) < 0);
}

/* A network of some equal layers. */
void draw_layered_graph(struct ff_random *r, struct ff_arena *a, struct ff_graph *ret)
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

void pair_open(struct pair *w,
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

void pair_close(struct pair *w)
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
void pair_evaluate(struct pair *w)
{
	struct ff_evaluation a, b;

	ck_assert_msg(ff_evaluator_set(w->folds, &w->s, &a, &w->err) == FF_OK, "%s", w->err.text);
	ck_assert_msg(ff_evaluator_set(w->plain, &w->s, &b, &w->err) == FF_OK, "%s", w->err.text);
	same(a, b);
	same(a, fresh(w));
	same_lanes(w);
}

/* A strategy in several micro-batches. */
void pair_set(struct pair *w)
{
	do
		draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	while (w->s.micro_batches < 4);
	if (ff_random_below(w->r, 2))
		make_pipeline(w);
	pair_evaluate(w);
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

void pair_look(const struct pair *w, struct seen *seen)
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

struct ff_change pair_draw_change(struct pair *w)
{
	struct ff_change change;

	do
		change.node = ff_random_below(w->r, w->g.n_nodes);
	while (ff_node_is_source(&w->g, change.node) || ff_node_is_prelude(&w->g, change.node));
	draw_config(w->r, &w->micro, change.node, w->h.m.n_devices, &w->a, &change.config);
	return change;
}

/* Some operators or parameters elsewhere, now and then with a limit. */
void pair_propose(struct pair *w, const struct ff_change *change, uint32_t n, struct seen *seen)
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
