/* Data sets as the user names them, and the table of formats.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ff/nearest.h"
#include "source.h"

#define DATA_FOLDER "/usr/share/datasets" /* Debian's dataset-* packages */

static const struct ff_format *const formats[] = {
		&ff_format_synthetic,
		&ff_format_idx,
		&ff_format_cifar10,
		&ff_format_numpy,
		&ff_format_tokens,
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

/* Of what kind FOLDER/NAME is; 0: it is not there. */
static mode_t kind_of(const char *folder, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return n > 0 && n < (int)sizeof(path) && stat(path, &st) == 0 ? st.st_mode & S_IFMT : 0;
}

bool ff_is_file(const char *folder, const char *name)
{
	return kind_of(folder, name) == S_IFREG;
}

bool ff_is_folder_in(const char *folder, const char *name)
{
	return kind_of(folder, name) == S_IFDIR;
}

bool ff_is_folder(const char *path)
{
	return ff_is_folder_in(path, ".");
}

const char *ff_spec_path(struct ff_arena *a, const char *folder, const char *name)
{
	return ff_arena_printf(a, "%s/%s", folder, name);
}

/* "synthetic, a folder of IDX files ..." */
static const char *known(struct ff_arena *a)
{
	const char *text = "";

	for (size_t i = 0; i < FORMATS && text; i++)
		text = ff_arena_printf(a, "%s%s%s:%s", text,
				!i                 ? ""
				: i + 1 == FORMATS ? " or "
						   : ", ",
				formats[i]->name, formats[i]->what);
	return text ? text : "a known format";
}

/* The format that stands before the first colon or comma, and where that is. */
static const struct ff_format *named(const char *text, const char **rest)
{
	size_t n = strcspn(text, ",:");

	for (size_t i = 0; i < FORMATS; i++)
		if (strlen(formats[i]->name) == n && !strncmp(text, formats[i]->name, n)) {
			*rest = text + n;
			return formats[i];
		}
	return NULL;
}

static int read_option(struct ff_spec *s, char *option, struct ff_arena *a, struct ff_error *err)
{
	char *value = strchr(option, '=');
	const char *has = "none";
	uint32_t i = 0;

	if (!value)
		return ff_fail(err, FF_E_INPUT, "data %s: option %s: expected %s=VALUE", s->text,
				option, option);
	*value++ = '\0';
	for (; i < FF_SPEC_OPTIONS && s->format->option[i]; i++) {
		if (!strcmp(option, s->format->option[i])) {
			s->value[i] = value;
			return FF_OK;
		}
		has = i ? ff_arena_printf(a, "%s, %s", has, s->format->option[i])
			: s->format->option[i];
	}
	return ff_fail(err, FF_E_INPUT, "data %s: %s has no option %s; it has %s", s->text,
			s->format->name, option, has ? has : "others");
}

/* FORMAT,OPTION=VALUE,...:WHAT from behind the format on. */
static int read_rest(const char *rest, struct ff_spec *s, struct ff_arena *a, struct ff_error *err)
{
	size_t n = strcspn(rest, ":");
	char *options = ff_arena_printf(a, "%.*s", (int)n, rest), *save = NULL;
	int code = FF_OK;

	if (!options)
		return ff_fail_memory(err);
	for (char *at = strtok_r(options, ",", &save); at && code == FF_OK;
			at = strtok_r(NULL, ",", &save))
		code = read_option(s, at, a, err);
	if (rest[n])
		s->what = rest + n + 1;
	return code;
}

static const struct ff_format *recognise(const char *path)
{
	for (size_t i = 0; i < FORMATS; i++)
		if (formats[i]->is && formats[i]->is(path))
			return formats[i];
	return NULL;
}

/* A path, or a plain name of a package's folder. */
static int find_path(struct ff_spec *s, struct ff_arena *a, struct ff_error *err)
{
	const char *package = NULL;
	struct ff_nearest near;
	struct stat st;

	if (s->what && stat(s->what, &st) == 0)
		return FF_OK;
	if (s->what && !strchr(s->what, '/'))
		package = ff_spec_path(a, DATA_FOLDER, s->what);
	if (package && stat(package, &st) == 0) {
		s->what = package;
		return FF_OK;
	}
	ff_nearest_init(&near, s->what ? s->what : "");
	for (size_t i = 0; i < FORMATS; i++)
		ff_nearest_try(&near, formats[i]->name);
	ff_nearest_try_folder(&near, DATA_FOLDER, "");
	return ff_fail(err, FF_E_INPUT, "data %s: %s; expected %s%s", s->text,
			s->what ? "No such file or directory" : "nothing is named", known(a),
			ff_nearest_hint(&near));
}

int ff_spec_parse(const char *text, struct ff_arena *a, struct ff_spec *ret, struct ff_error *err)
{
	struct ff_spec s = {.text = text};
	const char *rest;
	int code = FF_OK;

	s.format = named(text, &rest);
	if (s.format)
		code = read_rest(rest, &s, a, err);
	else
		s.what = text;
	if (code == FF_OK && s.format != &ff_format_synthetic)
		code = find_path(&s, a, err);
	if (code < 0)
		return code;
	if (!s.format)
		s.format = recognise(s.what);
	if (!s.format)
		return ff_fail(err, FF_E_INPUT,
				"data %s: is no set of data that can be recognised; expected %s",
				text, known(a));
	*ret = s;
	return FF_OK;
}

int ff_spec_number(const struct ff_spec *s, uint32_t i, int64_t least, int64_t most, int64_t preset,
		int64_t *ret, struct ff_error *err)
{
	const char *text = s->value[i];
	char *end;
	long long n;

	*ret = preset;
	if (!text)
		return FF_OK;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || n < least || n > most)
		return ff_fail(err, FF_E_INPUT,
				"data %s: option %s: expected a number from %" PRId64
				" to %" PRId64,
				s->text, s->format->option[i], least, most);
	*ret = n;
	return FF_OK;
}
