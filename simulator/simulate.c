/* Simulation: one longest-path pass over the schedule's total order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/simulate.h"

#include <math.h>

#include "execution.h"
#include "ff/block.h"
#include "ff/bucket_layout.h"
#include "ff/instance.h"
#include "ff/task_class.h"
#include "parts.h"

/* Gradients that a delay copies to where they are due, and as many as wait move up. */
static int64_t due_bytes(const struct ff_schedule *s, const struct ff_task *t)
{
	uint32_t due = ff_schedule_due(s);

	if (t->bucket != FF_NONE)
		return s->buckets[t->bucket].bytes;
	return s->buffers[s->din[(size_t)t->edge * s->n_instances + due][t->part]].bytes;
}

static double sync_us(const struct ff_schedule *s, const struct ff_task *t, struct ff_pricer *p)
{
	const struct ff_bucket *b = &s->buckets[t->bucket];
	const struct ff_runs x = {b->n_devices, b->runs, b->device, b->bytes};

	if (b->averaged)
		return ff_price_average(
				p, b->n_devices, b->device, b->bytes, s->travel.average_every);
	if (t->bucket == s->clip)
		return ff_price_sync(p, b->n_devices, b->device, b->bytes);
	if (b->flat && ff_task_pass(t) == FF_FORWARD)
		return ff_price_gather(p, &x);
	if (t->move->among.across)
		return ff_price_across(p, &x);
	if (b->flat)
		return ff_price_scatter(p, s->graph, &x, b->scattered && t->micro > 0);
	return ff_price_bucket(p, b->n_devices, b->device, b->bytes);
}

static int task_us(const struct ff_schedule *s, const struct ff_task *t, struct ff_pricer *p,
		struct ff_parts *parts, double *us, struct ff_error *err)
{
	const struct ff_bucket *b;

	if (t->move) {
		*us = ff_task_moves_edge(t) ? ff_price_move(p, s->graph, t->move)
					    : sync_us(s, t, p);
		return FF_OK;
	}
	switch (t->compute) {
	case FF_COMPUTE_PART:
		return ff_parts_us(parts, t, us, err);
	case FF_COMPUTE_UPDATE:
		b = &s->buckets[t->bucket];
		*us = ff_price_update(p, t->device,
				ff_bucket_updated_bytes(s->optimizer,
						ff_bucket_arrays(b, s->optimizer, s->graph->dtype)
								.run,
						&b->sparse));
		return FF_OK;
	case FF_COMPUTE_NORM:
		b = &s->buckets[t->bucket];
		*us = ff_price_copied(p, t->device, b->bytes / b->n_devices);
		return FF_OK;
	case FF_COMPUTE_DELAY:
		*us = ff_price_copied(p, t->device, s->travel.staleness * due_bytes(s, t));
		return FF_OK;
	}
	return FF_OK;
}

static double start_us(const struct ff_schedule *s, const struct ff_task *t, const double *finish,
		const double *free_us)
{
	double at = 0;

	for (uint32_t i = 0; i < t->n_deps; i++) {
		double done = finish[s->deps[t->first_dep + i]];

		at = done > at ? done : at;
	}
	for (uint32_t i = 0; i < t->n_lanes; i++) {
		double idle = free_us[s->lanes[t->first_lane + i]];

		at = idle > at ? idle : at;
	}
	return at;
}

static void add_busy(const struct ff_task *t, double us, struct ff_simulation *sim)
{
	const uint16_t *device;
	uint16_t own;
	uint32_t n = ff_task_devices(t, &device, &own);
	double *busy = t->move ? sim->comm_us : sim->compute_us;

	for (uint32_t i = 0; i < n; i++)
		busy[device[i]] += us;
}

/* Who communicates beside what it computes takes longer for that. */
static void slow_down(const struct ff_schedule *s, const struct ff_task *t, struct ff_pricer *p,
		double us, double *free_us, struct ff_simulation *sim)
{
	bool comm = t->move && !ff_move_is_own(s->graph, t->edge, t->move);
	const uint16_t *device;
	uint16_t own;
	uint32_t n = ff_task_devices(t, &device, &own);
	double beside = comm ? ff_price_beside(p, n, device, us) : 0;

	for (uint32_t i = 0; i < n && beside > 0; i++) {
		double *lane = &free_us[ff_lane(s->machine, FF_LANE_COMPUTE, device[i])];

		*lane += beside;
		sim->step_us = *lane > sim->step_us ? *lane : sim->step_us;
	}
}

int ff_simulate(const struct ff_schedule *s, struct ff_pricer *p, struct ff_arena *a,
		struct ff_simulation *ret, struct ff_error *err)
{
	uint32_t n_devices = s->machine->n_devices;
	double *free_us = ff_arena_array(a, ff_lane_count(s->machine), sizeof(double));
	struct ff_simulation sim = {
			.start = ff_arena_array(a, s->n_tasks, sizeof(double)),
			.finish = ff_arena_array(a, s->n_tasks, sizeof(double)),
			.compute_us = ff_arena_array(a, n_devices, sizeof(double)),
			.comm_us = ff_arena_array(a, n_devices, sizeof(double)),
	};

	struct ff_execution by;
	struct ff_parts parts;
	int code;

	if (!free_us || !sim.start || !sim.finish || !sim.compute_us || !sim.comm_us)
		return ff_fail_memory(err);
	if ((code = ff_execution_init(&by, s, p, a, err)) < 0 ||
			(code = ff_parts_init(&parts, s, p, a, err)) < 0)
		return code;
	if (s->optimizer != ff_price_optimizer(p))
		return ff_fail(err, FF_E_RUN, "the schedule is for optimizer %s, prices are for %s",
				s->optimizer->name, ff_price_optimizer(p)->name);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];
		double us, recomputed, hidden;

		if ((code = task_us(s, t, p, &parts, &us, err)) < 0)
			return code;
		if ((code = ff_execution_again_us(&by, t, &recomputed, err)) < 0)
			return code;
		if ((code = ff_execution_hidden_us(&by, t, us, &hidden, err)) < 0)
			return code;
		us += recomputed - hidden;
		sim.start[i] = fmax(
				start_us(s, t, sim.finish, free_us), ff_execution_issue(&by, t));
		sim.finish[i] = sim.start[i] + us;
		ff_execution_done(&by, t, us, sim.finish[i]);
		for (uint32_t l = 0; l < t->n_lanes; l++)
			free_us[s->lanes[t->first_lane + l]] = sim.finish[i];
		if (sim.finish[i] > sim.step_us)
			sim.step_us = sim.finish[i];
		slow_down(s, t, p, us, free_us, &sim);
		add_busy(t, us, &sim);
	}
	sim.inferred = ff_parts_inferred(&parts);
	*ret = sim;
	return FF_OK;
}

int ff_simulation_spans(const struct ff_schedule *s, const struct ff_simulation *sim,
		struct ff_arena *a, struct ff_span **spans, uint32_t *n, struct ff_error *err)
{
	const uint16_t *device;
	uint16_t own;
	uint32_t total = 0, at = 0;
	struct ff_span *all;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		total += ff_task_devices(&s->tasks[i], &device, &own);
	all = ff_arena_array(a, total, sizeof(*all));
	if (!all)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		uint32_t k = ff_task_devices(&s->tasks[i], &device, &own);

		for (uint32_t j = 0; j < k; j++)
			all[at++] = (struct ff_span){i, device[j], sim->start[i], sim->finish[i]};
	}
	*spans = all;
	*n = total;
	return FF_OK;
}

/* When a device is ready for a task: all of what the task needs that this device did, and what
 * went before on the device's own lane, is done. */
struct readiness {
	double *free_us;  /* by lane */
	double *ready_us; /* by device; of the task at hand */
};

/* How long the devices of a task of several wait until it starts, together. */
static double waited_us(const struct ff_schedule *s, const struct ff_simulation *sim, uint32_t task,
		struct readiness *r)
{
	const struct ff_task *t = &s->tasks[task];
	const uint16_t *device, *of_dep;
	uint16_t own, own_of_dep;
	uint32_t n = ff_task_devices(t, &device, &own);
	enum ff_lane_class lane = ff_move_lane(s->graph, t->edge, t->move);
	double us = 0;

	for (uint32_t i = 0; i < n; i++)
		r->ready_us[device[i]] = r->free_us[ff_lane(s->machine, lane, device[i])];
	for (uint32_t i = 0; i < t->n_deps; i++) {
		uint32_t dep = s->deps[t->first_dep + i];
		uint32_t k = ff_task_devices(&s->tasks[dep], &of_dep, &own_of_dep);

		for (uint32_t j = 0; j < k; j++)
			if (sim->finish[dep] > r->ready_us[of_dep[j]])
				r->ready_us[of_dep[j]] = sim->finish[dep];
	}
	for (uint32_t i = 0; i < n; i++)
		us += sim->start[task] - r->ready_us[device[i]];
	return us;
}

static int add_waits(const struct ff_schedule *s, const struct ff_simulation *sim,
		const struct ff_task_classes *c, struct ff_arena *a, struct ff_class_time *times,
		struct ff_error *err)
{
	struct readiness r = {
			.free_us = ff_arena_array(a, ff_lane_count(s->machine), sizeof(double)),
			.ready_us = ff_arena_array(a, s->machine->n_devices, sizeof(double)),
	};

	if (!r.free_us || !r.ready_us)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *t = &s->tasks[i];

		if (t->move)
			times[c->of[i]].waited_us += waited_us(s, sim, i, &r);
		for (uint32_t l = 0; l < t->n_lanes; l++)
			r.free_us[s->lanes[t->first_lane + l]] = sim->finish[i];
	}
	return FF_OK;
}

int ff_simulation_classes(const struct ff_schedule *s, const struct ff_simulation *sim,
		struct ff_arena *a, const struct ff_class_time **classes, uint32_t *n,
		struct ff_error *err)
{
	struct ff_class_time *times;
	struct ff_task_classes c;
	const uint16_t *device;
	uint16_t own;
	int code = ff_task_classes_of(s, a, &c, err);

	if (code < 0)
		return code;
	times = ff_arena_array(a, c.n, sizeof(*times));
	if (!times)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < c.n; i++)
		times[i].name = c.name[i];
	/* device by device, as they are added up where they were measured */
	for (uint32_t i = 0; i < s->n_tasks; i++)
		for (uint32_t k = ff_task_devices(&s->tasks[i], &device, &own); k-- > 0;)
			times[c.of[i]].us += sim->finish[i] - sim->start[i];
	if ((code = add_waits(s, sim, &c, a, times, err)) < 0)
		return code;
	*classes = times;
	*n = c.n;
	return FF_OK;
}
