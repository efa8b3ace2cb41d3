/* Timelines in the Trace Event Format of Chrome and Perfetto ("Trace Event
 * Format", Google 2016): complete events ("X") in microseconds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/trace.h"
#include "ff/machine_lanes.h"

#include <stdio.h>

enum ff_lane_class ff_trace_lane(const struct ff_schedule *s, const struct ff_task *t)
{
	const struct ff_machine *m = s->machine;

	if (!t->move)
		return FF_LANE_COMPUTE;
	if (!m->overlap || !t->n_lanes)
		return FF_LANE_COMM;
	return (enum ff_lane_class)(s->lanes[t->first_lane] / m->n_devices);
}

const char *ff_trace_lane_name(enum ff_lane_class lane)
{
	static const char *const names[FF_DEVICE_LANES] = {[FF_LANE_COMPUTE] = "compute",
			[FF_LANE_COMM] = "communication",
			[FF_LANE_MESSAGE] = "messages"};

	return names[lane];
}

/* By enum ff_compute; parts are named by their pass. */
static const char *const computes[] = {NULL, "update", "norm", "delay"};

static const char *const phases[FF_PHASE_COUNT] = {"forward", "backward", "recompute", "weights"};

void ff_task_label(const struct ff_schedule *s, uint32_t task, char *buf, size_t size)
{
	const struct ff_task *t = &s->tasks[task];
	char micro[24] = ""; /* where there are several */

	if (s->n_instances > 2)
		snprintf(micro, sizeof(micro), " #%u", t->micro);
	if (t->bucket != FF_NONE)
		snprintf(buf, size, "%s bucket %u",
				!t->move                              ? computes[t->compute]
				: t->move->kind == FF_MOVE_ALL_GATHER ? "gather"
								      : "sync",
				t->bucket);
	else if (t->move)
		snprintf(buf, size, "%s %s%s%s%s", s->graph->nodes[t->node].name,
				t->phase ? phases[t->phase] : "", t->phase ? " " : "",
				ff_move_name(t->move->kind), micro);
	else if (t->compute == FF_COMPUTE_DELAY)
		snprintf(buf, size, "%s delay", s->graph->nodes[t->node].name);
	else
		snprintf(buf, size, "%s %s%s", s->graph->nodes[t->node].name, phases[t->phase],
				micro);
}

static const char *kind_name(const struct ff_task *t)
{
	if (ff_task_computes_part(t))
		return phases[ff_task_pass(t)];
	if (!t->move)
		return computes[t->compute];
	if (ff_task_moves_edge(t))
		return ff_move_name(t->move->kind);
	return t->move->kind == FF_MOVE_ALL_REDUCE   ? "sync"
	       : t->move->kind == FF_MOVE_ALL_GATHER ? "gather"
						     : "scatter";
}

static void write_name(struct ff_out *o, const char *what, uint32_t process, uint32_t lane,
		const char *name)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "name", what);
	ff_out_string(o, "ph", "M");
	ff_out_int(o, "pid", process);
	ff_out_int(o, "tid", lane);
	ff_out_object(o, "args");
	ff_out_string(o, "name", name);
	ff_out_close(o);
	ff_out_close(o);
}

static void write_place(struct ff_out *o, uint32_t process, uint32_t place)
{
	ff_out_object(o, NULL);
	ff_out_string(o, "name", "process_sort_index");
	ff_out_string(o, "ph", "M");
	ff_out_int(o, "pid", process);
	ff_out_object(o, "args");
	ff_out_int(o, "sort_index", place);
	ff_out_close(o);
	ff_out_close(o);
}

/* Whether device `d` stands for itself, and perhaps others. */
static bool is_written(const struct ff_trace *t, uint32_t d)
{
	return !t->groups || t->groups->first[t->groups->of[d]] == d;
}

static void write_names(
		const struct ff_schedule *s, const struct ff_trace *t, uint32_t k, struct ff_out *o)
{
	for (uint32_t d = 0; d < s->machine->n_devices; d++) {
		uint32_t process = k * s->machine->n_devices + d;
		const char *of = t->timeline[k].name;
		char name[320], own[16];

		if (!is_written(t, d))
			continue;
		snprintf(own, sizeof(own), "%u", d);
		snprintf(name, sizeof(name), "%s%sdevice%s %s (%s)", of ? of : "", of ? ": " : "",
				t->groups ? "s" : "",
				t->groups ? t->groups->devices[t->groups->of[d]] : own,
				ff_device_kind(s->machine, d)->name);
		write_name(o, "process_name", process, FF_LANE_COMPUTE, name);
		for (uint32_t lane = 0; lane < FF_DEVICE_LANES; lane++)
			if (lane != FF_LANE_MESSAGE || s->machine->message_lane)
				write_name(o, "thread_name", process, lane,
						ff_trace_lane_name((enum ff_lane_class)lane));
		if (t->n_timelines > 1)
			write_place(o, process, d * t->n_timelines + k);
	}
}

static void write_args(const struct ff_schedule *s, uint32_t task, struct ff_out *o)
{
	const struct ff_task *t = &s->tasks[task];
	ff_out_object(o, "args");
	ff_out_int(o, "task", task);
	ff_out_string(o, "kind", kind_name(t));
	if (t->move && t->move->codec)
		ff_out_string(o, "compress", t->move->codec->name);
	if (t->bucket != FF_NONE) {
		ff_out_int(o, "bucket", t->bucket);
		ff_out_int(o, "bytes", s->buckets[t->bucket].bytes);
	} else {
		ff_out_string(o, "node", s->graph->nodes[t->node].name);
		ff_out_string(o, "pass", phases[t->phase]);
		if (s->n_instances > 2)
			ff_out_int(o, "micro_batch", t->micro);
	}
	if (ff_task_moves_edge(t)) {
		ff_out_int(o, "bytes", t->move->network_bytes);
		ff_out_int(o, "copied_bytes", t->move->copied_bytes);
	}
	if (ff_task_computes_part(t))
		ff_out_int(o, "part", t->part);
	ff_out_close(o);
}

static void write_span(const struct ff_schedule *s, const struct ff_span *span, uint32_t first,
		struct ff_out *o)
{
	const struct ff_task *t = &s->tasks[span->task];
	char label[256];
	ff_task_label(s, span->task, label, sizeof(label));
	ff_out_object(o, NULL);
	ff_out_string(o, "name", label);
	ff_out_string(o, "cat", t->move ? "communication" : "compute");
	ff_out_string(o, "ph", "X");
	ff_out_real(o, "ts", span->start_us);
	ff_out_real(o, "dur", span->finish_us - span->start_us);
	ff_out_int(o, "pid", first + span->device);
	ff_out_int(o, "tid", ff_trace_lane(s, t));
	write_args(s, span->task, o);
	ff_out_close(o);
}

static void write_clocks(const struct ff_trace *t, struct ff_out *o)
{
	ff_out_array(o, "clocks");
	for (uint32_t r = 0; r < t->n_clocks; r++) {
		ff_out_object(o, NULL);
		ff_out_int(o, "rank", r);
		ff_out_real(o, "offset_us", t->clock[r].offset_us);
		ff_out_real(o, "drift_ppm", t->clock[r].drift * 1e6);
		ff_out_real(o, "bound_us", t->clock[r].bound_us);
		ff_out_close(o);
	}
	ff_out_close(o);
}

void ff_trace_write_beside(const struct ff_schedule *s, const struct ff_trace *t, struct ff_out *o)
{
	ff_out_object(o, NULL);
	ff_out_array(o, "traceEvents");
	for (uint32_t k = 0; k < t->n_timelines; k++)
		write_names(s, t, k, o);
	for (uint32_t k = 0; k < t->n_timelines; k++)
		for (uint32_t i = 0; i < t->timeline[k].n; i++)
			if (is_written(t, t->timeline[k].spans[i].device))
				write_span(s, &t->timeline[k].spans[i], k * s->machine->n_devices,
						o);
	ff_out_close(o);
	ff_out_string(o, "displayTimeUnit", "ms");
	ff_out_object(o, "otherData");
	ff_out_string(o, "title", t->title);
	ff_out_string(o, "graph", s->graph->name);
	ff_out_string(o, "machine", s->machine->name);
	if (t->n_clocks)
		write_clocks(t, o);
	ff_out_close(o);
	ff_out_close(o);
}

void ff_trace_write(const struct ff_schedule *s, const char *title, const struct ff_span *spans,
		uint32_t n, struct ff_out *o)
{
	const struct ff_timeline one = {.spans = spans, .n = n};
	const struct ff_trace t = {.title = title, .timeline = &one, .n_timelines = 1};

	ff_trace_write_beside(s, &t, o);
}
