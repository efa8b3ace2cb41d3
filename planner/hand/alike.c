/* Regular plans.  SPDX-License-Identifier: Apache-2.0 */
#include "alike.h"

#include <math.h>

#include "ff/micro.h"
#include "ff/node_class.h"
#include "space/limits.h"
#include "space/repeats.h"

#define MOST_MODELS 6 /* of a group that others are made like: those that most are like already */

/* Equal operators, or parameters: one of each block, or all of a class. */
struct group {
	uint32_t *node, n;
	bool of_blocks;
};

struct regular {
	const struct ff_alike *on;
	struct ff_arena *a;
	const struct ff_graph *g;
	struct ff_graph micro;
	struct ff_repeats repeats;
	struct group *group;
	uint32_t n_groups;
	uint16_t *stage; /* by block: that most of its operators are in */
	uint32_t *base;  /* by block: the first device of that stage */
	struct ff_strategy kept, tried, best;
	struct ff_evaluation at;
	double limit_us;
	uint64_t tried_so_far;
};

/* ---- groups ---- */

static struct group *add_group(struct regular *r, uint32_t most, bool of_blocks)
{
	struct group *x = &r->group[r->n_groups++];

	*x = (struct group){.of_blocks = of_blocks};
	x->node = ff_arena_array(r->a, most, sizeof(*x->node));
	return x->node ? x : NULL;
}

/* One group for operators that are in the same place, and one for each parameter of theirs. */
static int add_groups(struct regular *r, const uint32_t *node, uint32_t n, bool of_blocks)
{
	const struct ff_node *first = &r->g->nodes[node[0]];
	struct group *x = add_group(r, n, of_blocks);

	if (!x)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		x->node[x->n++] = node[i];
	for (uint32_t k = 0; k < first->n_in - first->n_data; k++) {
		bool whole = true;

		x = add_group(r, n, of_blocks);
		if (!x)
			return FF_E_NOMEM;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t parameter = ff_node_own_parameter(r->g, node[i], k);

			whole = whole && parameter != FF_NONE;
			if (whole)
				x->node[x->n++] = parameter;
		}
		r->n_groups -= !whole; /* tied: it has one config anyway */
	}
	return FF_OK;
}

/* What has the same place in each block.  `row` has room for all nodes. */
static int group_blocks(struct regular *r, uint32_t *row)
{
	uint32_t n_blocks = r->repeats.n_blocks, most = 0;
	uint32_t *length = ff_arena_array(r->a, n_blocks + 1, sizeof(*length));
	int code = length ? FF_OK : FF_E_NOMEM;

	for (uint32_t i = 0; i < r->g->n_nodes && code == FF_OK; i++)
		if (ff_node_needs_config(r->g, i) && r->repeats.block[i] != FF_NONE)
			length[r->repeats.block[i]]++;
	for (uint32_t b = 0; b < n_blocks && code == FF_OK; b++)
		most = length[b] == length[0] ? length[0] : 0;
	for (uint32_t place = 0; place < most && code == FF_OK; place++) {
		uint32_t n = 0;

		for (uint32_t b = 0; b < n_blocks; b++)
			length[b] = 0;
		for (uint32_t i = 0; i < r->g->n_nodes; i++) {
			uint32_t b = r->repeats.block[i];

			if (ff_node_needs_config(r->g, i) && b != FF_NONE && length[b]++ == place)
				row[n++] = i;
		}
		code = add_groups(r, row, n, true);
	}
	return code;
}

/* Equal operators that are in no block. */
static int group_classes(struct regular *r, const uint32_t *class, uint32_t *row)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < r->g->n_nodes && code == FF_OK; i++) {
		uint32_t n = 0;

		if (class[i] != i || !ff_node_needs_config(r->g, i))
			continue;
		for (uint32_t k = i; k < r->g->n_nodes; k++)
			if (class[k] == i && r->repeats.block[k] == FF_NONE)
				row[n++] = k;
		if (n > 1)
			code = add_groups(r, row, n, false);
	}
	return code;
}

static int find_groups(struct regular *r, struct ff_error *err)
{
	uint32_t *class, *row = ff_arena_array(r->a, r->g->n_nodes, sizeof(*row));
	int code = ff_repeats_find(r->g, NULL, 1, r->a, &r->repeats, err);

	if (code == FF_OK)
		code = ff_classes_find(r->g, r->a, &class, err);
	r->group = ff_arena_array(r->a, r->g->n_nodes, sizeof(*r->group));
	if (code == FF_OK && (!row || !r->group))
		code = ff_fail_memory(err);
	if (code == FF_OK && r->repeats.n_blocks && group_blocks(r, row) < 0)
		code = ff_fail_memory(err);
	if (code == FF_OK && group_classes(r, class, row) < 0)
		code = ff_fail_memory(err);
	return code;
}

/* ---- where blocks are ---- */

static uint32_t first_device(const struct ff_node *n, const struct ff_config *c)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t p = 0; p < c->n_parts; p++) {
		uint32_t device = ff_config_device(n, c, p);

		least = device < least ? device : least;
	}
	return least;
}

struct stage {
	uint32_t base; /* the first device of its operators */
	uint32_t n;    /* of a block's operators */
};

/* The stage that most of a block's operators are in, of several the first: `head`, then `next`. */
static uint16_t main_stage(
		const struct regular *r, uint32_t head, const uint32_t *next, struct stage *stages)
{
	const uint16_t *stage = r->kept.stage;
	uint32_t most = 0;
	uint16_t ret = 0;

	for (uint32_t i = head; i != FF_NONE; i = next[i])
		stages[stage[i]].n++;
	for (uint32_t i = head; i != FF_NONE; i = next[i]) {
		if (stages[stage[i]].n <= most)
			continue;
		most = stages[stage[i]].n;
		ret = stage[i];
	}
	for (uint32_t i = head; i != FF_NONE; i = next[i])
		stages[stage[i]].n = 0;
	return ret;
}

/* Begins the stages, and by block the list of its operators: `head`, then `next`. */
static int open_places(struct regular *r, uint32_t *head, uint32_t *next, struct stage **stages)
{
	const struct ff_graph *g = r->g;
	uint32_t n = 1;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		n = r->kept.stage[i] >= n ? r->kept.stage[i] + 1U : n;
	*stages = ff_arena_array(r->a, n, sizeof(**stages));
	if (!*stages)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		(*stages)[i].base = UINT32_MAX;
	for (uint32_t b = 0; b < r->repeats.n_blocks; b++)
		head[b] = FF_NONE;
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		struct stage *in = *stages + r->kept.stage[i];
		uint32_t first, b = r->repeats.block[i];

		if (!ff_node_needs_config(g, i))
			continue;
		first = first_device(&g->nodes[i], &r->kept.config[i]);
		in->base = first < in->base ? first : in->base;
		if (!r->repeats.n_blocks || b == FF_NONE)
			continue;
		next[i] = head[b];
		head[b] = i;
	}
	return FF_OK;
}

static int find_places(struct regular *r, struct ff_error *err)
{
	uint32_t n = r->repeats.n_blocks + 1;
	uint32_t *head = ff_arena_array(r->a, n, sizeof(*head));
	uint32_t *next = ff_arena_array(r->a, r->g->n_nodes, sizeof(*next));
	struct stage *stages;

	r->stage = ff_arena_array(r->a, n, sizeof(*r->stage));
	r->base = ff_arena_array(r->a, n, sizeof(*r->base));
	if (!r->stage || !r->base || !head || !next || open_places(r, head, next, &stages) < 0)
		return ff_fail_memory(err);
	for (uint32_t b = 0; b < r->repeats.n_blocks; b++) {
		r->stage[b] = main_stage(r, head[b], next, stages);
		r->base[b] = stages[r->stage[b]].base;
	}
	return FF_OK;
}

/* ---- one node like another ---- */

/* Number `k` of a group as its number `like` is in `s`, where its own block is; false: there is no
 * saying what that would be. */
static bool model(const struct regular *r, const struct group *x, uint32_t k, uint32_t like,
		const struct ff_strategy *s, struct ff_config *c, bool *recompute)
{
	int32_t shift = x->of_blocks ? (int32_t)(r->base[k] - r->base[like]) : 0;

	*c = s->config[x->node[like]];
	*recompute = s->recompute[x->node[like]];
	if (!c->n_parts || !shift)
		return true;
	if (c->list || c->start + shift < 0)
		return false;
	c->start = (uint16_t)(c->start + shift);
	return true;
}

static bool is_like(const struct regular *r, const struct group *x, uint32_t k, uint32_t like,
		const struct ff_strategy *s)
{
	struct ff_config c;
	bool recompute;

	return model(r, x, k, like, s, &c, &recompute) && recompute == s->recompute[x->node[k]] &&
	       (!x->of_blocks || ff_node_is_parameter(r->g, x->node[k]) ||
			       s->stage[x->node[k]] == r->stage[k]) &&
	       ff_config_equal(&r->g->nodes[x->node[k]], &c, &s->config[x->node[k]]);
}

/* The rest of the group becomes like number `like` of it. */
static bool copy(struct regular *r, const struct group *x, uint32_t like)
{
	for (uint32_t k = 0; k < x->n; k++) {
		uint32_t node = x->node[k];

		if (!model(r, x, k, like, &r->kept, &r->tried.config[node],
				    &r->tried.recompute[node]))
			return false;
		if (x->of_blocks && ff_node_needs_config(r->g, node))
			r->tried.stage[node] = r->stage[k];
	}
	return true;
}

/* Tries what is in `tried`; it becomes the best if it is the fastest within the limit. */
static int try(struct regular *r, struct ff_evaluation *at, struct ff_error *err)
{
	const struct ff_alike *on = r->on;
	struct ff_evaluation now;
	struct ff_error why;
	bool fits = true;
	int code;

	if (ff_strategy_check(&r->micro, &r->tried, on->machine->n_devices, &why) < 0 ||
			!ff_space_admits_strategy(on->space, &r->tried))
		return FF_OK;
	r->tried_so_far++;
	code = ff_evaluator_set(on->evaluator, &r->tried, &now, err);
	if (code < 0 || !now.fits || now.step_us > r->limit_us || now.step_us >= at->step_us)
		return code;
	if (now.tight)
		code = ff_evaluator_lays_out(on->evaluator, &fits, err);
	if (code == FF_OK && fits) {
		ff_strategy_copy(&r->best, &r->tried);
		*at = now;
	}
	return code;
}

static bool stopped(const struct regular *r)
{
	const struct ff_alike *on = r->on;

	return (on->most && r->tried_so_far >= on->most) || (on->stop && on->stop(on->ctx));
}

/* ---- models ---- */

/* Whether all of block `a` is as all of block `b` is. */
static bool blocks_alike(const struct regular *r, uint32_t a, uint32_t b)
{
	for (uint32_t i = 0; i < r->n_groups; i++)
		if (r->group[i].of_blocks && !is_like(r, &r->group[i], a, b, &r->kept))
			return false;
	return true;
}

/* Those of `n` that others are to be made like, each of another kind, first those that most are
 * like; how many. */
static uint32_t find_models(const struct regular *r, const struct group *x, uint32_t n,
		uint32_t models[MOST_MODELS])
{
	uint32_t found = 0, many[MOST_MODELS];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t same = 0, at;
		bool first = true;

		for (uint32_t k = 0; k < n && first; k++) {
			bool alike = x ? is_like(r, x, k, i, &r->kept) : blocks_alike(r, k, i);

			first = k >= i || !alike;
			same += alike;
		}
		if (!first || (found == MOST_MODELS && same <= many[MOST_MODELS - 1]))
			continue;
		at = found < MOST_MODELS ? found++ : MOST_MODELS - 1;
		for (; at > 0 && many[at - 1] < same; at--) {
			many[at] = many[at - 1];
			models[at] = models[at - 1];
		}
		many[at] = same;
		models[at] = i;
	}
	return found;
}

/* All of `x`, or of all blocks, like whichever of them is fastest so; nothing where all are within
 * the limit as they are. */
static int make_like(struct regular *r, const struct group *x, uint32_t n, bool *made,
		struct ff_error *err)
{
	uint32_t models[MOST_MODELS], n_models = find_models(r, x, n, models);
	struct ff_evaluation at = {.step_us = INFINITY};
	int code = FF_OK;

	*made = n_models < 2 && (x ? is_like(r, x, 0, 0, &r->kept) : blocks_alike(r, 0, 0));
	for (uint32_t i = 0; i < n_models && !*made && code == FF_OK && !stopped(r); i++) {
		bool possible = true;

		ff_strategy_copy(&r->tried, &r->kept);
		if (x)
			possible = copy(r, x, models[i]);
		for (uint32_t k = 0; k < r->n_groups && !x && possible; k++)
			if (r->group[k].of_blocks)
				possible = copy(r, &r->group[k], models[i]);
		if (possible)
			code = try(r, &at, err);
	}
	if (code == FF_OK && isfinite(at.step_us)) {
		ff_strategy_copy(&r->kept, &r->best);
		r->at = at;
		*made = true;
	}
	return code;
}

/* ---- what serves nothing ---- */

/* Nothing is recomputed; whether anything was. */
static bool keep_values(struct regular *r)
{
	bool any = false;

	for (uint32_t i = 0; i < r->g->n_nodes; i++) {
		if (!ff_node_needs_config(r->g, i) || !r->tried.recompute[i])
			continue;
		r->tried.recompute[i] = false;
		any = true;
	}
	return any;
}

/* All are in one stage, where there is one micro-batch and stages are but an order; whether there
 * were several. */
static bool join_stages(struct regular *r)
{
	bool any = false;

	for (uint32_t i = 0; i < r->g->n_nodes && r->tried.micro_batches == 1; i++) {
		any = any || r->tried.stage[i];
		r->tried.stage[i] = 0;
	}
	return any;
}

/* Walks leave behind what costs nothing, or next to it: a plan without is the simpler. */
static int simplify(struct regular *r, bool (*change)(struct regular *r), struct ff_error *err)
{
	struct ff_evaluation at = {.step_us = INFINITY};
	int code = FF_OK;

	ff_strategy_copy(&r->tried, &r->kept);
	if (!stopped(r) && change(r))
		code = try(r, &at, err);
	if (code == FF_OK && isfinite(at.step_us)) {
		ff_strategy_copy(&r->kept, &r->best);
		r->at = at;
	}
	return code;
}

static bool has_stages(const struct regular *r)
{
	for (uint32_t i = 0; i < r->g->n_nodes; i++)
		if (ff_node_needs_config(r->g, i) && r->kept.stage[i])
			return true;
	return false;
}

static int make_regular(struct regular *r, struct ff_error *err)
{
	bool made = r->repeats.n_blocks == 0, done, staged;
	int code = simplify(r, keep_values, err);

	if (code == FF_OK)
		code = simplify(r, join_stages, err);
	if (code == FF_OK)
		code = find_places(r, err);
	staged = has_stages(r);
	if (code == FF_OK && !made)
		code = make_like(r, NULL, r->repeats.n_blocks, &made, err);
	for (uint32_t i = 0; i < r->n_groups && code == FF_OK && !stopped(r); i++) {
		const struct group *x = &r->group[i];

		if (x->of_blocks ? !made : !staged)
			code = make_like(r, x, x->n, &done, err);
	}
	return code;
}

static int open_regular(struct regular *r, const struct ff_strategy *s, struct ff_error *err)
{
	int code = ff_graph_micro(r->g, s->micro_batches, r->a, &r->micro, err);

	if (code == FF_OK)
		code = ff_strategy_create(r->g, r->a, &r->kept, err);
	if (code == FF_OK)
		code = ff_strategy_create(r->g, r->a, &r->tried, err);
	if (code == FF_OK)
		code = ff_strategy_create(r->g, r->a, &r->best, err);
	if (code < 0)
		return code;
	ff_strategy_copy(&r->kept, s);
	code = find_groups(r, err);
	return code == FF_OK ? find_places(r, err) : code;
}

int ff_alike_make(const struct ff_alike *on, struct ff_arena *a, struct ff_strategy *s,
		struct ff_evaluation *at, struct ff_error *err)
{
	double percent_us = at->step_us * (1 + on->percent / 100);
	double most_us = on->most_us > 0 ? on->most_us : INFINITY;
	struct regular r = {.on = on,
			.a = a,
			.g = on->graph,
			.at = *at,
			.limit_us = fmin(percent_us, most_us)};
	int code = open_regular(&r, s, err);

	if (code == FF_OK)
		code = make_regular(&r, err);
	if (code < 0)
		return code;
	ff_strategy_copy(s, &r.kept);
	*at = r.at;
	return FF_OK;
}

int ff_alike_count(const struct ff_graph *g, const struct ff_strategy *s, struct ff_arena *a,
		uint32_t *ret, struct ff_error *err)
{
	struct regular r = {.a = a, .g = g};
	uint32_t models[MOST_MODELS];
	int code = open_regular(&r, s, err);

	*ret = 0;
	for (uint32_t i = 0; i < r.n_groups && code == FF_OK; i++) {
		const struct group *x = &r.group[i];

		find_models(&r, x, x->n, models);
		for (uint32_t k = 0; k < x->n; k++)
			*ret += !is_like(&r, x, k, models[0], s);
	}
	return code;
}
