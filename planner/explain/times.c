/* An account of every device's time in a step.  SPDX-License-Identifier: Apache-2.0 */
#include "times.h"

#include <string.h>

#include "ff/kernel_shape.h"

const char *ff_time_class_name(enum ff_time_class c)
{
	static const char *const names[FF_TIME_COUNT] = {
			[FF_TIME_PRODUCT] = "product",
			[FF_TIME_CONVOLUTION] = "convolution",
			[FF_TIME_ATTENTION] = "attention",
			[FF_TIME_RECURRENCE] = "recurrence",
			[FF_TIME_NORM] = "norm",
			[FF_TIME_MEMORY] = "memory-bound",
			[FF_TIME_AGAIN] = "recompute",
			[FF_TIME_UPDATE] = "update",
			[FF_TIME_COPIES] = "copies",
			[FF_TIME_EXPOSED] = "exposed communication",
			[FF_TIME_IDLE] = "idle",
	};

	return names[c];
}

enum ff_time_class ff_time_class_of(const struct ff_graph *g, uint32_t node)
{
	static const enum ff_time_class of[FF_KERNEL_CLASS_COUNT] = {
			[FF_KERNEL_STREAM] = FF_TIME_MEMORY,
			[FF_KERNEL_SOFTMAX] = FF_TIME_MEMORY,
			[FF_KERNEL_NORM] = FF_TIME_NORM,
			[FF_KERNEL_POOL] = FF_TIME_MEMORY,
			[FF_KERNEL_LOOKUP] = FF_TIME_MEMORY,
			[FF_KERNEL_PRODUCT] = FF_TIME_PRODUCT,
			[FF_KERNEL_CONVOLUTION] = FF_TIME_CONVOLUTION,
			[FF_KERNEL_ATTENTION] = FF_TIME_ATTENTION,
			[FF_KERNEL_RECURRENT] = FF_TIME_RECURRENCE,
	};
	struct ff_kernel_shape shape[FF_MOST_KERNELS];
	const struct ff_node *n = &g->nodes[node];
	enum ff_time_class class = FF_TIME_MEMORY;
	struct ff_region box = {.rank = n->n_dims};
	double most = -1;
	struct ff_work w;
	uint32_t k;

	for (uint32_t d = 0; d < n->n_dims; d++)
		box.hi[d] = n->dim[d].extent;
	ff_work_fill(g, node, &box, FF_FORWARD, &w);
	k = ff_work_kernels(&w, shape);
	for (uint32_t i = 0; i < k; i++) {
		/* a product computes, or else its bytes tell */
		double much = shape[i].m * shape[i].n * shape[i].k * shape[i].count;

		much = much > 0 ? much : shape[i].bytes / 1e3;
		if (much > most) {
			most = much;
			class = of[shape[i].class];
		}
	}
	return class;
}

/* What one device does of one kind, ascending: it computes, communicates, or copies. */
enum { COMPUTES, COMMUNICATES, COPIES, LANES };
struct lane {
	double *start, *finish;
	uint32_t n;
};

static double length(const struct lane *l)
{
	double us = 0, until = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		double from = l->start[i] > until ? l->start[i] : until;

		if (l->finish[i] > from) {
			us += l->finish[i] - from;
			until = l->finish[i];
		}
	}
	return us;
}

/* How long both are busy. */
static double common(const struct lane *a, const struct lane *b)
{
	double us = 0, until = 0;

	for (uint32_t i = 0, k = 0; i < a->n && k < b->n;) {
		double from = a->start[i] > b->start[k] ? a->start[i] : b->start[k];
		double to = a->finish[i] < b->finish[k] ? a->finish[i] : b->finish[k];

		from = from > until ? from : until;
		if (to > from) {
			us += to - from;
			until = to;
		}
		if (a->finish[i] < b->finish[k])
			i++;
		else
			k++;
	}
	return us;
}

#define MOST_SPANS (4u << 20) /* whose lanes are there at once */

/* Of so many devices lanes have no more spans than that, if they have about as many each. */
static uint32_t devices_at_once(const struct ff_schedule *s)
{
	uint64_t n_devices = s->machine->n_devices, n = 0;
	const uint16_t *device;
	uint16_t own;

	for (uint32_t i = 0; i < s->n_tasks; i++)
		n += ff_task_devices(&s->tasks[i], &device, &own);
	return n <= MOST_SPANS ? (uint32_t)n_devices : (uint32_t)(n_devices * MOST_SPANS / n) + 1;
}

/* All lanes of device `first`, then those of the next, of `n` devices. */
static int find_lanes(const struct ff_plan *p, uint32_t first, uint32_t n, struct ff_arena *a,
		struct lane **ret, struct ff_error *err)
{
	const struct ff_schedule *s = &p->schedule;
	struct lane *lane = ff_arena_array(a, LANES * (size_t)n, sizeof(*lane));
	const uint16_t *device;
	uint16_t own;

	if (!lane)
		return ff_fail_memory(err);
	for (int fill = 0; fill < 2; fill++) {
		for (uint32_t i = 0; i < LANES * n && fill; i++) {
			lane[i].start = ff_arena_array(a, lane[i].n, sizeof(double));
			lane[i].finish = ff_arena_array(a, lane[i].n, sizeof(double));
			if (!lane[i].start || !lane[i].finish)
				return ff_fail_memory(err);
			lane[i].n = 0;
		}
		for (uint32_t i = 0; i < s->n_tasks; i++) {
			uint32_t k = ff_task_devices(&s->tasks[i], &device, &own);
			uint32_t what = !s->tasks[i].move ? COMPUTES
					: k > 1           ? COMMUNICATES
							  : COPIES;

			for (uint32_t d = 0; d < k; d++) {
				struct lane *l;

				if (device[d] < first || device[d] - first >= n)
					continue;
				l = &lane[LANES * (device[d] - first) + what];
				if (fill) {
					l->start[l->n] = p->simulation.start[i];
					l->finish[l->n] = p->simulation.finish[i];
				}
				l->n++;
			}
		}
	}
	*ret = lane;
	return FF_OK;
}

static void add_work(const struct ff_plan *p, const enum ff_time_class *class, struct ff_times *t)
{
	const struct ff_schedule *s = &p->schedule;

	for (uint32_t i = 0; i < s->n_tasks; i++) {
		const struct ff_task *task = &s->tasks[i];
		double us = p->simulation.finish[i] - p->simulation.start[i];

		if (task->move)
			continue;
		if (!ff_task_computes_part(task)) {
			t->us[FF_TIME_UPDATE] += us;
			continue;
		}
		t->us[task->phase == FF_PHASE_RECOMPUTE ? FF_TIME_AGAIN : class[task->node]] += us;
		t->node_us[task->node] += us;
	}
}

static void add_lane(const struct ff_plan *p, const struct lane *l, struct ff_times *t)
{
	double comm = length(&l[COMMUNICATES]);
	double exposed = comm - common(&l[COMPUTES], &l[COMMUNICATES]);
	double copies = length(&l[COPIES]) - common(&l[COMPUTES], &l[COPIES]) -
			common(&l[COMMUNICATES], &l[COPIES]);

	t->communication_us += comm;
	t->us[FF_TIME_EXPOSED] += exposed;
	t->us[FF_TIME_COPIES] += copies;
	t->us[FF_TIME_IDLE] += p->simulation.step_us - length(&l[COMPUTES]) - exposed - copies;
}

/* Of `n` devices from `first` on. */
static int add_lanes(const struct ff_plan *p, uint32_t first, uint32_t n, struct ff_arena *a,
		struct ff_times *t, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(a);
	struct lane *lane;
	int code = find_lanes(p, first, n, a, &lane, err);

	for (uint32_t d = 0; d < n && code == FF_OK; d++)
		add_lane(p, &lane[(size_t)LANES * d], t);
	ff_arena_rewind(a, mark);
	return code;
}

int ff_times_find(const struct ff_plan *p, struct ff_arena *a, struct ff_times *ret,
		struct ff_error *err)
{
	const struct ff_schedule *s = &p->schedule;
	uint32_t n_devices = s->machine->n_devices;
	struct ff_times t = {.node_us = ff_arena_array(a, s->graph->n_nodes, sizeof(double))};
	enum ff_time_class *class = ff_arena_array(a, s->graph->n_nodes, sizeof(*class));
	uint32_t at_once = devices_at_once(s);
	int code = FF_OK;

	if (!t.node_us || !class)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < s->graph->n_nodes; i++)
		if (ff_node_is_computed(s->graph, i))
			class[i] = ff_time_class_of(s->graph, i);
	add_work(p, class, &t);
	for (uint32_t d = 0; d < n_devices && code == FF_OK; d += at_once)
		code = add_lanes(p, d, n_devices - d < at_once ? n_devices - d : at_once, a, &t,
				err);
	if (code < 0)
		return code;
	t.communication_us /= n_devices;
	for (uint32_t i = 0; i < s->graph->n_nodes; i++)
		t.node_us[i] /= n_devices;
	for (uint32_t i = 0; i < FF_TIME_COUNT; i++)
		t.us[i] /= n_devices;
	for (uint32_t i = 0; i < FF_TIME_EXPOSED; i++)
		t.compute_us += t.us[i];
	*ret = t;
	return FF_OK;
}
