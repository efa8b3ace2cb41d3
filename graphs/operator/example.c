/* The graph of an operator's example.  SPDX-License-Identifier: Apache-2.0 */
#include "example.h"

#include <stdio.h>
#include <string.h>

#include "attrs.h"
#include "builder.h"

#define PRESET "{\"in\": [[4, 8, 6, 6]]}"
#define CLASSES 4 /* of int32 inputs */

struct making {
	struct ff_builder *builder;
	const struct ff_json *root;
	uint32_t in[FF_MAX_INPUTS], n_in;
	struct ff_error *err;
};

/* An input of this shape. */
static int add_input(struct making *m, const struct ff_json *shape, bool labels)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_INPUT);
	char name[16];
	int64_t size;
	int code = FF_OK;

	if (shape->type != FF_JSON_ARRAY || shape->n > FF_MAX_RANK || m->n_in == FF_MAX_INPUTS)
		return ff_json_fail(shape, m->err, "expected the shape of an input");
	a.input.rank = (int32_t)shape->n;
	for (uint32_t i = 0; i < shape->n && code == FF_OK; i++) {
		code = ff_json_as_int(&shape->child[i], 1, INT32_MAX, &size, m->err);
		if (code == FF_OK)
			a.input.shape[i] = (int32_t)size;
	}
	a.input.dtype = labels;
	a.input.classes = labels ? CLASSES : 0;
	snprintf(name, sizeof(name), "in%u", m->n_in);
	if (code == FF_OK)
		m->in[m->n_in++] = ff_builder_add(m->builder, FF_OP_INPUT, name, &a, NULL, 0);
	return code;
}

static int add_inputs(struct making *m, const char *key, bool labels)
{
	const struct ff_json *list = ff_json_get(m->root, key);
	int code = FF_OK;

	for (uint32_t i = 0; list && i < list->n && code == FF_OK; i++)
		code = add_input(m, &list->child[i], labels);
	return code;
}

int ff_op_example(enum ff_op op, struct ff_arena *a, struct ff_graph *ret, uint32_t *node,
		struct ff_error *err)
{
	const struct ff_op_row *row = ff_op_row(op);
	const char *text = row->example ? row->example : PRESET;
	struct making m = {.err = err};
	union ff_attrs attrs;
	int code = ff_json_parse(row->name, text, strlen(text), a, &m.root, err);

	if (code == FF_OK)
		code = ff_builder_create(row->name, a, &m.builder, err);
	if (code == FF_OK)
		code = ff_attrs_read(row, m.root, a, &attrs, err);
	if (code == FF_OK)
		code = add_inputs(&m, "in", false);
	while (code == FF_OK && !row->example && m.n_in < row->min_in)
		code = add_inputs(&m, "in", false);
	if (code == FF_OK)
		code = add_inputs(&m, "labels", true);
	if (code < 0)
		return code;
	*node = ff_builder_add(m.builder, op, "example", &attrs, m.in, m.n_in);
	code = ff_builder_draft(m.builder, ret, err);
	if (code == FF_OK)
		*node = ff_graph_find(ret, "example");
	return code;
}
