/* Machines that are known by name: where their files lie, how many nodes of them are asked for, and
 * what somebody who mistyped one may have meant.  SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ff/nearest.h"
#include "folders.h"
#include "machine.h"

#define SUFFIX ".json"

/* ---- files ---- */

/* The path of the machine called `name`; NULL when the host is out of memory. */
static const char *find_file(const char *name, struct ff_arena *a, bool *found)
{
	size_t len = strlen(name), end = strlen(SUFFIX);
	const char *suffix = len > end && !strcmp(name + len - end, SUFFIX) ? "" : SUFFIX;
	const char *file, *path;

	*found = true;
	if (!access(name, F_OK))
		return name;
	if (!strchr(name, '/')) {
		file = ff_arena_printf(a, "%s%s", name, suffix);
		path = file ? ff_folder_find(file, a) : NULL;
		if (!path || *path)
			return path;
	}
	*found = false;
	return name;
}

/* What is meant by a name: a file, and behind a colon how many of its nodes.  A path that leads
 * nowhere is one all the same: who reads it says so. */
struct named {
	const char *path, *nodes; /* NULL: no colon */
	bool found;
};

/* FF_E_NOMEM is all that can go wrong. */
static int find(const char *name, struct ff_arena *a, struct named *ret)
{
	const char *colon = strrchr(name, ':'), *base;

	*ret = (struct named){0};
	ret->path = find_file(name, a, &ret->found);
	if (!ret->path || ret->found || !colon)
		return ret->path ? FF_OK : FF_E_NOMEM;
	base = ff_arena_printf(a, "%.*s", (int)(colon - name), name);
	if (!base)
		return FF_E_NOMEM;
	ret->path = find_file(base, a, &ret->found);
	if (ret->path && ret->found)
		ret->nodes = colon + 1;
	else if (ret->path)
		ret->path = name;
	return ret->path ? FF_OK : FF_E_NOMEM;
}

static bool is_file(const char *name, const struct named *it)
{
	return it->found || strchr(name, '/');
}

const char *ff_machine_file(const char *name, struct ff_arena *a)
{
	struct named it;

	return name && find(name, a, &it) == FF_OK && is_file(name, &it) ? it.path : NULL;
}

bool ff_machine_known(const char *name)
{
	struct ff_arena scratch;
	struct named it;
	bool known;

	ff_arena_init(&scratch);
	/* without memory it may be known: loading it will say what is the matter */
	known = find(name, &scratch, &it) < 0 || is_file(name, &it);
	ff_arena_finish(&scratch);
	return known;
}

/* ---- those that are not there ---- */

/* Whether the machine in `folder` has so many devices, as its name makes believe. */
static bool has_devices(const char *folder, const char *file, uint32_t n)
{
	const struct ff_json *root = NULL;
	struct ff_machine m = {0};
	struct ff_error ignored;
	struct ff_arena a;
	const char *path;

	ff_arena_init(&a);
	path = ff_arena_printf(&a, "%s/%s", folder, file);
	if (!path || ff_json_load(path, &a, &root, &ignored) < 0 ||
			ff_machine_read(root, 0, &a, &m, &ignored) < 0)
		m.n_devices = 0;
	ff_arena_finish(&a);
	return m.n_devices == n;
}

/* "NAMExN" for what is called NAMExM or NAMEM: the least M from N on.  Writes its
 * name, returns M; 0: there is none. */
static uint32_t find_larger(const char *name, uint32_t n, char found[FF_NEAREST_LENGTH])
{
	uint32_t least = 0;

	for (uint32_t i = 0; i < FF_FOLDERS; i++) {
		struct dirent **entry;
		int count = ff_folder(i) ? scandir(ff_folder(i), &entry, NULL, alphasort) : -1;

		for (int k = 0; k < count; k++) {
			uint32_t m = 0;
			int end = 0;

			if (!strncmp(entry[k]->d_name, name, strlen(name)) &&
					sscanf(entry[k]->d_name + strlen(name),
							"%4" SCNu32 ".json%n", &m, &end) == 1 &&
					end && m >= n && (!least || m < least) &&
					has_devices(ff_folder(i), entry[k]->d_name, m)) {
				least = m;
				snprintf(found, FF_NEAREST_LENGTH, "%.*s",
						(int)strcspn(entry[k]->d_name, "."),
						entry[k]->d_name);
			}
			free(entry[k]);
		}
		if (count >= 0)
			free(entry);
	}
	return least;
}

/* How to take so many devices of a machine that has more. */
static bool find_part(const char *name, char hint[FF_NEAREST_LENGTH + 96])
{
	char base[FF_NEAREST_LENGTH], found[FF_NEAREST_LENGTH];
	size_t length = strlen(name), digits = length;
	uint32_t n, m;

	while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (length >= sizeof(base) || length - digits > 4 ||
			sscanf(name + digits, "%" SCNu32, &n) != 1 || !n)
		return false;
	snprintf(base, sizeof(base), "%.*s", (int)digits, name);
	m = *base ? find_larger(base, n, found) : 0;
	if (m)
		snprintf(hint, FF_NEAREST_LENGTH + 96,
				"; --machine %s --devices %" PRIu32 " takes %" PRIu32
				" of its %" PRIu32 " devices",
				found, n, n, m);
	return m > 0;
}

static int unknown_machine(const char *name, struct ff_error *err)
{
	char part[FF_NEAREST_LENGTH + 96];
	size_t length = strcspn(name, ":");
	struct ff_nearest near;
	char base[101];

	snprintf(base, sizeof(base), "%.*s", (int)(length < 100 ? length : 100), name);
	ff_nearest_init(&near, base);
	for (uint32_t i = 0; i < FF_FOLDERS; i++)
		if (ff_folder(i))
			ff_nearest_try_folder(&near, ff_folder(i), SUFFIX);
	return ff_fail(err, FF_E_INPUT,
			"there is no machine \"%.100s\": neither a file nor one of "
			"graphs/machines/ or $FF_MACHINES%s",
			name, find_part(name, part) ? part : ff_nearest_known(&near));
}

/* ---- loading ---- */

/* Behind the colon of `name`. */
static int read_nodes(const char *name, const char *text, uint32_t *ret, struct ff_error *err)
{
	size_t digits = strspn(text, "0123456789");
	uint32_t n = 0;

	if (!text[digits] && digits >= 1 && digits <= 9)
		n = (uint32_t)strtoul(text, NULL, 10);
	if (n < 1 || n > FF_MAX_DEVICES)
		return ff_fail(err, FF_E_INPUT,
				"machine \"%.100s\": expected 1 to %d nodes behind the colon, not "
				"\"%.20s\"",
				name, FF_MAX_DEVICES, text);
	*ret = n;
	return FF_OK;
}

static int rename_machine(
		struct ff_machine *m, uint32_t nodes, struct ff_arena *a, struct ff_error *err)
{
	m->name = ff_arena_printf(a, "%s:%" PRIu32, m->name, nodes);
	return m->name ? FF_OK : ff_fail_memory(err);
}

int ff_machine_load(
		const char *name, struct ff_arena *a, struct ff_machine *ret, struct ff_error *err)
{
	struct ff_arena scratch;
	const struct ff_json *root = NULL;
	struct ff_machine m = {0};
	struct named it;
	uint32_t nodes = 0;
	int code;

	ff_arena_init(&scratch);
	code = find(name, &scratch, &it) < 0 ? ff_fail_memory(err) : FF_OK;
	if (code == FF_OK && !is_file(name, &it))
		code = unknown_machine(name, err);
	if (code == FF_OK && it.nodes)
		code = read_nodes(name, it.nodes, &nodes, err);
	if (code == FF_OK)
		code = ff_json_load(it.path, &scratch, &root, err);
	if (code == FF_OK)
		code = ff_machine_read(root, nodes, a, &m, err);
	if (code == FF_OK && nodes)
		code = rename_machine(&m, nodes, a, err);
	ff_arena_finish(&scratch);
	if (code == FF_OK)
		*ret = m;
	return code;
}

/* ---- listing ---- */

static void show(FILE *to, const struct ff_machine *m)
{
	const struct ff_machine_node *n = &m->nodes[0];
	const struct ff_wiring *w = &n->wiring;

	fprintf(to, "%-16s %4u x %-2u %-16s", m->name, m->n_nodes, n->count,
			m->kinds[n->kind].name);
	if (n->count > 1)
		fprintf(to, " inside %s%s%.4g GB/s", w->inside ? w->inside->name : "",
				w->inside ? ", " : "", n->inside.bytes_per_us / 1e3);
	if (w->cards)
		fprintf(to, "; between %s%s%u card%s, %.4g GB/s",
				w->between ? w->between->name : "", w->between ? ", " : "",
				w->cards, w->cards == 1 ? "" : "s", n->network.bytes_per_us / 1e3);
	fprintf(to, "\n");
}

static int list_folder(FILE *to, const char *folder, struct ff_error *err)
{
	struct dirent **entry;
	int count = scandir(folder, &entry, NULL, alphasort), code = FF_OK;

	for (int k = 0; k < count; k++) {
		const char *name = entry[k]->d_name;
		size_t length = strlen(name);
		struct ff_arena a;
		struct ff_machine m;

		ff_arena_init(&a);
		if (code == FF_OK && length > strlen(SUFFIX) &&
				!strcmp(name + length - strlen(SUFFIX), SUFFIX)) {
			const char *path = ff_arena_printf(&a, "%s/%s", folder, name);

			code = path ? ff_machine_load(path, &a, &m, err) : ff_fail_memory(err);
			if (code == FF_OK)
				show(to, &m);
		}
		ff_arena_finish(&a);
		free(entry[k]);
	}
	if (count >= 0)
		free(entry);
	return code;
}

int ff_machine_list(FILE *to, struct ff_error *err)
{
	const char *first = ff_folder(0), *own = NULL;
	int code = first ? list_folder(to, first, err) : FF_OK;

	/* the source tree's, or where that is gone the installed ones */
	for (uint32_t i = 1; i < FF_FOLDERS && !own; i++)
		if (!access(ff_folder(i), R_OK))
			own = ff_folder(i);
	return code == FF_OK && own ? list_folder(to, own, err) : code;
}
