/* The graph of one micro-batch: the same nodes, values and edges, with so many
 * samples fewer.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/micro.h"

#include <string.h>

#include "derive.h"

/* Of how many neighbours at a time axis 0 of the operand keeps samples apart, if it is the node's
 * sample dim and nothing else; 0: it does not. */
static int32_t samples_together(const struct ff_node *n, const struct ff_operand *o)
{
	const struct ff_axis_map *x = &o->axis[0];
	bool apart = o->rank > 0 && x->n_terms == 1 && x->term[0].step == 1 && x->offset == 0 &&
		     x->window == 1 && n->dim[x->term[0].dim].label == FF_DIM_SAMPLE;

	return apart ? x->term[0].div : 0;
}

/* Samples of a micro-batch and of others must not meet in a node, or a part of the batch would not
 * compute what the whole computes.  Parameters have none; a loss is a sum over its samples. */
static int check_operand(const struct ff_graph *g, const struct ff_node *n,
		const struct ff_operand *o, int32_t samples, struct ff_error *err)
{
	int32_t group = samples_together(n, o);

	if (!group)
		return ff_fail(err, FF_E_INPUT,
				"graph %s cannot be trained in micro-batches: operator %s does not "
				"keep samples apart",
				g->name, n->name);
	if (samples % group)
		return ff_fail(err, FF_E_INPUT,
				"graph %s cannot be trained in micro-batches of %d sample%s: "
				"operator %s does not keep samples apart but in groups of %d",
				g->name, samples, samples == 1 ? "" : "s", n->name, group);
	return FF_OK;
}

static int check_node(const struct ff_graph *g, const struct ff_node *n, int32_t samples,
		struct ff_error *err)
{
	bool loss = ff_op_row(n->op)->flags & FF_OP_LOSS;
	int code = FF_OK;

	for (uint32_t i = 0; i < n->n_data && code == FF_OK; i++)
		code = check_operand(g, n, &n->in_map[i], samples, err);
	for (uint32_t k = 0; k < n->n_out - n->n_saved && !loss && code == FF_OK; k++)
		code = check_operand(g, n, &n->out_map[k], samples, err);
	return code;
}

static int check(const struct ff_graph *g, uint32_t micro_batches, struct ff_error *err)
{
	int32_t samples = g->batch / (int32_t)micro_batches;
	int code = FF_OK;

	if (g->batch % (int32_t)micro_batches)
		return ff_fail(err, FF_E_INPUT,
				"graph %s: its batch of %d cannot be cut into %u micro-batches of "
				"one size",
				g->name, g->batch, micro_batches);
	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++)
		if (ff_node_is_computed(g, i))
			code = check_node(g, &g->nodes[i], samples, err);
	return code;
}

/* Puts the samples of one micro-batch where an attribute says those of the batch. */
static void cut_attrs(struct ff_node *n, int32_t batch, int32_t samples)
{
	const struct ff_op_row *row = ff_op_row(n->op);

	for (uint32_t i = 0; i < row->n_attrs; i++) {
		int32_t *shape = (int32_t *)((char *)&n->attrs + row->attrs[i].offset);

		if (row->attrs[i].of_batch && shape[0] > 0 && shape[1] == batch)
			shape[1] = samples;
	}
}

/* What links the graph together stays; what rows derive is made anew. */
static int copy_links(const struct ff_graph *g, int32_t samples, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	struct ff_operand *in = ff_arena_array(a, g->n_edges, sizeof(*in));
	struct ff_operand *out = ff_arena_array(a, g->n_values, sizeof(*out));

	*ret = *g;
	ret->batch = samples;
	ret->nodes = ff_arena_array(a, g->n_nodes, sizeof(*ret->nodes));
	ret->values = ff_arena_array(a, g->n_values, sizeof(*ret->values));
	if (!in || !out || !ret->nodes || !ret->values)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < g->n_nodes; i++) {
		const struct ff_node *n = &g->nodes[i];

		ret->nodes[i] = (struct ff_node){.op = n->op,
				.name = n->name,
				.attrs = n->attrs,
				.in = n->in,
				.n_in = n->n_in,
				.n_data = n->n_data,
				.n_prelude = n->n_prelude,
				.out = n->out,
				.n_out = n->n_out,
				.n_saved = n->n_saved,
				.n_carried = n->n_carried,
				.n_kept = n->n_kept,
				.in_map = in + n->in,
				.out_map = out + n->out};
		cut_attrs(&ret->nodes[i], g->batch, samples);
	}
	for (uint32_t k = 0; k < g->n_values; k++) {
		const struct ff_value *v = &g->values[k];

		ret->values[k] = (struct ff_value){.kind = v->kind,
				.producer = v->producer,
				.port = v->port,
				.first_use = v->first_use,
				.n_uses = v->n_uses,
				.needs_grad = v->needs_grad};
	}
	return FF_OK;
}

static int derive_all(const struct ff_graph *g, struct ff_graph *r, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < g->n_nodes && code == FF_OK; i++) {
		struct ff_derive d = {.graph = r, .node = &r->nodes[i]};

		code = ff_op_row(g->nodes[i].op)->derive(&d, err);
	}
	if (code == FF_OK)
		ff_graph_limit_sparse(r);
	return code;
}

int ff_graph_batch(const struct ff_graph *g, int32_t samples, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	struct ff_graph r;
	int code = copy_links(g, samples, a, &r, err);

	if (code == FF_OK)
		code = derive_all(g, &r, err);
	if (code < 0)
		return code;
	r.hash = ff_hash_mix(g->hash, (uint64_t)samples);
	*ret = r;
	return FF_OK;
}

int ff_graph_micro(const struct ff_graph *g, uint32_t micro_batches, struct ff_arena *a,
		struct ff_graph *ret, struct ff_error *err)
{
	struct ff_graph r;
	int code = FF_OK;

	if (micro_batches == 1) {
		*ret = *g;
		return FF_OK;
	}
	/* gradients of micro-batches are added up whole */
	code = check(g, micro_batches, err);
	if (code == FF_OK)
		code = copy_links(g, g->batch / (int32_t)micro_batches, a, &r, err);
	if (code == FF_OK)
		code = derive_all(g, &r, err);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < r.n_nodes; i++)
		r.nodes[i].sparse_rows = 0;
	r.hash = ff_hash_mix(g->hash, micro_batches);
	*ret = r;
	return FF_OK;
}
