/* Room for all tasks of a schedule.  SPDX-License-Identifier: Apache-2.0 */
#include "room.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tables.h"

#define LISTS 3 /* what grows besides, dependencies above all, is about twice as long */
#define GIB ((double)(1 << 30))

static void count_moves(
		const struct ff_redistribution *r, size_t *tasks, size_t *clocks, size_t *buffers)
{
	*tasks += r->n_moves;
	for (uint32_t i = 0; i < r->n_moves; i++) {
		*clocks += r->move[i].n_devices;
		*buffers += r->move[i].n_devices + r->move[i].n_sinks;
		*buffers += r->move[i].codec ? r->move[i].n_devices : 0;
	}
}

/* What a step makes at most. */
static void count_step(const struct ff_lowering *l, const struct ff_step *s, size_t *tasks,
		size_t *clocks, size_t *buffers)
{
	const struct ff_node *n;

	switch (s->kind) {
	case FF_STEP_COMPUTE:
		n = &l->g->nodes[s->id];
		*tasks += l->node[s->id]->n_parts;
		*clocks += l->node[s->id]->n_parts;
		*buffers += (size_t)l->node[s->id]->n_parts *
			    (s->phase == FF_PHASE_BACKWARD ? n->n_in : n->n_out);
		for (uint32_t k = n->n_data - n->n_carried; k < n->n_data; k++)
			count_moves(ff_moves_at(l, s->phase, n->in + k), tasks, clocks, buffers);
		break;
	case FF_STEP_MOVES:
		count_moves(ff_moves_at(l, s->phase, s->id), tasks, clocks, buffers);
		break;
	default: /* of buckets */
		break;
	}
}

/* What gathers the weights of a dropped bucket, in as many instances as they have, and the buffers
 * that they and their gradients lie in. */
static void count_dropped(const struct ff_lowering *l, uint32_t bucket, size_t *tasks,
		size_t *clocks, size_t *buffers)
{
	const struct ff_bucket_build *b = &l->buckets.bucket[bucket];
	size_t n = b->n_devices, members = 0;

	if (!b->dropped)
		return;
	for (uint32_t m = b->first; m != FF_NONE; m = l->buckets.member[m].next)
		members++;
	*tasks += l->r.n_instances;
	*clocks += l->r.n_instances * n;
	*buffers += l->r.n_instances * n * (1 + members) + n;
}

/* What this process may have: of the machine's memory, and by its limits. */
static double most_bytes(void)
{
	double pages = (double)sysconf(_SC_PHYS_PAGES),
	       most = pages * (double)sysconf(_SC_PAGESIZE);
	struct rlimit limit;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return most > 0 ? most : INFINITY;
	return most > 0 ? fmin(most, (double)limit.rlim_cur) : (double)limit.rlim_cur;
}

/* A sentence before all of it is taken: a system that lacks memory ends whom it likes. */
static int check_memory(const struct ff_lowering *l, size_t tasks, size_t clocks, size_t buffers,
		struct ff_error *err)
{
	size_t task = sizeof(*l->r.tasks) + sizeof(*l->clocks.first);
	size_t buffer = sizeof(*l->r.buffers) + sizeof(*l->life);
	size_t clock = sizeof(*l->clocks.done) + sizeof(*l->clocks.born);
	double bytes = LISTS * ((double)tasks * (double)task + (double)buffers * (double)buffer +
					       (double)clocks * (double)clock);

	if (bytes <= most_bytes())
		return FF_OK;
	return ff_fail(err, FF_E_NOMEM,
			"a step of the strategy has some %.1f million tasks, whose schedule takes "
			"about %.1f GiB of memory, and there are %.1f: expected fewer "
			"micro-batches or devices, or more memory",
			1e-6 * (double)tasks, bytes / GIB, most_bytes() / GIB);
}

int ff_room_reserve(struct ff_lowering *l, struct ff_error *err)
{
	size_t tasks = 0, clocks = 0, buffers = 0;
	int code;

	for (uint32_t i = 0; i < l->program.n; i++)
		count_step(l, &l->program.step[i], &tasks, &clocks, &buffers);
	for (uint32_t i = 0; i < l->g->n_nodes; i++)
		if (ff_node_is_parameter(l->g, i)) /* in their buckets, and their gradients */
			buffers += (l->r.staleness ? 3 : 2) * (size_t)l->node[i]->n_parts;
	for (uint32_t e = 0; e < l->g->n_edges && l->r.staleness; e++)
		if (ff_node_is_parameter(l->g, ff_edge_source(l->g, e))) {
			size_t parts = l->node[l->g->edges[e].node]->n_parts;

			tasks += parts;
			clocks += parts;
			buffers += 2 * parts; /* what waits, and what is due */
		}
	for (uint32_t i = 0; i < l->buckets.n_buckets && ff_lowering_clips(l); i++) {
		tasks += 1 + l->buckets.bucket[i].n_devices;
		clocks += l->m->n_devices + (size_t)l->buckets.bucket[i].n_devices;
	}
	for (uint32_t i = 0; i < l->buckets.n_buckets; i++) {
		uint32_t n = l->buckets.bucket[i].n_devices;

		tasks += 2 + (l->r.staleness ? 2 : 1) * (size_t)n;
		clocks += (l->r.staleness ? 4 : 3) * (size_t)n;
		count_dropped(l, i, &tasks, &clocks, &buffers);
	}
	if (tasks >= FF_NONE || clocks >= FF_NONE || buffers >= FF_NONE)
		return ff_fail(err, FF_E_INPUT, "the strategy makes too many tasks (%zu)", tasks);
	if ((code = check_memory(l, tasks, clocks, buffers, err)) < 0)
		return code;
	l->r.tasks = ff_arena_array(l->a, tasks, sizeof(*l->r.tasks));
	l->r.buffers = ff_arena_array(l->a, buffers, sizeof(*l->r.buffers));
	l->life = ff_arena_array(l->scratch, buffers, sizeof(*l->life));
	l->clocks.first = ff_arena_array(l->scratch, tasks, sizeof(*l->clocks.first));
	l->clocks.done = ff_arena_array(l->scratch, clocks, sizeof(*l->clocks.done));
	l->clocks.born = ff_arena_array(l->scratch, clocks, sizeof(*l->clocks.born));
	return l->r.tasks && l->r.buffers && l->life && l->clocks.first && l->clocks.done &&
					       l->clocks.born
			       ? FF_OK
			       : ff_fail_memory(err);
}
