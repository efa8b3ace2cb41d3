/* Orders: proposals of when operators are issued.  Lanes run their tasks in that order, so
 * which devices are good for an operator depends on it, and it on the devices: they are
 * walked together, in small steps.  SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include <string.h>

#include "ff/node_class.h"

#define MOST_TOGETHER 8 /* operators that change their place together */

int ff_orders_init(struct ff_orders *o, const struct ff_graph *g, uint64_t seed, uint32_t chain,
		struct ff_arena *arena, struct ff_error *err)
{
	*o = (struct ff_orders){.graph = g, .last = UINT32_MAX};
	o->random.seed = seed;
	o->random.stream = ff_philox_stream(chain, 'o');
	ff_arena_init(&o->scratch);
	o->order = ff_arena_array(arena, g->n_nodes, sizeof(*o->order));
	o->drawn = ff_arena_array(arena, g->n_nodes, sizeof(*o->drawn));
	o->known = ff_arena_array(arena, g->n_nodes, sizeof(*o->known));
	o->row = ff_arena_array(arena, g->n_nodes, sizeof(*o->row));
	o->mine = ff_arena_array(arena, g->n_nodes, sizeof(*o->mine));
	return o->order && o->drawn && o->known && o->row && o->mine ? FF_OK : ff_fail_memory(err);
}

void ff_orders_finish(struct ff_orders *o)
{
	ff_arena_finish(&o->scratch);
}

void ff_orders_focus(struct ff_orders *o, uint32_t first, uint32_t last)
{
	o->first = first;
	o->last = last;
}

static int find_order(struct ff_orders *o, const struct ff_strategy *s, uint32_t *ret,
		struct ff_error *err)
{
	ff_arena_rewind(&o->scratch, (struct ff_arena_mark){0});
	return ff_strategy_order(o->graph, s, &o->scratch, ret, err);
}

/* Most of what is drawn is dropped, and the order of `s` asked for again. */
static int find_current(struct ff_orders *o, const struct ff_strategy *s, struct ff_error *err)
{
	size_t size = o->graph->n_nodes * sizeof(*o->known);
	int code;

	if (o->is_known && memcmp(o->known, s->priority, size) == 0)
		return FF_OK;
	code = find_order(o, s, o->order, err);
	o->is_known = code == FF_OK;
	memcpy(o->known, s->priority, size);
	return code;
}

static uint32_t draw(struct ff_orders *o, uint32_t n)
{
	return ff_random_below(&o->random, n);
}

/* How far to go: near places as often as far ones. */
static uint32_t draw_distance(struct ff_orders *o)
{
	uint32_t bits = 32 - (uint32_t)__builtin_clz(o->n_row);

	return 1 + draw(o, 1u << draw(o, bits));
}

/* The `n` places from `from` on change places with the `m` behind them. */
static void exchange(struct ff_orders *o, uint32_t from, uint32_t n, uint32_t m)
{
	uint32_t *row = o->row + from, *held = o->drawn;

	memcpy(held, row, n * sizeof(*row));
	memmove(row, row + n, m * sizeof(*row));
	memcpy(row + m, held, n * sizeof(*row));
}

static void draw_places(struct ff_orders *o)
{
	uint32_t n = draw(o, 2) ? 1 : 1 + draw(o, MOST_TOGETHER), from, far = draw_distance(o);

	if (n >= o->n_row)
		n = 1;
	from = o->mine[draw(o, o->n_mine)];
	from = from < o->n_row - n ? from : o->n_row - n;
	if (draw(o, 2)) {
		far = far < o->n_row - n - from ? far : o->n_row - n - from;
		exchange(o, from, n, far);
	} else {
		far = far < from ? far : from;
		exchange(o, from - far, far, n);
	}
}

static bool is_mine(const struct ff_orders *o, uint32_t node)
{
	return ff_node_needs_config(o->graph, node) && node >= o->first && node <= o->last;
}

/* The operators in their order, and which places are drawn from. */
static void list_places(struct ff_orders *o)
{
	o->n_row = o->n_mine = 0;
	for (uint32_t i = 0; i < o->graph->n_nodes; i++) {
		uint32_t node = o->order[i];

		if (!ff_node_needs_config(o->graph, node))
			continue;
		if (is_mine(o, node))
			o->mine[o->n_mine++] = o->n_row;
		o->row[o->n_row++] = node;
	}
}

/* Who stands first in the row goes first. */
static void rank_row(const struct ff_orders *o, int32_t *priority)
{
	memset(priority, 0, o->graph->n_nodes * sizeof(*priority));
	for (uint32_t i = 0; i < o->n_row; i++)
		priority[o->row[i]] = -(int32_t)i - 1;
}

int ff_orders_crossover(struct ff_orders *o, const struct ff_strategy *s,
		const struct ff_strategy *other, int32_t *priority, struct ff_error *err)
{
	int code = find_current(o, s, err);
	uint32_t k = 0;

	if (code == FF_OK)
		code = find_order(o, other, o->drawn, err);
	if (code < 0)
		return code;
	list_places(o);
	for (uint32_t i = 0; i < o->graph->n_nodes && k < o->n_mine; i++)
		if (is_mine(o, o->drawn[i]))
			o->row[o->mine[k++]] = o->drawn[i];
	rank_row(o, priority);
	return FF_OK;
}

int ff_orders_draw(struct ff_orders *o, const struct ff_strategy *s, int32_t *priority,
		bool *changed, struct ff_error *err)
{
	struct ff_strategy other = *s;
	int code = find_current(o, s, err);

	if (code < 0)
		return code;
	list_places(o);
	*changed = false;
	if (o->n_row < 2 || o->n_mine == 0)
		return FF_OK;
	draw_places(o);
	rank_row(o, priority);
	other.priority = priority;
	code = find_order(o, &other, o->drawn, err);
	if (code == FF_OK)
		*changed = memcmp(o->drawn, o->order, o->graph->n_nodes * sizeof(*o->drawn)) != 0;
	return code;
}
