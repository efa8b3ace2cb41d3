/* What flows through a schedule: its tasks are carried out in their order, in memory
 * laid out as it says, on numbers that are known beforehand.  Every part must find
 * the elements it reads, every part of a producer the sum of the gradients of all
 * uses, every update its parameter's.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "check_main.h"
#include "ff/backward.h"
#include "ff/block.h"
#include "ff/bucket_layout.h"
#include "ff/instance.h"
#include "random_graph.h"
#include "shards.h"

/* ---- expectations ---- */

static void add_contributions(struct flow *f, uint32_t edge)
{
	const struct ff_graph *g = f->s.graph;
	uint32_t value = g->edges[edge].value;
	struct ff_region whole = whole_of(&g->values[value]);
	const struct ff_config *c = &f->s.config[g->edges[edge].node];

	for (uint32_t p = 0; p < ff_config_cells(c); p++) {
		struct ff_region r = in_region(f, edge, p);
		int32_t at[FF_MAX_DIMS];

		if (!ff_region_volume(&r))
			continue;
		memcpy(at, r.lo, sizeof(at));
		do {
			gradient(f, value)[ff_region_offset(ff_order_plain, &whole, at)] +=
					contribution(f, edge, p, at);
		} while (step(&r, at));
	}
}

static void expect_gradients(struct flow *f)
{
	const struct ff_graph *g = f->s.graph;

	uint32_t m = f->s.strategy->micro_batches;

	f->gradient = calloc((size_t)g->n_values * m, sizeof(*f->gradient));
	for (uint32_t v = 0; v < g->n_values; v++) {
		struct ff_region whole = whole_of(&g->values[v]);

		for (uint32_t k = 0; k < m; k++)
			f->gradient[(size_t)v * m + k] = calloc(
					(size_t)ff_region_volume(&whole) + 1, sizeof(double));
		for (f->micro = 0; f->micro < m; f->micro++)
			for (uint32_t u = 0; u < g->values[v].n_uses; u++)
				if (ff_edge_needs_grad(g, ff_value_use(g, &g->values[v], u)))
					add_contributions(f, ff_value_use(g, &g->values[v], u));
	}
}

static void check_element(const struct flow *f, uint32_t task, const char *what, uint32_t value,
		double got, double want)
{
	const struct ff_graph *g = f->s.graph;

	ck_assert_msg(got == want, "task %u: %s of %s is %g, expected %g", task, what,
			g->nodes[g->values[value].producer].name, got, want);
}

/* `list`: the value's shards, or their gradients, in the instance that is meant. */
static void check_gradient(const struct flow *f, uint32_t task, uint32_t value, uint32_t part,
		const uint32_t *list)
{
	struct ff_region r = out_region(f, value, part);
	struct ff_region whole = whole_of(&f->s.graph->values[value]);
	struct shard s;
	int32_t at[FF_MAX_DIMS];

	if (!ff_region_volume(&r))
		return;
	s = shard_at(f, list[part], value, true, &r);
	if (f->summed_at)
		s.at = f->summed_at + f->shard * FF_F32_BYTES;
	memcpy(at, r.lo, sizeof(at));
	do {
		int64_t k = f->shard + ff_region_offset(s.order, &r, at);

		if (f->run_end && (k < f->run || k >= f->run_end))
			continue;
		check_element(f, task, "the gradient", value, *find(&s, at),
				gradient(f, value)[ff_region_offset(ff_order_plain, &whole, at)]);
	} while (step(&r, at));
}

static void check_input(const struct flow *f, uint32_t task, uint32_t edge, uint32_t part)
{
	uint32_t value = f->s.graph->edges[edge].value;
	struct ff_region r = in_region(f, edge, part);
	struct shard s;
	int32_t at[FF_MAX_DIMS];

	if (!ff_region_volume(&r))
		return;
	s = shard_at(f, ff_task_in(&f->s, &f->s.tasks[task], f->s.graph->edges[edge].slot)[part],
			value, false, &r);
	memcpy(at, r.lo, sizeof(at));
	do {
		check_element(f, task, "the value", value, *find(&s, at), element(f, value, at));
	} while (step(&r, at));
}

/* Writes an output's part, or checks that it is still there. */
static void touch_output(struct flow *f, uint32_t task, uint32_t value, uint32_t part,
		const uint32_t *list, bool write)
{
	const struct ff_value *v = &f->s.graph->values[value];
	struct ff_region r = out_region(f, value, part);
	struct shard s;
	int32_t at[FF_MAX_DIMS];

	if (!ff_region_volume(&r))
		return;
	s = shard_at(f, list[part], value, false, &r);
	memcpy(at, r.lo, sizeof(at));
	do {
		struct partial p = partial_of(f, v->producer, output_of(f, value), part, at);
		double want = partial_element(f, value, p, at);

		if (write)
			*find(&s, at) = want;
		check_element(f, task, "the output", value, *find(&s, at), want);
	} while (step(&r, at));
}

/* ---- tasks ---- */

static void run_forward(struct flow *f, uint32_t task)
{
	const struct ff_task *t = &f->s.tasks[task];
	const struct ff_node *n = &f->s.graph->nodes[t->node];

	for (uint32_t e = n->in; e < n->in + n->n_in; e++)
		check_input(f, task, e, t->part);
	for (uint32_t k = 0; k + n->n_saved < n->n_out; k++)
		touch_output(f, task, n->out + k, t->part, ff_task_out(&f->s, t, k), true);
	f->recomputed += t->phase == FF_PHASE_RECOMPUTE;
}

static void write_din(struct flow *f, uint32_t task, uint32_t edge)
{
	const struct ff_graph *g = f->s.graph;
	const struct ff_task *t = &f->s.tasks[task];
	uint32_t value = f->s.graph->edges[edge].value, part = t->part;
	uint32_t slot = f->s.graph->edges[edge].slot;
	struct ff_region r = in_region(f, edge, part);
	const uint32_t *sum = ff_task_sum(&f->s, t, slot);
	struct shard s, to;
	int32_t at[FF_MAX_DIMS];

	if (!ff_edge_needs_grad(g, edge) || !ff_region_volume(&r))
		return;
	if (ff_edge_is_in_place(g, edge))
		check_gradient(f, task, g->nodes[ff_node_leader(g, t->node)].out, part,
				ff_task_din(&f->s, t, slot));
	s = shard_at(f, ff_task_din(&f->s, t, slot)[part], value, true, &r);
	memcpy(at, r.lo, sizeof(at));
	do {
		double add = contribution(f, edge, part, at);

		*find(&s, at) = ff_task_adds(&f->s, t, slot) ? *find(&s, at) + add : add;
	} while (step(&r, at));
	if (!sum)
		return;
	s = shard_at(f, ff_task_din(&f->s, t, slot)[part], value, true, &r);
	to = shard_at(f, sum[part], value, true, &r);
	memcpy(at, r.lo, sizeof(at));
	do {
		*find(&to, at) += *find(&s, at);
	} while (step(&r, at));
	f->summed++;
}

static void run_backward(struct flow *f, uint32_t task)
{
	const struct ff_task *t = &f->s.tasks[task];
	const struct ff_node *n = &f->s.graph->nodes[t->node];
	uint32_t flags = ff_op_row(n->op)->flags;

	for (uint32_t k = 0; k + n->n_saved < n->n_out; k++) {
		if (!ff_node_is_loss(f->s.graph, t->node))
			check_gradient(f, task, n->out + k, t->part, ff_task_dout(&f->s, t, k));
		if (flags & FF_OP_BACKWARD_OUT)
			touch_output(f, task, n->out + k, t->part, ff_task_out(&f->s, t, k), false);
	}
	for (uint32_t e = n->in; e < n->in + n->n_in; e++)
		if (ff_task_reads(&f->s, t, e - n->in) &&
				(e >= n->in + n->n_data || (flags & FF_OP_BACKWARD_IN)))
			check_input(f, task, e, t->part);
	for (uint32_t e = n->in; e < n->in + n->n_in; e++)
		if (ff_task_makes(&f->s, t, e - n->in))
			write_din(f, task, e);
}

/* The shards that a move takes from and brings to. */
static struct shard end_of(const struct flow *f, const struct ff_task *t, bool sink, uint32_t part)
{
	bool back = ff_task_pass(t) == FF_BACKWARD, reader = sink != back;
	uint32_t value = f->s.graph->edges[t->edge].value;
	struct ff_region r = reader ? in_region(f, t->edge, part) : out_region(f, value, part);
	const uint32_t *from, *to;

	ff_task_ends(&f->s, t, &from, &to);
	return shard_at(f, (sink ? to : from)[part], value, back, &r);
}

/* As ff_reduce, of the numbers of this test; what lies before is the first of a pair. */
static void reduce(enum ff_reduce op, const double *before, const double *from, double *first,
		double *to, bool second)
{
	/* of moments all but one are of no elements */
	if (op == FF_REDUCE_SUM || op == FF_REDUCE_MOMENTS) {
		*to += *from;
	} else if (op == FF_REDUCE_MAX) {
		*to = fmax(*from, *to);
	} else if (second && *first == -INFINITY) {
		*first = *before;
		*to = *from;
	} else if (second) {
		ck_assert_double_eq(*before, *first);
		*to += op == FF_REDUCE_TIES ? *from : 1 + *from;
	}
}

static void copy(const struct shard *from, const struct shard *to, const struct ff_region *r,
		bool add, enum ff_reduce op)
{
	int32_t at[FF_MAX_DIMS];

	if (!ff_region_volume(r))
		return;
	memcpy(at, r->lo, sizeof(at));
	do {
		const double *x = find(from, at);
		double *y = find(to, at);
		bool second = at[r->rank - 1] & 1;

		if (add)
			reduce(op, second ? x - from->size : x, x, second ? y - to->size : y, y,
					second);
		else
			*y = *x;
	} while (step(r, at));
}

static void clear(const struct shard *s, enum ff_reduce op)
{
	for (int64_t i = 0; i < ff_region_volume(&s->r); i++)
		s->at[i * s->size] = ff_reduce_identity(op, FF_F32) ? -INFINITY : 0;
}

static void run_messages(struct flow *f, const struct ff_task *t)
{
	const struct ff_move *mv = t->move;

	for (uint32_t i = 0; i < mv->n_sinks; i++) {
		struct shard to = end_of(f, t, true, mv->sink[i]);

		if (mv->fill[i])
			clear(&to, mv->reduce);
	}
	for (int add = 0; add < 2; add++)
		for (uint32_t i = 0; i < mv->n_pieces; i++) {
			const struct ff_piece *p = &mv->piece[i];
			struct shard from = end_of(f, t, false, p->source);
			struct shard to = end_of(f, t, true, p->sink);

			if (p->add == add)
				copy(&from, &to, &p->region, add, mv->reduce);
			f->groups_cut += p->add && mv->reduce == FF_REDUCE_MOMENTS &&
					 p->region.rank == 3;
		}
}

static void run_collective(struct flow *f, const struct ff_task *t)
{
	const struct ff_move *mv = t->move;
	size_t n = (size_t)ff_region_volume(&mv->region);
	struct shard all = {calloc(n, sizeof(double)), 1, ff_order_plain, mv->region};

	clear(&all, mv->reduce);
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		struct shard from = mv->joins ? end_of(f, t, true, mv->sink[i])
					      : end_of(f, t, false, mv->source[i]);

		copy(&from, &all, mv->joins ? &mv->piece[i].region : &from.r,
				mv->kind != FF_MOVE_ALL_GATHER, mv->reduce);
	}
	for (uint32_t i = 0; i < mv->n_devices; i++) {
		struct shard to = end_of(f, t, true, mv->sink[i]);

		copy(&all, &to, &to.r, mv->accumulate, mv->reduce);
	}
	free(all.at);
}

static void run_load(struct flow *f, const struct ff_task *t)
{
	struct shard to = end_of(f, t, true, t->move->sink[0]);
	int32_t at[FF_MAX_DIMS];

	memcpy(at, to.r.lo, sizeof(at));
	do {
		*find(&to, at) = element(f, f->s.graph->edges[t->edge].value, at);
	} while (step(&to.r, at));
}

static void run_move(struct flow *f, const struct ff_task *t)
{
	uint32_t value = f->s.graph->edges[t->edge].value;

	ck_assert_int_eq(t->move->type, type_of(f, value, ff_task_pass(t) == FF_BACKWARD));
	f->types[t->move->type]++;
	f->joined += t->move->joins;
	f->kinds[t->move->kind]++;
	f->brought_again += t->phase == FF_PHASE_RECOMPUTE &&
			    ff_node_is_parameter(f->s.graph, ff_edge_source(f->s.graph, t->edge));
	f->reductions[t->move->reduce] +=
			ff_move_is_messages(t->move->kind) || t->move->kind == FF_MOVE_ALL_REDUCE;
	if (t->move->kind == FF_MOVE_LOAD)
		run_load(f, t);
	else if (ff_move_is_messages(t->move->kind))
		run_messages(f, t);
	else
		run_collective(f, t);
}

static struct ff_bucket_layout layout_of(const struct flow *f, const struct ff_bucket *b)
{
	return ff_bucket_arrays(b, f->s.optimizer, f->s.graph->dtype);
}

/* The device that updates element `k` of a flat bucket, in the group of number `d`. */
static uint32_t owner(const struct flow *f, const struct ff_bucket *b, int64_t k, uint32_t d)
{
	return d / b->runs * b->runs + (uint32_t)(k * FF_F32_BYTES / layout_of(f, b).run);
}

/* Of a flat bucket devices know the weights of their runs, and get the others' (`gathered`) or have
 * them no more. */
static void visit_weights(struct flow *f, const struct ff_bucket *b, bool gathered)
{
	int64_t size = ff_dtype_bytes(f->s.graph->dtype), first = layout_of(f, b).readers;

	for (int64_t k = 0; k < b->bytes / FF_F32_BYTES; k++)
		for (uint32_t d = 0; d < b->n_devices; d++) {
			uint32_t from = owner(f, b, k, d);
			int64_t at = first + k * size;
			double is = f->memory[b->device[from]][b->offset[from] + at];

			if (d != from)
				f->memory[b->device[d]][b->offset[d] + at] = gathered ? is : 0.5;
		}
}

/* The weights of a dropped bucket come to where who reads them in this micro-batch, forward or
 * recomputed, looks for them. */
static void gather_dropped(struct flow *f, uint32_t task)
{
	const struct ff_task *t = &f->s.tasks[task];
	const struct ff_bucket *b = &f->s.buckets[t->bucket];

	for (uint32_t i = b->first_shard; i < b->first_shard + b->n_shards; i++) {
		uint32_t node = f->s.shards[i].node, value = f->s.graph->nodes[node].out;
		const struct ff_config *c = &f->s.config[node];
		const uint32_t *out = f->s.out[(size_t)value * f->s.n_instances +
					       ff_schedule_instance(&f->s, node, t->micro,
							       t->phase == FF_PHASE_RECOMPUTE)];

		for (uint32_t k = 0; k < b->n_devices; k++) {
			uint32_t p = ff_shard_part(f->s.shards[i].cell, ff_config_cells(c),
					b->replica, b->n_devices, k);
			uint32_t all = f->s.buffers[out[p]].within;

			ck_assert_uint_ge(all, t->stage);
			ck_assert_uint_lt(all, t->stage + b->n_devices);
			touch_output(f, task, value, p, out, true);
		}
	}
	f->dropped++;
}

/* What devices have of element `k` in a run: where that is. */
static double *run_of(const struct flow *f, const struct ff_bucket *b, uint32_t d, int64_t k)
{
	struct ff_bucket_layout l = layout_of(f, b);

	return f->memory[b->device[d]] + b->offset[d] + l.gradients - d % b->runs * l.run +
	       k * FF_F32_BYTES;
}

/* Every device's gradients of a scattered bucket are summed where they are applied, in each group,
 * and added to what was there before.  They are gone then. */
static void sum_scattered(struct flow *f, const struct ff_bucket *b, uint32_t micro)
{
	const uint32_t *gradients = ff_bucket_gradients(b, micro);

	for (int64_t k = 0; k < b->bytes / FF_F32_BYTES; k++)
		for (uint32_t d = 0; d < b->n_devices; d++) {
			const struct ff_buffer *all = &f->s.buffers[gradients[d]];
			double *at = f->memory[all->device] + all->offset + k * FF_F32_BYTES;
			double *run = run_of(f, b, owner(f, b, k, d), k);

			ck_assert_uint_eq(all->device, b->device[d]);
			if (d % b->runs == 0 && !micro)
				*run = 0;
			*run += *at;
			*at = 0.5;
		}
}

/* Element `k` of the gradients that the device of number `d` has of a bucket. */
static double *summed_of(const struct flow *f, const struct ff_bucket *b, uint32_t d, int64_t k)
{
	return b->scattered ? run_of(f, b, d, k)
			    : f->memory[b->device[d]] + b->offset[d] + layout_of(f, b).gradients +
					       k * FF_F32_BYTES;
}

/* What each group has summed, where it is applied, becomes the sum of all. */
static void sum_across(struct flow *f, const struct ff_bucket *b)
{
	for (int64_t k = 0; k < b->bytes / FF_F32_BYTES; k++) {
		double sum = 0;

		for (uint32_t d = 0; d < b->n_devices; d += b->runs)
			sum += *summed_of(f, b, owner(f, b, k, d), k);
		for (uint32_t d = 0; d < b->n_devices; d += b->runs)
			*summed_of(f, b, owner(f, b, k, d), k) = sum;
	}
}

/* The gradients of devices `first` to `end` become their sum; of a flat bucket where they are
 * applied. */
static void sum_group(struct flow *f, const struct ff_bucket *b, uint32_t first, uint32_t end)
{
	for (int64_t k = 0; k < b->bytes / FF_F32_BYTES; k++) {
		double sum = 0;

		for (uint32_t d = first; d < end; d++)
			sum += *summed_of(f, b, d, k);
		for (uint32_t d = first; d < end; d++)
			*summed_of(f, b, d, k) = b->flat && d != owner(f, b, k, d) ? 0.5 : sum;
	}
}

/* A task of a bucket: weights are gathered, or gradients summed, in groups or among them. */
static void run_sync(struct flow *f, uint32_t task)
{
	const struct ff_task *t = &f->s.tasks[task];
	const struct ff_bucket *b = &f->s.buckets[t->bucket];
	uint32_t each = b->flat ? b->runs : b->n_devices;

	if (b->dropped && ff_task_pass(t) == FF_FORWARD) {
		gather_dropped(f, task);
		return;
	}
	if (t->move->among.across) {
		sum_across(f, b);
		f->across++;
		return;
	}
	if (b->scattered && ff_task_pass(t) == FF_BACKWARD) {
		sum_scattered(f, b, t->micro);
		f->scattered += !b->dropped;
		f->summed_before += t->micro > 0;
		return;
	}
	if (ff_task_pass(t) == FF_FORWARD) {
		ck_assert(b->flat);
		visit_weights(f, b, true);
		f->gathers++;
		return;
	}
	for (uint32_t d = 0; d < b->n_devices; d += each)
		sum_group(f, b, d, d + each);
	f->syncs++;
}

/* What a device updates of a bucket; of one that is not flat it is not said. */
static void set_run(struct flow *f, const struct ff_bucket *b, uint32_t device)
{
	int64_t run = layout_of(f, b).run / FF_F32_BYTES;
	uint32_t d = 0;

	f->run = f->run_end = 0;
	while (b->flat && b->device[d] != device)
		d++;
	if (b->flat) {
		f->run = d % b->runs * run;
		f->run_end = f->run + run;
	}
	if (b->scattered)
		f->summed_at = f->memory[device] + b->offset[d] + layout_of(f, b).gradients -
			       f->run * FF_F32_BYTES;
}

/* Parts of parameters in a bucket: on one device, or (FF_NONE) on all. */
static void visit_bucket(struct flow *f, uint32_t task, uint32_t bucket, uint32_t device)
{
	const struct ff_bucket *b = &f->s.buckets[bucket];

	if (device != FF_NONE)
		set_run(f, b, device);
	for (uint32_t i = b->first_shard; i < b->first_shard + b->n_shards; i++) {
		uint32_t node = f->s.shards[i].node;
		const struct ff_config *c = &f->s.config[node];
		const struct ff_node *n = &f->s.graph->nodes[node];
		const uint32_t *out = f->s.out[(size_t)n->out * f->s.n_instances];
		const uint32_t *dout = f->s.dout[(size_t)n->out * f->s.n_instances];

		f->shard = f->s.shards[i].offset / FF_F32_BYTES;
		for (uint32_t k = 0; k < b->n_devices; k++) {
			uint32_t p = ff_shard_part(f->s.shards[i].cell, ff_config_cells(c),
					b->replica, b->n_devices, k);

			if (device == FF_NONE) {
				touch_output(f, task, n->out, p, out, true);
			} else if (ff_config_device(n, c, p) == device) {
				if (!b->dropped)
					touch_output(f, task, n->out, p, out, false);
				check_gradient(f, task, n->out, p, dout);
			}
		}
	}
	f->run_end = f->shard = 0;
	f->summed_at = NULL;
}

static void run(struct flow *f)
{
	/* the weights that the step before has left */
	for (uint32_t i = 0; i < f->s.n_buckets; i++)
		if (!f->s.buckets[i].dropped)
			visit_bucket(f, 0, i, FF_NONE);
	for (uint32_t i = 0; i < f->s.n_buckets; i++)
		if (f->s.buckets[i].flat && !f->s.buckets[i].dropped)
			visit_weights(f, &f->s.buckets[i], false);
	for (uint32_t i = 0; i < f->s.n_tasks; i++) {
		const struct ff_task *t = &f->s.tasks[i];

		f->micro = t->micro;
		if (ff_task_computes_in(t, FF_FORWARD))
			run_forward(f, i);
		else if (ff_task_computes_in(t, FF_BACKWARD))
			run_backward(f, i);
		else if (ff_task_moves_edge(t))
			run_move(f, t);
		else if (t->move)
			run_sync(f, i);
		else
			visit_bucket(f, i, t->bucket, t->device);
	}
}

static void check_case(struct ff_random *r, struct flow *f, bool tied)
{
	struct ff_lower_options opt = {.bucket_bytes = 1 + ff_random_below(r, 3000)};
	struct ff_error err = {0};
	struct ff_machine m;
	struct ff_strategy s;
	struct ff_graph g;
	struct ff_arena a;

	ff_arena_init(&a);
	if (tied)
		draw_tied_graph(r, &a, &g);
	else
		draw_graph(r, &a, &g);
	ck_assert_int_eq(random_machine(r, PLACED_DEVICES, &a, &m, &err), FF_OK);
	draw_placed(r, &g, &a, &s);
	if (s.micro_batches == 1)
		random_types(r, &g);
	ck_assert_msg(ff_lower(&g, &m, &s, &opt, &a, &f->s, &err) == FF_OK, "%s", err.text);
	expect_gradients(f);
	/* whatever lies in memory before is not what anyone expects */
	for (uint32_t d = 0; d < PLACED_DEVICES; d++) {
		size_t n = (size_t)f->s.memory_bytes[d];

		f->memory[d] = malloc((n + 1) * sizeof(double));
		for (size_t i = 0; i < n; i++)
			f->memory[d][i] = 0.5 + (double)i;
	}
	run(f);
	for (uint32_t d = 0; d < PLACED_DEVICES; d++)
		free(f->memory[d]);
	f->micro_batches += s.micro_batches > 1;
	for (uint32_t i = 0; i < g.n_nodes; i++)
		f->groups_apart += g.nodes[i].kept_apart && s.micro_batches > 1;
	for (uint32_t v = 0; v < g.n_values * s.micro_batches; v++)
		free(f->gradient[v]);
	free(f->gradient);
	ff_arena_finish(&a);
}

START_TEST(everything_arrives)
{
	struct ff_random r = {.seed = ff_test_seed(12)};
	struct flow f = {0};

	for (int i = 0; i < 300 || (i < 3000 && !f.groups_cut); i++) /* the rarest */
		check_case(&r, &f, i & 1);
	for (int k = FF_MOVE_LOAD; k <= FF_MOVE_ALL_REDUCE; k++)
		ck_assert_msg(f.kinds[k], "no case has a %s", ff_move_name((enum ff_move_kind)k));
	for (int k = 0; k < 3; k++)
		ck_assert_msg(f.reductions[k], "no case has a %s",
				ff_reduce_name((enum ff_reduce)k));
	for (int k = 0; k < FF_DTYPE_COUNT; k++)
		ck_assert_msg(f.types[k], "no case moves %s", ff_dtype_name((enum ff_dtype)k));
	printf("# %u joined\n", f.joined);
	ck_assert_uint_gt(f.syncs, 0);
	ck_assert_uint_gt(f.gathers, 0);
	ck_assert_uint_gt(f.dropped, 0);
	ck_assert_uint_gt(f.scattered, 0);
	ck_assert_uint_gt(f.across, 0);
	ck_assert_uint_gt(f.summed_before, 0);
	ck_assert_uint_gt(f.micro_batches, 0);
	ck_assert_uint_gt(f.recomputed, 0);
	ck_assert_uint_gt(f.brought_again, 0);
	ck_assert_uint_gt(f.groups_apart, 0);
	ck_assert_uint_gt(f.groups_cut, 0);
	ck_assert_uint_gt(f.summed, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("flow");
	TCase *c = tcase_create("flow");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, everything_arrives);
	suite_add_tcase(s, c);
	return s;
}

int main(void)
{
	return ff_check_main(suite());
}
