/* Timelines read back from Chrome/Perfetto trace JSON.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ff/trace.h"

/* The task that an event says it is has its name, and its device takes part in it. */
static int check_span(const struct ff_json *event, const struct ff_schedule *s,
		const struct ff_span *span, struct ff_error *err)
{
	const uint16_t *device;
	uint16_t own;
	uint32_t n = ff_task_devices(&s->tasks[span->task], &device, &own), i = 0;
	char label[256];
	const char *name;
	int code = ff_json_string(event, "name", &name, err);

	if (code < 0)
		return code;
	ff_task_label(s, span->task, label, sizeof(label));
	while (i < n && device[i] != span->device)
		i++;
	if (strcmp(name, label) || i == n)
		return ff_json_fail(event, err,
				"the timeline is of another schedule: \"%s\" on device %u is task "
				"%u, which is \"%s\" here%s",
				name, span->device, span->task, label,
				i == n ? ", and not on that device" : "");
	return FF_OK;
}

static int read_span(const struct ff_json *event, const struct ff_schedule *s, struct ff_span *ret,
		struct ff_error *err)
{
	const struct ff_json *args;
	int64_t device, task;
	double start, us;
	int code;

	if ((code = ff_json_int(event, "pid", 0, s->machine->n_devices - 1, &device, err)) < 0 ||
			(code = ff_json_real(event, "ts", 0, 1e300, &start, err)) < 0 ||
			(code = ff_json_real(event, "dur", 0, 1e300, &us, err)) < 0 ||
			(code = ff_json_need(event, "args", FF_JSON_OBJECT, &args, err)) < 0 ||
			(code = ff_json_int(args, "task", 0, (int64_t)s->n_tasks - 1, &task, err)) <
					0)
		return code;
	*ret = (struct ff_span){(uint32_t)task, (uint32_t)device, start, start + us};
	return check_span(event, s, ret, err);
}

static int read_events(const struct ff_json *events, const struct ff_schedule *s,
		struct ff_arena *a, const struct ff_span **spans, uint32_t *n, struct ff_error *err)
{
	struct ff_span *all = ff_arena_array(a, events->n, sizeof(*all));
	uint32_t found = 0;

	if (!all)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < events->n; i++) {
		const struct ff_json *e = &events->child[i];
		const char *phase;
		int code;

		if (e->type != FF_JSON_OBJECT)
			return ff_json_fail(e, err, "expected an object");
		if ((code = ff_json_string(e, "ph", &phase, err)) < 0)
			return code;
		if (strcmp(phase, "X") != 0)
			continue;
		if ((code = read_span(e, s, &all[found++], err)) < 0)
			return code;
	}
	if (!found)
		return ff_json_fail(events, err, "expected the tasks of a step");
	*spans = all;
	*n = found;
	return FF_OK;
}

/* The tree is many times as large as what is kept of it, so it gets an arena of its own. */
int ff_trace_load(const char *path, const struct ff_schedule *s, struct ff_arena *a,
		const struct ff_span **spans, uint32_t *n, struct ff_error *err)
{
	const struct ff_json *root, *events;
	struct ff_arena tree;
	int code;

	ff_arena_init(&tree);
	code = ff_json_load(path, &tree, &root, err);
	if (code == FF_OK && root->type != FF_JSON_OBJECT)
		code = ff_json_fail(root, err, "expected an object with \"traceEvents\"");
	if (code == FF_OK)
		code = ff_json_need(root, "traceEvents", FF_JSON_ARRAY, &events, err);
	if (code == FF_OK)
		code = read_events(events, s, a, spans, n, err);
	ff_arena_finish(&tree);
	return code;
}
