/* A small graph around one operator, and what its definition touches: for the
 * tests of the operator table.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROBE_H
#define FF_PROBE_H

#include <string.h>

#include "check_main.h"
#include "ff/builder.h"
#include "ff/philox.h"

#define ROUNDS 300
#define BOXES 6
#define MAX_IN 5

/* ---- a graph around one operator ---- */

struct probe {
	struct ff_arena arena;
	struct ff_graph graph;
	const struct ff_node *node;
	struct ff_error err;
	int code;
};
struct shape {
	int32_t rank, size[FF_MAX_RANK];
};

/* in[] -> op "probe" -> flatten -> linear -> loss. */
static inline void probe_open(struct probe *p, enum ff_op op, const union ff_attrs *attrs,
		const struct shape *in, uint32_t n_in)
{
	struct ff_builder *b;
	uint32_t source[MAX_IN], x, y;
	union ff_attrs flat = ff_attrs_preset(FF_OP_RESHAPE);
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	union ff_attrs label = ff_attrs_preset(FF_OP_INPUT);

	memset(p, 0, sizeof(*p));
	ff_arena_init(&p->arena);
	ck_assert_int_eq(ff_builder_create("probe", &p->arena, &b, &p->err), FF_OK);
	for (uint32_t i = 0; i < n_in; i++) {
		char name[16];
		union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);

		a.input.rank = in[i].rank;
		memcpy(a.input.shape, in[i].size, sizeof(in[i].size));
		snprintf(name, sizeof(name), "in%u", i);
		source[i] = ff_builder_add(b, FF_OP_INPUT, name, &a, NULL, 0);
	}
	flat.reshape.rank = 2;
	flat.reshape.shape[1] = -1;
	fc.linear.out_features = 3;
	label.input = (struct ff_input_attrs){
			.rank = 1, .shape = {in[0].size[0]}, .dtype = FF_I32, .classes = 3};
	x = ff_builder_add(b, op, "probe", attrs, source, n_in);
	x = ff_builder_add(b, FF_OP_RESHAPE, "flat", &flat, &x, 1);
	x = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, &x, 1);
	y = ff_builder_add(b, FF_OP_INPUT, "labels", &label, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", NULL, (uint32_t[]){x, y}, 2);
	p->code = ff_builder_finish(b, &p->graph, &p->err);
	if (p->code == FF_OK)
		p->node = &p->graph.nodes[ff_graph_find(&p->graph, "probe")];
}

static inline void probe_close(struct probe *p)
{
	ff_arena_finish(&p->arena);
}

static inline const struct ff_value *out_of(const struct probe *p)
{
	return &p->graph.values[p->node->out];
}
static inline const struct ff_value *in_of(const struct probe *p, uint32_t slot)
{
	return &p->graph.values[p->graph.edges[p->node->in + slot].value];
}
static inline const struct ff_value *param_of(const struct probe *p, uint32_t i)
{
	return in_of(p, p->node->n_data + i);
}
static inline uint32_t params_of(const struct probe *p)
{
	return p->node->n_in - p->node->n_data;
}

/* ---- what a definition touches ---- */

struct hull {
	uint32_t rank; /* 0: nothing yet */
	int64_t lo[FF_MAX_RANK], hi[FF_MAX_RANK];
};
struct hulls {
	struct hull out, saved, in[MAX_IN], weight[FF_MAX_PARAMS];
};

static inline void touch(struct hull *h, uint32_t rank, const int64_t *at)
{
	for (uint32_t i = 0; i < rank; i++) {
		if (!h->rank || at[i] < h->lo[i])
			h->lo[i] = at[i];
		if (!h->rank || at[i] + 1 > h->hi[i])
			h->hi[i] = at[i] + 1;
	}
	h->rank = rank;
}
#define TOUCH(h, ...)                                                                              \
	touch(h, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

/* Touches what one point of the iteration space does. */
typedef void (*touch_fn)(const struct probe *p, const int32_t *at, struct hulls *h);

static inline void expect(const struct ff_node *n, const struct ff_operand *o,
		const struct ff_region *box, const struct hull *h, const char *what)
{
	struct ff_region got;

	ff_operand_region(n, o, box, &got);
	ck_assert_uint_eq(got.rank, o->rank);
	if (!h->rank) {
		ck_assert_msg(ff_region_volume(&got) == 0, "%s: should be empty", what);
		return;
	}
	for (uint32_t i = 0; i < o->rank; i++) {
		int64_t lo = h->lo[i] < 0 ? 0 : h->lo[i];
		int64_t hi = h->hi[i] > o->shape[i] ? o->shape[i] : h->hi[i];

		ck_assert_msg(got.lo[i] == lo && got.hi[i] == hi,
				"%s axis %u: got [%d, %d), expected [%lld, %lld)", what, i,
				got.lo[i], got.hi[i], (long long)lo, (long long)hi);
	}
}

static inline void draw_box(struct ff_random *r, const struct ff_node *n, struct ff_region *box)
{
	box->rank = n->n_dims;
	for (uint32_t d = 0; d < n->n_dims; d++) {
		uint32_t extent = (uint32_t)n->dim[d].extent;
		uint32_t size = 1 + ff_random_below(r, extent);

		box->lo[d] = (int32_t)ff_random_below(r, extent - size + 1);
		box->hi[d] = box->lo[d] + (int32_t)size;
	}
}

static inline bool next_point(const struct ff_region *box, int32_t *at)
{
	for (uint32_t i = box->rank; i-- > 0;) {
		if (++at[i] < box->hi[i])
			return true;
		at[i] = box->lo[i];
	}
	return false;
}

static inline void check_regions(struct ff_random *r, const struct probe *p, touch_fn fn)
{
	const struct ff_node *n = p->node;

	for (int i = 0; i < BOXES; i++) {
		struct hulls h = {0};
		struct ff_region box = {0};
		int32_t at[FF_MAX_DIMS] = {0};

		draw_box(r, n, &box);
		memcpy(at, box.lo, sizeof(at));
		do {
			fn(p, at, &h);
		} while (next_point(&box, at));
		expect(n, &n->out_map[0], &box, &h.out, "out");
		if (n->n_saved)
			expect(n, &n->out_map[1], &box, &h.saved, "saved");
		for (uint32_t k = 0; k < n->n_data; k++)
			expect(n, &n->in_map[k], &box, &h.in[k], "in");
		for (uint32_t k = 0; k < params_of(p); k++)
			expect(n, &n->in_map[n->n_data + k], &box, &h.weight[k],
					ff_op_row(n->op)->param[k]);
	}
}

/* An operand has its value's shape, and its axes in some order. */
static inline void check_operand(const struct ff_operand *o, const struct ff_value *v)
{
	uint32_t axes = 0;

	ck_assert_int_eq(o->dtype, v->dtype);
	ck_assert_uint_eq(o->rank, v->rank);
	ck_assert_uint_ge(v->rank, 1);
	ck_assert_uint_le(v->rank, FF_MAX_RANK);
	ck_assert_mem_eq(o->shape, v->shape, v->rank * sizeof(v->shape[0]));
	ck_assert_mem_eq(o->order, v->order, v->rank);
	for (uint32_t i = 0; i < v->rank; i++)
		axes |= 1u << v->order[i];
	ck_assert_uint_eq(axes, (1u << v->rank) - 1);
}

/* A parameter's node: its elements, any axis of which may be cut. */
static inline void check_param(const struct ff_graph *g, const struct ff_value *v)
{
	const struct ff_node *n = &g->nodes[v->producer];

	ck_assert_int_eq(v->kind, FF_VALUE_PARAMETER);
	ck_assert_int_eq(n->op, FF_OP_PARAMETER);
	ck_assert(ff_node_is_parameter(g, v->producer));
	ck_assert(v->needs_grad);
	ck_assert_uint_eq(n->n_in, 0);
	ck_assert_uint_eq(n->n_out, 1);
	ck_assert_uint_eq(n->n_dims, v->rank);
	check_operand(n->out_map, v);
	for (uint32_t i = 0; i < v->rank; i++) {
		ck_assert_int_eq(n->dim[i].label, FF_DIM_PARAMETER);
		ck_assert_int_eq(n->dim[i].extent, v->shape[i]);
		ck_assert_uint_eq(n->out_map->axis[i].n_terms, 1);
		ck_assert_int_eq(n->out_map->axis[i].term[0].dim, (int32_t)i);
	}
}

/* What holds for every node whatever its operator. */
static inline void check_node(const struct probe *p)
{
	const struct ff_node *n = p->node;
	const struct ff_value *v = out_of(p);

	ck_assert_uint_le(n->n_dims, FF_MAX_DIMS);
	ck_assert_int_eq(n->dim[0].label, FF_DIM_SAMPLE);
	for (uint32_t d = 0; d < n->n_dims; d++) {
		ck_assert_int_ge(n->dim[d].extent, 1);
		ck_assert(!d || n->dim[d].label != FF_DIM_SAMPLE);
		for (uint32_t e = 0; e < d; e++)
			ck_assert_str_ne(n->dim[d].name, n->dim[e].name);
	}
	for (uint32_t k = 0; k < n->n_out; k++) {
		bool saved = k + n->n_saved >= n->n_out;

		ck_assert_int_eq(v[k].kind, saved ? FF_VALUE_SAVED : FF_VALUE_ACTIVATION);
		ck_assert_uint_eq(v[k].port, k);
		ck_assert(!saved || (!v[k].needs_grad && !v[k].n_uses));
		check_operand(&n->out_map[k], &v[k]);
		for (uint32_t i = 0; i < v[k].rank; i++)
			for (uint32_t t = 0; t < n->out_map[k].axis[i].n_terms; t++)
				ck_assert_int_ne(n->dim[n->out_map[k].axis[i].term[t].dim].label,
						FF_DIM_REDUCTION);
	}
	for (uint32_t k = 0; k < n->n_in; k++)
		check_operand(&n->in_map[k], in_of(p, k));
	for (uint32_t k = 0; k < params_of(p); k++)
		check_param(&p->graph, param_of(p, k));
	ck_assert_int_ge(n->flops_forward, 0);
	ck_assert_int_ge(n->flops_backward, 0);
}

static inline int32_t draw(struct ff_random *r, int32_t lo, int32_t hi)
{
	return lo + (int32_t)ff_random_below(r, (uint32_t)(hi - lo + 1));
}

static inline struct shape draw_any_shape(struct ff_random *r, int32_t least_rank)
{
	struct shape s = {.rank = draw(r, least_rank, 5)};

	for (int i = 0; i < s.rank; i++)
		s.size[i] = draw(r, 1, 4);
	return s;
}

static inline void refused(struct probe *p, const char *text)
{
	ck_assert_int_eq(p->code, FF_E_INPUT);
	ck_assert_msg(strstr(p->err.text, text), "\"%s\" does not say \"%s\"", p->err.text, text);
	probe_close(p);
}

#endif
