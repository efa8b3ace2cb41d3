/* Which files are a data set's, so that nothing is written over them.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "ff/dataset.h"
#include "source.h"

struct sparing {
	const struct ff_path *out;
	uint32_t n_out;
	const struct ff_spec *spec;
	struct ff_arena *arena;
	struct ff_error *err;
};

static int spare_file(const struct sparing *s, const char *path)
{
	const struct ff_path in = {.name = "--data", .path = path};

	return path ? ff_paths_apart(s->out, s->n_out, &in, 1, s->err) : ff_fail_memory(s->err);
}

static bool is_held(const struct ff_format *f, const char *name)
{
	bool held = false;

	for (size_t i = 0; i < FF_FORMAT_HOLDS && f->holds[i]; i++)
		held = held || !fnmatch(f->holds[i], name, FNM_PATHNAME);
	return held;
}

/* `within`: NULL, or a folder in the set's. */
static int spare_folder(const struct sparing *s, const char *within)
{
	const char *folder = within ? ff_spec_path(s->arena, s->spec->what, within) : s->spec->what;
	struct dirent *e;
	int code = FF_OK;
	DIR *d = folder ? opendir(folder) : NULL;

	if (!folder)
		return ff_fail_memory(s->err);
	while (d && code == FF_OK && (e = readdir(d))) {
		const char *name = within ? ff_spec_path(s->arena, within, e->d_name) : e->d_name;

		if (!name)
			code = ff_fail_memory(s->err);
		else if (is_held(s->spec->format, name))
			code = spare_file(s, ff_spec_path(s->arena, folder, e->d_name));
		else if (!within && e->d_name[0] != '.' && ff_is_folder_in(folder, e->d_name))
			code = spare_folder(s, ff_arena_strdup(s->arena, e->d_name));
	}
	if (d)
		closedir(d);
	return code;
}

int ff_dataset_spares(
		const char *spec, const struct ff_path *out, uint32_t n_out, struct ff_error *err)
{
	struct ff_spec parsed;
	struct ff_arena a;
	struct sparing s = {out, n_out, &parsed, &a, err};
	struct ff_error unknown; /* opening it will say so */
	int code = FF_OK;

	ff_arena_init(&a);
	if (spec && ff_spec_parse(spec, &a, &parsed, &unknown) == FF_OK && parsed.what)
		code = ff_is_folder(parsed.what) ? spare_folder(&s, NULL)
						 : spare_file(&s, parsed.what);
	ff_arena_finish(&a);
	return code;
}
