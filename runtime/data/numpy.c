/* Arrays of NumPy: an input's samples are the array of its name, the first axis counts them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "npy.h"

/* Training or testing: an archive, or a folder of arrays. */
struct set {
	const char *folder; /* NULL: an archive */
	struct ff_zip zip;
};

static int find_set(const struct ff_opening *o, bool train, struct set *ret, bool *there,
		struct ff_error *err)
{
	const char *what = o->spec->what, *name = train ? "train" : "test";
	const char *folder = ff_spec_path(o->arena, what, name);
	const char *archive = folder ? ff_arena_printf(o->arena, "%s.npz", folder) : NULL;

	if (!archive)
		return ff_fail_memory(err);
	*there = true;
	*ret = (struct set){0};
	if (!ff_is_folder(what)) {
		*there = train;
		return train ? ff_zip_list(what, o->arena, &ret->zip, err) : FF_OK;
	}
	if (ff_is_file(what, train ? "train.npz" : "test.npz"))
		return ff_zip_list(archive, o->arena, &ret->zip, err);
	ret->folder = folder;
	*there = ff_is_folder(folder);
	return *there || !train ? FF_OK
				: ff_fail(err, FF_E_INPUT,
						  "%s: neither train.npz nor train is there", what);
}

/* What an archive has, as far as a sentence goes. */
static const char *list_members(const struct ff_zip *z, struct ff_arena *a)
{
	const char *text = z->n ? z->member[0].name : "nothing";

	for (uint32_t i = 1; i < z->n && i < 8 && text; i++)
		text = ff_arena_printf(a, "%s, %s", text, z->member[i].name);
	return text ? text : "others";
}

static int open_array(const struct ff_opening *o, const struct set *set, const struct ff_field *f,
		struct ff_store **ret, struct ff_error *err)
{
	const char *name = ff_arena_printf(o->arena, "%s.npy", f->name), *path;
	const struct ff_zip_member *m;

	if (!name)
		return ff_fail_memory(err);
	if (set->folder) {
		path = ff_spec_path(o->arena, set->folder, name);
		return path ? ff_store_open(path, ret, err) : ff_fail_memory(err);
	}
	m = ff_zip_find(&set->zip, name);
	if (!m)
		return ff_fail(err, FF_E_INPUT, "%s: has no %s for input %s of graph %s; it has %s",
				set->zip.path, name, f->name, o->fields->graph,
				list_members(&set->zip, o->arena));
	return ff_zip_open(&set->zip, m, o->arena, ret, err);
}

static int check_shape(const struct ff_store *s, const struct ff_npy *a, const struct ff_field *f,
		struct ff_error *err)
{
	char have[FF_SHAPE_TEXT], want[FF_SHAPE_TEXT];

	if (ff_field_fits(f, a->rank - 1, a->shape + 1))
		return FF_OK;
	ff_sample_text(a->rank - 1, a->shape + 1, have);
	ff_field_text(f, want);
	return ff_fail(err, FF_E_INPUT, "%s: samples are %s, the graph's input %s wants %s",
			ff_store_name(s), have, f->name, want);
}

/* Bytes that are read as values are pixels: of images by channel, which is the first axis. */
static int add_array(struct ff_columns *c, const struct ff_opening *o, const struct set *set,
		bool train, uint32_t field, struct ff_error *err)
{
	const struct ff_field *f = &o->fields->field[field];
	struct ff_store *store;
	struct ff_npy a;
	int code = open_array(o, set, f, &store, err);

	if (code < 0 || (code = ff_columns_keep(c, store, err)) < 0 ||
			(code = ff_npy_read(store, &a, err)) < 0 ||
			(code = check_shape(store, &a, f, err)) < 0)
		return code;
	*ff_columns_of(c, train, field) = (struct ff_column){
			.element = a.element,
			.pixels = a.element == FF_ELEMENT_U8 && !f->whole && !f->target,
			.channels = f->rank > 2 ? (uint32_t)f->shape[0] : 1,
			.n_parts = 1,
			.part = {{store, a.at, f->elements * ff_element_bytes(a.element),
					a.shape[0]}},
	};
	return FF_OK;
}

static int add_all(struct ff_columns *c, const struct ff_opening *o, struct ff_error *err)
{
	int code = FF_OK;

	for (int train = 1; train >= 0 && code == FF_OK; train--) {
		struct set set;
		bool there;

		code = find_set(o, train, &set, &there, err);
		for (uint32_t i = 0; i < o->fields->n && code == FF_OK && there; i++)
			code = add_array(c, o, &set, train, i, err);
	}
	return code < 0 ? code : ff_columns_check(c, err);
}

static int numpy_open(const struct ff_opening *o, struct ff_source **ret, struct ff_error *err)
{
	return ff_columns_open(o, add_all, ret, err);
}

static bool numpy_is(const char *path)
{
	size_t n = strlen(path);

	if (n > 4 && !strcmp(path + n - 4, ".npz"))
		return true;
	return ff_is_file(path, "train.npz") || ff_is_folder_in(path, "train");
}

const struct ff_format ff_format_numpy = {
		.name = "numpy",
		.what = "FILE.npz|FOLDER",
		.is = numpy_is,
		.holds = {"train.npz", "test.npz", "train/*.npy", "test/*.npy"},
		.open = numpy_open,
};
