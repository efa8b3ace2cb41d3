/* Model zoo: the table of networks and their parameters.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/zoo.h"
#include "ff/builder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/nearest.h"
#include "layers.h"
#include "operator/attrs.h"

#define MAX_BATCH (1 << 24)
#define MAX_PARAMS 16

const struct ff_zoo_param ff_zoo_dtype = {
		"dtype", "what it computes in", 0, 1, 0, "float32|bfloat16"};
static const enum ff_dtype dtypes[] = {FF_F32, FF_BF16};

#define ROW(name) &ff_zoo_##name,
static const struct ff_zoo_row *const rows[] = {FF_ZOO_NETS(ROW)};
#define N_ROWS FF_ZOO_COUNT(rows)

const struct ff_zoo_row *ff_zoo_row(uint32_t i)
{
	return i < N_ROWS ? rows[i] : NULL;
}

static const struct ff_zoo_row *find_row(const char *name, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i < N_ROWS; i++) {
		if (!strcmp(rows[i]->name, name))
			return rows[i];
		ff_nearest_try(&near, rows[i]->name);
	}
	ff_fail(err, FF_E_INPUT, "there is no network \"%.60s\"%s", name,
			near.name[0] ? ff_nearest_hint(&near) : ff_nearest_known(&near));
	return NULL;
}

static int read_value(const struct ff_zoo_row *row, const struct ff_zoo_param *p, const char *text,
		int32_t *ret, struct ff_error *err)
{
	struct ff_nearest near;
	char *end;
	long v;

	if (p->choices) {
		int32_t i = ff_choice_find(p->choices, text);

		if (i < 0) {
			ff_nearest_init(&near, text);
			ff_nearest_try_choices(&near, p->choices);
			return ff_fail(err, FF_E_INPUT,
					"%s: --set %s: expected one of %s, not \"%.60s\"%s",
					row->name, p->name, p->choices, text,
					ff_nearest_hint(&near));
		}
		*ret = i;
		return FF_OK;
	}
	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v < p->min || v > p->max)
		return ff_fail(err, FF_E_INPUT,
				"%s: --set %s: expected a whole number from %d to %d, not "
				"\"%.60s\"",
				row->name, p->name, p->min, p->max, text);
	*ret = (int32_t)v;
	return FF_OK;
}

/* value[] is by parameter, the one that every network has behind the last. */
static int set_value(const struct ff_zoo_row *row, const char *text, int32_t *value,
		struct ff_error *err)
{
	const char *equals = strchr(text, '=');
	char name[FF_NEAREST_LENGTH];
	struct ff_nearest near;
	size_t len;

	if (!equals)
		return ff_fail(err, FF_E_INPUT, "%s: --set %.60s: expected key=value", row->name,
				text);
	len = (size_t)(equals - text);
	snprintf(name, sizeof(name), "%.*s", (int)len, text);
	ff_nearest_init(&near, name);
	for (uint32_t i = 0; i <= row->n_params; i++) {
		const struct ff_zoo_param *p = i < row->n_params ? &row->params[i] : &ff_zoo_dtype;

		if (strlen(p->name) == len && !memcmp(p->name, text, len))
			return read_value(row, p, equals + 1, &value[i], err);
		ff_nearest_try(&near, p->name);
	}
	return ff_fail(err, FF_E_INPUT, "%s: --set: there is no \"%s\"%s", row->name, name,
			ff_nearest_known(&near));
}

int ff_zoo_build(const char *name, uint64_t batch, const char *const *sets, uint32_t n_sets,
		struct ff_arena *a, struct ff_graph *ret, struct ff_error *err)
{
	const struct ff_zoo_row *row = find_row(name, err);
	struct ff_zoo_net net = {.batch = (int32_t)batch};
	int32_t value[MAX_PARAMS + 1];
	int code;

	if (!row)
		return FF_E_INPUT;
	if (batch > MAX_BATCH)
		return ff_fail(err, FF_E_INPUT, "%s: --batch: expected 1 to %d samples", name,
				MAX_BATCH);
	if (!batch)
		net.batch = row->batch;
	for (uint32_t i = 0; i < row->n_params; i++)
		value[i] = row->params[i].preset;
	value[row->n_params] = ff_zoo_dtype.preset;
	for (uint32_t i = 0; i < n_sets; i++) {
		code = set_value(row, sets[i], value, err);
		if (code < 0)
			return code;
	}
	net.value = value;
	code = ff_builder_create(name, a, &net.builder, err);
	if (code < 0)
		return code;
	ff_builder_set_dtype(net.builder, dtypes[value[row->n_params]]);
	row->build(&net);
	return ff_builder_finish(net.builder, ret, err);
}
