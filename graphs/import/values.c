/* Values and attributes of ONNX nodes.  SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "metadata.h"

void ff_import_error(struct ff_import *im, const Onnx__NodeProto *n, const char *fmt, ...)
{
	const char *module = ff_onnx_module(im, n);
	char text[FF_ERROR_TEXT];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	ff_error_write(im->err, FF_E_INPUT, "%s: node %s (%s%s%s): %s", im->opt->model,
			n->name && n->name[0] ? n->name
			: n->n_output         ? n->output[0]
					      : "without a name",
			n->op_type, module ? " of " : "", module ? module : "", text);
}

struct ff_onnx_value *ff_onnx_value(struct ff_import *im, const char *name)
{
	uint32_t i = ff_names_find(im->names, name);

	if (i != FF_NONE)
		return &im->value[i];
	if (im->n_values == im->cap_values || ff_names_put(im->names, name, im->n_values) < 0)
		return NULL;
	im->value[im->n_values] = (struct ff_onnx_value){.name = name};
	return &im->value[im->n_values++];
}

struct ff_onnx_value *ff_onnx_in(struct ff_import *im, const Onnx__NodeProto *n, size_t i)
{
	if (i >= n->n_input || !n->input[i][0])
		return NULL;
	return &im->value[ff_names_find(im->names, n->input[i])];
}

int ff_onnx_in_constant(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant **ret)
{
	const struct ff_onnx_value *v = ff_onnx_in(im, n, i);

	if (!v)
		return ff_import_fail(im, n, "input %zu is missing", i);
	if (v->kind != FF_ONNX_CONSTANT)
		return ff_import_fail(im, n, "input %zu, %s, is computed, expected a constant", i,
				v->name);
	*ret = &v->constant;
	return FF_OK;
}

const Onnx__AttributeProto *ff_onnx_attr(const Onnx__NodeProto *n, const char *name)
{
	for (size_t i = 0; i < n->n_attribute; i++)
		if (n->attribute[i]->name && !strcmp(n->attribute[i]->name, name))
			return n->attribute[i];
	return NULL;
}

int64_t ff_onnx_int(const Onnx__NodeProto *n, const char *name, int64_t preset)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, name);

	return a && a->has_i ? a->i : preset;
}

float ff_onnx_real(const Onnx__NodeProto *n, const char *name, float preset)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, name);

	return a && a->has_f ? a->f : preset;
}

bool ff_onnx_is(const Onnx__NodeProto *n, const char *name, const char *text)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, name);

	return a && a->has_s && a->s.len == strlen(text) && !memcmp(a->s.data, text, a->s.len);
}

int ff_onnx_axis(struct ff_import *im, const Onnx__NodeProto *n, int64_t axis, uint32_t rank,
		uint32_t *ret)
{
	int64_t from_start = axis < 0 ? axis + rank : axis;

	if (from_start < 0 || from_start >= rank)
		return ff_import_fail(im, n, "axis %" PRId64 " of %u", axis, rank);
	*ret = (uint32_t)from_start;
	return FF_OK;
}

int ff_onnx_set_constant(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant *c)
{
	struct ff_onnx_value *v;

	if (i >= n->n_output || !n->output[i][0])
		return FF_OK;
	v = ff_onnx_value(im, n->output[i]);
	if (!v)
		return ff_fail_memory(im->err);
	v->kind = FF_ONNX_CONSTANT;
	v->constant = *c;
	return FF_OK;
}

int ff_onnx_set_same(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_onnx_value *same)
{
	struct ff_onnx_value *v, was;

	if (i >= n->n_output || !n->output[i][0])
		return FF_OK;
	v = ff_onnx_value(im, n->output[i]);
	if (!v)
		return ff_fail_memory(im->err);
	was = *v;
	*v = *same;
	v->name = was.name;
	v->uses = was.uses;
	v->maker = was.maker;
	v->reader = was.reader;
	return FF_OK;
}

bool ff_constant_measure(struct ff_constant *c, int64_t most)
{
	int64_t volume = 1;

	c->n = 1;
	for (uint32_t k = 0; k < c->rank; k++) {
		int64_t size = c->shape[k];

		if (size < 0 || (size && volume > most / size))
			return false;
		volume *= size ? size : 1;
		c->n *= size;
	}
	return true;
}

int ff_constant_alloc(struct ff_import *im, struct ff_constant *c)
{
	size_t n = (size_t)c->n;

	if (c->whole)
		c->i = ff_arena_array(im->arena, n, sizeof(*c->i));
	else
		c->f = ff_arena_array(im->arena, n, sizeof(*c->f));
	return c->i || c->f ? FF_OK : ff_fail_memory(im->err);
}

int ff_onnx_axes(struct ff_import *im, const Onnx__NodeProto *n, uint32_t rank,
		bool marked[FF_MAX_RANK + 1], bool *any)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "axes");
	const struct ff_constant *given = NULL;
	int code = FF_OK;
	size_t count;

	if (!a && ff_onnx_in(im, n, 1))
		code = ff_onnx_in_constant(im, n, 1, &given);
	count = a ? a->n_ints : given && given->whole ? (size_t)given->n : 0;
	*any = count > 0;
	for (size_t i = 0; i < count && code == FF_OK; i++) {
		uint32_t axis;

		code = ff_onnx_axis(im, n, a ? a->ints[i] : given->i[i], rank, &axis);
		if (code == FF_OK)
			marked[axis] = true;
	}
	return code;
}
