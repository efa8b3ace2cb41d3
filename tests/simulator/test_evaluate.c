/* The evaluator against what it stands for: after every proposal, kept or
 * dropped, time and memory equal a fresh lowering and simulation to the bit.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "../../simulator/evaluate/home.h"
#include "check_main.h"
#include "ff/evaluate.h"
#include "ff/simulate.h"
#include "simulator/drawn.h"
#include "simulator/seen.h"

#define WALKS 600
#define PROPOSALS 20

struct walk {
	struct ff_random *r;
	struct seen *seen;
	struct hand_machine h;
	struct ff_arena a, scratch;
	struct ff_graph g, micro; /* micro: what configs are for */
	struct ff_strategy s;     /* what the evaluator holds, should it be right */
	struct ff_costs *costs;
	const struct ff_optimizer *optimizer;
	struct ff_pricer *p;
	struct ff_evaluator *e;
	int64_t limit, bucket;
	struct ff_error err;
};

static int64_t limit_of(const struct walk *w, uint32_t device)
{
	return w->limit ? w->limit : ff_device_kind(&w->h.m, device)->memory_bytes;
}

/* Whether what is there from the start is brought only when a compute has ended. */
static bool is_limited(
		const struct ff_schedule *plan, const struct ff_simulation *sim, uint32_t task)
{
	const struct ff_task *t = &plan->tasks[task];
	bool held = false;

	for (uint32_t k = 0; k < t->n_deps && !held && ff_task_moves_edge(t); k++)
		held = ff_edge_is_brought(plan->graph, t->edge) && ff_task_pass(t) == FF_FORWARD &&
		       plan->machine->overlap &&
		       sim->finish[plan->deps[t->first_dep + k]] == sim->start[task];
	return held;
}

/* What a fresh lowering says; *layout is what its layout lacks. */
static struct ff_evaluation fresh(struct walk *w, int64_t *layout)
{
	struct ff_lower_options opt = {.bucket_bytes = w->bucket,
			.optimizer = w->optimizer,
			.clip = ff_price_clips(w->p),
			.travel.codec = ff_price_codec(w->p),
			.workspace = ff_price_workspace,
			.ctx = w->p};
	struct ff_arena_mark mark = ff_arena_mark(&w->scratch);
	struct ff_evaluation ret = {0};
	struct ff_simulation sim;
	struct ff_schedule plan;

	ck_assert_msg(ff_lower(&w->g, &w->h.m, &w->s, &opt, &w->scratch, &plan, &w->err) == FF_OK,
			"%s", w->err.text);
	ck_assert_msg(ff_simulate(&plan, w->p, &w->scratch, &sim, &w->err) == FF_OK, "%s",
			w->err.text);
	look(w->seen, &plan);
	for (uint32_t i = 0; i < plan.n_tasks; i++)
		w->seen->limited += is_limited(&plan, &sim, i);
	ret.step_us = sim.step_us;
	*layout = 0;
	for (uint32_t d = 0; d < w->h.m.n_devices; d++) {
		int64_t limit = limit_of(w, d);

		ret.tight |= plan.live_bytes[d] > limit / 2;
		if (d == 0 || limit - plan.live_bytes[d] < ret.spare_bytes)
			ret.spare_bytes = limit - plan.live_bytes[d];
		if (plan.live_bytes[d] > limit)
			ret.over_bytes += plan.live_bytes[d] - limit;
		if (plan.memory_bytes[d] > limit)
			*layout += plan.memory_bytes[d] - limit;
	}
	ret.fits = ret.over_bytes == 0;
	ff_arena_rewind(&w->scratch, mark);
	return ret;
}

/* `v` is what the evaluator said of w->s. */
static void same(struct walk *w, struct ff_evaluation v, int64_t *layout)
{
	struct ff_evaluation x = fresh(w, layout);

	ck_assert_msg(v.step_us == x.step_us, "%.17g us, fresh %.17g us", v.step_us, x.step_us);
	ck_assert_int_eq(v.over_bytes, x.over_bytes);
	ck_assert_int_eq(v.fits, x.fits);
	ck_assert_int_eq(v.spare_bytes, x.spare_bytes);
	ck_assert_int_eq(v.tight, x.tight);
	w->seen->fits += v.fits;
	w->seen->misfits += !v.fits;
	w->seen->tight += v.tight && v.fits;
}

/* Says when nodes are done as a fresh simulation of w->s has it. */
static void check_done(struct walk *w)
{
	struct ff_lower_options opt = {.bucket_bytes = w->bucket,
			.optimizer = w->optimizer,
			.clip = ff_price_clips(w->p),
			.travel.codec = ff_price_codec(w->p),
			.workspace = ff_price_workspace,
			.ctx = w->p};
	struct ff_arena_mark mark = ff_arena_mark(&w->scratch);
	double *us[2], *fresh_us[2];
	struct ff_simulation sim;
	struct ff_schedule plan;

	ck_assert_int_eq(ff_lower(&w->g, &w->h.m, &w->s, &opt, &w->scratch, &plan, &w->err), FF_OK);
	ck_assert_int_eq(ff_simulate(&plan, w->p, &w->scratch, &sim, &w->err), FF_OK);
	for (int k = 0; k < 2; k++) {
		us[k] = ff_arena_array(&w->scratch, w->g.n_nodes, sizeof(**us));
		fresh_us[k] = ff_arena_array(&w->scratch, w->g.n_nodes, sizeof(**us));
	}
	for (uint32_t i = 0; i < plan.n_tasks; i++) {
		const struct ff_task *t = &plan.tasks[i];
		int pass = ff_task_computes_in(t, FF_BACKWARD);

		if ((pass || ff_task_computes_in(t, FF_FORWARD)) &&
				t->phase != FF_PHASE_RECOMPUTE && t->micro == 0 &&
				t->grads != FF_GRADS_PARAMS)
			fresh_us[pass][t->node] = fmax(fresh_us[pass][t->node], sim.finish[i]);
	}
	ck_assert_int_eq(ff_evaluator_done(w->e, us, &w->err), FF_OK);
	for (uint32_t i = 0; i < w->g.n_nodes; i++)
		for (int k = 0; k < 2; k++)
			ck_assert_msg(us[k][i] == fresh_us[k][i],
					"%s, pass %d: %.17g us, fresh %.17g us", w->g.nodes[i].name,
					k, us[k][i], fresh_us[k][i]);
	ff_arena_rewind(&w->scratch, mark);
	w->seen->done++;
}

/* That the evaluator holds w->s, and what its layout lacks. */
static void holds(struct walk *w, int64_t layout)
{
	const struct ff_strategy *s = ff_evaluator_strategy(w->e);
	int64_t over;
	bool fits;

	ck_assert_uint_eq(s->micro_batches, w->s.micro_batches);
	for (uint32_t i = 0; i < w->g.n_nodes; i++)
		ck_assert(ff_config_equal(&w->g.nodes[i], &s->config[i], &w->s.config[i]) &&
				s->priority[i] == w->s.priority[i]);
	ck_assert_int_eq(ff_evaluator_layout(w->e, &over, &w->err), FF_OK);
	ck_assert_int_eq(over, layout);
	ck_assert_int_eq(ff_evaluator_lays_out(w->e, &fits, &w->err), FF_OK);
	ck_assert_int_eq(fits, layout == 0);
	w->seen->layout_over += over > 0;
	if (ff_random_below(w->r, 8) == 0)
		check_done(w);
}

/* Every operator is cut over all devices, along its first dim that has as many elements. */
static void make_equal(struct walk *w)
{
	uint32_t n = w->h.m.n_devices;

	for (uint32_t i = 0; i < w->micro.n_nodes; i++) {
		const struct ff_node *node = &w->micro.nodes[i];
		struct ff_config c = {.n_parts = n, .replicas = 1}, was = w->s.config[i];
		struct ff_error err = {0};
		uint32_t dim = 0;

		while (dim < node->n_dims && (uint32_t)node->dim[dim].extent < n)
			dim++;
		if (ff_node_is_source(&w->micro, i) || dim == node->n_dims)
			continue;
		for (uint32_t d = 0; d < node->n_dims; d++)
			c.degree[d] = d == dim ? (uint16_t)n : 1;
		c.stride[dim] = 1;
		w->s.config[i] = c;
		if (ff_strategy_check(&w->micro, &w->s, n, &err) < 0)
			w->s.config[i] = was;
	}
}

static void look_at_parts(struct seen *seen, const struct ff_memo_buffers *b)
{
	seen->moved_alike += b->sent == FF_ALL_PARTS && b->lent == FF_NO_PART;
	seen->moved_in_part += b->sent == FF_SOME_PARTS;
}

static void look_at_equal(struct walk *w)
{
	const struct ff_trial *t = w->e->now;

	for (uint32_t k = 0; k < t->g->n_edges; k++) {
		const struct ff_memo_node *to = t->placed.node[t->ends[k].to];
		const struct ff_memo_edge *me = t->placed.edge[k];

		w->seen->joined += me && me->n_moves[FF_BACKWARD] == 1 &&
				   me->move[FF_BACKWARD][0].each;
		if (me && me->n_moves[FF_BACKWARD] > 1 && me->moved[FF_BACKWARD].buffers.known)
			look_at_parts(w->seen, &me->moved[FF_BACKWARD].buffers);
		if (!me || !to || !me->stays[FF_FORWARD] || !to->in_line || to->n_parts < 3)
			continue;
		w->seen->equal += to->rest->shape->even;
		w->seen->equal_but_in_bytes += !to->rest->shape->even;
	}
}

static void set(struct walk *w)
{
	struct ff_evaluation v;
	int64_t layout;

	draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	for (uint32_t i = 0; i < w->g.n_nodes; i++)
		w->s.priority[i] = (int32_t)ff_random_below(w->r, 2);
	if (ff_random_below(w->r, 3) == 0)
		make_equal(w);
	ck_assert_msg(ff_evaluator_set(w->e, &w->s, &v, &w->err) == FF_OK, "%s", w->err.text);
	same(w, v, &layout);
	holds(w, layout);
	look_at_equal(w);
	w->seen->stretches += w->e->now->times.stretches.n > 0;
	w->seen->too_long += w->e->now->times.stretches.off;
	w->seen->sets++;
}

/* Another strategy is tried.  The current one stays where that takes too long, or it is not
 * taken. */
static void leap(struct walk *w)
{
	static const double share[] = {0.2, 0.5, 0.9, 1, INFINITY};
	struct ff_graph micro = w->micro;
	struct ff_strategy s = w->s;
	struct ff_evaluation v, x;
	int64_t layout;
	double limit;
	bool slower;

	draw_strategy(w->r, &w->g, w->h.m.n_devices, &w->a, &w->s, &w->micro);
	x = fresh(w, &layout);
	limit = x.step_us * share[ff_random_below(w->r, 5)];
	ck_assert_msg(ff_evaluator_try(w->e, &w->s, limit, &slower, &v, &w->err) == FF_OK, "%s",
			w->err.text);
	ck_assert(slower == (x.step_us > limit));
	if (!slower)
		same(w, v, &layout);
	if (slower || ff_random_below(w->r, 2)) {
		w->s = s;
		w->micro = micro;
		fresh(w, &layout);
		*(slower ? &w->seen->sieved : &w->seen->left) += 1;
	} else {
		ff_evaluator_take(w->e);
		w->seen->leapt++;
	}
	holds(w, layout);
}

/* ---- proposals ---- */

static bool is_listed(const struct ff_change *change, uint32_t n, uint32_t node)
{
	while (n-- > 0)
		if (change[n].node == node)
			return true;
	return false;
}

/* A node beside one of the list: it reads what that writes, or the other way. */
static uint32_t neighbour(struct walk *w, const struct ff_change *change, uint32_t n)
{
	uint32_t found = 0, seen = 0;

	for (uint32_t k = 0; k < w->g.n_edges; k++) {
		uint32_t from = ff_edge_source(&w->g, k), to = w->g.edges[k].node;

		if (is_listed(change, n, from) != is_listed(change, n, to) &&
				!ff_random_below(w->r, ++seen))
			found = is_listed(change, n, from) ? to : from;
	}
	return found;
}

/* Up to MAX_CHANGES different nodes, all over the graph or beside each other. */
static uint32_t draw_changes(struct walk *w, struct ff_change *change)
{
	uint32_t want = 1 + ff_random_below(w->r, MAX_CHANGES), n = 0;
	bool adjacent = ff_random_below(w->r, 2);

	for (int tries = 0; tries < 40 && n < want; tries++) {
		uint32_t node = adjacent && n ? neighbour(w, change, n)
					      : ff_random_below(w->r, w->g.n_nodes);

		if (ff_node_is_source(&w->g, node) || is_listed(change, n, node))
			continue;
		change[n].node = node;
		draw_config(w->r, &w->micro, node, w->h.m.n_devices, &w->a, &change[n].config);
		random_alike(w->r, &w->micro, node, w->h.m.n_devices, w->s.config,
				&change[n].config);
		n++;
	}
	return n;
}

/* All reasons are trusted, or, one time in four, none is. */
static bool draw_distrust(struct walk *w)
{
	bool distrust = ff_random_below(w->r, 4) == 0;
	struct ff_early *f = &w->e->now->early;

	for (int k = 0; k < FF_EARLY_REASONS; k++)
		f->so_far[k].wrong = distrust ? f->so_far[k].checked + 2 : 0;
	return distrust;
}

/* What takes too long is rejected; what does not, only for a trusted reason. */
static void check_rejected(const struct walk *w, bool slower, bool too_slow, bool distrust)
{
	const struct ff_early *f = &w->e->now->early;

	ck_assert(slower || !too_slow);
	ck_assert(!f->rejected || !(distrust || f->checks));
	if (!f->rejected)
		ck_assert(slower == too_slow);
	w->seen->in_vain += slower && !too_slow;
}

/* Whether what is known before a pass is too much, but not for the work of operators alone. */
static bool is_foreseen(const struct walk *w)
{
	const struct ff_busy *b = &w->e->now->busy;
	bool known = false, busy = false;

	for (uint32_t d = 0; d < w->h.m.n_devices; d++) {
		known = known || b->known[d] > b->most_us;
		busy = busy || b->next[d] > b->most_us;
	}
	return known && !busy;
}

/* Says that the proposal w->s takes too long where it does, and then forgets it. */
static bool is_slower(
		struct walk *w, const struct ff_change *change, uint32_t n, struct ff_evaluation *v)
{
	static const double share[] = {0.5, 0.9, 1, 1.1, 2};
	int64_t layout;
	struct ff_evaluation x = fresh(w, &layout);
	struct ff_most most = {x.step_us * share[ff_random_below(w->r, 5)], INT64_MAX};
	bool slower, distrust = draw_distrust(w);

	if (ff_random_below(w->r, 2)) { /* time first, or memory */
		most.over_bytes = x.over_bytes - ff_random_below(w->r, 2);
		w->e->now->tally.n_counted = 1;
		w->e->now->tally.n_lacking = ff_random_below(w->r, 2);
	}
	ck_assert_msg(ff_evaluator_propose_within(w->e, change, n, most, &slower, v, &w->err) ==
					FF_OK,
			"%s", w->err.text);
	check_rejected(w, slower, x.step_us > most.step_us || x.over_bytes > most.over_bytes,
			distrust);
	w->seen->rejected += w->e->now->early.rejected && !w->e->now->busy.too_slow;
	w->seen->foreseen += slower && is_foreseen(w);
	w->seen->slower += slower;
	w->seen->not_slower += !slower;
	return slower;
}

/* Says that the proposal w->s lacks more than so many bytes exactly where it does, and then
 * forgets it. */
static bool is_lacking(
		struct walk *w, const struct ff_change *change, uint32_t n, struct ff_evaluation *v)
{
	static const double share[] = {0, 0.5, 1, 1, 2};
	int64_t layout;
	struct ff_evaluation x = fresh(w, &layout);
	struct ff_most most = {INFINITY,
			(int64_t)((double)x.over_bytes * share[ff_random_below(w->r, 5)]) -
					ff_random_below(w->r, 2)};
	bool lacks;

	ck_assert_msg(ff_evaluator_propose_within(w->e, change, n, most, &lacks, v, &w->err) ==
					FF_OK,
			"%s", w->err.text);
	ck_assert_int_eq(lacks, x.over_bytes > most.over_bytes);
	ck_assert(lacks || isinf(v->step_us) == !x.fits); /* what lacks some is not timed */
	if (!lacks && !x.fits)
		v->step_us = x.step_us;
	w->seen->lacking += lacks;
	w->seen->not_lacking += !lacks && x.over_bytes > 0;
	return lacks;
}

/* The proposal w->s, now and then within a limit; whether it is beyond that. */
static bool is_beyond(
		struct walk *w, const struct ff_change *change, uint32_t n, struct ff_evaluation *v)
{
	uint32_t what = ff_random_below(w->r, 4);

	if (what == 0)
		return is_slower(w, change, n, v);
	if (what == 1)
		return is_lacking(w, change, n, v);
	ck_assert_msg(ff_evaluator_propose(w->e, change, n, v, &w->err) == FF_OK, "%s",
			w->err.text);
	return false;
}

static void propose(struct walk *w)
{
	struct ff_change change[MAX_CHANGES];
	struct ff_config was[MAX_CHANGES];
	uint32_t n = draw_changes(w, change);
	struct ff_evaluation v;
	int64_t layout;

	if (!n)
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct ff_config *c = &w->s.config[change[i].node];

		w->seen->followed += c->n_parts && !change[i].config.n_parts;
		was[i] = *c;
		*c = change[i].config;
	}
	if (ff_random_below(w->r, 8) == 0) { /* the memo is over its limit */
		w->e->memo_limit = 1;
		w->seen->forgotten++;
	}
	w->seen->resumed += w->e->now->snapshots.recorded;
	if (is_beyond(w, change, n, &v)) {
		for (uint32_t i = 0; i < n; i++)
			w->s.config[change[i].node] = was[i];
		fresh(w, &layout);
		holds(w, layout);
		return;
	}
	same(w, v, &layout);
	w->seen->changes[n - 1]++;
	if (ff_random_below(w->r, 2)) {
		ff_evaluator_keep(w->e);
		holds(w, layout);
		w->seen->kept++;
		return;
	}
	if (ff_random_below(w->r, 2))
		w->e->now->tally.n_noted = UINT32_MAX; /* as if it were too much to be noted */
	ff_evaluator_drop(w->e);
	for (uint32_t i = 0; i < n; i++)
		w->s.config[change[i].node] = was[i];
	fresh(w, &layout);
	holds(w, layout);
	w->seen->dropped++;
}

/* Any priorities, or those of the order of the moment with two neighbours exchanged. */
static void draw_priorities(struct walk *w, int32_t *priority)
{
	const uint32_t *order = w->e->now->order.nodes;
	uint32_t n = w->g.n_nodes;

	if (ff_random_below(w->r, 3) == 0) {
		for (uint32_t i = 0; i < n; i++)
			priority[i] = (int32_t)ff_random_below(w->r, 4);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		priority[order[i]] = (int32_t)(n - i);
	if (n > 1) {
		uint32_t at = ff_random_below(w->r, n - 1);
		int32_t was = priority[order[at]];

		priority[order[at]] = priority[order[at + 1]];
		priority[order[at + 1]] = was;
	}
}

/* Which of its means the evaluator has used for the order proposed last. */
static void look_at_order(struct walk *w, bool slower)
{
	const struct ff_trial *e = w->e->now;

	w->seen->reorders_slower += slower;
	w->seen->reorders_rejected += e->early.rejected && !e->busy.too_slow;
	w->seen->reorders_recorded += slower && e->snapshots.recorded;
	w->seen->reorders_resumed += !slower && e->snapshots.n_taken > 0 &&
				     e->snapshots.at[0].step <= e->proposal.first_changed;
	w->seen->reorders_recounted += !slower && e->proposal.recounted && e->proposal.n_dirty > 0;
}

/* Operators of the current strategy are issued in another order, perhaps the same. */
static void reorder(struct walk *w)
{
	static const double share[] = {0.5, 0.99, 1, 1.1, INFINITY};
	int32_t *was = w->s.priority;
	struct ff_evaluation v, x;
	int64_t layout;
	bool slower, distrust = draw_distrust(w);
	double limit;

	w->s.priority = ff_arena_array(&w->a, w->g.n_nodes, sizeof(*w->s.priority));
	draw_priorities(w, w->s.priority);
	x = fresh(w, &layout);
	limit = x.step_us * share[ff_random_below(w->r, 5)];
	ck_assert_msg(ff_evaluator_reorder(w->e, w->s.priority, limit, &slower, &v, &w->err) ==
					FF_OK,
			"%s", w->err.text);
	check_rejected(w, slower, x.step_us > limit, distrust);
	if (!slower)
		same(w, v, &layout);
	look_at_order(w, slower);
	if (!slower && ff_random_below(w->r, 2)) {
		ff_evaluator_keep(w->e);
		holds(w, layout);
		w->seen->snapshots_left += w->e->now->snapshots.n_taken > 0;
		w->seen->reorders_kept++;
		return;
	}
	w->s.priority = was;
	if (!slower)
		ff_evaluator_drop(w->e);
	w->seen->reorders_dropped += !slower;
	fresh(w, &layout);
	holds(w, layout);
}

/* ---- walks ---- */

/* One or two nodes, perhaps of two kinds; or measured costs, for one kind. */
static void open_walk(struct walk *w)
{
	struct ff_random *r = w->r;
	uint32_t nodes = 1 + ff_random_below(r, 2);
	bool measured = ff_random_below(r, 4) == 0;
	int64_t limit = 4000 + ff_random_below(r, 60000);

	ff_arena_init(&w->a);
	ff_arena_init(&w->scratch);
	hand_machine_init(&w->h, nodes, 1 + ff_random_below(r, measured ? 2 : 5),
			ff_random_below(r, 2));
	for (uint32_t i = 0; i < nodes; i++)
		w->h.node[i].inside.shared = ff_random_below(r, 2);
	if (ff_random_below(r, 2)) /* so that what is brought is there long before it is read */
		for (uint32_t i = 0; i < nodes; i++)
			w->h.node[i].inside = w->h.node[i].network = (struct ff_link){0, 1e9, true};
	if (!measured && ff_random_below(r, 2))
		hand_wire(&w->h, 1 + ff_random_below(r, 4));
	hand_message_lane(&w->h, ff_random_below(r, 2));
	w->seen->wired += w->h.m.n_card_lanes > nodes;
	w->h.node[nodes - 1].kind = nodes > 1 && !measured && ff_random_below(r, 2);
	w->h.kind[0].memory_bytes = limit;
	w->h.kind[1].memory_bytes = limit / 2;
	if (limit % 16 == 0) /* a step takes longer than times are exact */
		w->h.kind[0].flops_per_s = w->h.kind[1].flops_per_s = 1e-2;
	w->limit = ff_random_below(r, 2) ? limit : 0;
	w->bucket = 1 + ff_random_below(r, 3000);
	draw_graph(r, &w->a, &w->g);
	if (ff_random_below(r, 2))
		random_types(r, &w->g); /* micro-batches have the types that rows derive */
	if (measured)
		w->costs = odd_costs(&w->g, w->h.m.n_devices, ff_random_u32(r), 5000);
	w->seen->kinds += w->h.node[nodes - 1].kind;
	w->seen->measured += measured;
	w->seen->rounded += w->g.dtype == FF_BF16;
	ck_assert_msg(ff_pricer_create(&w->g, &w->h.m, hand_estimate(&w->h), w->costs, "c", "g",
				      &w->p, &w->err) == FF_OK,
			"%s", w->err.text);
	ff_pricer_set_by_nodes(w->p, w->bucket % 2);
	if (w->bucket % 5 < 3)
		ff_pricer_set_overlap(w->p, (struct ff_overlap_cost){0.3 * (double)(w->bucket % 5),
							    0.7, 0.2, 0.4});
	w->optimizer = ff_optimizer((enum ff_optimizer_id)ff_random_below(r, FF_OPTIMIZER_COUNT));
	ck_assert_int_eq(ff_pricer_set_optimizer(w->p, w->optimizer, &w->err), FF_OK);
	w->seen->optimizer[w->optimizer->id]++;
	ff_pricer_set_clip(w->p, w->bucket % 3 == 0);
	if (w->bucket % 5 < FF_CODEC_COUNT)
		ff_pricer_set_travel(w->p, &(struct ff_travel){.codec = ff_codec((enum ff_codec_id)(
									       w->bucket % 5))});
	w->seen->compressed += ff_price_codec(w->p) != NULL;
	w->seen->clipped += ff_price_clips(w->p);
	ck_assert_msg(ff_evaluator_create(&w->g, &w->h.m, w->p, w->limit, w->bucket, &w->e,
				      &w->err) == FF_OK,
			"%s", w->err.text);
	ff_evaluator_reject_early(w->e, ff_random_below(r, 2));
}

static void close_walk(struct walk *w)
{
	ff_evaluator_destroy(w->e);
	ff_pricer_destroy(w->p);
	if (w->costs)
		ff_costs_destroy(w->costs);
	ff_arena_finish(&w->scratch);
	ff_arena_finish(&w->a);
}

START_TEST(proposals_equal_fresh_simulations)
{
	uint64_t seed = ff_test_seed(11);
	uint32_t rounds = ff_test_rounds(WALKS);
	struct seen seen = {0};
	const uint32_t *count = (const uint32_t *)&seen;
	const size_t kinds = sizeof(seen) / sizeof(*count);

	/* more than the rounds until all was met, of which no number of them is sure */
	for (uint32_t i = 0; i < rounds || (i < 10 * WALKS && ff_test_unmet(count, kinds) < kinds);
			i++) {
		struct ff_random r = {seed, i, 0};
		struct walk w = {.r = &r, .seen = &seen};

		open_walk(&w);
		printf("# walk %u: %u nodes, %u devices\n", i, w.g.n_nodes, w.h.m.n_devices);
		set(&w);
		for (int k = 0; k < PROPOSALS; k++) {
			propose(&w);
			if (ff_random_below(&r, 4) == 0)
				reorder(&w);
		}
		if (ff_random_below(&r, 4) == 0) {
			set(&w);
			propose(&w);
		}
		leap(&w);
		propose(&w);
		close_walk(&w);
	}
	ck_assert_msg(ff_test_unmet(count, kinds) == kinds, "count %zu of struct seen is zero",
			ff_test_unmet(count, kinds));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("evaluate");
	TCase *c = tcase_create("property");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, proposals_equal_fresh_simulations);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
