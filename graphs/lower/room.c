/* Room for all tasks of a schedule.  SPDX-License-Identifier: Apache-2.0 */
#include "room.h"

#include <math.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tables.h"

#define LISTS 3 /* what grows besides, dependencies above all, is about twice as long */
#define GIB ((double)(1 << 30))

/* How many of each a step of training makes at most. */
struct count {
	size_t tasks, clocks, buffers;
};

/* Of these devices, those that are lowered. */
static size_t count_lowered(const struct ff_lowering *l, const uint16_t *device, uint32_t n_devices)
{
	size_t n = 0;

	for (uint32_t i = 0; i < n_devices && l->like; i++)
		n += ff_device_is_lowered(l, device[i]);
	return l->like ? n : n_devices;
}

static size_t count_parts(const struct ff_lowering *l, uint32_t node)
{
	return count_lowered(l, l->node[node]->device, l->node[node]->n_parts);
}

/* The shards that a move writes have buffers, and what it stages, or sends later. */
static size_t count_moved(const struct ff_lowering *l, const struct ff_move *mv,
		const struct ff_node_block *to)
{
	size_t devices = count_lowered(l, mv->device, mv->n_devices), sinks = 0;

	for (uint32_t i = 0; i < mv->n_sinks; i++)
		sinks += ff_device_is_lowered(l, to->device[mv->sink[i]]);
	return sinks + devices * (mv->codec ? 2 : 1);
}

static void count_moves(
		const struct ff_lowering *l, enum ff_pass pass, uint32_t edge, struct count *n)
{
	const struct ff_redistribution *r = ff_moves_at(l, pass, edge);
	uint32_t to = pass == FF_BACKWARD ? ff_edge_source(l->g, edge) : l->g->edges[edge].node;

	n->tasks += r->n_moves;
	for (uint32_t i = 0; i < r->n_moves; i++) {
		n->clocks += r->move[i].n_devices;
		n->buffers += count_moved(l, &r->move[i], l->node[to]);
	}
}

static void count_step(const struct ff_lowering *l, const struct ff_step *s, struct count *n)
{
	const struct ff_node *node;
	size_t parts;

	switch (s->kind) {
	case FF_STEP_COMPUTE:
		node = &l->g->nodes[s->id];
		parts = count_parts(l, s->id);
		n->tasks += parts;
		n->clocks += parts;
		n->buffers += parts *
			      (ff_phase_pass(s->phase) == FF_BACKWARD ? node->n_in : node->n_out);
		for (uint32_t k = node->n_data - node->n_carried; k < node->n_data; k++)
			count_moves(l, ff_phase_pass(s->phase), node->in + k, n);
		break;
	case FF_STEP_MOVES:
		count_moves(l, ff_phase_pass(s->phase), s->id, n);
		break;
	default: /* of buckets */
		break;
	}
}

/* Parameters and their gradients in their buckets, and what waits where they are late. */
static void count_parameters(const struct ff_lowering *l, struct count *n)
{
	const struct ff_graph *g = l->g;

	for (uint32_t i = 0; i < g->n_nodes; i++)
		if (ff_node_is_parameter(g, i))
			n->buffers += (l->r.travel.staleness ? 3 : 2) * count_parts(l, i);
	for (uint32_t e = 0; e < g->n_edges && l->r.travel.staleness; e++)
		if (ff_node_is_parameter(g, ff_edge_source(g, e))) {
			size_t parts = l->node[g->edges[e].node]->n_parts;

			n->tasks += parts;
			n->clocks += parts;
			n->buffers += 2 * parts; /* what waits, and what is due */
		}
}

/* What operators keep. */
static void count_kept(const struct ff_lowering *l, struct count *n)
{
	for (uint32_t v = 0; v < l->g->n_values; v++) {
		uint32_t node = l->g->values[v].producer;

		if (ff_value_is_kept(l->g, v))
			n->buffers += count_parts(l, node) *
				      (l->g->nodes[node].kept_apart ? l->r.n_instances : 1);
	}
}

/* What sums the gradients of a scattered bucket in all micro-batches but the last, what gathers the
 * weights of one that is dropped, too, in as many instances as they have, and the buffers that both
 * lie in. */
static void count_scattered(const struct ff_lowering *l, uint32_t bucket, struct count *n)
{
	const struct ff_bucket_build *b = &l->buckets.bucket[bucket];
	size_t devices = count_lowered(l, b->device, b->n_devices), members = 0;
	size_t micro = l->s->micro_batches;

	if (!b->way.scattered)
		return;
	for (uint32_t m = b->first; m != FF_NONE; m = l->buckets.member[m].next)
		members++;
	n->tasks += l->r.n_instances + micro - 1;
	n->clocks += (l->r.n_instances + micro - 1) * b->n_devices;
	n->buffers += (l->r.n_instances + micro) * devices * (1 + members);
}

static void count_bucket(const struct ff_lowering *l, uint32_t bucket, struct count *n)
{
	size_t devices = l->buckets.bucket[bucket].n_devices;

	/* gathered, summed in groups and among them */
	n->tasks += 3 + (l->r.travel.staleness ? 2 : 1) * devices;
	n->clocks += (l->r.travel.staleness ? 5 : 4) * devices;
	if (ff_lowering_clips(l)) {
		n->tasks += 1 + devices;
		n->clocks += l->m->n_devices + devices;
	}
	count_scattered(l, bucket, n);
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
static int check_memory(const struct ff_lowering *l, const struct count *n, struct ff_error *err)
{
	size_t task = sizeof(*l->r.tasks) + sizeof(*l->clocks.first);
	size_t buffer = sizeof(*l->r.buffers) + sizeof(*l->life);
	size_t clock = sizeof(*l->clocks.done) + sizeof(*l->clocks.born);
	double bytes = LISTS *
		       ((double)n->tasks * (double)task + (double)n->buffers * (double)buffer +
				       (double)n->clocks * (double)clock);

	if (bytes <= most_bytes())
		return FF_OK;
	return ff_fail(err, FF_E_NOMEM,
			"a step of the strategy has some %.1f million tasks, whose schedule takes "
			"about %.1f GiB of memory, and there are %.1f: expected fewer "
			"micro-batches or devices, or more memory",
			1e-6 * (double)n->tasks, bytes / GIB, most_bytes() / GIB);
}

int ff_room_reserve(struct ff_lowering *l, struct ff_error *err)
{
	struct count n = {0};
	int code;

	for (uint32_t i = 0; i < l->program.n; i++)
		count_step(l, &l->program.step[i], &n);
	count_parameters(l, &n);
	count_kept(l, &n);
	for (uint32_t i = 0; i < l->buckets.n_buckets; i++)
		count_bucket(l, i, &n);
	if (!ff_lowering_has_buffers(l))
		n.clocks = n.buffers = 0;
	if (n.tasks >= FF_NONE || n.clocks >= FF_NONE || n.buffers >= FF_NONE)
		return ff_fail(err, FF_E_INPUT, "the strategy makes too many tasks (%zu)", n.tasks);
	if ((code = check_memory(l, &n, err)) < 0)
		return code;
	l->r.tasks = ff_arena_array(l->a, n.tasks, sizeof(*l->r.tasks));
	l->r.buffers = ff_arena_array(l->a, n.buffers, sizeof(*l->r.buffers));
	l->life = ff_arena_array(l->scratch, n.buffers, sizeof(*l->life));
	l->clocks.first = ff_arena_array(l->scratch, n.tasks, sizeof(*l->clocks.first));
	l->clocks.done = ff_arena_array(l->scratch, n.clocks, sizeof(*l->clocks.done));
	l->clocks.born = ff_arena_array(l->scratch, n.clocks, sizeof(*l->clocks.born));
	return l->r.tasks && l->r.buffers && l->life && l->clocks.first && l->clocks.done &&
					       l->clocks.born
			       ? FF_OK
			       : ff_fail_memory(err);
}
