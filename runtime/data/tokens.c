/* Tokens: a file of nothing but whole numbers, as nanoGPT's train.bin is.  A sample is a window of
 * as many as the graph's input has, its labels are the window one further on, or the one token
 * behind it.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "columns.h"

enum { OPTION_TYPE, OPTION_STRIDE, OPTION_TEST };

struct tokens {
	struct ff_columns *columns;
	const struct ff_opening *o;
	enum ff_element type;
	uint32_t ids, labels;  /* fields */
	int64_t length, ahead; /* of a window; of its first label before its first token */
	int64_t stride;        /* from a window to the next */
	int64_t percent;       /* of a single file, for testing */
};

static int choose_type(struct tokens *t, struct ff_error *err)
{
	static const enum ff_element known[] = {FF_ELEMENT_U8, FF_ELEMENT_U16, FF_ELEMENT_U32};
	const char *name = t->o->spec->value[OPTION_TYPE];

	t->type = FF_ELEMENT_U16;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]) && name; i++)
		if (!strcmp(name, ff_element_name(known[i]))) {
			t->type = known[i];
			return FF_OK;
		}
	return !name ? FF_OK
		     : ff_fail(err, FF_E_INPUT,
				       "data %s: option type: expected uint8, uint16 or uint32",
				       t->o->spec->text);
}

static int refuse_field(const struct tokens *t, const struct ff_field *f, struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT,
			"data %s: has tokens and those behind them, but graph %s has an input %s "
			"of another kind",
			t->o->spec->text, t->o->fields->graph, f->name);
}

static int choose_fields(struct tokens *t, struct ff_error *err)
{
	const struct ff_fields *f = t->o->fields;
	int64_t labels;

	t->ids = t->labels = FF_NONE;
	for (uint32_t i = 0; i < f->n; i++) {
		uint32_t *place = f->field[i].target ? &t->labels : &t->ids;

		if (*place != FF_NONE || !f->field[i].whole)
			return refuse_field(t, &f->field[i], err);
		*place = i;
	}
	if (t->ids == FF_NONE || t->labels == FF_NONE)
		return ff_fail(err, FF_E_INPUT, "data %s: graph %s has no input for %s",
				t->o->spec->text, f->graph,
				t->ids == FF_NONE ? "tokens" : "labels");
	t->length = f->field[t->ids].elements;
	labels = f->field[t->labels].elements;
	if (labels != t->length && labels != 1)
		return refuse_field(t, &f->field[t->labels], err);
	t->ahead = labels == t->length ? 1 : t->length;
	return FF_OK;
}

/* The windows among tokens `first` to `end` - 1. */
static void add_windows(
		struct tokens *t, bool train, struct ff_store *store, int64_t first, int64_t end)
{
	int64_t size = ff_element_bytes(t->type), room = end - first - t->length - 1;
	struct ff_column_part part = {
			store, first * size, t->stride * size, room < 0 ? 0 : room / t->stride + 1};

	*ff_columns_of(t->columns, train, t->ids) =
			(struct ff_column){.element = t->type, .n_parts = 1, .part = {part}};
	part.at += t->ahead * size;
	*ff_columns_of(t->columns, train, t->labels) =
			(struct ff_column){.element = t->type, .n_parts = 1, .part = {part}};
}

static int open_file(struct tokens *t, const char *path, struct ff_store **ret, int64_t *n,
		struct ff_error *err)
{
	int64_t size = ff_element_bytes(t->type);
	int code;

	if (!path)
		return ff_fail_memory(err);
	if ((code = ff_store_open(path, ret, err)) < 0 ||
			(code = ff_columns_keep(t->columns, *ret, err)) < 0 ||
			(code = ff_store_whole(*ret, err)) < 0)
		return code;
	*n = ff_store_bytes(*ret) / size;
	if (ff_store_bytes(*ret) % size)
		return ff_fail(err, FF_E_INPUT, "%s: has %" PRId64 " bytes, no whole number of %s",
				path, ff_store_bytes(*ret), ff_element_name(t->type));
	return FF_OK;
}

static int add_file(struct tokens *t, struct ff_error *err)
{
	struct ff_store *store;
	int64_t n, train;
	int code = open_file(t, t->o->spec->what, &store, &n, err);

	if (code < 0)
		return code;
	train = n - n / 100 * t->percent;
	add_windows(t, true, store, 0, train);
	add_windows(t, false, store, train, n);
	return FF_OK;
}

static int add_folder(struct tokens *t, struct ff_error *err)
{
	static const char *const name[] = {"train.bin", "test.bin", "val.bin"};
	const char *folder = t->o->spec->what;
	int code = FF_OK;

	if (t->percent)
		return ff_fail(err, FF_E_INPUT,
				"data %s: option test is for a single file; a folder has a "
				"test.bin",
				t->o->spec->text);
	for (int i = 0; i < 3 && code == FF_OK; i++) {
		struct ff_store *store;
		int64_t n;

		if (i > 0 && (!ff_is_file(folder, name[i]) ||
					     (i == 2 && ff_is_file(folder, name[1]))))
			continue;
		code = open_file(t, ff_spec_path(t->o->arena, folder, name[i]), &store, &n, err);
		if (code == FF_OK)
			add_windows(t, i == 0, store, 0, n);
	}
	return code;
}

static int add_all(struct ff_columns *c, const struct ff_opening *o, struct ff_error *err)
{
	struct tokens t = {.columns = c, .o = o};
	int code;

	if ((code = choose_fields(&t, err)) < 0 || (code = choose_type(&t, err)) < 0 ||
			(code = ff_spec_number(o->spec, OPTION_STRIDE, 1, INT32_MAX, t.length,
					 &t.stride, err)) < 0 ||
			(code = ff_spec_number(o->spec, OPTION_TEST, 0, 50, 0, &t.percent, err)) <
					0)
		return code;
	code = ff_is_folder(o->spec->what) ? add_folder(&t, err) : add_file(&t, err);
	return code < 0 ? code : ff_columns_check(c, err);
}

static int tokens_open(const struct ff_opening *o, struct ff_source **ret, struct ff_error *err)
{
	return ff_columns_open(o, add_all, ret, err);
}

static bool tokens_is(const char *path)
{
	return ff_is_file(path, "train.bin");
}

const struct ff_format ff_format_tokens = {
		.name = "tokens",
		.what = "FILE|FOLDER",
		.option = {[OPTION_TYPE] = "type",
				[OPTION_STRIDE] = "stride",
				[OPTION_TEST] = "test"},
		.is = tokens_is,
		.holds = {"train.bin", "test.bin", "val.bin"},
		.open = tokens_open,
};
