/* Tasks that compute: forward, again, backward.
 * SPDX-License-Identifier: Apache-2.0 */
#include "computes.h"

#include <string.h>

#include "arrivals.h"
#include "dropped.h"
#include "emit.h"
#include "ff/backward.h"
#include "ff/instance.h"
#include "ff/node_class.h"
#include "ff/program_phases.h"
#include "lower/memory/memory.h"

int ff_computes_init(struct ff_lowering *l, struct ff_error *err)
{
	uint32_t *class;
	int code;

	if (!l->opt || !l->opt->workspace)
		return FF_OK;
	l->computing.scratches.of = ff_arena_array(
			&l->lasting, l->g->n_nodes, sizeof(*l->computing.scratches.of));
	if (!l->computing.scratches.of)
		return ff_fail_memory(err);
	code = ff_classes_find(l->g, &l->lasting, &class, err);
	l->computing.scratches.class = class;
	return code;
}

/* Where the scratch of each part of `node` stands in `pass`, as it is cut now. */
static int64_t *scratches_of(struct ff_lowering *l, uint32_t node, enum ff_pass pass)
{
	const struct ff_config *c = &l->config[node];
	struct ff_scratch *s = &l->computing.scratches.of[l->computing.scratches.class[node]];

	if (s->replicas != c->replicas || memcmp(s->degree, c->degree, sizeof(s->degree)) != 0) {
		*s = (struct ff_scratch){.replicas = c->replicas};
		memcpy(s->degree, c->degree, sizeof(s->degree));
	}
	if (s->bytes[pass])
		return s->bytes[pass];
	s->bytes[pass] = ff_arena_array(&l->lasting, c->n_parts, sizeof(*s->bytes[pass]));
	l->failed |= !s->bytes[pass];
	for (uint32_t p = 0; s->bytes[pass] && p < c->n_parts; p++)
		s->bytes[pass][p] = -1;
	return s->bytes[pass];
}

int64_t ff_computes_scratch(struct ff_lowering *l, uint32_t node, enum ff_pass pass, uint32_t part)
{
	int64_t *bytes = l->computing.scratches.of ? scratches_of(l, node, pass) : NULL;
	struct ff_region box;
	struct ff_work w;

	if (bytes && bytes[part] < 0) {
		ff_config_box(&l->g->nodes[node], &l->config[node], part, &box);
		ff_work_fill(l->g, node, &box, pass, &w);
		bytes[part] = ff_align64(l->opt->workspace(l->opt->ctx, &w));
	}
	return bytes ? bytes[part] : 0;
}

static void count_workspace(struct ff_lowering *l, const struct ff_task *t)
{
	uint32_t device = t->device, node = t->node, part = t->part;
	const struct ff_node *n = &l->g->nodes[node];
	int64_t bytes = ff_computes_scratch(l, node, ff_task_pass(t), part);

	/* what is added to other gradients is written aside first */
	for (uint32_t i = n->n_data; i < n->n_in; i++)
		if (ff_task_adds(&l->r, t, i))
			bytes += ff_align64(
					ff_placement_gradient_bytes(&l->node[node]->in[i], part));
	if (bytes > l->r.workspace_bytes[device])
		l->r.workspace_bytes[device] = bytes;
}

static struct ff_task *compute_begin(struct ff_lowering *l, const struct ff_step *s, uint32_t part)
{
	struct ff_task *t = ff_emit_compute(l, s, FF_COMPUTE_PART, l->node[s->id]->device[part]);

	t->phase = s->phase;
	t->grads = ff_node_grads(&l->program, s->phase, s->id);
	t->node = s->id;
	t->part = part;
	if (ff_lowering_has_buffers(l))
		count_workspace(l, t);
	return t;
}

/* What a task reads at a slot: its producer's shard, or one that was moved. */
static void use_input(struct ff_lowering *l, const struct ff_task *t, uint32_t slot)
{
	uint32_t edge = l->g->nodes[t->node].in + slot, from = ff_edge_source(l->g, edge);
	uint32_t alias = l->edge[edge].forward.alias[t->part];
	uint32_t *in = (uint32_t *)ff_task_in(&l->r, t, slot), i;

	if (alias != FF_NONE) {
		i = ff_schedule_instance(&l->r, from, t->micro, t->phase != FF_PHASE_FORWARD);
		in[t->part] = ff_emit_list(l, l->r.out, l->g->edges[edge].value, i)[alias];
	}
	ff_buffer_use(l, in[t->part]);
}

/* What a task reads at `edge` where it was made must have been: what is moved arrives, and what a
 * parameter has was written in the step before. */
static void depend_on_value(struct ff_lowering *l, const struct ff_task *t, uint32_t edge)
{
	uint32_t alias = l->edge[edge].forward.alias[t->part], from = ff_edge_source(l->g, edge);
	uint32_t i = ff_schedule_instance(&l->r, from, t->micro, t->phase != FF_PHASE_FORWARD);

	if (alias == FF_NONE || ff_node_is_parameter(l->g, from))
		return;
	ff_emit_depend(l, ff_emit_task(l, i % 2 ? FF_PHASE_RECOMPUTE : FF_PHASE_FORWARD, i / 2,
					  from, alias));
}

static void depend_forward(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_node *n = &l->g->nodes[t->node];

	for (uint32_t e = n->in; e < n->in + n->n_in; e++)
		depend_on_value(l, t, e);
}

/* Buffers that forward of a part reads and writes. */
static void use_forward(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_node *n = &l->g->nodes[t->node];
	const struct ff_node_block *nb = l->node[t->node];
	uint32_t p = t->part;

	for (uint32_t i = 0; i < n->n_in; i++)
		use_input(l, t, i);
	for (uint32_t k = 0; k < n->n_out; k++) {
		int64_t bytes = ff_placement_bytes(&nb->out[k], p);
		uint32_t *out = (uint32_t *)ff_task_out(&l->r, t, k);

		if (k + n->n_kept < n->n_out)
			out[p] = ff_emit_shard(l, nb->device[p], bytes);
		ff_buffer_use(l, out[p]);
		if (ff_op_row(n->op)->flags & FF_OP_LOSS)
			ff_buffer_keep(l, out[p]);
	}
}

/* Of a prelude's part: the gradient of what the node behind it wrote. */
static uint32_t gradient_behind(struct ff_lowering *l, const struct ff_task *t)
{
	uint32_t value = l->g->nodes[ff_node_leader(l->g, t->node)].out;

	return ff_emit_list(l, l->r.dout, value, 2 * t->micro)[t->part];
}

/* Shards that take the gradient of input `edge`: the producer's own where it is
 * aliased, and is not added to another use's.  Those of parameters are in their buckets already. */
static void make_din(struct ff_lowering *l, const struct ff_task *t, uint32_t edge, uint32_t alias)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_node_block *nb = l->node[e->node];
	uint32_t i = ff_emit_gradient_of(l, edge, t->micro), p = t->part;
	bool pinned = ff_emit_from_parameter(l, edge);
	uint32_t *din = ff_emit_list(l, l->r.din, edge, i);
	uint32_t *dout = ff_emit_list(l, l->r.dout, e->value,
			pinned && l->r.travel.staleness ? ff_schedule_due(&l->r) : i);

	if (l->r.added[edge] != FF_NONE) {
		ff_buffer_use(l, ff_task_sum(&l->r, t, e->slot)[p]);
		alias = FF_NONE;
	}
	if (ff_edge_is_in_place(l->g, edge))
		din[p] = gradient_behind(l, t);
	else if (alias != FF_NONE && pinned)
		din[p] = dout[alias];
	else if (din[p] == FF_NONE || !pinned) /* else of an earlier micro-batch */
		din[p] = ff_emit_shard(
				l, nb->device[p], ff_placement_gradient_bytes(&nb->in[e->slot], p));
	if (alias != FF_NONE && !pinned)
		dout[alias] = din[p];
	if (pinned)
		ff_dropped_write(l, din[p]);
	ff_buffer_use(l, din[p]);
}

/* By part of the consumer: the producer's part whose gradient its own is. */
static uint32_t *invert(struct ff_lowering *l, uint32_t edge)
{
	const struct ff_edge *e = &l->g->edges[edge];
	const struct ff_redistribution *back = &l->edge[edge].backward;
	uint32_t n = l->node[e->node]->n_parts, from = ff_edge_source(l->g, edge);
	uint32_t *of = ff_arena_array(l->scratch, n, sizeof(*of));

	l->failed |= !of;
	if (!of || !back->alias)
		return NULL;
	memset(of, 0xff, n * sizeof(*of));
	for (uint32_t k = 0; k < l->node[from]->n_parts; k++)
		if (back->alias[k] != FF_NONE)
			of[back->alias[k]] = k;
	return of;
}

/* Buffers that backward of a part reads and writes. */
static void use_backward(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_node *n = &l->g->nodes[t->node];
	uint32_t flags = ff_op_row(n->op)->flags, p = t->part;

	for (uint32_t k = 0; k < n->n_out; k++) {
		bool saved = k + n->n_saved >= n->n_out;

		ff_buffer_use(l, ff_task_dout(&l->r, t, k)[p]);
		if (saved || (flags & FF_OP_BACKWARD_OUT))
			ff_buffer_use(l, ff_task_out(&l->r, t, k)[p]);
	}
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (ff_task_reads(&l->r, t, i) && (i >= n->n_data || (flags & FF_OP_BACKWARD_IN)))
			use_input(l, t, i);
		if (l->computing.alias[i])
			make_din(l, t, n->in + i, l->computing.alias[i][p]);
	}
}

/* What backward of a part waits for: the half before it or its own forward, what was made again for
 * it, the gradients of what it made. */
static void depend_backward(struct ff_lowering *l, const struct ff_task *t)
{
	const struct ff_node *n = &l->g->nodes[t->node];

	if (t->phase == FF_PHASE_WEIGHTS) {
		ff_emit_depend(l, ff_emit_task(l, FF_PHASE_BACKWARD, t->micro, t->node, t->part));
		return;
	}
	ff_emit_depend(l, ff_emit_task(l, FF_PHASE_FORWARD, t->micro, t->node, t->part));
	ff_emit_depend(l, ff_emit_task(l, FF_PHASE_RECOMPUTE, t->micro, t->node, t->part));
	for (uint32_t e = n->in; e < n->in + n->n_in; e++)
		if (l->r.recomputed[ff_edge_source(l->g, e)] && ff_edge_read_backward(l->g, e))
			depend_on_value(l, t, e);
	for (uint32_t k = 0; k < n->n_out; k++)
		ff_emit_depend_gradients(l, n->out + k, t->micro, t->part);
}

void ff_computes_part(struct ff_lowering *l, const struct ff_step *s, uint32_t part)
{
	uint32_t *place = l->place[ff_phase_pass(s->phase)][s->id];
	struct ff_task *t;

	if (!ff_device_is_lowered(l, l->node[s->id]->device[part]))
		return;
	t = compute_begin(l, s, part);
	if (place)
		place[part] = l->r.n_tasks - 1 - *ff_emit_computed(l, s->phase, s->micro, s->id);
	ff_depend_arrived(l, s->phase, s->micro, s->id, part);
	if (ff_task_pass(t) == FF_BACKWARD)
		depend_backward(l, t);
	else
		depend_forward(l, t);
	ff_emit_ready(l);
	if (!ff_lowering_has_buffers(l))
		return;
	if (ff_task_pass(t) == FF_BACKWARD)
		use_backward(l, t);
	else
		use_forward(l, t);
}

/* Whether what is computed makes the gradient that comes back over `edge`. */
static bool makes(const struct ff_lowering *l, const struct ff_step *s, uint32_t edge)
{
	return ff_phase_pass(s->phase) == FF_BACKWARD &&
	       ff_edge_made_in(l->g, &l->program, edge) == s->phase;
}

void ff_computes_begin(struct ff_lowering *l, const struct ff_step *s)
{
	const struct ff_node *n = &l->g->nodes[s->id];

	l->computing.mark = ff_arena_mark(l->scratch);
	for (uint32_t i = 0; i < n->n_in; i++)
		l->computing.alias[i] = makes(l, s, n->in + i) ? invert(l, n->in + i) : NULL;
	*ff_emit_computed(l, s->phase, s->micro, s->id) = l->r.n_tasks;
}

void ff_computes_end(struct ff_lowering *l)
{
	ff_arena_rewind(l->scratch, l->computing.mark);
}
