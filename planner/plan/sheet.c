/* Strategy files read without their graphs.  SPDX-License-Identifier: Apache-2.0 */
#include "sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/micro.h"
#include "ff/name_fold.h"
#include "ff/strategy_file.h"
#include "space/carry_config.h"

#define TEXT 256

/* ---- devices ---- */

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Each of *n devices is `degree` ones, `stride` apart. */
static int spread(uint32_t *device, uint32_t *n, uint32_t degree, uint32_t stride)
{
	if ((uint64_t)*n * degree > FF_MAX_DEVICES)
		return FF_E_INPUT;
	for (uint32_t k = 1; k < degree; k++)
		for (uint32_t i = 0; i < *n; i++)
			device[k * *n + i] = device[i] + k * stride;
	*n *= degree;
	return FF_OK;
}

/* Of {"start", "strides", "replica_stride"}. */
static int view_devices(const struct ff_json *op, const struct ff_json *view, uint32_t *device,
		uint32_t *n, struct ff_error *err)
{
	const struct ff_json *degrees = ff_json_get(op, "degrees");
	const struct ff_json *strides = ff_json_get(view, "strides");
	int code;

	device[0] = ff_carry_number(view, "start", 0);
	*n = 1;
	code = spread(device, n, ff_carry_number(op, "replicas", 1),
			ff_carry_number(view, "replica_stride", 0));
	for (uint32_t i = 0; degrees && i < degrees->n && code == FF_OK; i++)
		code = spread(device, n, ff_carry_number(degrees, degrees->child[i].key, 1),
				ff_carry_number(strides, degrees->child[i].key, 0));
	return code < 0 ? ff_json_fail(op, err, "expected at most %d parts", FF_MAX_DEVICES)
			: FF_OK;
}

static int list_devices(
		const struct ff_json *list, uint32_t *device, uint32_t *n, struct ff_error *err)
{
	if (list->n > FF_MAX_DEVICES)
		return ff_json_fail(list, err, "expected at most %d devices", FF_MAX_DEVICES);
	for (uint32_t i = 0; i < list->n; i++) {
		int64_t v;
		int code = ff_json_as_int(&list->child[i], 0, FF_MAX_DEVICES - 1, &v, err);

		if (code < 0)
			return code;
		device[i] = (uint32_t)v;
	}
	*n = list->n;
	return FF_OK;
}

static int read_devices(const struct ff_json *op, char buf[TEXT], struct ff_error *err)
{
	const struct ff_json *devices = ff_json_get(op, "devices");
	uint32_t device[FF_MAX_DEVICES], n = 0;
	int code = FF_OK;

	if (devices && devices->type == FF_JSON_OBJECT)
		code = view_devices(op, devices, device, &n, err);
	else if (devices && devices->type == FF_JSON_ARRAY)
		code = list_devices(devices, device, &n, err);
	if (code < 0)
		return code;
	qsort(device, n, sizeof(*device), by_number);
	ff_fold_numbers(device, n, buf, TEXT);
	return FF_OK;
}

/* ---- rows ---- */

static bool is_set(const struct ff_json *op, const char *key)
{
	const struct ff_json *v = ff_json_get(op, key);

	return v && v->type == FF_JSON_BOOL && v->number > 0;
}

static void split_text(const struct ff_json *op, char buf[TEXT])
{
	const struct ff_json *degrees = ff_json_get(op, "degrees");
	uint32_t replicas = ff_carry_number(op, "replicas", 1),
		 stage = ff_carry_number(op, "stage", 0);
	bool flat = ff_json_get(op, "update");
	size_t used = 0;

	snprintf(buf, TEXT, "%s", flat ? "flat" : "whole");
	if (flat)
		used = strlen(buf);
	for (uint32_t i = 0; degrees && i < degrees->n && used + 1 < TEXT; i++)
		used += (size_t)snprintf(buf + used, TEXT - used, "%s%.60s %.0f", used ? ", " : "",
				degrees->child[i].key, degrees->child[i].number);
	if (replicas > 1 && used + 1 < TEXT)
		used += (size_t)snprintf(
				buf + used, TEXT - used, "%s%u times", used ? ", " : "", replicas);
	used = used < TEXT ? strlen(buf) : TEXT;
	if (stage && used + 1 < TEXT)
		used += (size_t)snprintf(buf + used, TEXT - used, ", stage %u", stage);
	if (is_set(op, "recompute") && used + 1 < TEXT)
		snprintf(buf + used, TEXT - used, "%s", flat ? ", dropped" : ", again");
}

static int check_degrees(const struct ff_json *op, struct ff_error *err)
{
	const struct ff_json *degrees = ff_json_get(op, "degrees");
	int code = FF_OK;

	if (degrees && degrees->type != FF_JSON_OBJECT)
		return ff_json_fail(degrees, err, "expected an object");
	for (uint32_t i = 0; degrees && i < degrees->n && code == FF_OK; i++) {
		int64_t v;

		code = ff_json_as_int(&degrees->child[i], 1, FF_MAX_DEVICES, &v, err);
		if (code == FF_OK && !ff_json_printable(degrees->child[i].key))
			code = ff_json_fail(
					degrees, err, "expected dims without control characters");
	}
	return code;
}

/* What the rows below take as it is. */
static int check_entry(const struct ff_json *op, struct ff_error *err)
{
	int64_t v;
	bool set;
	int code = ff_strategy_check_entry(op, err);

	if (code == FF_OK && ff_json_get(op, "replicas"))
		code = ff_json_int(op, "replicas", 1, FF_MAX_DEVICES, &v, err);
	if (code == FF_OK && ff_json_get(op, "stage"))
		code = ff_json_int(op, "stage", 0, FF_MAX_DEVICES - 1, &v, err);
	if (code == FF_OK && ff_json_get(op, "recompute"))
		code = ff_json_bool(op, "recompute", &set, err);
	return code < 0 ? code : check_degrees(op, err);
}

static int read_row(const struct ff_json *op, struct ff_arena *a, struct ff_sheet *s,
		struct ff_error *err)
{
	struct ff_sheet_row *r = &s->row[s->n];
	char split[TEXT], devices[TEXT];
	uint32_t stage;
	int code;

	if (op->type != FF_JSON_OBJECT)
		return ff_json_fail(op, err, "expected an object");
	if ((code = check_entry(op, err)) < 0 ||
			(code = ff_json_string(op, "name", &r->name, err)) < 0 ||
			(code = read_devices(op, devices, err)) < 0)
		return code;
	split_text(op, split);
	r->split = ff_arena_strdup(a, split);
	r->devices = ff_arena_strdup(a, devices);
	r->at = op;
	if (!r->split || !r->devices)
		return ff_fail_memory(err);
	stage = ff_carry_number(op, "stage", 0);
	s->stages = stage >= s->stages ? stage + 1 : s->stages;
	s->flat += ff_json_get(op, "update") != NULL;
	s->dropped += ff_json_get(op, "update") && is_set(op, "recompute");
	s->recomputed += !ff_json_get(op, "update") && is_set(op, "recompute");
	if (ff_sheet_find(s, r->name))
		return ff_json_fail(op, err, "operator %s stands twice", r->name);
	if (ff_table_put(&s->names, ff_fnv1a(r->name, strlen(r->name)), s->n++) < 0)
		return ff_fail_memory(err);
	return FF_OK;
}

/* ---- the file ---- */

/* A text that may be absent. */
static int read_text(
		const struct ff_json *root, const char *key, const char **ret, struct ff_error *err)
{
	*ret = NULL;
	return ff_json_get(root, key) ? ff_json_string(root, key, ret, err) : FF_OK;
}

static int read_memory(struct ff_sheet *s, struct ff_error *err)
{
	const struct ff_json *memory = ff_json_get(s->root, "memory_bytes");

	for (uint32_t i = 0; memory && memory->type == FF_JSON_ARRAY && i < memory->n; i++) {
		int64_t v;
		int code = ff_json_as_int(&memory->child[i], 0, INT64_MAX, &v, err);

		if (code < 0)
			return code;
		s->least_bytes = !i || v < s->least_bytes ? v : s->least_bytes;
		s->most_bytes = v > s->most_bytes ? v : s->most_bytes;
	}
	return FF_OK;
}

static int read_header(struct ff_sheet *s, const struct ff_json **list, struct ff_error *err)
{
	enum ff_order_rule rule = FF_ORDER_GPIPE;
	const struct ff_json *us;
	int64_t devices = 0, micro = 1, shards = 0, chunks;
	int code;

	if ((code = ff_strategy_check_header(s->root, err)) < 0 ||
			(code = ff_json_string(s->root, "graph", &s->graph, err)) < 0 ||
			(code = ff_json_string(s->root, "graph_hash", &s->hash, err)) < 0 ||
			(code = ff_json_string(s->root, "machine", &s->machine, err)) < 0 ||
			(code = ff_json_int(s->root, "devices", 1, FF_MAX_DEVICES, &devices, err)) <
					0 ||
			(code = ff_json_need(s->root, "operators", FF_JSON_ARRAY, list, err)) < 0 ||
			(code = ff_strategy_read_order(s->root, &rule, err)) < 0 ||
			(code = read_text(s->root, "optimizer", &s->optimizer, err)) < 0 ||
			(code = read_text(s->root, "costs", &s->costs, err)) < 0)
		return code;
	if (ff_json_get(s->root, "micro_batches"))
		code = ff_json_int(s->root, "micro_batches", 1, FF_MAX_MICRO_BATCHES, &micro, err);
	s->order = ff_order_name(rule);
	chunks = ff_order_row(rule)->chunks ? ff_order_row(rule)->chunks : 2;
	if (code == FF_OK && ff_json_get(s->root, "chunks"))
		code = ff_json_int(s->root, "chunks", 2, FF_MOST_CHUNKS, &chunks, err);
	us = ff_json_get(s->root, "predicted_us");
	s->predicted_us = us && us->type == FF_JSON_NUMBER ? us->number : 0;
	s->devices = (uint32_t)devices;
	s->micro_batches = (uint32_t)micro;
	s->chunks = (uint32_t)chunks;
	s->scatter = ff_json_get(s->root, "gradients") != NULL;
	if (code == FF_OK && ff_json_get(s->root, "shards"))
		code = ff_json_int(s->root, "shards", 2, FF_MAX_DEVICES, &shards, err);
	s->shards = (uint32_t)shards;
	return code < 0 ? code : read_memory(s, err);
}

int ff_sheet_load(const char *path, struct ff_arena *a, struct ff_sheet *ret, struct ff_error *err)
{
	const struct ff_json *list;
	struct ff_sheet s = {.path = path, .stages = 1, .names = {.arena = a}};
	int code = ff_json_load(path, a, &s.root, err);

	if (code == FF_OK)
		code = read_header(&s, &list, err);
	if (code < 0)
		return code;
	s.row = ff_arena_array(a, list->n, sizeof(*s.row));
	if (!s.row)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < list->n; i++)
		if ((code = read_row(&list->child[i], a, &s, err)) < 0)
			return code;
	*ret = s;
	return FF_OK;
}

const struct ff_sheet_row *ff_sheet_find(const struct ff_sheet *s, const char *name)
{
	uint64_t hash = ff_fnv1a(name, strlen(name));
	uint32_t at, i;

	for (i = ff_table_first(&s->names, hash, &at); i != FF_NONE;
			i = ff_table_next(&s->names, hash, &at))
		if (!strcmp(s->row[i].name, name))
			return &s->row[i];
	return NULL;
}
