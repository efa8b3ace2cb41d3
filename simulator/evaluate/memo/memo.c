/* Blocks of nodes, built and priced once; edges.c has those of edges. SPDX-License-Identifier:
 * Apache-2.0 */
#include "memo.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ff/grow.h"
#include "ff/node_class.h"
#include "period.h"

/* ---- the memo ---- */

/* Nodes that are equal but for where they stand may cost otherwise: a class is its first node of
 * those that cost alike. */
static int part_by_place(struct ff_memo *t, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);
	struct ff_table table = {.arena = &t->scratch};
	int code = FF_OK;

	for (uint32_t i = 0; i < t->g->n_nodes && code == FF_OK; i++) {
		uint64_t hash = ff_hash_mix(t->class[i], ff_price_place(t->p, i));
		uint32_t at, first = ff_table_first(&table, hash, &at);

		t->class[i] = first == FF_NONE ? i : first;
		if (first == FF_NONE && ff_table_put(&table, hash, i) < 0)
			code = ff_fail_memory(err);
	}
	ff_arena_rewind(&t->scratch, mark);
	return code;
}

int ff_memo_init(struct ff_memo *t, const struct ff_graph *g, const struct ff_machine *m,
		struct ff_pricer *p, const bool *first_use, struct ff_error *err)
{
	int code;

	*t = (struct ff_memo){.g = g, .m = m, .p = p, .first_use = first_use};
	ff_arena_init(&t->arena);
	ff_arena_init(&t->scratch);
	code = ff_classes_find(g, &t->arena, &t->class, err);
	if (code == FF_OK)
		code = part_by_place(t, err);
	if (code == FF_OK)
		t->period = ff_layer_period(t->class, g->n_nodes, &t->period_at);
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
	ff_table_finish(&t->buckets);
	ff_table_finish(&t->leavings);
	free(t->shape);
	free(t->node);
	free(t->edge);
	free(t->bucket);
	free(t->leaving);
}

void ff_memo_clear(struct ff_memo *t)
{
	/* to the arena, not to the host: it will be needed again */
	ff_arena_rewind(&t->arena, t->empty);
	ff_table_clear(&t->shapes);
	ff_table_clear(&t->nodes);
	ff_table_clear(&t->edges);
	ff_table_clear(&t->buckets);
	ff_table_clear(&t->leavings);
}

static struct ff_memo_node *node_at(const struct ff_memo *t, uint32_t i)
{
	return &t->node[i / FF_MEMO_ROW][i % FF_MEMO_ROW];
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
		code = ff_price_part(t->p, &w, node, c->n_parts, device, &us[pass][p], NULL, err);
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
	uint16_t *like_in = ff_arena_array(&t->scratch, cells, sizeof(*like_in));
	uint16_t *first = ff_arena_array(&t->scratch, cells, sizeof(*first));
	int code = like_in && first ? FF_OK : ff_fail_memory(err);

	if (code == FF_OK)
		ff_config_alike(&t->g->nodes[node], c, like_in, first);
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

static bool is_even(const int64_t *bytes, uint32_t n)
{
	bool even = true;

	for (uint32_t p = 1; p < n && even; p++)
		even = bytes[p] == bytes[0];
	return even;
}

static bool are_even(const struct ff_memo_shape *s, const struct ff_node *n, uint32_t n_parts)
{
	bool even = is_even(s->workspace[FF_FORWARD], n_parts) &&
		    is_even(s->workspace[FF_BACKWARD], n_parts);

	for (uint32_t i = 0; i < n->n_in && even; i++)
		even = is_even(s->in_bytes[i], n_parts) && is_even(s->din_bytes[i], n_parts);
	for (uint32_t i = 0; i < n->n_out && even; i++)
		even = is_even(s->out_bytes[i], n_parts);
	return even;
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
		code = ff_grow(&t->shape, t->shapes.n, &t->cap[FF_MEMO_SHAPES], sizeof(*t->shape),
				err);
	if (code < 0)
		return code;
	s->even = are_even(s, n, c->n_parts);
	*ret = t->shape[t->shapes.n] = s;
	return ff_memo_put(&t->shapes, hash, err);
}

/* ---- nodes ---- */

static void make_key(uint32_t class, const struct ff_config *c, struct ff_memo_key *ret)
{
	uint64_t listed = c->list ? ff_fnv1a(c->list, c->n_parts * sizeof(*c->list)) : 0;
	uint16_t stride = c->replicas > 1 ? c->replica_stride : 0;

	ret->word[0] = (listed ^ listed >> 32) << 32 | class;
	ret->word[1] = (uint64_t)stride << 48 | (uint64_t)c->start << 32 |
		       (uint64_t)c->replicas << 16 | c->n_parts;
	memcpy(ret->word + 2, c->degree, sizeof(c->degree));
	memcpy(ret->word + 2 + FF_MAX_DIMS / 4, c->stride, sizeof(c->stride));
}

static bool same_key(const struct ff_memo_key *a, const struct ff_memo_key *b)
{
	uint64_t differ = 0;

	for (uint32_t i = 0; i < sizeof(a->word) / sizeof(*a->word); i++)
		differ |= a->word[i] ^ b->word[i];
	return !differ;
}

/* The times of the kind of device that each part runs on. */
static int pick_times(struct ff_memo *t, struct ff_memo_node *e, struct ff_error *err)
{
	for (int pass = 0; pass < 2; pass++) {
		uint32_t kind = t->m->nodes[t->m->node_of[e->device[0]]].kind;
		double *us;

		e->us[pass] = e->rest->shape->us[pass][kind];
		if (t->m->n_kinds == 1)
			continue;
		us = ff_arena_array(&t->arena, e->n_parts, sizeof(*us));
		if (!us)
			return ff_fail_memory(err);
		for (uint32_t p = 0; p < e->n_parts; p++) {
			kind = t->m->nodes[t->m->node_of[e->device[p]]].kind;
			us[p] = e->rest->shape->us[pass][kind][p];
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

static int list_cells(struct ff_memo *t, struct ff_memo_rest *r, struct ff_error *err)
{
	uint32_t n = r->block.n_groups;

	r->cell = ff_arena_array(&t->arena, n, sizeof(*r->cell));
	if (!r->cell)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++) {
		const struct ff_weight_group *g = &r->block.group[i];

		if (g->n_devices == 1)
			r->cell[r->n_cells++] =
					(struct ff_memo_cell){g->bytes, g->first, g->part[0]};
	}
	r->shares = r->n_cells < n;
	return FF_OK;
}

static int build_rest(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_rest **ret, struct ff_error *err)
{
	struct ff_memo_rest *r = ff_arena_alloc(&t->arena, sizeof(*r));
	int code = r ? find_shape(t, node, c, &r->shape, err) : ff_fail_memory(err);

	if (code < 0)
		return code;
	*ret = r;
	r->config = *c;
	if (c->list) {
		r->config.list = ff_arena_copy(&t->arena, c->list, c->n_parts, sizeof(*c->list));
		if (!r->config.list)
			return ff_fail_memory(err);
	}
	code = ff_node_block_place(
			&t->g->nodes[node], &r->config, r->shape->place, &t->arena, &r->block, err);
	if (code == FF_OK && ff_node_is_parameter(t->g, node))
		code = list_cells(t, r, err);
	return code;
}

/* No device has two parts. */
static void look_at_devices(struct ff_memo_node *e)
{
	uint16_t last = 0;

	e->first = e->device[0];
	e->in_line = true;
	for (uint32_t p = 0; p < e->n_parts; p++) {
		e->first = e->device[p] < e->first ? e->device[p] : e->first;
		last = e->device[p] > last ? e->device[p] : last;
		e->in_line = e->in_line && e->device[p] == e->device[0] + p;
	}
	e->is_row = last - e->first + 1u == e->n_parts;
}

static int build_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_node *e, struct ff_error *err)
{
	int code = build_rest(t, node, c, &e->rest, err);

	if (code < 0)
		return code;
	e->block = &e->rest->block;
	e->device = e->block->device;
	look_at_devices(e);
	code = pick_times(t, e, err);
	for (int pass = 0; pass < 2 && code == FF_OK; pass++) {
		e->uniform[pass] = is_uniform(e->us[pass], c->n_parts);
		e->each_us[pass] = e->us[pass][0];
	}
	return code;
}

void ff_memo_wish(const struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_wish *ret)
{
	uint32_t class = t->class[node];

	make_key(class, c, &ret->key);
	ret->hash = ff_hash_words(ret->key.word, sizeof(ret->key.word) / sizeof(*ret->key.word));
	ff_table_prefetch(&t->nodes, ret->hash);
}

void ff_memo_fetch(const struct ff_memo *t, const struct ff_memo_wish *w)
{
	uint32_t at, i = ff_table_first(&t->nodes, w->hash, &at);

	if (i == FF_NONE)
		return;
	__builtin_prefetch(node_at(t, i));
	__builtin_prefetch((const char *)node_at(t, i) + FF_MEMO_LINE);
}

static int add_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		const struct ff_memo_wish *w, struct ff_memo_node **ret, struct ff_error *err)
{
	uint32_t i = t->nodes.n, row = i / FF_MEMO_ROW;
	int code = ff_grow(&t->node, row, &t->cap[FF_MEMO_NODES], sizeof(*t->node), err);
	struct ff_memo_node *e;

	if (code < 0)
		return code;
	if (i % FF_MEMO_ROW == 0)
		t->node[row] = ff_memo_new_row(t, sizeof(**t->node));
	if (!t->node[row])
		return ff_fail_memory(err);
	*ret = e = node_at(t, i);
	*e = (struct ff_memo_node){.key = w->key, .id = i, .n_parts = c->n_parts};
	code = build_node(t, node, c, e, err);
	return code == FF_OK ? ff_memo_put(&t->nodes, w->hash, err) : code;
}

int ff_memo_find(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		const struct ff_memo_wish *w, struct ff_memo_node **ret, struct ff_error *err)
{
	uint32_t at, i;

	for (i = ff_table_first(&t->nodes, w->hash, &at); i != FF_NONE;
			i = ff_table_next(&t->nodes, w->hash, &at)) {
		struct ff_memo_node *e = node_at(t, i);

		if (same_key(&e->key, &w->key) &&
				(!c->list || ff_config_equal(&t->g->nodes[node], &e->rest->config,
							     c))) {
			*ret = e;
			return FF_OK;
		}
	}
	return add_node(t, node, c, w, ret, err);
}

int ff_memo_node(struct ff_memo *t, uint32_t node, const struct ff_config *c,
		struct ff_memo_node **ret, struct ff_error *err)
{
	struct ff_memo_wish w;

	ff_memo_wish(t, node, c, &w);
	return ff_memo_find(t, node, c, &w, ret, err);
}

static int price_half(struct ff_memo *t, uint32_t node, const struct ff_memo_node *e,
		enum ff_grads grads, uint32_t p, double *us, struct ff_error *err)
{
	struct ff_region box;
	struct ff_work w;

	ff_config_box(&t->g->nodes[node], &e->rest->config, p, &box);
	ff_work_fill(t->g, node, &box, FF_BACKWARD, &w);
	ff_work_keep(&w, grads);
	return ff_price_part(t->p, &w, node, e->n_parts, e->device[p], us, NULL, err);
}

/* Parts that cost alike are priced once, where devices are of one kind. */
static int price_halves(struct ff_memo *t, uint32_t node, const struct ff_memo_node *e,
		double *const us[2], struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&t->scratch);
	uint32_t cells = ff_config_cells(&e->rest->config);
	uint16_t *like_in = ff_arena_array(&t->scratch, cells, sizeof(*like_in));
	uint16_t *first = ff_arena_array(&t->scratch, cells, sizeof(*first));
	int code = like_in && first ? FF_OK : ff_fail_memory(err);

	if (code == FF_OK)
		ff_config_alike(&t->g->nodes[node], &e->rest->config, like_in, first);
	for (uint32_t p = 0; p < e->n_parts && code == FF_OK; p++) {
		uint32_t like = p < cells ? first[p] : p - cells;

		like = t->m->n_kinds > 1 ? p : like;
		for (int half = 0; half < 2 && code == FF_OK; half++)
			if (like == p)
				code = price_half(t, node, e,
						half ? FF_GRADS_PARAMS : FF_GRADS_DATA, p,
						&us[half][p], err);
			else
				us[half][p] = us[half][like];
	}
	ff_arena_rewind(&t->scratch, mark);
	return code;
}

int ff_memo_halves(struct ff_memo *t, uint32_t node, struct ff_memo_node *e, struct ff_error *err)
{
	double *us[2];
	int code;

	if (e->rest->half_us[0])
		return FF_OK;
	for (int half = 0; half < 2; half++) {
		us[half] = ff_arena_array(&t->arena, e->n_parts, sizeof(**us));
		if (!us[half])
			return ff_fail_memory(err);
	}
	code = price_halves(t, node, e, us, err);
	for (int half = 0; half < 2 && code == FF_OK; half++) {
		e->rest->half_us[half] = us[half];
		e->rest->half_uniform[half] = is_uniform(us[half], e->n_parts);
	}
	return code;
}

/* What part `p` adds to gradients that are there. */
static int64_t added_bytes(
		const struct ff_memo_node *e, const struct ff_memo_inputs *added, uint32_t p)
{
	int64_t bytes = 0;

	for (uint32_t k = 0; k < sizeof(added->word) / sizeof(*added->word); k++)
		for (uint64_t left = added->word[k]; left; left &= left - 1) {
			uint32_t i = 64 * k + (uint32_t)__builtin_ctzll(left);

			bytes += ff_placement_gradient_bytes(&e->block->in[i], p);
		}
	return bytes;
}

static const double *price_adding(struct ff_memo *t, const struct ff_memo_node *e,
		enum ff_grads grads, const struct ff_memo_inputs *added)
{
	const double *alone = grads == FF_GRADS_ALL ? e->us[FF_BACKWARD]
						    : e->rest->half_us[grads == FF_GRADS_PARAMS];
	double *us = ff_arena_array(&t->arena, e->n_parts, sizeof(*us));

	for (uint32_t p = 0; us && p < e->n_parts; p++)
		us[p] = alone[p] + ff_price_add(t->p, t->g, e->device[p], added_bytes(e, added, p));
	return us;
}

const struct ff_memo_adding *ff_memo_adding(struct ff_memo *t, const struct ff_memo_node *e,
		enum ff_grads grads, const struct ff_memo_inputs *added)
{
	struct ff_memo_adding *a = e->rest->adding;

	while (a && (a->grads != grads || memcmp(&a->added, added, sizeof(*added)) != 0))
		a = a->next;
	if (a)
		return a;
	a = ff_arena_alloc(&t->arena, sizeof(*a));
	if (!a)
		return NULL;
	*a = (struct ff_memo_adding){
			e->rest->adding, grads, *added, price_adding(t, e, grads, added), false};
	if (!a->us)
		return NULL;
	a->uniform = is_uniform(a->us, e->n_parts);
	e->rest->adding = a;
	return a;
}
