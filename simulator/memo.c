/* Blocks built and priced once.  SPDX-License-Identifier: Apache-2.0 */
#include "memo.h"

#include <stdlib.h>
#include <string.h>

#include "ff/grow.h"
#include "ff/intervals.h"
#include "ff/node_class.h"

enum { SHAPES, NODES, EDGES };

/* ---- the memo ---- */

int ff_memo_init(struct ff_memo *t, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, const bool *first_use, struct ff_error *err)
{
	int code;

	*t = (struct ff_memo){.g = g, .m = m, .p = p, .first_use = first_use};
	ff_arena_init(&t->arena);
	ff_arena_init(&t->scratch);
	code = ff_classes_find(g, &t->arena, &t->class, err);
	t->empty = ff_arena_mark(&t->arena);
	return code;
}

void ff_memo_finish(struct ff_memo *t)
{
	ff_arena_finish(&t->arena);
	ff_arena_finish(&t->scratch);
	ff_table_finish(&t->shapes);
	ff_table_finish(&t->nodes);
	ff_table_finish(&t->edges);
	free(t->shape);
	free(t->node);
	free(t->edge);
}

void ff_memo_clear(struct ff_memo *t)
{
	/* to the arena, not to the host: it will be needed again */
	ff_arena_rewind(&t->arena, t->empty);
	ff_table_clear(&t->shapes);
	ff_table_clear(&t->nodes);
	ff_table_clear(&t->edges);
}

/* Adds `entry` to one of the lists and its table. */
static int put(struct ff_memo *t, int which, void ***list, struct ff_table *table, uint64_t hash,
		void *entry, struct ff_error *err)
{
	uint32_t n = table->n;
	int code = ff_grow(list, n, &t->cap[which], sizeof(**list), err);

	if (code < 0)
		return code;
	(*list)[n] = entry;
	return ff_table_put(table, hash, n) < 0 ? ff_fail_memory(err) : FF_OK;
}

/* ---- shapes ---- */

static int build_places(struct ff_memo *t, const struct ff_node *n, const struct ff_config *c,
		struct ff_memo_shape *s, struct ff_error *err)
{
	int code = FF_OK;

	s->place = ff_arena_array(&t->arena, n->n_in + n->n_out, sizeof(*s->place));
	s->in_bytes = ff_arena_array(&t->arena, n->n_in, sizeof(*s->in_bytes));
	s->din_bytes = ff_arena_array(&t->arena, n->n_in, sizeof(*s->din_bytes));
	s->out_bytes = ff_arena_array(&t->arena, n->n_out, sizeof(*s->out_bytes));
	if (!s->place || !s->in_bytes || !s->din_bytes || !s->out_bytes)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n->n_in + n->n_out && code == FF_OK; i++) {
		bool in = i < n->n_in;
		const struct ff_operand *o = in ? &n->in_map[i] : &n->out_map[i - n->n_in];
		int64_t *bytes = ff_arena_array(&t->arena, 2 * (size_t)c->n_parts, sizeof(*bytes));
		int64_t *gradients = bytes + c->n_parts;

		code = bytes ? ff_placement_build(n, o, c, &t->arena, &s->place[i], err)
			     : ff_fail_memory(err);
		for (uint32_t p = 0; p < c->n_parts && code == FF_OK; p++) {
			bytes[p] = ff_align64(ff_placement_bytes(&s->place[i], p));
			gradients[p] = ff_align64(ff_placement_gradient_bytes(&s->place[i], p));
		}
		if (in)
			s->din_bytes[i] = gradients;
		*(in ? &s->in_bytes[i] : &s->out_bytes[i - n->n_in]) = bytes;
	}
	return code;
}

/* By cell: the first cell that costs alike. */
static int find_alike(struct ff_memo *t, const struct ff_node *n, const struct ff_config *c,
		uint16_t **ret, struct ff_error *err)
{
	uint32_t cells = ff_config_cells(c), step = 1;
	uint16_t *first = ff_arena_array(&t->scratch, cells, sizeof(*first));
	uint16_t *like = ff_arena_array(&t->scratch, cells, sizeof(*like));

	if (!first || !like)
		return ff_fail_memory(err);
	for (uint32_t d = n->n_dims; d-- > 0; step *= c->degree[d]) {
		if (c->degree[d] == 1)
			continue;
		ff_intervals_alike(n, d, c->degree[d], like);
		for (uint32_t at = 0, i = 0; i < cells; i += step) {
			for (uint32_t k = i; k < i + step; k++)
				first[k] = (uint16_t)(first[k] + like[at] * step);
			at = at + 1 < c->degree[d] ? at + 1 : 0;
		}
	}
	*ret = first;
	return FF_OK;
}

static int price_part(struct ff_memo *t, uint32_t node, const struct ff_config *c, uint32_t device,
		uint32_t p, double *const us[2], int64_t *const workspace[2], struct ff_error *err)
{
	bool back = ff_node_needs_grad(t->g, node);
	int code = FF_OK;

	for (int pass = FF_FORWARD; pass <= (back ? FF_BACKWARD : FF_FORWARD); pass++) {
		struct ff_region box;
		struct ff_work w;

		ff_config_box(&t->g->nodes[node], c, p, &box);
		ff_work_fill(t->g, node, &box, (enum ff_pass)pass, &w);
		code = ff_price_work(t->p, &w, device, &us[pass][p], err);
		if (code < 0)
			break;
		workspace[pass][p] = ff_align64(ff_price_workspace(t->p, &w));
		t->has_workspace = t->has_workspace || workspace[pass][p];
	}
	return code;
}

/* Times of all parts on one kind of device, and their scratch. */
static int price_parts(struct ff_memo *t, uint32_t node, const struct ff_config *c, uint32_t device,
		double *const us[2], int64_t *const workspace[2], struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);
	uint32_t cells = ff_config_cells(c);
	uint16_t *first;
	int code = find_alike(t, &t->g->nodes[node], c, &first, err);

	for (uint32_t p = 0; p < c->n_parts && code == FF_OK; p++) {
		uint32_t like = p < cells ? first[p] : p - cells;

		if (like == p)
			code = price_part(t, node, c, device, p, us, workspace, err);
		for (int pass = 0; pass < 2 && like != p; pass++) {
			us[pass][p] = us[pass][like];
			workspace[pass][p] = workspace[pass][like];
		}
	}
	ff_arena_rewind(&t->scratch, mark);
	return code;
}

static int price_shape(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_shape *s, struct ff_error *err)
{
	int code = FF_OK;

	for (int pass = 0; pass < 2; pass++) {
		s->us[pass] = ff_arena_array(&t->arena, t->m->n_kinds, sizeof(**s->us));
		s->workspace[pass] = ff_arena_array(&t->arena, c->n_parts, sizeof(int64_t));
		if (!s->workspace[pass] || !s->us[pass])
			return ff_fail_memory(err);
	}
	for (uint32_t i = 0; i < t->m->n_nodes && code == FF_OK; i++) {
		uint32_t kind = t->m->nodes[i].kind;
		double *us[2];

		if (s->us[0][kind])
			continue;
		for (int pass = 0; pass < 2; pass++) {
			us[pass] = ff_arena_array(&t->arena, c->n_parts, sizeof(double));
			if (!us[pass])
				return ff_fail_memory(err);
			s->us[pass][kind] = us[pass];
		}
		if (ff_node_is_computed(t->g, node))
			code = price_parts(t, node, c, t->m->nodes[i].first, us, s->workspace, err);
	}
	return code;
}

static int find_shape(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		const struct ff_memo_shape **ret, struct ff_error *err)
{
	const struct ff_node *n = &t->g->nodes[node];
	uint32_t class = t->class[node], at, i;
	uint64_t hash = ff_hash_mix(class, c->replicas);
	struct ff_memo_shape *s;
	int code;

	for (uint32_t d = 0; d < n->n_dims; d++)
		hash = ff_hash_mix(hash, c->degree[d]);
	for (i = ff_table_first(&t->shapes, hash, &at); i != FF_NONE;
			i = ff_table_next(&t->shapes, hash, &at)) {
		s = t->shape[i];
		if (s->class == class && s->replicas == c->replicas &&
				!memcmp(s->degree, c->degree, n->n_dims * sizeof(*c->degree))) {
			*ret = s;
			return FF_OK;
		}
	}
	s = ff_arena_alloc(&t->arena, sizeof(*s));
	if (!s)
		return ff_fail_memory(err);
	*s = (struct ff_memo_shape){.class = class, .replicas = c->replicas};
	memcpy(s->degree, c->degree, sizeof(s->degree));
	code = build_places(t, n, c, s, err);
	if (code == FF_OK)
		code = price_shape(t, node, c, s, err);
	if (code == FF_OK)
		code = put(t, SHAPES, (void ***)&t->shape, &t->shapes, hash, s, err);
	*ret = s;
	return code;
}

/* ---- nodes ---- */

static uint64_t hash_config(uint32_t seed, const struct ff_node *n, const struct ff_config *c)
{
	uint64_t h = ff_hash_mix(seed, (uint64_t)c->n_parts << 16 | c->replicas);

	for (uint32_t d = 0; d < n->n_dims; d++)
		h = ff_hash_mix(h,
				(uint64_t)c->degree[d] << 16 |
						(c->degree[d] > 1 && !c->list ? c->stride[d] : 0));
	if (c->list)
		return ff_hash_mix(h, ff_fnv1a(c->list, c->n_parts * sizeof(*c->list)));
	return ff_hash_mix(h, (uint64_t)c->start << 16 | (c->replicas > 1 ? c->replica_stride : 0));
}

/* The times of the kind of device that each part runs on. */
static int pick_times(struct ff_memo *t, struct ff_memo_node *e, struct ff_error *err)
{
	for (int pass = 0; pass < 2; pass++) {
		uint32_t kind = t->m->nodes[t->m->node_of[e->block.device[0]]].kind;
		double *us;

		e->us[pass] = e->shape->us[pass][kind];
		if (t->m->n_kinds == 1)
			continue;
		us = ff_arena_array(&t->arena, e->config.n_parts, sizeof(*us));
		if (!us)
			return ff_fail_memory(err);
		for (uint32_t p = 0; p < e->config.n_parts; p++) {
			kind = t->m->nodes[t->m->node_of[e->block.device[p]]].kind;
			us[p] = e->shape->us[pass][kind][p];
		}
		e->us[pass] = us;
	}
	return FF_OK;
}

static bool is_uniform(const double *us, uint32_t n)
{
	for (uint32_t p = 1; p < n; p++)
		if (us[p] != us[0])
			return false;
	return true;
}

static int build_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_node *e, struct ff_error *err)
{
	const struct ff_node *n = &t->g->nodes[node];
	uint32_t parts = c->n_parts;
	int code = find_shape(t, node, c, &e->shape, err);

	if (code < 0)
		return code;
	if (c->list) {
		e->config.list = ff_arena_copy(&t->arena, c->list, parts, sizeof(*c->list));
		if (!e->config.list)
			return ff_fail_memory(err);
	}
	code = ff_node_block_place(n, &e->config, e->shape->place, &t->arena, &e->block, err);
	if (code < 0)
		return code;
	e->in_line = true;
	for (uint32_t p = 1; p < parts && e->in_line; p++)
		e->in_line = e->block.device[p] == e->block.device[p - 1] + 1;
	code = pick_times(t, e, err);
	for (int pass = 0; pass < 2 && code == FF_OK; pass++)
		e->uniform[pass] = is_uniform(e->us[pass], parts);
	return code;
}

int ff_memo_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_node **ret, struct ff_error *err)
{
	const struct ff_node *n = &t->g->nodes[node];
	uint32_t class = t->class[node];
	uint64_t hash = hash_config(class, n, c);
	struct ff_memo_node *e;
	uint32_t at, i;
	int code;

	for (i = ff_table_first(&t->nodes, hash, &at); i != FF_NONE;
			i = ff_table_next(&t->nodes, hash, &at)) {
		e = t->node[i];
		if (e->class == class && ff_config_equal(n, &e->config, c)) {
			*ret = e;
			return FF_OK;
		}
	}
	e = ff_arena_alloc(&t->arena, sizeof(*e));
	if (!e)
		return ff_fail_memory(err);
	*e = (struct ff_memo_node){.id = t->nodes.n, .class = class, .config = *c};
	code = build_node(t, node, c, e, err);
	if (code == FF_OK)
		code = put(t, NODES, (void ***)&t->node, &t->nodes, hash, e, err);
	*ret = e;
	return code;
}

const double *ff_memo_adding(struct ff_memo *t, uint32_t node, struct ff_memo_node *e)
{
	const struct ff_node *n = &t->g->nodes[node];
	double *us;

	if (e->adding_us)
		return e->adding_us;
	us = ff_arena_array(&t->arena, e->block.n_parts, sizeof(*us));
	for (uint32_t p = 0; us && p < e->block.n_parts; p++) {
		int64_t bytes = 0;

		for (uint32_t i = n->n_data; i < n->n_in; i++)
			bytes += ff_placement_gradient_bytes(&e->block.in[i], p);
		us[p] = e->us[FF_BACKWARD][p] + ff_price_add(t->p, t->g, e->block.device[p], bytes);
	}
	e->adding_us = us;
	return us;
}

/* ---- edges ---- */

/* Whether the parts, in any order, are a range; its first. */
static bool is_range(const uint16_t *part, uint32_t n, uint16_t *first)
{
	uint16_t least = UINT16_MAX, most = 0;

	for (uint32_t k = 0; k < n; k++) {
		least = part[k] < least ? part[k] : least;
		most = part[k] > most ? part[k] : most;
	}
	*first = least;
	return n > 0 && (uint32_t)most - least + 1 == n;
}

/* Lanes of a move as runs of neighbours. */
static int list_lanes(struct ff_memo *t, const struct ff_move *mv, struct ff_memo_move *ret,
		struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);
	uint32_t *lane = ff_arena_array(&t->scratch, 3 * (size_t)mv->n_devices, sizeof(*lane));
	struct ff_lanes *run = ff_arena_array(&t->scratch, 3 * (size_t)mv->n_devices, sizeof(*run));
	uint32_t n, runs = 0;

	if (!lane || !run)
		return ff_fail_memory(err);
	n = ff_transfer_lanes(t->m, mv->n_devices, mv->device, lane);
	for (uint32_t i = 0; i < n; i++) {
		if (runs && lane[i] == run[runs - 1].first + run[runs - 1].n)
			run[runs - 1].n++;
		else
			run[runs++] = (struct ff_lanes){lane[i], 1};
	}
	ret->n_lanes = (uint16_t)runs;
	for (uint32_t i = 0; i < runs && i < 2; i++)
		ret->lane[i] = run[i];
	if (runs > 2)
		ret->more = ff_arena_copy(&t->arena, run + 2, runs - 2, sizeof(*run));
	ff_arena_rewind(&t->scratch, mark);
	return runs <= 2 || ret->more ? FF_OK : ff_fail_memory(err);
}

static int time_moves(struct ff_memo *t, const struct ff_redistribution *r,
		struct ff_memo_move **ret, struct ff_error *err)
{
	struct ff_memo_move *list = ff_arena_array(&t->arena, r->n_moves, sizeof(*list));
	int code = FF_OK;

	if (!list)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < r->n_moves && code == FF_OK; i++) {
		const struct ff_move *mv = &r->move[i];

		list[i] = (struct ff_memo_move){.us = ff_price_move(t->p, t->g, mv),
				.move = mv,
				.n_sources = (uint16_t)mv->n_sources,
				.n_sinks = (uint16_t)mv->n_sinks,
				.accumulate = mv->accumulate};
		list[i].source_range = is_range(mv->source, mv->n_sources, &list[i].first_source);
		list[i].sink_range = is_range(mv->sink, mv->n_sinks, &list[i].first_sink);
		code = list_lanes(t, mv, &list[i], err);
	}
	*ret = list;
	return code;
}

static void look_at_aliases(struct ff_memo_edge *e, uint32_t n)
{
	const uint32_t *alias = e->moved[FF_BACKWARD].alias;

	e->all_alike = alias != NULL;
	e->none_alike = true;
	for (uint32_t k = 0; k < n && alias; k++) {
		e->all_alike = e->all_alike && alias[k] == k;
		e->none_alike = e->none_alike && alias[k] == FF_NONE;
	}
}

int ff_memo_build(struct ff_memo *t, uint32_t edge, enum ff_pass pass,
		const struct ff_memo_node *from, const struct ff_memo_node *to,
		struct ff_memo_edge *e, struct ff_error *err)
{
	int code;

	if (e->built[pass])
		return FF_OK;
	code = ff_edge_block_build_pass(t->g, t->m, edge, e->first_use, pass,
			from ? &from->block : NULL, &to->block, false, &t->arena, &t->scratch,
			&e->moved[pass], err);
	if (code == FF_OK)
		code = time_moves(t, &e->moved[pass], &e->move[pass], err);
	e->built[pass] = code == FF_OK;
	if (pass == FF_BACKWARD && from)
		look_at_aliases(e, from->block.n_parts);
	return code;
}

int ff_memo_edge(struct ff_memo *t, uint32_t edge, const struct ff_memo_node *from,
		const struct ff_memo_node *to, struct ff_memo_edge **ret, struct ff_error *err)
{
	const struct ff_edge *x = &t->g->edges[edge];
	struct ff_memo_edge new = {.from = from ? from->id : FF_NONE,
			.to = to->id,
			.port = t->g->values[x->value].port,
			.slot = x->slot,
			.first_use = t->first_use[edge]};
	uint64_t hash = ff_hash_mix(
			ff_hash_mix((uint64_t) new.port << 33 | (uint64_t) new.slot << 1 |
							new.first_use,
					new.from),
			new.to);
	struct ff_memo_edge *e;
	uint32_t at, i;

	for (i = ff_table_first(&t->edges, hash, &at); i != FF_NONE;
			i = ff_table_next(&t->edges, hash, &at)) {
		e = t->edge[i];
		if (e->from == new.from && e->to == new.to && e->port == new.port &&
				e->slot == new.slot && e->first_use == new.first_use) {
			*ret = e;
			return FF_OK;
		}
	}
	e = ff_arena_copy(&t->arena, &new, 1, sizeof(new));
	if (!e)
		return ff_fail_memory(err);
	*ret = e;
	return put(t, EDGES, (void ***)&t->edge, &t->edges, hash, e, err);
}
