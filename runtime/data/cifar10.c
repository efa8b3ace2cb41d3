/* CIFAR-10 as its binary version has it (Krizhevsky, "Learning Multiple Layers of Features from
 * Tiny Images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html): records of a label and 32x32
 * pixels red, green and blue.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "columns.h"

#define PIXELS (3 * 32 * 32)
#define RECORD (1 + PIXELS)
#define TEST_FILE "test_batch.bin"

static const int64_t shape[] = {3, 32, 32};

/* One file more of training or testing. */
static int add_file(struct ff_columns *c, const struct ff_opening *o, bool train, const char *name,
		const uint32_t field[2], struct ff_error *err)
{
	const char *path = ff_spec_path(o->arena, o->spec->what, name);
	struct ff_store *store;
	int code;

	if (!path)
		return ff_fail_memory(err);
	if ((code = ff_store_open(path, &store, err)) < 0 ||
			(code = ff_columns_keep(c, store, err)) < 0 ||
			(code = ff_store_whole(store, err)) < 0)
		return code;
	if (!ff_store_bytes(store) || ff_store_bytes(store) % RECORD)
		return ff_fail(err, FF_E_INPUT,
				"%s: has %" PRId64 " bytes, expected whole records of %d", path,
				ff_store_bytes(store), RECORD);
	for (int i = 0; i < 2; i++) {
		struct ff_column *column = ff_columns_of(c, train, field[i]);

		column->pixels = i == 0;
		column->channels = 3;
		column->part[column->n_parts++] = (struct ff_column_part){
				store, i == 0, RECORD, ff_store_bytes(store) / RECORD};
	}
	return FF_OK;
}

static int add_all(struct ff_columns *c, const struct ff_opening *o, struct ff_error *err)
{
	const struct ff_field *image;
	char want[FF_SHAPE_TEXT], name[32];
	uint32_t field[2];
	int code = ff_fields_labelled(o, &field[0], &field[1], err);

	if (code < 0)
		return code;
	image = &o->fields->field[field[0]];
	ff_field_text(image, want);
	if (!ff_field_fits(image, 3, shape))
		return ff_fail(err, FF_E_INPUT,
				"data %s: samples are 3x32x32, the graph's input wants %s",
				o->spec->text, want);
	for (int i = 1; i <= FF_COLUMN_PARTS && code == FF_OK; i++) {
		snprintf(name, sizeof(name), "data_batch_%d.bin", i);
		if (i > 1 && !ff_is_file(o->spec->what, name))
			break;
		code = add_file(c, o, true, name, field, err);
	}
	if (code == FF_OK)
		code = add_file(c, o, false, TEST_FILE, field, err);
	return code < 0 ? code : ff_columns_check(c, err);
}

static int cifar10_open(const struct ff_opening *o, struct ff_source **ret, struct ff_error *err)
{
	return ff_columns_open(o, add_all, ret, err);
}

static bool cifar10_is(const char *path)
{
	return ff_is_file(path, "data_batch_1.bin");
}

const struct ff_format ff_format_cifar10 = {
		.name = "cifar10",
		.what = "FOLDER",
		.is = cifar10_is,
		.holds = {"data_batch_?.bin", "test_batch.bin"},
		.open = cifar10_open,
};
