/* Engines of cuDNN as text: its number, then each knob's type and value.  (Plans could be had as
 * JSON, but of those engines alone that are compiled at run time.)
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ok(cudnnStatus_t status)
{
	return status == CUDNN_STATUS_SUCCESS;
}

/* ---- telling ---- */

static bool find_number(cudnnBackendDescriptor_t config, int64_t *ret)
{
	cudnnBackendDescriptor_t engine = NULL;
	int64_t n = 0;
	bool found = ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine)) &&
		     ok(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
				     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine)) &&
		     ok(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
				     CUDNN_TYPE_INT64, 1, &n, ret));

	if (engine)
		cudnnBackendDestroyDescriptor(engine);
	return found;
}

static bool print_knob(cudnnBackendDescriptor_t knob, char text[FF_PLANS_TEXT])
{
	size_t at = strlen(text);
	cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
	int64_t value = 0, n = 0;

	if (!ok(cudnnBackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
			    CUDNN_TYPE_KNOB_TYPE, 1, &n, &type)) ||
			!ok(cudnnBackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
					CUDNN_TYPE_INT64, 1, &n, &value)))
		return false;
	return snprintf(text + at, FF_PLANS_TEXT - at, " %d=%" PRId64, (int)type, value) <
	       (int)(FF_PLANS_TEXT - at);
}

bool ff_engine_print(cudnnBackendDescriptor_t config, char text[FF_PLANS_TEXT])
{
	cudnnBackendDescriptor_t knob[CUDNN_KNOB_TYPE_COUNTS] = {NULL};
	int64_t number = 0, n = 0;
	bool told = find_number(config, &number);

	for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS && told; i++)
		told = ok(cudnnBackendCreateDescriptor(
				CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knob[i]));
	told = told &&
	       ok(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
			       CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, &n, knob));
	snprintf(text, FF_PLANS_TEXT, "engine %" PRId64, number);
	for (int64_t i = 0; i < n && told; i++)
		told = i < CUDNN_KNOB_TYPE_COUNTS && print_knob(knob[i], text);
	for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; i++)
		if (knob[i])
			cudnnBackendDestroyDescriptor(knob[i]);
	return told;
}

/* ---- making ---- */

static bool make_engine(struct ff_engine *e, cudnnBackendDescriptor_t graph, int64_t number)
{
	return ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &e->engine)) &&
	       ok(cudnnBackendSetAttribute(e->engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
			       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph)) &&
	       ok(cudnnBackendSetAttribute(e->engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
			       CUDNN_TYPE_INT64, 1, &number)) &&
	       ok(cudnnBackendFinalize(e->engine));
}

static bool make_knob(struct ff_engine *e, cudnnBackendKnobType_t type, int64_t value)
{
	cudnnBackendDescriptor_t *k = &e->knob[e->n];

	if (e->n == CUDNN_KNOB_TYPE_COUNTS ||
			!ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, k)))
		return false;
	e->n++;
	return ok(cudnnBackendSetAttribute(*k, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
			       CUDNN_TYPE_KNOB_TYPE, 1, &type)) &&
	       ok(cudnnBackendSetAttribute(*k, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
			       1, &value)) &&
	       ok(cudnnBackendFinalize(*k));
}

static bool make_config(struct ff_engine *e)
{
	return ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &e->config)) &&
	       ok(cudnnBackendSetAttribute(e->config, CUDNN_ATTR_ENGINECFG_ENGINE,
			       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &e->engine)) &&
	       (!e->n || ok(cudnnBackendSetAttribute(e->config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
					 CUDNN_TYPE_BACKEND_DESCRIPTOR, e->n, e->knob))) &&
	       ok(cudnnBackendFinalize(e->config));
}

bool ff_engine_init(
		struct ff_engine *e, cudnnBackendDescriptor_t graph, const char text[FF_PLANS_TEXT])
{
	int64_t number, value;
	int read = 0, type;

	memset(e, 0, sizeof(*e));
	if (sscanf(text, "engine %" SCNd64 "%n", &number, &read) < 1 ||
			!make_engine(e, graph, number))
		return false;
	for (text += read; *text; text += read)
		if (sscanf(text, " %d=%" SCNd64 "%n", &type, &value, &read) < 2 ||
				!make_knob(e, (cudnnBackendKnobType_t)type, value))
			return false;
	return make_config(e);
}

void ff_engine_finish(struct ff_engine *e)
{
	if (e->config)
		cudnnBackendDestroyDescriptor(e->config);
	while (e->n)
		cudnnBackendDestroyDescriptor(e->knob[--e->n]);
	if (e->engine)
		cudnnBackendDestroyDescriptor(e->engine);
}
