/* Nodes of the graph that is built, with the shapes that their rows derive.
 * SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

#include <stdio.h>
#include <string.h>

#include "draft.h"
#include "metadata.h"
#include "operator/builder.h"
#include "origin.h"
#include "values.h"

#define LONGEST 160 /* characters of a name, so that there is room for what makes it unique */

/* Of ONNX names, which may have any characters, what a graph's may have; not taken yet. */
static const char *fresh_name(struct ff_import *im, const char *name)
{
	char legal[LONGEST + 16];
	size_t n = 0, end;

	for (name += strspn(name, "/"); *name && n < LONGEST; name++)
		legal[n++] = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_.:-/",
					     *name)
					     ? *name
					     : '_';
	if (!n)
		legal[n++] = '_';
	legal[end = n] = '\0';
	for (uint32_t i = 2; ff_names_find(im->taken, legal) != FF_NONE; i++)
		snprintf(legal + end, 16, "_%u", i);
	name = ff_arena_strdup(im->arena, legal);
	return name && ff_names_put(im->taken, name, 0) == FF_OK ? name : NULL;
}

const char *ff_emit_owner(struct ff_import *im, const char *weight)
{
	size_t n = weight ? strlen(weight) : 0;

	if (n < 8 || strcmp(weight + n - 7, ".weight") != 0)
		return NULL;
	return ff_arena_printf(im->arena, "%.*s", (int)(n - 7), weight);
}

/* What the row makes of inputs of these shapes: outputs of a graph of this node alone. */
static int derive(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_emit *e,
		struct ff_onnx_value *out, uint32_t n_out)
{
	struct ff_arena_mark mark = ff_arena_mark(&im->scratch);
	uint32_t in[FF_MAX_INPUTS], node;
	struct ff_builder *b = NULL;
	struct ff_error err = {0};
	struct ff_graph g;
	int code = ff_builder_create("import", &im->scratch, &b, &err);

	for (uint32_t i = 0; i < e->n_in && code == FF_OK; i++) {
		union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
		char name[16];

		snprintf(name, sizeof(name), "in%u", i);
		a.input.rank = (int32_t)e->in[i].rank;
		memcpy(a.input.shape, e->in[i].shape, sizeof(a.input.shape));
		a.input.dtype = (int32_t)e->in[i].dtype;
		a.input.classes = e->in[i].dtype == FF_I32;
		in[i] = ff_builder_add(b, FF_OP_INPUT, name, &a, NULL, 0);
	}
	if (code == FF_OK) {
		node = ff_builder_add(b, e->op, "node", e->attrs, in, e->n_in);
		code = ff_builder_draft(b, &g, &err);
	}
	for (uint32_t k = 0; k < n_out && code == FF_OK; k++) {
		const struct ff_value *v = &g.values[g.nodes[node].out + k];

		out[k].dtype = v->dtype;
		out[k].rank = v->rank;
		memcpy(out[k].shape, v->shape, sizeof(out[k].shape));
	}
	ff_arena_rewind(&im->scratch, mark);
	if (code == FF_E_NOMEM)
		return ff_fail_memory(im->err);
	return code < 0 ? ff_import_fail(im, n, "%.300s", err.text) : FF_OK;
}

int ff_emit_input(
		struct ff_import *im, const char *name, const union ff_attrs *attrs, uint32_t *ret)
{
	const char *fresh = fresh_name(im, name);

	if (!fresh)
		return ff_fail_memory(im->err);
	*ret = ff_draft_add(im, FF_OP_INPUT, fresh, attrs, NULL, 0, NULL);
	return *ret == FF_NONE ? ff_fail_memory(im->err) : FF_OK;
}

int ff_emit(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_emit *e,
		struct ff_onnx_value *out, uint32_t n_out)
{
	const char *own = n->name && n->name[0] ? n->name : n->n_output ? n->output[0] : n->op_type;
	const char *scoped = e->name ? e->name : ff_onnx_scoped_name(im, n);
	const char *name = fresh_name(im, scoped ? scoped : own);
	uint32_t in[FF_MAX_INPUTS], node;
	int code;

	if (!name)
		return ff_fail_memory(im->err);
	if ((code = derive(im, n, e, out, n_out)) < 0)
		return code;
	for (uint32_t i = 0; i < e->n_in; i++)
		in[i] = e->in[i].port;
	node = ff_draft_add(im, e->op, name, e->attrs, in, e->n_in, e->params);
	if (node == FF_NONE)
		return ff_fail_memory(im->err);
	for (uint32_t k = 0; k < n_out; k++) {
		out[k].kind = FF_ONNX_NODE;
		out[k].node = name;
		out[k].port = FF_PORT(node, k);
		for (uint32_t i = 0; i < e->n_in; i++)
			if (e->in[i].arranged && e->in[i].rank == out[k].rank) {
				out[k].arranged = true;
				out[k].onnx_rank = e->in[i].onnx_rank;
				out[k].batch_at = e->in[i].batch_at;
				memcpy(out[k].group, e->in[i].group, sizeof(out[k].group));
			}
	}
	return FF_OK;
}

int ff_emit_as(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_emit *e)
{
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE};
	int code = ff_emit(im, n, e, &out, 1);

	return code < 0 ? code : ff_onnx_set_same(im, n, 0, &out);
}

int ff_emit_reshape(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t rank, const int32_t *shape, struct ff_onnx_value *ret)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_RESHAPE);
	const struct ff_emit e = {.op = FF_OP_RESHAPE, .attrs = &a, .in = {*in}, .n_in = 1};

	if (rank == in->rank && !memcmp(shape, in->shape, rank * sizeof(*shape))) {
		*ret = *in;
		return FF_OK;
	}
	a.reshape.rank = (int32_t)rank;
	memcpy(a.reshape.shape, shape, rank * sizeof(*shape));
	return ff_emit(im, n, &e, ret, 1);
}

/* Rows for columns. */
static int swap_axes(struct ff_import *im, const struct ff_constant *c, struct ff_constant *ret)
{
	struct ff_constant s = *c;
	int code;

	s.shape[0] = c->shape[1];
	s.shape[1] = c->shape[0];
	s.swapped = !c->swapped;
	s.f = NULL;
	if ((code = ff_constant_alloc(im, &s)) < 0)
		return code;
	for (int64_t i = 0; i < s.shape[0]; i++)
		for (int64_t k = 0; k < s.shape[1]; k++)
			s.f[i * s.shape[1] + k] = c->f[k * c->shape[1] + i];
	*ret = s;
	return FF_OK;
}

/* The claim of a named value as others have it, as it is or with its axes swapped, or FF_NONE. */
static int find_claim(struct ff_import *im, const char *weight, bool swapped, const char **key,
		uint32_t *ret)
{
	*key = ff_arena_printf(im->arena, "%s%s", weight, swapped ? "\n" : "");
	if (!*key)
		return ff_fail_memory(im->err);
	*ret = ff_names_find(im->claims, *key);
	return FF_OK;
}

/* Who is claimed with its axes swapped and not as it is: its name, or NULL. */
static int find_swapped(struct ff_import *im, const struct ff_constant *c, const char **ret)
{
	uint32_t own, other;
	const char *key;
	int code;

	*ret = NULL;
	if (!c->weight)
		return FF_OK;
	if ((code = find_claim(im, c->weight, c->swapped, &key, &own)) < 0 ||
			(code = find_claim(im, c->weight, !c->swapped, &key, &other)) < 0)
		return code;
	if (own == FF_NONE && other != FF_NONE)
		*ret = im->claim[other].name;
	return FF_OK;
}

int ff_emit_find_swapped(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *c, bool swap, const char **ret)
{
	struct ff_constant value = *c;
	int code = ff_origin_name(im, n, &value);

	value.swapped = value.swapped != swap;
	return code < 0 ? code : find_swapped(im, &value, ret);
}

int ff_emit_param(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		bool swap, const char **ret)
{
	struct ff_constant value = *c;
	const char *key = n->output[0], *swapped;
	uint32_t i = FF_NONE;
	int code;

	if (c->whole)
		return ff_import_fail(im, n, "its weights are whole numbers");
	if ((code = ff_origin_name(im, n, &value)) < 0)
		return code;
	if (swap && (code = swap_axes(im, &value, &value)) < 0)
		return code;
	if ((code = find_swapped(im, &value, &swapped)) < 0)
		return code;
	if (swapped)
		return ff_import_fail(im, n,
				"of %s, which nodes before it read with rows for columns, only a "
				"product is supported",
				swapped);
	/* an initializer that others read the same way is one parameter */
	if (value.weight && (code = find_claim(im, value.weight, value.swapped, &key, &i)) < 0)
		return code;
	if (i != FF_NONE) {
		*ret = im->claim[i].name;
		return FF_OK;
	}
	if (im->n_claims == im->cap_claims)
		return ff_import_fail(im, n, "there are too many parameters");
	im->claim[im->n_claims].name = fresh_name(im, value.weight ? value.weight : key);
	im->claim[im->n_claims].value = value;
	if (!im->claim[im->n_claims].name ||
			(value.weight && ff_names_put(im->claims, key, im->n_claims) < 0))
		return ff_fail_memory(im->err);
	*ret = im->claim[im->n_claims++].name;
	return FF_OK;
}

int ff_emit_kept(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *node,
		const char *what, const struct ff_constant *c)
{
	const char *name = ff_arena_printf(im->arena, "%s.%s", node->node, what);

	if (!name)
		return ff_fail_memory(im->err);
	if (im->n_claims == im->cap_claims || c->whole)
		return ff_import_fail(im, n, "its statistics are not supported");
	im->claim[im->n_claims++] = (struct ff_claim){name, node->node, *c};
	return FF_OK;
}
