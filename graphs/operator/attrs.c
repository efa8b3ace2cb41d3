/* Attributes as the operators' rows describe them.  SPDX-License-Identifier: Apache-2.0 */
#include "attrs.h"

#include <string.h>

#include "ff/nearest.h"

static struct ff_numbers *list_at(const struct ff_attr_row *r, union ff_attrs *attrs)
{
	return (struct ff_numbers *)(void *)((char *)attrs + r->offset);
}
static int32_t *ints_at(const struct ff_attr_row *r, union ff_attrs *attrs)
{
	return (int32_t *)(void *)((char *)attrs + r->offset);
}
static double *real_at(const struct ff_attr_row *r, union ff_attrs *attrs)
{
	return (double *)(void *)((char *)attrs + r->offset);
}

const char *ff_choice_word(const char *choices, int32_t i, size_t *len)
{
	const char *at = choices;

	for (; i > 0; i--) {
		at = strchr(at, '|');
		if (!at)
			return NULL;
		at++;
	}
	*len = strcspn(at, "|");
	return at;
}

int32_t ff_choice_find(const char *choices, const char *word)
{
	const char *at;
	size_t len;

	for (int32_t i = 0; (at = ff_choice_word(choices, i, &len)); i++)
		if (strlen(word) == len && !memcmp(at, word, len))
			return i;
	return -1;
}

static int read_int(const struct ff_attr_row *r, const struct ff_json *v, int32_t *ret,
		struct ff_error *err)
{
	int64_t n;
	int code = ff_json_as_int(v, (int64_t)r->min, (int64_t)r->max, &n, err);

	if (code == FF_OK)
		*ret = (int32_t)n;
	return code;
}

/* One number for all axes, or one for each. */
static int read_axes(const struct ff_op_row *row, const struct ff_attr_row *r,
		const struct ff_json *v, int32_t *ret, struct ff_error *err)
{
	static const char *const forms[FF_MAX_SPATIAL] = {
			"[length]", "[height, width]", "[depth, height, width]"};
	bool single = v->type == FF_JSON_NUMBER;

	if (!single && (v->type != FF_JSON_ARRAY || v->n != row->axes))
		return ff_json_fail(v, err, "expected a whole number or %s", forms[row->axes - 1]);
	for (uint32_t i = 0; i < row->axes; i++) {
		int code = read_int(r, single ? v : &v->child[i], &ret[i], err);

		if (code < 0)
			return code;
	}
	return FF_OK;
}

/* As read_axes(), both sides alike; or those before all axes, then those behind. */
static int read_pads(const struct ff_op_row *row, const struct ff_attr_row *r,
		const struct ff_json *v, int32_t *ret, struct ff_error *err)
{
	bool both = v->type == FF_JSON_ARRAY && v->n == 2 * row->axes;
	int code = both ? FF_OK : read_axes(row, r, v, ret, err);

	for (uint32_t i = 0; i < row->axes && code == FF_OK; i++) {
		if (both)
			code = read_int(r, &v->child[i], &ret[i], err);
		ret[FF_MAX_SPATIAL + i] = ret[i];
		if (both && code == FF_OK)
			code = read_int(r, &v->child[row->axes + i], &ret[FF_MAX_SPATIAL + i], err);
	}
	return code;
}

static int read_shape(const struct ff_attr_row *r, const struct ff_json *v, int32_t *ret,
		struct ff_error *err)
{
	if (v->type != FF_JSON_ARRAY || v->n < 1 || v->n > FF_MAX_RANK)
		return ff_json_fail(
				v, err, "expected an array of 1 to %d whole numbers", FF_MAX_RANK);
	ret[0] = (int32_t)v->n;
	for (uint32_t i = 0; i < v->n; i++) {
		int code = read_int(r, &v->child[i], &ret[1 + i], err);

		if (code < 0)
			return code;
	}
	return FF_OK;
}

static int read_choice(const struct ff_attr_row *r, const struct ff_json *v, int32_t *ret,
		struct ff_error *err)
{
	int32_t i = v->type == FF_JSON_STRING ? ff_choice_find(r->choices, v->text) : -1;
	struct ff_nearest near;

	if (i < 0) {
		ff_nearest_init(&near, v->type == FF_JSON_STRING ? v->text : "");
		ff_nearest_try_choices(&near, r->choices);
		return ff_json_fail(
				v, err, "expected one of %s%s", r->choices, ff_nearest_hint(&near));
	}
	*ret = i;
	return FF_OK;
}

static int read_list(const struct ff_attr_row *r, const struct ff_json *v, struct ff_arena *a,
		struct ff_numbers *ret, struct ff_error *err)
{
	double *at;

	if (v->type != FF_JSON_ARRAY || !v->n)
		return ff_json_fail(v, err, "expected an array of numbers");
	at = ff_arena_array(a, v->n, sizeof(*at));
	if (!at)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < v->n; i++) {
		const struct ff_json *x = &v->child[i];

		if (x->type != FF_JSON_NUMBER || !(x->number >= r->min && x->number <= r->max))
			return ff_json_fail(
					x, err, "expected a number from %g to %g", r->min, r->max);
		at[i] = x->number;
	}
	*ret = (struct ff_numbers){v->n, at};
	return FF_OK;
}

static int read_value(const struct ff_op_row *row, const struct ff_attr_row *r,
		const struct ff_json *v, struct ff_arena *a, union ff_attrs *attrs,
		struct ff_error *err)
{
	switch (r->type) {
	case FF_ATTR_INT:
		return read_int(r, v, ints_at(r, attrs), err);
	case FF_ATTR_AXES:
		return read_axes(row, r, v, ints_at(r, attrs), err);
	case FF_ATTR_PADS:
		return read_pads(row, r, v, ints_at(r, attrs), err);
	case FF_ATTR_SHAPE:
		return read_shape(r, v, ints_at(r, attrs), err);
	case FF_ATTR_CHOICE:
		return read_choice(r, v, ints_at(r, attrs), err);
	case FF_ATTR_LIST:
		return read_list(r, v, a, list_at(r, attrs), err);
	case FF_ATTR_BOOL:
		if (v->type != FF_JSON_BOOL)
			return ff_json_fail(v, err, "expected true or false");
		*ints_at(r, attrs) = v->number != 0;
		return FF_OK;
	case FF_ATTR_REAL:
		if (v->type != FF_JSON_NUMBER || !(v->number >= r->min && v->number <= r->max))
			return ff_json_fail(
					v, err, "expected a number from %g to %g", r->min, r->max);
		*real_at(r, attrs) = v->number;
		return FF_OK;
	}
	return ff_json_fail(v, err, "has no type");
}

uint32_t ff_attr_ints(const struct ff_attr_row *r)
{
	static const uint32_t ints[] = {[FF_ATTR_INT] = 1,
			[FF_ATTR_AXES] = FF_MAX_SPATIAL,
			[FF_ATTR_PADS] = 2 * FF_MAX_SPATIAL,
			[FF_ATTR_SHAPE] = 1 + FF_MAX_RANK,
			[FF_ATTR_BOOL] = 1,
			[FF_ATTR_REAL] = 2,
			[FF_ATTR_CHOICE] = 1,
			[FF_ATTR_LIST] = 0};

	return ints[r->type];
}

/* The numbers of axes that the row does not have stay zero. */
static void preset(const struct ff_op_row *row, const struct ff_attr_row *r, union ff_attrs *attrs)
{
	uint32_t n = r->type == FF_ATTR_AXES || r->type == FF_ATTR_PADS ? row->axes : 1;

	if (r->type == FF_ATTR_SHAPE || r->type == FF_ATTR_LIST || r->required)
		return;
	if (r->type == FF_ATTR_REAL) {
		*real_at(r, attrs) = r->preset;
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		ints_at(r, attrs)[i] = (int32_t)r->preset;
	for (uint32_t i = 0; r->type == FF_ATTR_PADS && i < n; i++)
		ints_at(r, attrs)[FF_MAX_SPATIAL + i] = (int32_t)r->preset;
}

union ff_attrs ff_attrs_preset(enum ff_op op)
{
	const struct ff_op_row *row = ff_op_row(op);
	union ff_attrs attrs;

	memset(&attrs, 0, sizeof(attrs));
	for (uint32_t i = 0; i < row->n_attrs; i++)
		preset(row, &row->attrs[i], &attrs);
	return attrs;
}

int ff_attrs_keep(const struct ff_op_row *row, union ff_attrs *attrs, struct ff_arena *a,
		struct ff_error *err)
{
	for (uint32_t i = 0; i < row->n_attrs; i++) {
		struct ff_numbers *l = list_at(&row->attrs[i], attrs);
		double *copy;

		if (row->attrs[i].type != FF_ATTR_LIST || !l->n)
			continue;
		copy = ff_arena_array(a, (size_t)l->n, sizeof(*copy));
		if (!copy)
			return ff_fail_memory(err);
		memcpy(copy, l->at, (size_t)l->n * sizeof(*copy));
		l->at = copy;
	}
	return FF_OK;
}

int ff_attrs_read(const struct ff_op_row *row, const struct ff_json *node, struct ff_arena *a,
		union ff_attrs *ret, struct ff_error *err)
{
	union ff_attrs attrs;

	memset(&attrs, 0, sizeof(attrs));
	for (uint32_t i = 0; i < row->n_attrs; i++) {
		const struct ff_attr_row *r = &row->attrs[i];
		const struct ff_json *v = ff_json_get(node, r->name);
		int code;

		if (!v && r->required)
			return ff_json_fail(node, err, "%s needs \"%s\"", row->name, r->name);
		if (!v) {
			preset(row, r, &attrs);
			continue;
		}
		code = read_value(row, r, v, a, &attrs, err);
		if (code < 0)
			return code;
	}
	*ret = attrs;
	return FF_OK;
}

static void write_ints(struct ff_out *o, const char *key, const int32_t *v, int32_t n)
{
	ff_out_array(o, key);
	for (int32_t i = 0; i < n; i++)
		ff_out_int(o, NULL, v[i]);
	ff_out_close(o);
}

static void write_list(struct ff_out *o, const char *key, const struct ff_numbers *l)
{
	ff_out_array(o, key);
	for (int64_t i = 0; i < l->n; i++)
		ff_out_real(o, NULL, l->at[i]);
	ff_out_close(o);
}

/* What is padded behind is written only where it differs from what is padded before. */
static void write_pads(struct ff_out *o, const char *key, const int32_t *v, int32_t n)
{
	const int32_t *behind = v + FF_MAX_SPATIAL;
	bool both = memcmp(v, behind, (size_t)n * sizeof(*v)) != 0;

	ff_out_array(o, key);
	for (int32_t i = 0; i < n; i++)
		ff_out_int(o, NULL, v[i]);
	for (int32_t i = 0; i < n && both; i++)
		ff_out_int(o, NULL, behind[i]);
	ff_out_close(o);
}

static bool is_preset(const struct ff_attr_row *r, union ff_attrs *attrs)
{
	if (r->type == FF_ATTR_REAL)
		return *real_at(r, attrs) == r->preset;
	if (r->type == FF_ATTR_LIST)
		return !list_at(r, attrs)->n;
	return ints_at(r, attrs)[0] == (int32_t)r->preset;
}

void ff_attrs_write(const struct ff_op_row *row, const union ff_attrs *attrs, struct ff_out *o)
{
	union ff_attrs copy = *attrs;

	for (uint32_t i = 0; i < row->n_attrs; i++) {
		const struct ff_attr_row *r = &row->attrs[i];
		const int32_t *v = ints_at(r, &copy);
		char word[64] = "";
		size_t len = 0;

		if (r->later && is_preset(r, &copy))
			continue;
		switch (r->type) {
		case FF_ATTR_INT:
			ff_out_int(o, r->name, v[0]);
			break;
		case FF_ATTR_AXES:
			write_ints(o, r->name, v, (int32_t)row->axes);
			break;
		case FF_ATTR_PADS:
			write_pads(o, r->name, v, (int32_t)row->axes);
			break;
		case FF_ATTR_SHAPE: /* one of no axes is one that is not there */
			if (v[0] || r->required)
				write_ints(o, r->name, v + 1, v[0]);
			break;
		case FF_ATTR_BOOL:
			ff_out_bool(o, r->name, v[0] != 0);
			break;
		case FF_ATTR_REAL:
			ff_out_real(o, r->name, *real_at(r, &copy));
			break;
		case FF_ATTR_LIST:
			write_list(o, r->name, list_at(r, &copy));
			break;
		case FF_ATTR_CHOICE: {
			const char *at = ff_choice_word(r->choices, v[0], &len);

			if (at && len < sizeof(word))
				memcpy(word, at, len);
			ff_out_string(o, r->name, word);
			break;
		}
		}
	}
}

static bool in_range(const struct ff_attr_row *r, double v)
{
	return (v >= r->min && v <= r->max) || (!r->required && v == r->preset);
}

static bool list_in_range(const struct ff_attr_row *r, const struct ff_numbers *l)
{
	bool fits = l->n > 0 || r->later;

	for (int64_t i = 0; fits && i < l->n; i++)
		fits = in_range(r, l->at[i]);
	return fits;
}

const struct ff_attr_row *ff_attrs_check(const struct ff_op_row *row, const union ff_attrs *attrs)
{
	union ff_attrs copy = *attrs;

	for (uint32_t i = 0; i < row->n_attrs; i++) {
		const struct ff_attr_row *r = &row->attrs[i];
		const int32_t *v = ints_at(r, &copy);
		int32_t n = r->type == FF_ATTR_AXES || r->type == FF_ATTR_PADS ? (int32_t)row->axes
									       : 1;

		if (r->type == FF_ATTR_SHAPE) {
			n = *v++;
			if (n < r->required || n > FF_MAX_RANK)
				return r;
		}
		if (r->type == FF_ATTR_LIST) {
			if (!list_in_range(r, list_at(r, &copy)))
				return r;
			continue;
		}
		if (r->type == FF_ATTR_REAL) {
			if (!in_range(r, *real_at(r, &copy)))
				return r;
			continue;
		}
		for (int32_t j = 0; j < n; j++)
			if (!in_range(r, v[j]) ||
					(r->type == FF_ATTR_PADS &&
							!in_range(r, v[FF_MAX_SPATIAL + j])))
				return r;
	}
	return NULL;
}
