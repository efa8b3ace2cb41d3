/* Interconnects in JSON.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/interconnect.h"

#include <string.h>

#include "ff/nearest.h"
#include "folders.h"

#define FILE_NAME "interconnects/nccl.json"
#define MOST_US 1e6
#define MOST_SHARE 1.0

static int check_kind(const struct ff_json *v, struct ff_error *err)
{
	static const char *const keys[] = {"name", "side", "source", "note", "own", "ramp",
			"tree_passes", "message_own", "collective", "message", "sums", NULL};

	if (v->type != FF_JSON_OBJECT)
		return ff_json_fail(v, err, "expected an object");
	return ff_json_only(v, keys, err);
}

static int read_hop(const struct ff_json *v, struct ff_hop *ret, struct ff_error *err)
{
	static const char *const keys[] = {"base_us", "hop_us", "share", NULL};
	int code = v->type == FF_JSON_OBJECT ? ff_json_only(v, keys, err)
					     : ff_json_fail(v, err, "expected an object");

	if (code == FF_OK)
		code = ff_json_real(v, "base_us", 0, MOST_US, &ret->base_us, err);
	if (code == FF_OK)
		code = ff_json_real(v, "hop_us", 0, MOST_US, &ret->hop_us, err);
	if (code == FF_OK)
		code = ff_json_real(v, "share", 1e-6, MOST_SHARE, &ret->share, err);
	return code;
}

/* Of NCCL's protocols; one that the file does not name cannot be used, `simple` it must name. */
static int read_protocols(const struct ff_json *kind, const char *key, struct ff_hop *ret,
		struct ff_error *err)
{
	static const char *const names[] = {"ll", "ll128", "simple", NULL};
	const struct ff_json *all = NULL, *one;
	int code = ff_json_need(kind, key, FF_JSON_OBJECT, &all, err);

	if (code == FF_OK)
		code = ff_json_only(all, names, err);
	if (code == FF_OK)
		code = ff_json_need(all, names[FF_PROTOCOL_SIMPLE], FF_JSON_OBJECT, &one, err);
	for (int p = 0; p < FF_PROTOCOL_COUNT && code == FF_OK; p++) {
		one = ff_json_get(all, names[p]);
		if (one)
			code = read_hop(one, &ret[p], err);
	}
	return code;
}

static int read_sums(const struct ff_json *kind, struct ff_interconnect *x, struct ff_error *err)
{
	static const char *const keys[] = {"base_us", "share", "least", NULL};
	const struct ff_json *v = NULL;
	int64_t least = 0;
	int code;

	if (!ff_json_get(kind, "sums"))
		return FF_OK;
	code = ff_json_need(kind, "sums", FF_JSON_OBJECT, &v, err);
	if (code == FF_OK)
		code = ff_json_only(v, keys, err);
	if (code == FF_OK)
		code = ff_json_real(v, "base_us", 0, MOST_US, &x->sums.base_us, err);
	if (code == FF_OK)
		code = ff_json_real(v, "share", 1e-6, MOST_SHARE, &x->sums.share, err);
	if (code == FF_OK)
		code = ff_json_int(v, "least", 2, 4096, &least, err);
	x->sums.least = (uint32_t)least;
	return code;
}

static int read_kind(const struct ff_json *v, struct ff_interconnect *x, struct ff_error *err)
{
	int64_t passes = 1;
	int code = FF_OK;

	if (ff_json_get(v, "tree_passes"))
		code = ff_json_int(v, "tree_passes", 1, 2, &passes, err);
	x->tree_passes = (uint32_t)passes;
	if (code == FF_OK && !x->between)
		code = ff_json_real(v, "own", 0, 100, &x->own, err);
	if (code == FF_OK && !x->between)
		code = ff_json_real(v, "ramp", 0, 100, &x->ramp, err);
	if (code == FF_OK)
		code = read_protocols(v, "collective", x->collective, err);
	if (code == FF_OK)
		code = read_protocols(v, "message", x->message, err);
	if (code == FF_OK)
		code = read_sums(v, x, err);
	return code;
}

static int unknown(const struct ff_json *at, bool between, const struct ff_json *kinds,
		struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, at->text);
	for (uint32_t i = 0; i < kinds->n; i++) {
		const struct ff_json *name = ff_json_get(&kinds->child[i], "name");
		const struct ff_json *side = ff_json_get(&kinds->child[i], "side");

		if (name && name->text && side && side->text &&
				between == !strcmp(side->text, "between"))
			ff_nearest_try(&near, name->text);
	}
	return ff_json_fail(at, err, "there is no interconnect \"%.64s\" %s%s", at->text,
			between ? "between nodes" : "inside nodes", ff_nearest_known(&near));
}

static int find(const struct ff_json *root, const struct ff_json *at, bool between,
		struct ff_interconnect *x, struct ff_error *err)
{
	const struct ff_json *kinds = NULL;
	int code = ff_json_format(root, "ffsoap-interconnects", 1, err);

	if (code == FF_OK)
		code = ff_json_need(root, "kinds", FF_JSON_ARRAY, &kinds, err);
	for (uint32_t i = 0; code == FF_OK && i < kinds->n; i++) {
		const struct ff_json *v = &kinds->child[i];
		const char *name = NULL, *side = NULL;

		code = check_kind(v, err);
		if (code == FF_OK)
			code = ff_json_string(v, "name", &name, err);
		if (code == FF_OK)
			code = ff_json_string(v, "side", &side, err);
		if (code == FF_OK && !strcmp(name, at->text) && between == !strcmp(side, "between"))
			return read_kind(v, x, err);
	}
	return code == FF_OK ? unknown(at, between, kinds, err) : code;
}

int ff_interconnect_find(const struct ff_json *at, bool between, struct ff_arena *a,
		const struct ff_interconnect **ret, struct ff_error *err)
{
	const struct ff_json *root = NULL;
	struct ff_interconnect *x;
	struct ff_arena scratch;
	const char *path;
	int code = FF_OK;

	if (at->type != FF_JSON_STRING)
		return ff_json_fail(at, err, "expected the name of an interconnect");
	x = ff_arena_array(a, 1, sizeof(*x));
	if (!x)
		return ff_fail_memory(err);
	*x = (struct ff_interconnect){.between = between, .name = ff_arena_strdup(a, at->text)};
	ff_arena_init(&scratch);
	path = ff_folder_find(FILE_NAME, &scratch);
	if (!path || !x->name)
		code = ff_fail_memory(err);
	else if (!*path)
		code = ff_json_fail(at, err, "%s is missing beside the machines that come along",
				FILE_NAME);
	if (code == FF_OK)
		code = ff_json_load(path, &scratch, &root, err);
	if (code == FF_OK)
		code = find(root, at, between, x, err);
	ff_arena_finish(&scratch);
	if (code == FF_OK)
		*ret = x;
	return code;
}
