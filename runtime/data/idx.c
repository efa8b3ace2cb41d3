/* IDX files, the format of MNIST (LeCun, Cortes and Burges,
 * http://yann.lecun.com/exdb/mnist): a big-endian magic 0x0000TTRR (TT = 08 for
 * bytes, RR the rank), the sizes, the bytes.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "columns.h"

#define IDX_MAX_RANK 3

struct idx_file {
	struct ff_store *store; /* the columns' */
	uint32_t rank;
	int64_t size[IDX_MAX_RANK];
};

/* What a set consists of, in the order in which it is looked for. */
static const struct part {
	const char *name;
	bool train, image;
	uint32_t rank;
} parts[] = {
		{"train-images-idx3-ubyte", true, true, 3},
		{"train-labels-idx1-ubyte", true, false, 1},
		{"t10k-images-idx3-ubyte", false, true, 3},
		{"t10k-labels-idx1-ubyte", false, false, 1},
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static int64_t big_endian(const uint8_t b[4])
{
	return (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
}

static int read_header(struct idx_file *f, struct ff_error *err)
{
	const char *name = ff_store_name(f->store);
	uint8_t word[4];
	int64_t bytes = 1;
	int code = ff_store_need(f->store, 4, err);

	if (code < 0 || (code = ff_store_read(f->store, 0, 4, word, err)) < 0)
		return code;
	if (big_endian(word) != (0x800 | f->rank))
		return ff_fail(err, FF_E_INPUT,
				"%s: magic number is 0x%08" PRIx64 ", expected 0x%08x", name,
				big_endian(word), 0x800 | f->rank);
	for (uint32_t i = 0; i < f->rank; i++) {
		int64_t at = 4 + 4 * (int64_t)i;

		if ((code = ff_store_need(f->store, at + 4, err)) < 0 ||
				(code = ff_store_read(f->store, at, 4, word, err)) < 0)
			return code;
		f->size[i] = big_endian(word);
		if (f->size[i] == 0)
			return ff_fail(err, FF_E_INPUT, "%s: byte %" PRId64 ": size %u is zero",
					name, at, i);
		if (__builtin_mul_overflow(bytes, f->size[i], &bytes) || bytes > INT64_MAX - 32)
			return ff_fail(err, FF_E_INPUT,
					"%s: byte %" PRId64 ": the sizes overflow 64 bits", name,
					at);
	}
	return ff_store_end(f->store, 4 + 4 * (int64_t)f->rank + bytes, err);
}

static int open_file(struct ff_columns *c, const struct ff_opening *o, const struct part *part,
		struct idx_file *ret, struct ff_error *err)
{
	const char *folder = o->spec->what, *packed, *path;
	int code;

	packed = ff_arena_printf(o->arena, "%s.gz", part->name);
	if (!packed)
		return ff_fail_memory(err);
	if (!ff_is_file(folder, packed) && !ff_is_file(folder, part->name))
		return ff_fail(err, FF_E_INPUT, "%s: neither %s nor %s.gz is there", folder,
				part->name, part->name);
	path = ff_spec_path(o->arena, folder, ff_is_file(folder, packed) ? packed : part->name);
	if (!path)
		return ff_fail_memory(err);
	ret->rank = part->rank;
	if ((code = ff_store_open(path, &ret->store, err)) < 0 ||
			(code = ff_columns_keep(c, ret->store, err)) < 0)
		return code;
	return read_header(ret, err);
}

static int check_shape(const struct idx_file *f, const struct ff_field *field, struct ff_error *err)
{
	char want[FF_SHAPE_TEXT];

	if (ff_field_fits(field, 2, f->size + 1))
		return FF_OK;
	ff_field_text(field, want);
	return ff_fail(err, FF_E_INPUT,
			"%s: samples are %" PRId64 "x%" PRId64 ", the graph's input wants %s",
			ff_store_name(f->store), f->size[1], f->size[2], want);
}

static int add_part(struct ff_columns *c, const struct ff_opening *o, const struct part *part,
		uint32_t field, struct idx_file *f, struct ff_error *err)
{
	const struct ff_field *in = &o->fields->field[field];
	int code = open_file(c, o, part, f, err);

	if (code == FF_OK && part->image)
		code = check_shape(f, in, err);
	if (code < 0)
		return code;
	*ff_columns_of(c, part->train, field) = (struct ff_column){
			.element = FF_ELEMENT_U8,
			.pixels = part->image,
			.channels = 1,
			.n_parts = 1,
			.part = {{f->store, 4 + 4 * (int64_t)f->rank, in->elements, f->size[0]}},
	};
	return FF_OK;
}

static int add_all(struct ff_columns *c, const struct ff_opening *o, struct ff_error *err)
{
	struct idx_file file[PARTS] = {0};
	uint32_t image, label;
	int code = ff_fields_labelled(o, &image, &label, err);

	for (size_t i = 0; i < PARTS && code == FF_OK; i++) {
		code = add_part(c, o, &parts[i], parts[i].image ? image : label, &file[i], err);
		if (code == FF_OK && !parts[i].image && file[i].size[0] != file[i - 1].size[0])
			code = ff_fail(err, FF_E_INPUT,
					"%s: holds %" PRId64 " labels, but %s %" PRId64 " images",
					ff_store_name(file[i].store), file[i].size[0],
					ff_store_name(file[i - 1].store), file[i - 1].size[0]);
	}
	return code < 0 ? code : ff_columns_check(c, err);
}

static int idx_open(const struct ff_opening *o, struct ff_source **ret, struct ff_error *err)
{
	return ff_columns_open(o, add_all, ret, err);
}

static bool idx_is(const char *path)
{
	char packed[64];

	for (size_t i = 0; i < PARTS; i++) {
		snprintf(packed, sizeof(packed), "%s.gz", parts[i].name);
		if (ff_is_file(path, parts[i].name) || ff_is_file(path, packed))
			return true;
	}
	return false;
}

const struct ff_format ff_format_idx = {
		.name = "idx",
		.what = "FOLDER",
		.is = idx_is,
		.holds = {"train-images-idx3-ubyte*", "train-labels-idx1-ubyte*",
				"t10k-images-idx3-ubyte*", "t10k-labels-idx1-ubyte*"},
		.open = idx_open,
};
