/* Finds slots: where a program goes through operators of one stage for one micro-batch, with
 * nothing between that is done once a step.  Which times may go in and out of one is asked of the
 * program, whatever blocks there are.  SPDX-License-Identifier: Apache-2.0 */
#include "pipe_slot_list.h"

#include <stdlib.h>

#include "early.h"
#include "ff/grow.h"
#include "ff/program_phases.h"

#define LEAST_MICRO 3    /* batches: of fewer none comes again */
#define LEAST_COMPUTES 8 /* fewer are timed as soon as compared */

/* While slots are found. */
struct finding {
	struct ff_trial *e;
	const struct ff_strategy *s;
	uint32_t *slot_of; /* by step; FF_NONE: none */
	uint32_t mark;     /* the next one's number */
	struct ff_table kinds;
	struct ff_error *err;
	int code;
};

static uint32_t stage_of(const struct finding *f, uint32_t node)
{
	return ff_strategy_stage(f->e->g, f->s, node);
}

/* ---- where they are ---- */

/* Whether step `i` may be in a slot, and of which stage. */
static bool is_inside(const struct finding *f, uint32_t i, uint32_t *stage)
{
	const struct ff_step *s = &f->e->order.program.step[i];
	const struct ff_edge_ends *x = &f->e->ends[s->id];

	if (s->limited)
		return false;
	if (s->kind == FF_STEP_COMPUTE) {
		*stage = stage_of(f, s->id);
		return true;
	}
	if (s->kind != FF_STEP_MOVES || !x->computed)
		return false;
	*stage = stage_of(f, x->to);
	return stage_of(f, x->from) == *stage;
}

/* The first mark behind step `i`: the pass looks at it, so no slot goes beyond. */
static uint32_t next_mark(struct finding *f, uint32_t i)
{
	while (ff_early_mark_step(f->e, f->mark) <= i)
		f->mark++;
	return ff_early_mark_step(f->e, f->mark);
}

/* The step behind those that go on with step `i`. */
static uint32_t end_of(struct finding *f, uint32_t i)
{
	const struct ff_program *p = &f->e->order.program;
	uint32_t micro = p->step[i].micro, mark = next_mark(f, i), stage, other;

	if (!is_inside(f, i, &stage))
		return i + 1;
	for (i++; i < p->n && i < mark && p->step[i].micro == micro; i++)
		if (!is_inside(f, i, &other) || other != stage)
			break;
	return i;
}

static bool is_first_or_last(const struct ff_program *p, uint32_t micro, bool *last)
{
	*last = micro + 1 == p->micro_batches;
	return *last || micro == 0;
}

static uint64_t hash_of(const struct ff_program *p, uint32_t first, uint32_t end)
{
	bool last, apart = is_first_or_last(p, p->step[first].micro, &last);
	uint64_t hash = apart ? 1 + last : 0;

	for (uint32_t i = first; i < end; i++)
		hash = ff_hash_mix(hash, (uint64_t)p->step[i].id << 32 |
							 (uint32_t)p->step[i].phase << 1 |
							 (p->step[i].kind == FF_STEP_MOVES));
	return hash;
}

/* Whether the slot that begins with step `first` does what one of kind `k` does. */
static bool is_of_kind(const struct ff_program *p, const struct ff_pipe_slot_kind *k,
		uint32_t first, uint32_t end)
{
	const struct ff_step *a = p->step + k->first, *b = p->step + first;
	bool last[2];
	bool same = k->n == end - first &&
		    is_first_or_last(p, a->micro, &last[0]) ==
				    is_first_or_last(p, b->micro, &last[1]) &&
		    last[0] == last[1];

	for (uint32_t i = 0; i < k->n && same; i++)
		same = a[i].kind == b[i].kind && a[i].phase == b[i].phase && a[i].id == b[i].id;
	return same;
}

static uint32_t new_kind(struct finding *f, uint32_t first, uint32_t end, uint64_t hash)
{
	struct ff_order *o = &f->e->order;
	struct ff_pipe_slots *x = &o->slots;
	struct ff_pipe_slot_kind *kind =
			ff_grow_in(&o->arena, x->kind, x->n_kinds, &x->cap_kinds, sizeof(*kind));

	if (!kind || ff_table_put(&f->kinds, hash, x->n_kinds) < 0) {
		f->code = ff_fail_memory(f->err);
		return FF_NONE;
	}
	x->kind = kind;
	kind[x->n_kinds] = (struct ff_pipe_slot_kind){.first = first, .n = end - first};
	return x->n_kinds++;
}

static uint32_t kind_of(struct finding *f, uint32_t first, uint32_t end)
{
	const struct ff_program *p = &f->e->order.program;
	const struct ff_pipe_slots *x = &f->e->order.slots;
	uint64_t hash = hash_of(p, first, end);
	uint32_t at, i;

	for (i = ff_table_first(&f->kinds, hash, &at); i != FF_NONE;
			i = ff_table_next(&f->kinds, hash, &at))
		if (is_of_kind(p, &x->kind[i], first, end))
			return i;
	return new_kind(f, first, end, hash);
}

/* One from step `i` to `end`, behind the first operator: that waits for what other stages send, and
 * all others mostly for it. */
static void add_slot(struct finding *f, uint32_t i, uint32_t end)
{
	struct ff_order *o = &f->e->order;
	struct ff_pipe_slots *x = &o->slots;
	struct ff_pipe_slot *slot;
	uint32_t computes = 0, kind;

	while (i < end && o->program.step[i].kind != FF_STEP_COMPUTE)
		i++;
	i++;
	for (uint32_t k = i; k < end; k++)
		computes += o->program.step[k].kind == FF_STEP_COMPUTE;
	if (computes < LEAST_COMPUTES)
		return;
	kind = kind_of(f, i, end);
	slot = ff_grow_in(&o->arena, x->slot, x->n, &x->cap, sizeof(*slot));
	if (!slot)
		f->code = ff_fail_memory(f->err);
	if (f->code < 0)
		return;
	for (uint32_t k = i; k < end; k++)
		f->slot_of[k] = x->n;
	x->slot = slot;
	slot[x->n++] = (struct ff_pipe_slot){i, end, kind};
}

static void find_slots(struct finding *f)
{
	const struct ff_program *p = &f->e->order.program;
	uint32_t end;

	for (uint32_t i = 0; i < p->n; i++)
		f->slot_of[i] = FF_NONE;
	for (uint32_t i = 0; i < p->n && f->code == FF_OK; i = end) {
		end = end_of(f, i);
		add_slot(f, i, end);
	}
}

/* ---- what goes in and out ---- */

static struct ff_pipe_slot_kind *kind_with(const struct finding *f, uint32_t step)
{
	const struct ff_pipe_slots *x = &f->e->order.slots;
	uint32_t slot = step == FF_NONE ? FF_NONE : f->slot_of[step];

	return slot == FF_NONE ? NULL : &x->kind[x->slot[slot].kind];
}

static bool is_listed(const struct ff_pipe_slot_nodes *l, struct ff_pipe_slot_node v)
{
	bool listed = false;

	for (uint32_t i = l->n; i-- > 0 && !listed;)
		listed = l->at[i].node == v.node && l->at[i].phase == v.phase;
	return listed;
}

static void put(struct finding *f, struct ff_pipe_slot_nodes *l, struct ff_pipe_slot_node v)
{
	struct ff_pipe_slot_node *at =
			ff_grow_in(&f->e->order.arena, l->at, l->n, &l->cap, sizeof(*at));

	if (!at) {
		f->code = ff_fail_memory(f->err);
		return;
	}
	l->at = at;
	at[l->n++] = v;
}

static void list(
		struct finding *f, struct ff_pipe_slot_nodes *l, enum ff_phase phase, uint32_t node)
{
	struct ff_pipe_slot_node v = {phase, node};

	if (!is_listed(l, v))
		put(f, l, v);
}

/* Step `i` may send something to what `phase` computes of `node`. */
static void look_at_sent(struct finding *f, uint32_t i, enum ff_phase phase, uint32_t node)
{
	const struct ff_program *p = &f->e->order.program;
	uint32_t read = ff_node_is_computed(f->e->g, node)
					? ff_program_compute(p, phase, p->step[i].micro, node)
					: FF_NONE;

	if (read == FF_NONE || (f->slot_of[read] != FF_NONE && f->slot_of[read] == f->slot_of[i]))
		return;
	if (kind_with(f, read))
		list(f, &kind_with(f, read)->awaits, phase, node);
	if (kind_with(f, i))
		list(f, &kind_with(f, i)->sends, phase, node);
}

static void add_reader(struct finding *f, struct ff_pipe_slot_kind *k, uint32_t step,
		struct ff_pipe_slot_node v)
{
	uint32_t *reader = ff_grow_in(
			&f->e->order.arena, k->reader, k->reads.n, &k->cap_reader, sizeof(*reader));

	for (uint32_t i = 0; i < k->reads.n && reader; i++)
		if (k->reads.at[i].node == v.node && k->reads.at[i].phase == v.phase &&
				reader[i] == step)
			return;
	if (!reader) {
		f->code = ff_fail_memory(f->err);
		return;
	}
	k->reader = reader;
	reader[k->reads.n] = step;
	put(f, &k->reads, v);
}

/* Step `i` may ask when `phase` has computed `node`. */
static void look_at_read(struct finding *f, uint32_t i, enum ff_phase phase, uint32_t node)
{
	const struct ff_program *p = &f->e->order.program;
	uint32_t wrote = ff_program_compute(p, phase, p->step[i].micro, node);
	struct ff_pipe_slot_kind *from = kind_with(f, wrote), *to = kind_with(f, i);

	if (wrote == FF_NONE ||
			(f->slot_of[wrote] != FF_NONE && f->slot_of[wrote] == f->slot_of[i]))
		return;
	if (from)
		list(f, &from->results, phase, node);
	if (to)
		add_reader(f, to, i - f->e->order.slots.slot[f->slot_of[i]].first,
				(struct ff_pipe_slot_node){phase, node});
}

/* Whoever reads the value forward, or again. */
static void look_at_forward(struct finding *f, uint32_t i)
{
	const struct ff_trial *e = f->e;
	const struct ff_program *p = &e->order.program;
	const struct ff_step *s = &p->step[i];
	const struct ff_edge_ends *x = &e->ends[s->id];
	const struct ff_value *v = &e->g->values[x->value];

	if (x->computed)
		look_at_read(f, i, s->phase, x->from);
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = e->g->uses[v->first_use + u], to = e->ends[edge].to;

		if (s->phase == FF_PHASE_RECOMPUTE)
			to = ff_edge_reader(e->g, p, edge);
		look_at_sent(f, i,
				s->phase == FF_PHASE_RECOMPUTE ? ff_node_reads_in(p, to)
							       : FF_PHASE_FORWARD,
				to);
	}
}

static void look_at_backward(struct finding *f, uint32_t i)
{
	const struct ff_trial *e = f->e;
	const struct ff_step *s = &e->order.program.step[i];
	const struct ff_edge_ends *x = &e->ends[s->id];

	look_at_read(f, i, s->phase, x->to);
	if (!x->computed)
		return;
	look_at_read(f, i, FF_PHASE_BACKWARD, e->ends[e->order.first_edge[x->value]].to);
	look_at_sent(f, i, FF_PHASE_BACKWARD, x->from);
	if (x->prelude != FF_NONE)
		look_at_sent(f, i, FF_PHASE_BACKWARD, x->prelude);
}

/* Of parameters: buckets are gathered before the first micro-batch, and synchronised in the last,
 * by what has made their gradients. */
static void look_at_params(struct finding *f, uint32_t i)
{
	const struct ff_trial *e = f->e;
	const struct ff_step *s = &e->order.program.step[i];
	const struct ff_node *n = &e->g->nodes[s->id];
	struct ff_pipe_slot_kind *k = kind_with(f, i);

	if (!k || n->n_in == n->n_data)
		return;
	if (s->phase == FF_PHASE_FORWARD && s->micro == 0)
		list(f, &k->awaits, s->phase, s->id);
	if (ff_phase_pass(s->phase) == FF_BACKWARD &&
			s->micro + 1 == e->order.program.micro_batches)
		list(f, &k->results, s->phase, s->id);
}

static void look_at_steps(struct finding *f)
{
	const struct ff_program *p = &f->e->order.program;

	for (uint32_t i = 0; i < p->n && f->code == FF_OK; i++)
		if (p->step[i].kind == FF_STEP_COMPUTE)
			look_at_params(f, i);
		else if (p->step[i].kind != FF_STEP_MOVES)
			continue;
		else if (ff_phase_pass(p->step[i].phase) == FF_FORWARD)
			look_at_forward(f, i);
		else
			look_at_backward(f, i);
}

/* ---- which have to do with a node ---- */

/* Calls `put` of the nodes of each kind's steps; a node may come several times. */
static void each_node(
		struct finding *f, void (*each)(struct ff_pipe_slots *x, uint32_t node, uint32_t))
{
	struct ff_pipe_slots *x = &f->e->order.slots;

	for (uint32_t k = 0; k < x->n_kinds; k++)
		for (uint32_t i = x->kind[k].first; i < x->kind[k].first + x->kind[k].n; i++) {
			const struct ff_step *s = &f->e->order.program.step[i];

			if (s->kind == FF_STEP_COMPUTE) {
				each(x, s->id, k);
				continue;
			}
			each(x, f->e->ends[s->id].from, k);
			each(x, f->e->ends[s->id].to, k);
		}
}

static void count_node(struct ff_pipe_slots *x, uint32_t node, uint32_t kind)
{
	(void)kind;
	x->begins[node + 1]++;
}

static void put_node(struct ff_pipe_slots *x, uint32_t node, uint32_t kind)
{
	x->kinds[x->begins[node]++] = kind;
}

static void list_by_node(struct finding *f)
{
	struct ff_order *o = &f->e->order;
	struct ff_pipe_slots *x = &o->slots;
	uint32_t n = f->e->g->n_nodes;

	x->begins = ff_arena_array(&o->arena, (size_t)n + 1, sizeof(*x->begins));
	if (!x->begins) {
		f->code = ff_fail_memory(f->err);
		return;
	}
	each_node(f, count_node);
	for (uint32_t i = 0; i < n; i++)
		x->begins[i + 1] += x->begins[i];
	x->kinds = ff_arena_array(&o->arena, x->begins[n], sizeof(*x->kinds));
	if (!x->kinds) {
		f->code = ff_fail_memory(f->err);
		return;
	}
	each_node(f, put_node);
	for (uint32_t i = n; i > 0; i--)
		x->begins[i] = x->begins[i - 1];
	x->begins[0] = 0;
}

int ff_pipe_slots_find(struct ff_trial *e, const struct ff_strategy *s, struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	struct finding f = {.e = e, .s = s, .kinds.arena = &e->scratch, .err = err, .code = FF_OK};

	e->order.slots = (struct ff_pipe_slots){0};
	if (e->fold.off || s->micro_batches < LEAST_MICRO)
		return FF_OK;
	f.slot_of = ff_arena_array(&e->scratch, e->order.program.n, sizeof(*f.slot_of));
	if (!f.slot_of)
		return ff_fail_memory(err);
	find_slots(&f);
	if (f.code == FF_OK)
		look_at_steps(&f);
	if (f.code == FF_OK)
		list_by_node(&f);
	ff_arena_rewind(&e->scratch, mark);
	return f.code;
}

void ff_pipe_slots_free(struct ff_order *o)
{
	for (uint32_t k = 0; k < o->slots.n_kinds; k++)
		for (int i = 0; i < 2; i++) {
			free(o->slots.kind[k].memos[i].run);
			free(o->slots.kind[k].memos[i].times);
		}
	o->slots = (struct ff_pipe_slots){0};
}
