/* Phases of a strategy, drawn.  SPDX-License-Identifier: Apache-2.0 */
#include "phases.h"

#include <math.h>
#include <string.h>

#include "extras.h"
#include "ff/micro.h"
#include "ff/node_class.h"
#include "propose.h"
#include "recompute.h"
#include "space/limits.h"
#include "stage_moves.h"

int ff_phases_init(struct ff_phases *p, const struct ff_space *s, const struct ff_graph *g,
		const struct ff_machine *m, uint64_t seed, uint32_t chain, struct ff_arena *arena,
		struct ff_error *err)
{
	int code;

	*p = (struct ff_phases){.graph = g,
			.machine = m,
			.space = s,
			.seed = seed,
			.chain = chain,
			.arena = arena};
	p->random.seed = seed;
	p->random.stream = ff_philox_stream(chain, 'm');
	code = ff_classes_find(g, arena, &p->class, err);
	if (code == FF_OK)
		code = ff_depths_init(&p->depths, g, m, arena, err);
	if (code < 0)
		return code;
	p->place = ff_arena_array(arena, p->depths.repeats.n_blocks + 1, sizeof(*p->place));
	p->order = ff_arena_array(arena, g->n_nodes, sizeof(*p->order));
	for (int k = 0; k < 2; k++)
		p->done_us[k] = ff_arena_array(arena, g->n_nodes, sizeof(**p->done_us));
	if (code == FF_OK && (!p->place || !p->order || !p->done_us[0] || !p->done_us[1]))
		code = ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(g, i))
			p->order[p->n_order++] = i;
	return code;
}

void ff_phases_finish(struct ff_phases *p)
{
	for (uint32_t i = 0; i < FF_MOST_MICRO + FF_MOST_GIVEN; i++)
		ff_space_destroy(p->made[i]);
}

static int make_space(struct ff_phases *p, uint32_t i, struct ff_frame *f, struct ff_error *err)
{
	struct ff_graph *g = ff_arena_alloc(p->arena, sizeof(*g));
	int code;

	if (!g)
		return ff_fail_memory(err);
	code = ff_graph_micro(p->graph, f->micro_batches, p->arena, g, err);
	if (code == FF_OK)
		code = ff_space_create(g, p->machine, &p->made[i], err);
	if (code < 0)
		return code;
	ff_space_allow(p->made[i], p->space->what & ~FF_SPACE_MICRO);
	f->graph = g;
	f->space = p->made[i];
	return ff_space_limit(p->made[i], &p->space->limits, err);
}

/* Where space->micro has it; n_micro: nowhere. */
static uint32_t find_count(const struct ff_space *s, uint32_t micro_batches)
{
	uint32_t i = 0;

	while (i < s->n_micro && s->micro[i] != micro_batches)
		i++;
	return i;
}

/* Where its frame is, or will be; FF_MOST_MICRO + FF_MOST_GIVEN: there is no room. */
static uint32_t find_frame(const struct ff_phases *p, uint32_t micro_batches)
{
	uint32_t i = find_count(p->space, micro_batches);

	if (i < p->space->n_micro)
		return i;
	for (i = FF_MOST_MICRO; i < FF_MOST_MICRO + FF_MOST_GIVEN && p->frame[i]; i++)
		if (p->frame[i]->micro_batches == micro_batches)
			break;
	return i;
}

int ff_phases_frame(struct ff_phases *p, uint32_t micro_batches, struct ff_frame **ret,
		struct ff_error *err)
{
	struct ff_frame *f;
	uint32_t i = find_frame(p, micro_batches);
	int code = FF_OK;

	if (i == FF_MOST_MICRO + FF_MOST_GIVEN)
		return ff_fail(err, FF_E_INPUT,
				"a search begins at plans of at most %d numbers of micro-batches "
				"that it does not search, %u is one more",
				FF_MOST_GIVEN, micro_batches);
	if (p->frame[i]) {
		*ret = p->frame[i];
		return FF_OK;
	}
	f = ff_arena_alloc(p->arena, sizeof(*f));
	if (!f)
		return ff_fail_memory(err);
	*f = (struct ff_frame){micro_batches, p->graph, p->space, {0}, false};
	if (micro_batches > 1)
		code = make_space(p, i, f, err);
	if (code == FF_OK)
		code = ff_proposer_init(f->space, f->graph, p->seed + micro_batches - 1, p->chain,
				p->arena, &f->proposer, err);
	if (code < 0)
		return code;
	/* the program of several is long, and is built anew for every order */
	f->may_reorder = p->space->what & FF_SPACE_MICRO && micro_batches == 1;
	*ret = p->frame[i] = f;
	return FF_OK;
}

/* ---- changes ---- */

static bool drops_any(const struct ff_strategy *s)
{
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (s->recompute[i])
			return true;
	return false;
}

static bool may_drop(const struct ff_phases *p, const struct ff_strategy *s, struct ff_evaluation e)
{
	return p->space->what & FF_SPACE_RECOMPUTE && (e.tight || !e.fits || drops_any(s));
}

bool ff_phases_matter(
		const struct ff_phases *p, const struct ff_strategy *s, struct ff_evaluation e)
{
	return p->n_order > 1 && (p->space->n_micro > 1 || may_drop(p, s, e));
}

static uint32_t draw(struct ff_phases *p, uint32_t n)
{
	return ff_random_below(&p->random, n);
}

/* Twice or half as many micro-batches; of a number that is not searched, any that is. */
static bool change_count(struct ff_phases *p, struct ff_strategy *s, bool twice)
{
	uint32_t n = p->space->n_micro, i = find_count(p->space, s->micro_batches);

	if (i == n)
		i = draw(p, n);
	else if (twice ? ++i == n : i-- == 0)
		return false;
	s->micro_batches = p->space->micro[i];
	return true;
}

static bool draw_count(struct ff_phases *p, struct ff_strategy *s)
{
	return change_count(p, s, draw(p, 2));
}

static bool draw_rule(struct ff_phases *p, struct ff_strategy *s)
{
	return ff_rule_next(p->graph, p->order, p->n_order, draw(p, 2), s);
}

/* Stages as the devices suggest them: whoever shares none with what it reads begins
 * the next. */
static bool draw_stages(struct ff_phases *p, struct ff_strategy *s)
{
	const struct ff_graph *g = p->graph;
	bool changed = false;

	for (uint32_t i = 0; i < p->n_order; i++) {
		const struct ff_node *n = &g->nodes[p->order[i]];
		uint16_t stage = 0;

		for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
			uint32_t from = ff_edge_source(g, k);
			uint32_t least;

			if (!ff_node_needs_config(g, from) || from == p->order[i])
				continue;
			least = s->stage[from] + !ff_share_devices(g, s, from, p->order[i]);
			stage = stage < least ? (uint16_t)least : stage;
		}
		changed = changed || s->stage[p->order[i]] != stage;
		s->stage[p->order[i]] = stage;
	}
	return changed;
}

/* The first and the last stage that `node` may stand in, as stages ascend along edges. */
static void find_stages(const struct ff_phases *p, const struct ff_strategy *s, uint32_t node,
		uint32_t *first, uint32_t *last)
{
	const struct ff_graph *g = p->graph;
	const struct ff_node *n = &g->nodes[node];

	*first = 0;
	*last = UINT32_MAX;
	for (uint32_t k = n->in; k < n->in + n->n_data; k++) {
		uint32_t from = ff_node_leader(g, ff_edge_source(g, k));

		if (ff_node_needs_config(g, from) && from != node && s->stage[from] > *first)
			*first = s->stage[from];
	}
	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++) {
			uint32_t edge = ff_value_use(g, &g->values[k], u);
			uint32_t to = ff_node_leader(g, g->edges[edge].node);

			if (s->stage[to] < *last)
				*last = s->stage[to];
		}
	if (*last == UINT32_MAX)
		*last = *first + 1; /* nobody reads it */
}

/* One operator goes to any stage that it may stand in. */
static bool shift_stage(struct ff_phases *p, struct ff_strategy *s)
{
	uint32_t node = p->order[draw(p, p->n_order)], first, last, to;

	find_stages(p, s, node, &first, &last);
	to = last > first ? first + draw(p, last - first + 1) : first;
	if (to == s->stage[node] || to > UINT16_MAX)
		return false;
	s->stage[node] = (uint16_t)to;
	return true;
}

static bool set_priority(struct ff_strategy *s, uint32_t node, int32_t priority)
{
	bool changed = s->priority[node] != priority;

	s->priority[node] = priority;
	return changed;
}

/* Whose time is earlier is issued first.  Priorities are tenths of microseconds. */
static bool rank_by(struct ff_phases *p, const double *us, struct ff_strategy *s)
{
	bool changed = false;

	for (uint32_t i = 0; i < p->n_order; i++) {
		double at = fmin(us[p->order[i]] * 10, INT32_MAX);

		changed = set_priority(s, p->order[i], -(int32_t)at) || changed;
	}
	return changed;
}

/* When who reads first what `node` makes, by `us`. */
static double earliest_reader(const struct ff_graph *g, uint32_t node, const double *us)
{
	const struct ff_node *n = &g->nodes[node];
	double at = INFINITY;

	for (uint32_t k = n->out; k < n->out + ff_node_outputs(n); k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++)
			at = fmin(at, us[ff_value_reader(g, &g->values[k], u)]);
	return at;
}

/* Backward takes the order of forward the other way round, so this is the order that suits
 * backward.  What has no backward comes just before who reads it. */
static bool rank_backward(struct ff_phases *p, struct ff_strategy *s)
{
	double *us = p->done_us[FF_FORWARD], *back = p->done_us[FF_BACKWARD], end = 0;

	for (uint32_t i = 0; i < p->graph->n_nodes; i++)
		end = fmax(end, back[i]);
	for (uint32_t i = p->graph->n_nodes; i-- > 0;)
		us[i] = back[i] > 0 ? end - back[i] : earliest_reader(p->graph, i, us);
	return rank_by(p, us, s);
}

static bool rank_none(struct ff_phases *p, struct ff_strategy *s)
{
	bool changed = false;

	for (uint32_t i = 0; i < p->n_order; i++)
		changed = set_priority(s, p->order[i], 0) || changed;
	return changed;
}

/* Operators are issued as they are done now: what was ready early no longer waits behind
 * messages that wait for others. */
static int draw_priorities(
		struct ff_phases *p, struct ff_strategy *s, bool *changed, struct ff_error *err)
{
	uint32_t by = draw(p, 5);
	int code = by < 4 && p->evaluator ? ff_evaluator_done(p->evaluator, p->done_us, err)
					  : FF_OK;

	if (code == FF_OK)
		*changed = by < 2   ? rank_by(p, p->done_us[FF_FORWARD], s)
			   : by < 4 ? rank_backward(p, s)
				    : rank_none(p, s);
	return code;
}

/* In which order operators are issued: that is one of their stages, too, where there is one
 * micro-batch. */
static int draw_order(
		struct ff_phases *p, struct ff_strategy *s, bool *changed, struct ff_error *err)
{
	uint32_t what;

	if (draw(p, 2))
		return draw_priorities(p, s, changed, err);
	what = draw(p, 4);
	*changed = what == 0 ? draw_rule(p, s) : what == 1 ? shift_stage(p, s) : draw_stages(p, s);
	return FF_OK;
}

void ff_phases_checkpoint(const struct ff_graph *g, uint32_t segment, struct ff_strategy *s)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_needs_config(g, i))
			s->recompute[i] = !ff_node_is_loss(g, i) && ++at % segment != 0;
}

/* One operator, all equal to it, all of its kind, some in a row, or all in segments. */
static bool draw_recompute(struct ff_phases *p, struct ff_strategy *s)
{
	const struct ff_graph *g = p->graph;
	uint32_t at = draw(p, p->n_order), node = p->order[at], reach = draw(p, 6);
	uint32_t end = at + 1 + draw(p, 16);
	bool drop = !s->recompute[node], changed = false;

	if (reach == 5) {
		ff_phases_checkpoint(g, 2 + draw(p, 15), s);
		return true;
	}
	for (uint32_t i = 0; i < p->n_order; i++) {
		uint32_t other = p->order[i];
		bool meant = reach == 0   ? other == node
			     : reach == 1 ? p->class[other] == p->class[node]
			     : reach == 2 ? g->nodes[other].op == g->nodes[node].op
			     : reach == 3 ? i >= at && i < end
					  : i >= at && i < end && i != at + (end - at) / 2;

		if (!meant || ff_node_is_loss(g, other) || s->recompute[other] == drop)
			continue;
		s->recompute[other] = drop;
		changed = true;
	}
	return changed;
}

/* Whether a parameter is brought to its readers, or updated flat, and so may be brought twice. */
static bool is_brought(const struct ff_phases *p, const struct ff_strategy *s, uint32_t node)
{
	return ff_node_is_parameter(p->graph, node) &&
	       (s->config[node].n_parts || s->config[node].flat);
}

/* One of those, at random; FF_NONE: there is none. */
static uint32_t draw_parameter(struct ff_phases *p, const struct ff_strategy *s)
{
	uint32_t n = 0, ret = FF_NONE;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (is_brought(p, s, i) && draw(p, ++n) == 0)
			ret = i;
	return ret;
}

/* Whether parameters that are brought to some operators, or updated flat, are brought twice (ZeRO's
 * third stage): of all equal ones, or of most that there are. */
static bool draw_brought(struct ff_phases *p, struct ff_strategy *s)
{
	bool recomputed = draw(p, 2), changed = false;
	uint32_t like = draw(p, 2) ? draw_parameter(p, s) : FF_NONE;

	for (uint32_t i = 0; i < s->n_nodes; i++) {
		bool meant = is_brought(p, s, i) && s->recompute[i] != recomputed;

		if (meant && (like == FF_NONE ? draw(p, 4) > 0 : p->class[i] == p->class[like])) {
			s->recompute[i] = recomputed;
			changed = true;
		}
	}
	return changed;
}

/* Twice as many stages or half as many, with twice, half or as many micro-batches. */
static bool draw_depth(struct ff_phases *p, struct ff_strategy *s)
{
	bool twice = draw(p, 2);
	uint32_t micro = draw(p, 3);

	if (micro && !change_count(p, s, micro == 1))
		return false;
	if (s->micro_batches > 1 && s->rule == FF_ORDER_GPIPE)
		s->rule = FF_ORDER_1F1B;
	return twice ? ff_depths_twice(&p->depths, s) : ff_depths_half(&p->depths, s);
}

/* Stages are cut before or behind another operator. */
static bool draw_cut(struct ff_phases *p, struct ff_strategy *s)
{
	uint32_t node = p->order[draw(p, p->n_order)];

	return ff_move_cut(p->graph, p->order, p->n_order, node, draw(p, 2), s);
}

/* All blocks alike, or the first of each stage whole. */
static bool draw_blocks(struct ff_phases *p, struct ff_strategy *s)
{
	const struct ff_repeats *r = &p->depths.repeats;
	enum ff_recompute what = (enum ff_recompute)draw(p, FF_RECOMPUTES);
	uint32_t n_full = draw(p, 2) ? draw(p, r->n_blocks + 1) : 0;

	if (!r->n_blocks)
		return false;
	ff_recompute_blocks(p->graph, r, what, n_full, p->place, s);
	return memcmp(s->recompute, p->base->recompute, s->n_nodes * sizeof(*s->recompute)) != 0;
}

/* How updates, gradients and weights are cut, of all parameters; over the devices of a node alone,
 * or over all. */
static bool draw_zero(struct ff_phases *p, struct ff_strategy *s)
{
	uint32_t stage = draw(p, 4);
	bool hybrid = draw(p, 4) == 0, changed;

	ff_params_zero(p->space, p->graph, stage, s);
	s->shards = stage && hybrid ? ff_machine_shards(p->machine, 1) : 0;
	changed = s->shards != p->base->shards || s->scatter != p->base->scatter;
	for (uint32_t i = 0; i < s->n_nodes && !changed; i++)
		changed = s->recompute[i] != p->base->recompute[i] ||
			  !ff_config_equal(&p->graph->nodes[i], &s->config[i], &p->base->config[i]);
	return changed;
}

/* Configs must be legal for the micro-batch too. */
static bool is_legal(struct ff_phases *p, const struct ff_strategy *s)
{
	struct ff_error why = {0};
	struct ff_frame *f;

	return ff_space_has_time(s->micro_batches, ff_space_instances(p->space, s)) &&
	       ff_phases_frame(p, s->micro_batches, &f, &why) == FF_OK &&
	       ff_space_admits_strategy(f->space, s) &&
	       ff_strategy_check(f->graph, s, p->machine->n_devices, &why) == FF_OK;
}

/* What is drawn, by weight: where memory is not scarce, and where it is. */
static const struct {
	bool (*draw)(struct ff_phases *p, struct ff_strategy *s); /* NULL: an order */
	uint32_t weight[2];
	uint32_t what; /* FF_SPACE_*: of the space */
} rows[] = {
		{draw_count, {8, 4}, FF_SPACE_MICRO},
		{NULL, {8, 4}, FF_SPACE_MICRO},
		{draw_depth, {2, 2}, FF_SPACE_MICRO},
		{draw_cut, {8, 4}, FF_SPACE_MICRO},
		{draw_recompute, {0, 20}, FF_SPACE_RECOMPUTE},
		{draw_blocks, {0, 4}, FF_SPACE_RECOMPUTE},
		{draw_brought, {0, 4}, FF_SPACE_RECOMPUTE},
		{draw_zero, {0, 4}, FF_SPACE_UPDATES},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint32_t weight_of(const struct ff_phases *p, uint32_t row, bool scarce)
{
	if (rows[row].what & ~p->space->what)
		return 0;
	return rows[row].what == FF_SPACE_MICRO && p->space->n_micro < 2 ? 0
									 : rows[row].weight[scarce];
}

static uint32_t draw_row(struct ff_phases *p, bool scarce)
{
	uint32_t sum = 0, row = 0, at;

	for (uint32_t i = 0; i < N_ROWS; i++)
		sum += weight_of(p, i, scarce);
	at = draw(p, sum);
	for (; at >= weight_of(p, row, scarce); row++)
		at -= weight_of(p, row, scarce);
	return row;
}

int ff_phases_draw(struct ff_phases *p, const struct ff_strategy *s, struct ff_evaluation e,
		struct ff_strategy *ret, bool *changed, struct ff_error *err)
{
	uint32_t row = draw_row(p, may_drop(p, s, e));
	int code = FF_OK;

	ff_strategy_copy(ret, s);
	p->base = s;
	if (rows[row].draw)
		*changed = rows[row].draw(p, ret);
	else
		code = draw_order(p, ret, changed, err);
	*changed = code == FF_OK && *changed && is_legal(p, ret);
	return code;
}

/* Orders that a sweep tries: those that say nothing about where stages are. */
static const struct {
	enum ff_order_rule rule;
	bool shared; /* gradients of parameters take less than the others */
} orders[] = {{FF_ORDER_GPIPE, false}, {FF_ORDER_1F1B, false}, {FF_ORDER_ZB_H1, false},
		{FF_ORDER_ZB_H1, true}};
#define N_ORDERS ((uint32_t)(sizeof(orders) / sizeof(orders[0])))
#define FIRST_ORDER 2 /* changes before those of orders, which are of micro-batches */
#define FIRST_CUT (FIRST_ORDER + N_ORDERS)

uint32_t ff_phases_changes(const struct ff_phases *p)
{
	return FIRST_CUT + 2 * p->n_order;
}

/* Cut number `i`: an operator at the end of a stage goes to the next, one at its begin to that
 * before. */
static bool change_cut(const struct ff_phases *p, struct ff_strategy *s, uint32_t i)
{
	uint32_t node = p->order[i / 2];

	return ff_stage_ends_at(p->graph, node, i % 2, s) &&
	       ff_move_cut(p->graph, p->order, p->n_order, node, i % 2, s);
}

bool ff_phases_change(struct ff_phases *p, const struct ff_strategy *s, uint32_t i,
		struct ff_strategy *ret)
{
	bool changed;

	ff_strategy_copy(ret, s);
	p->base = s;
	if (i < FIRST_ORDER)
		changed = change_count(p, ret, i == 0);
	else if (i < FIRST_CUT)
		changed = ff_rule_change(
				ret, orders[i - FIRST_ORDER].rule, orders[i - FIRST_ORDER].shared);
	else
		changed = change_cut(p, ret, i - FIRST_CUT);
	return changed && is_legal(p, ret);
}
