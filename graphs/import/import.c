/* ONNX models to graphs: which nodes are wanted, their walk in order, the loss behind them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draft.h"
#include "emit.h"
#include "ff/safetensors.h"
#include "fold/fold.h"
#include "metadata.h"
#include "model.h"
#include "notes.h"
#include "operators/deferred.h"
#include "operators/rows.h"
#include "origin.h"
#include "values.h"

/* Every value of the file has a place before the first pointer to one is kept. */
static int list_values(struct ff_import *im)
{
	const Onnx__GraphProto *g = im->graph;
	size_t most = g->n_initializer + g->n_input + 1;

	for (size_t i = 0; i < g->n_node; i++)
		most += g->node[i]->n_output + g->node[i]->n_input;
	if (most >= FF_NONE / 2)
		return ff_fail(im->err, FF_E_INPUT, "%s: it is too large", im->opt->model);
	im->cap_values = (uint32_t)most;
	im->value = ff_arena_array(im->arena, most, sizeof(*im->value));
	im->cap_claims = 2 * (uint32_t)most; /* a recurrence has twice as many as inputs */
	im->claim = ff_arena_array(im->arena, 2 * most, sizeof(*im->claim));
	im->wanted = ff_arena_array(im->arena, g->n_node + 1, sizeof(*im->wanted));
	im->names = ff_arena_alloc(im->arena, sizeof(*im->names));
	im->taken = ff_arena_alloc(im->arena, sizeof(*im->taken));
	im->claims = ff_arena_alloc(im->arena, sizeof(*im->claims));
	if (!im->value || !im->claim || !im->wanted || !im->names || !im->taken || !im->claims)
		return ff_fail_memory(im->err);
	ff_names_init(im->names, im->arena);
	ff_names_init(im->taken, im->arena);
	ff_names_init(im->claims, im->arena);
	return FF_OK;
}

/* Who makes each value; names of operators and values that are missing become empty. */
static int link_nodes(struct ff_import *im)
{
	const Onnx__GraphProto *g = im->graph;

	for (size_t i = 0; i < g->n_node; i++) {
		const Onnx__NodeProto *n = g->node[i];

		if (!n->op_type)
			return ff_fail(im->err, FF_E_INPUT, "%s: a node has no operator",
					im->opt->model);
		for (size_t k = 0; k < n->n_output; k++) {
			struct ff_onnx_value *v = ff_onnx_value(im, n->output[k]);

			if (!v)
				return ff_fail_memory(im->err);
			if (v->maker && n->output[k][0])
				return ff_import_fail(im, n, "%s is made twice", n->output[k]);
			v->maker = n;
		}
		for (size_t k = 0; k < n->n_input; k++)
			if (!ff_onnx_value(im, n->input[k]))
				return ff_fail_memory(im->err);
	}
	return FF_OK;
}

/* The output that goes to the loss. */
static int find_output(struct ff_import *im, struct ff_onnx_value **ret)
{
	const Onnx__GraphProto *g = im->graph;
	const char *name = im->opt->output;
	uint32_t i;

	if (!name && g->n_output && g->output[0]->name)
		name = g->output[0]->name;
	i = name ? ff_names_find(im->names, name) : FF_NONE;
	if (i == FF_NONE)
		return ff_fail(im->err, FF_E_INPUT, "%s: there is no value %s to train",
				im->opt->model, name ? name : "that it calls its output");
	*ret = &im->value[i];
	(*ret)->uses++;
	return FF_OK;
}

/* Marks what the output depends on: from the last node to the first, which is enough where
 * nodes stand in order; where they do not, walking them finds a value that is not there. */
static void mark_wanted(struct ff_import *im, const struct ff_onnx_value *output)
{
	const Onnx__GraphProto *g = im->graph;

	for (size_t i = g->n_node; i-- > 0;) {
		const Onnx__NodeProto *n = g->node[i];

		for (size_t k = 0; k < n->n_output; k++) {
			const struct ff_onnx_value *v = ff_onnx_value(im, n->output[k]);

			im->wanted[i] = im->wanted[i] || v == output || v->uses;
		}
		for (size_t k = 0; k < n->n_input && im->wanted[i]; k++) {
			struct ff_onnx_value *v = ff_onnx_value(im, n->input[k]);

			v->uses++;
			v->reader = n;
		}
	}
}

/* Operators that nothing is trained through: what goes there is a constant, such as frequencies of
 * places. */
static bool is_flat(const char *op)
{
	return !strcmp(op, "Cos") || !strcmp(op, "Sin") || !strcmp(op, "Floor") ||
	       !strcmp(op, "Ceil") || !strcmp(op, "Round") || !strcmp(op, "Sign");
}

static void mark_flat(struct ff_import *im)
{
	const Onnx__GraphProto *g = im->graph;

	for (size_t i = g->n_node; i-- > 0;) {
		const Onnx__NodeProto *n = g->node[i];
		bool flat = is_flat(n->op_type);

		for (size_t k = 0; k < n->n_output; k++)
			flat = flat || ff_onnx_value(im, n->output[k])->flat;
		for (size_t k = 0; k < n->n_input && flat && im->wanted[i]; k++)
			if (n->input[k][0])
				ff_onnx_value(im, n->input[k])->flat = true;
	}
}

static int read_initializers(struct ff_import *im)
{
	const Onnx__GraphProto *g = im->graph;

	for (size_t i = 0; i < g->n_initializer; i++) {
		const Onnx__TensorProto *t = g->initializer[i];
		struct ff_onnx_value *v = t->name ? ff_onnx_value(im, t->name) : NULL;
		int code;

		if (!t->name)
			return ff_fail(im->err, FF_E_INPUT, "%s: an initializer has no name",
					im->opt->model);
		if (!v)
			return ff_fail_memory(im->err);
		if (!v->uses || v->maker)
			continue;
		if ((code = ff_onnx_tensor(im, t, &v->constant)) < 0)
			return code;
		v->kind = FF_ONNX_CONSTANT;
		v->constant.weight = t->name;
		v->constant.root = &v->constant;
		v->constant.trained = ff_origin_trains(im, &v->constant);
		if (v->flat && v->constant.trained && ff_origin_is_guess(im, &v->constant))
			v->constant.trained = false;
	}
	return FF_OK;
}

/* Ids of a table that is read with them, where they go straight to it; 0 where not. */
static int64_t rows_read_by(struct ff_import *im, const char *name)
{
	int64_t rows = 0;

	for (size_t i = 0; i < im->graph->n_node; i++) {
		const Onnx__NodeProto *n = im->graph->node[i];
		const struct ff_onnx_value *table;

		if (!im->wanted[i] || strcmp(n->op_type, "Gather") != 0 || n->n_input < 2 ||
				strcmp(n->input[1], name) != 0)
			continue;
		table = ff_onnx_in(im, n, 0);
		if (table && table->kind == FF_ONNX_CONSTANT && table->constant.rank == 2 &&
				(!rows || table->constant.shape[0] < rows))
			rows = table->constant.shape[0];
	}
	return rows;
}

static int input_shape(struct ff_import *im, const Onnx__ValueInfoProto *info, union ff_attrs *a)
{
	const Onnx__TypeProto *type = info->type;
	const Onnx__TensorShapeProto *shape;

	if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
			!type->tensor_type->shape || !type->tensor_type->shape->n_dim ||
			type->tensor_type->shape->n_dim > FF_MAX_RANK)
		return ff_fail(im->err, FF_E_INPUT,
				"%s: input %s: expected a tensor of 1 to %d axes", im->opt->model,
				info->name, FF_MAX_RANK);
	shape = type->tensor_type->shape;
	a->input.rank = (int32_t)shape->n_dim;
	for (size_t k = 0; k < shape->n_dim; k++) {
		const Onnx__TensorShapeProto__Dimension *d = shape->dim[k];
		bool open = d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
		int64_t size = open && k == 0 ? (int64_t)im->opt->batch : open ? 0 : d->dim_value;

		if (open && k == 0 && !size)
			return ff_fail(im->err, FF_E_INPUT,
					"%s: input %s leaves the batch open: --batch N sets it",
					im->opt->model, info->name);
		if (size < 1 || size > INT32_MAX)
			return ff_fail(im->err, FF_E_INPUT,
					"%s: input %s: axis %zu is open or empty, expected a "
					"number "
					"(export without dynamic_axes but for the batch)",
					im->opt->model, info->name, k);
		a->input.shape[k] = (int32_t)size;
	}
	return FF_OK;
}

static int input_type(struct ff_import *im, const Onnx__ValueInfoProto *info, union ff_attrs *a)
{
	switch (info->type->tensor_type->elem_type) {
	case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
	case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
	case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
	case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
		a->input.dtype = FF_F32;
		return FF_OK;
	case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
	case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
		break;
	default:
		return ff_fail(im->err, FF_E_INPUT, "%s: input %s: expected float or whole numbers",
				im->opt->model, info->name);
	}
	a->input.dtype = FF_I32;
	a->input.classes = (int32_t)rows_read_by(im, info->name);
	if (!a->input.classes)
		return ff_fail(im->err, FF_E_INPUT,
				"%s: input %s: expected whole numbers to be the ids of an "
				"embedding",
				im->opt->model, info->name);
	return FF_OK;
}

static int add_input(struct ff_import *im, const Onnx__ValueInfoProto *info)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	struct ff_onnx_value *v = info->name ? ff_onnx_value(im, info->name) : NULL;
	int code;

	if (!v || v->kind != FF_ONNX_NOTHING || !v->uses || v->maker)
		return FF_OK; /* an initializer, or nothing depends on it */
	if ((code = input_shape(im, info, &a)) < 0 || (code = input_type(im, info, &a)) < 0)
		return code;
	v->kind = FF_ONNX_NODE;
	im->samples = im->samples ? im->samples : a.input.shape[0];
	v->dtype = (enum ff_dtype)a.input.dtype;
	v->rank = (uint32_t)a.input.rank;
	memcpy(v->shape, a.input.shape, sizeof(v->shape));
	return ff_emit_input(im, info->name, &a, &v->port);
}

#define MISSING_TEXT 380

/* Operators that are not supported: how many nodes of each, and the first. */
struct missing {
	uint32_t n;
	struct {
		const Onnx__NodeProto *first;
		uint32_t nodes;
	} * op;
};

static int note_missing(struct ff_import *im, struct missing *m, const Onnx__NodeProto *n)
{
	uint32_t k = 0;

	if (!m->op)
		m->op = ff_arena_array(im->arena, im->graph->n_node, sizeof(*m->op));
	if (!m->op)
		return ff_fail_memory(im->err);
	while (k < m->n && strcmp(m->op[k].first->op_type, n->op_type) != 0)
		k++;
	if (k == m->n)
		m->op[m->n++].first = n;
	m->op[k].nodes++;
	return FF_OK;
}

static int fail_missing(struct ff_import *im, const struct missing *m)
{
	char text[MISSING_TEXT] = "";
	size_t len = 0;
	uint32_t k;

	for (k = 0; k < m->n; k++) {
		const Onnx__NodeProto *n = m->op[k].first;
		const char *name = n->name && n->name[0] ? n->name
				   : n->n_output         ? n->output[0]
							 : "?";
		const char *module = ff_onnx_module(im, n);
		int more = snprintf(text + len, sizeof(text) - len, "%s%s (%u: %s%s%s%s)",
				k ? ", " : "", n->op_type, m->op[k].nodes, name,
				module ? " of " : "", module ? module : "",
				m->op[k].nodes > 1 ? " ..." : "");

		if (more < 0 || (size_t)more >= sizeof(text) - len)
			break;
		len += (size_t)more;
	}
	text[len] = '\0';
	return ff_fail(im->err, FF_E_INPUT, "%s: operators that are not supported: %s%s%.0u%s",
			im->opt->model, text, k < m->n ? " and " : "", m->n - k,
			k < m->n ? " more" : "");
}

/* Whether all that `n` reads is known, `broken` being why it need not be. */
static int check_inputs(struct ff_import *im, const Onnx__NodeProto *n, bool broken, bool *ready)
{
	*ready = true;
	for (size_t k = 0; k < n->n_input; k++) {
		const struct ff_onnx_value *v = ff_onnx_in(im, n, k);

		if (!v || v->kind != FF_ONNX_NOTHING)
			continue;
		*ready = false;
		if (!broken)
			return ff_import_fail(im, n,
					"input %s is not made before it, or is an output "
					"that is not supported",
					v->name);
	}
	return FF_OK;
}

static bool is_ours(const Onnx__NodeProto *n)
{
	return !n->domain || !n->domain[0] || !strcmp(n->domain, "ai.onnx");
}

static int walk_node(struct ff_import *im, const Onnx__NodeProto *n, struct missing *missing)
{
	bool ours = is_ours(n);
	const struct ff_onnx_row *row = ours ? ff_onnx_row(n->op_type) : NULL;
	bool done = false, ready;
	int code = check_inputs(im, n, missing->n, &ready);

	if (code < 0)
		return code;
	if (ready && ours && (code = ff_fold(im, n, &done)) < 0)
		return code;
	if (done)
		return FF_OK;
	if (ready && ours && (code = ff_deferred(im, n, &done)) < 0)
		return code;
	if (done)
		return FF_OK;
	if (!row && (ready || !ff_fold_has(n->op_type)))
		return note_missing(im, missing, n);
	im->row = row;
	return row && ready ? row->emit(im, n) : FF_OK;
}

/* Where node `i` cannot be imported as it stands, operators behind it that never can are the better
 * reason: what a Loop or an If reads is often odd. */
static int fail_node(struct ff_import *im, size_t i, struct missing *missing, int why)
{
	int code = FF_OK;

	for (; i < im->graph->n_node && code == FF_OK && why == FF_E_INPUT; i++) {
		const Onnx__NodeProto *n = im->graph->node[i];

		if (im->wanted[i] && !ff_fold_has(n->op_type) &&
				!(is_ours(n) && ff_onnx_row(n->op_type)))
			code = note_missing(im, missing, n);
	}
	if (code < 0)
		return code;
	return missing->n ? fail_missing(im, missing) : why;
}

static int walk(struct ff_import *im)
{
	struct missing missing = {0};

	for (size_t i = 0; i < im->graph->n_node; i++) {
		const Onnx__NodeProto *n = im->graph->node[i];
		int code = FF_OK;

		/* one that went along with another has its output */
		if (im->wanted[i] && ff_onnx_value(im, n->output[0])->kind == FF_ONNX_NOTHING)
			code = walk_node(im, n, &missing);
		if (code < 0)
			return fail_node(im, i, &missing, code);
	}
	return missing.n ? fail_missing(im, &missing) : FF_OK;
}

static int refuse_output(
		struct ff_import *im, const struct ff_onnx_value *output, const char *expected)
{
	return ff_fail(im->err, FF_E_INPUT, "%s: %s: expected %s", im->opt->model, output->name,
			expected);
}

static int add_last(struct ff_import *im, enum ff_op op, const uint32_t in[2])
{
	return ff_draft_add(im, op, "loss", NULL, in, 2, NULL) == FF_NONE ? ff_fail_memory(im->err)
									  : FF_OK;
}

/* Targets, one for every element that the output has, and the loss. */
static int add_point_loss(struct ff_import *im, const struct ff_onnx_value *output, enum ff_op op)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	uint32_t in[2] = {output->port};
	int code;

	if (output->kind != FF_ONNX_NODE || output->arranged || !output->rank ||
			output->dtype != FF_F32)
		return refuse_output(im, output, "numbers of each sample");
	a.input.rank = (int32_t)output->rank;
	for (uint32_t k = 0; k < output->rank; k++)
		a.input.shape[k] = output->shape[k];
	if ((code = ff_emit_input(im, "target", &a, &in[1])) < 0)
		return code;
	return add_last(im, op, in);
}

/* Labels, one for every element that the output has beside its classes, and the loss. */
static int add_class_loss(struct ff_import *im, const struct ff_onnx_value *output)
{
	uint32_t last = output->rank - 1, logits = output->port, label, in[2];
	bool move = im->opt->classes_last && output->rank > 2;
	union ff_attrs t = ff_attrs_preset(FF_OP_TRANSPOSE), a = ff_attrs_preset(FF_OP_INPUT);
	int code;

	if (output->kind != FF_ONNX_NODE || output->arranged || output->rank < 2 ||
			output->dtype != FF_F32)
		return refuse_output(im, output, "numbers for each class of each sample");
	a.input.dtype = FF_I32;
	a.input.classes = output->shape[move ? last : 1];
	a.input.rank = (int32_t)last;
	for (uint32_t k = 0, at = 0; k < output->rank; k++)
		if (k != (move ? last : 1))
			a.input.shape[at++] = output->shape[k];
	t.transpose.rank = (int32_t)output->rank;
	t.transpose.perm[1] = (int32_t)last;
	for (uint32_t k = 2; k < output->rank; k++)
		t.transpose.perm[k] = (int32_t)k - 1;
	if (move)
		logits = ff_draft_add(im, FF_OP_TRANSPOSE, "logits", &t, &logits, 1, NULL);
	if (logits == FF_NONE)
		return ff_fail_memory(im->err);
	if ((code = ff_emit_input(im, "label", &a, &label)) < 0)
		return code;
	in[0] = logits;
	in[1] = label;
	return add_last(im, FF_OP_SOFTMAX_CROSS_ENTROPY, in);
}

static int add_loss(struct ff_import *im, const struct ff_onnx_value *output)
{
	const char *name = im->opt->loss;
	enum ff_op op = FF_OP_SOFTMAX_CROSS_ENTROPY;
	const struct ff_op_row *row = name ? ff_op_find(name, &op) : ff_op_row(op);

	if (!row || !(row->flags & FF_OP_LOSS))
		return ff_fail(im->err, FF_E_INPUT,
				"--loss %.100s: expected softmax_cross_entropy, mse, l1, "
				"smooth_l1 or bce_with_logits",
				name);
	return row->predicts == FF_PREDICTS_CLASSES ? add_class_loss(im, output)
						    : add_point_loss(im, output, op);
}

static int write_weights(struct ff_import *im)
{
	struct ff_tensors_out out = {.file = {.fd = -1}};
	int code = ff_tensors_create(im->opt->weights, &out, im->err);

	for (uint32_t i = 0; i < im->n_claims && code == FF_OK; i++) {
		const struct ff_constant *c = &im->claim[i].value;
		int32_t shape[FF_IMPORT_RANK];

		for (uint32_t k = 0; k < c->rank; k++)
			shape[k] = (int32_t)c->shape[k];
		ff_tensors_declare(&out, im->claim[i].name, "F32", c->rank, shape);
	}
	for (uint32_t i = 0; i < im->n_claims && code == FF_OK; i++) {
		const struct ff_constant *c = &im->claim[i].value;

		code = ff_tensors_write(&out, c->f, (size_t)c->n * sizeof(*c->f), im->err);
	}
	if (code == FF_OK)
		code = ff_tensors_commit(&out, im->err);
	ff_tensors_drop(&out);
	return code;
}

static int build(struct ff_import *im, struct ff_graph *ret)
{
	struct ff_onnx_value *output = NULL;
	int code;

	if ((code = ff_onnx_spare(im)) < 0 || (code = list_values(im)) < 0 ||
			(code = link_nodes(im)) < 0 || (code = find_output(im, &output)) < 0)
		return code;
	mark_wanted(im, output);
	mark_flat(im);
	if ((code = ff_origins_read(im)) < 0 || (code = read_initializers(im)) < 0)
		return code;
	for (size_t i = 0; i < im->graph->n_input && code == FF_OK; i++)
		code = add_input(im, im->graph->input[i]);
	if (code < 0 || (code = walk(im)) < 0 || (code = add_loss(im, output)) < 0 ||
			(code = ff_draft_build(im)) < 0 ||
			(code = ff_builder_finish(im->builder, ret, im->err)) < 0)
		return code;
	code = ff_origin_notes(im);
	return code == FF_OK && im->opt->weights ? write_weights(im) : code;
}

/* What the file is called, without folder and ending. */
static const char *graph_name(struct ff_import *im)
{
	const char *slash = strrchr(im->opt->model, '/');
	const char *name = slash ? slash + 1 : im->opt->model;
	const char *dot = strrchr(name, '.');
	char *copy;

	if (im->opt->name)
		return im->opt->name;
	copy = ff_arena_printf(
			im->arena, "%.*s", dot && dot > name ? (int)(dot - name) : 100, name);
	for (char *c = copy; c && *c; c++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-",
				    *c))
			*c = '_';
	return copy;
}

/* Names of the model may have anything. */
static void make_legible(char *text)
{
	for (char *c = text; *c; c++)
		*c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
}

int ff_import_onnx(const struct ff_import_options *opt, struct ff_arena *a, struct ff_graph *ret,
		struct ff_error *err)
{
	struct ff_import im = {.opt = opt, .arena = a, .err = err};
	Onnx__ModelProto *model = NULL;
	const char *name = graph_name(&im);
	int code = name ? ff_onnx_load(&im, &model) : ff_fail_memory(err);

	if (code < 0)
		return code;
	ff_arena_init(&im.scratch);
	im.model = model;
	im.graph = model->graph;
	code = ff_builder_create(name, a, &im.builder, err);
	if (code == FF_OK)
		code = build(&im, ret);
	if (code < 0)
		make_legible(err->text);
	for (uint32_t i = 0; opt->notes && i < opt->notes->n; i++)
		make_legible(opt->notes->text[i]);
	ff_arena_finish(&im.scratch);
	ff_onnx_free(model);
	return code;
}
