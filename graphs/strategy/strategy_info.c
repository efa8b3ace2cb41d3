/* What a strategy file says beside the strategy: what it is for, what is predicted of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "strategy_info.h"

#include <math.h>
#include <string.h>

#include "ff/optimizer.h"

/* Files from before there was a choice do not say. */
static int read_optimizer(
		const struct ff_json *root, struct ff_strategy_info *info, struct ff_error *err)
{
	struct ff_error inner;
	const char *name;
	int code;

	info->optimizer = ff_optimizer_preset();
	if (!ff_json_get(root, "optimizer"))
		return FF_OK;
	if ((code = ff_json_string(root, "optimizer", &name, err)) < 0)
		return code;
	code = ff_optimizer_find(name, &info->optimizer, &inner);
	return code < 0 ? ff_json_fail(ff_json_get(root, "optimizer"), err, "%s", inner.text)
			: FF_OK;
}

/* A text that may be absent. */
static int read_text(const struct ff_json *root, const char *key, struct ff_arena *a,
		const char **ret, struct ff_error *err)
{
	const char *text;
	int code = FF_OK;

	*ret = NULL;
	if (!ff_json_get(root, key))
		return FF_OK;
	if ((code = ff_json_string(root, key, &text, err)) < 0)
		return code;
	*ret = ff_arena_strdup(a, text);
	return *ret ? FF_OK : ff_fail_memory(err);
}

/* {"class": microseconds, ...}, of classes that are known; where there is none, waits are unknown.
 */
static int read_waits(const struct ff_json *root, struct ff_class_time *classes, uint32_t n,
		struct ff_error *err)
{
	const struct ff_json *list;
	int code;

	for (uint32_t i = 0; i < n; i++)
		classes[i].waited_us = NAN;
	if (!ff_json_get(root, "predicted_waits"))
		return FF_OK;
	if ((code = ff_json_need(root, "predicted_waits", FF_JSON_OBJECT, &list, err)) < 0)
		return code;
	for (uint32_t i = 0; i < n; i++)
		classes[i].waited_us = 0;
	for (uint32_t k = 0; k < list->n; k++) {
		const char *name = list->child[k].key;
		uint32_t i = 0;

		while (i < n && strcmp(classes[i].name, name))
			i++;
		if (i == n)
			return ff_json_fail(&list->child[k], err,
					"expected a class of \"predicted_tasks\"");
		if ((code = ff_json_real(list, name, 0, 1e300, &classes[i].waited_us, err)) < 0)
			return code;
	}
	return FF_OK;
}

/* {"class": microseconds, ...} */
static int read_classes(const struct ff_json *root, struct ff_arena *a,
		struct ff_strategy_info *info, struct ff_error *err)
{
	const struct ff_json *list;
	struct ff_class_time *classes;
	int code;

	if (!ff_json_get(root, "predicted_tasks"))
		return read_waits(root, NULL, 0, err);
	if ((code = ff_json_need(root, "predicted_tasks", FF_JSON_OBJECT, &list, err)) < 0)
		return code;
	classes = ff_arena_array(a, list->n, sizeof(*classes));
	if (!classes)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < list->n; i++) {
		const char *name = list->child[i].key;

		if ((code = ff_json_real(list, name, 0, 1e300, &classes[i].us, err)) < 0)
			return code;
		classes[i].name = ff_arena_strdup(a, name);
		if (!classes[i].name)
			return ff_fail_memory(err);
	}
	if ((code = read_waits(root, classes, list->n, err)) < 0)
		return code;
	info->classes = classes;
	info->n_classes = list->n;
	return FF_OK;
}

/* One number a device. */
static int read_memory(const struct ff_json *root, struct ff_arena *a,
		struct ff_strategy_info *info, struct ff_error *err)
{
	const struct ff_json *memory = ff_json_get(root, "memory_bytes");
	int64_t *bytes;
	int code = FF_OK;

	if (!memory)
		return FF_OK;
	if (memory->type != FF_JSON_ARRAY || memory->n != info->devices)
		return ff_json_fail(memory, err, "expected one number a device");
	bytes = ff_arena_array(a, memory->n, sizeof(*bytes));
	if (!bytes)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < memory->n && code == FF_OK; i++)
		code = ff_json_as_int(&memory->child[i], 0, INT64_C(1) << 53, &bytes[i], err);
	if (code == FF_OK)
		info->memory_bytes = bytes;
	return code;
}

/* What is predicted of it, and by what. */
static int read_prediction(const struct ff_json *root, struct ff_arena *a,
		struct ff_strategy_info *info, struct ff_error *err)
{
	double steadiness = 1;
	int code;

	if (ff_json_get(root, "predicted_us") &&
			(code = ff_json_real(root, "predicted_us", 0, 1e300, &info->predicted_us,
					 err)) < 0)
		return code;
	if (ff_json_get(root, "steadiness") &&
			(code = ff_json_real(root, "steadiness", 0, 1, &steadiness, err)) < 0)
		return code;
	info->disturbed_share = 1 - steadiness;
	if ((code = read_classes(root, a, info, err)) < 0 ||
			(code = read_text(root, "costs", a, &info->costs, err)) < 0 ||
			(code = read_text(root, "framework", a, &info->framework, err)) < 0 ||
			(code = read_text(root, "communication", a, &info->communication, err)) < 0)
		return code;
	if (info->framework) /* nothing that our runtime would take */
		info->predicted_us = 0;
	return read_memory(root, a, info, err);
}

int ff_strategy_read_info(const struct ff_json *root, struct ff_arena *a, uint32_t n_devices,
		struct ff_strategy_info *info, struct ff_error *err)
{
	int64_t devices;
	const char *machine;
	int code;

	if ((code = ff_json_string(root, "machine", &machine, err)) < 0 ||
			(code = ff_json_int(root, "devices", 1, FF_MAX_DEVICES, &devices, err)) < 0)
		return code;
	info->machine = ff_arena_strdup(a, machine);
	if (!info->machine)
		return ff_fail_memory(err);
	info->devices = (uint32_t)devices;
	if (info->devices > n_devices)
		return ff_json_fail(ff_json_get(root, "devices"), err,
				"the strategy is for %u devices but there are %u", info->devices,
				n_devices);
	if ((code = read_optimizer(root, info, err)) < 0)
		return code;
	info->clip = false;
	if (ff_json_get(root, "clip") && (code = ff_json_bool(root, "clip", &info->clip, err)) < 0)
		return code;
	if ((code = ff_travel_read(root, &info->travel, err)) < 0)
		return code;
	return read_prediction(root, a, info, err);
}
