/* The evaluator's account of memory: how many bytes of shards and stages live on
 * each device in each step of the order.  A buffer adds its bytes at the first
 * step that uses it and takes them away behind the last; a proposal takes the
 * buffers of the values it touches out and puts them back as they are then; a
 * running sum over the steps tells the peaks (columns.c).  ff_lower counts the same.
 *
 * Where steps repeat for one micro-batch after another (fold.c) so does what comes and goes
 * in them: the third time and those that follow have no rows, and micro-batches that live in
 * such steps alone are not counted.  What is left behind each time is multiplied.  (Not the
 * second time as well: the first begins with what goes away of the steps before it.)
 * SPDX-License-Identifier: Apache-2.0 */
#include "account.h"

#include <string.h>

#include "columns.h"
#include "ff/backward.h"
#include "ff/program_phases.h"
#include "ff/saturate.h"
#include "pinned.h"

int ff_account_create(struct ff_trial *e, struct ff_error *err)
{
	size_t devices = e->m->n_devices;
	struct ff_arena *a = &e->arena;

	for (uint32_t i = 0; i < e->g->n_nodes; i++)
		e->tally.has_kept = e->tally.has_kept || e->g->nodes[i].n_kept > 0;
	e->tally.pinned = ff_arena_array(a, devices, sizeof(*e->tally.pinned));
	return e->tally.pinned ? ff_columns_create(e, err) : ff_fail_memory(err);
}

/* The first step of run `r` that has no row: when it has been gone through twice. */
static uint32_t folded_from(const struct ff_run *r)
{
	return r->first + 2 * r->period;
}

static uint32_t folded_to(const struct ff_run *r)
{
	return r->first + r->n * r->period;
}

/* The rows of steps, and of what is behind the last. */
static void number_rows(struct ff_trial *e)
{
	const struct ff_order *f = &e->order;
	uint32_t run = 0;

	e->order.account.n_rows = 0;
	for (uint32_t i = 0; i <= e->order.program.n; i++) {
		while (run < f->n_runs && i >= folded_to(&f->run[run]))
			run++;
		e->order.account.row[i] = run < f->n_runs && i >= folded_from(&f->run[run])
							  ? FF_NONE
							  : e->order.account.n_rows++;
	}
}

/* Micro-batches that something with a row is done for, or something just before one. */
static void list_counted(struct ff_trial *e)
{
	memset(e->order.account.counted, 0,
			e->order.program.micro_batches * sizeof(*e->order.account.counted));
	for (uint32_t i = 0; i < e->order.program.n; i++)
		if (e->order.account.row[i] != FF_NONE || e->order.account.row[i + 1] != FF_NONE)
			e->order.account.counted[e->order.program.step[i].micro] = true;
}

int ff_account_reset(struct ff_trial *e, struct ff_error *err)
{
	struct ff_arena *a = &e->order.account.arena;

	ff_arena_rewind(a, (struct ff_arena_mark){0});
	e->order.account.row = ff_arena_array(
			a, (size_t)e->order.program.n + 1, sizeof(*e->order.account.row));
	e->order.account.counted = ff_arena_array(
			a, e->order.program.micro_batches, sizeof(*e->order.account.counted));
	if (!e->order.account.row || !e->order.account.counted)
		return ff_fail_memory(err);
	number_rows(e);
	list_counted(e);
	return ff_columns_reset(e, err);
}

/* One instance of a value while it is counted. */
struct counted {
	struct ff_trial *e;
	uint32_t value, micro;
	bool recomputed; /* made for backward; else forward */
	int64_t sign;
};

/* A buffer of the bundle that `count` tells the steps of. */
static void put(const struct counted *c, uint32_t device, int64_t bytes)
{
	ff_columns_put(c->e, device, c->sign * bytes);
}

static void count(const struct counted *c, uint32_t first, uint32_t last)
{
	ff_columns_add(c->e, first, last);
}

/* So many bytes on all devices of a node at once. */
static void count_row(const struct counted *c, const struct ff_memo_node *on, int64_t bytes,
		uint32_t from, uint32_t to)
{
	if (to != FF_NONE)
		ff_columns_add_row(c->e, on->first, on->n_parts, c->sign * bytes,
				from < to ? from : to, from < to ? to : from);
}

static bool all_equal(const uint32_t *step, uint32_t n)
{
	bool equal = true;

	for (uint32_t k = 1; k < n && equal; k++)
		equal = step[k] == step[0];
	return equal;
}

/* Buffers of a node's parts, each from step `from` to `to[part]`, or, where that comes earlier, the
 * other way round; FF_NONE: there is none.  `to` is lost. */
static void count_parts(const struct counted *c, const struct ff_memo_node *mn,
		const int64_t *bytes, uint32_t from, uint32_t *to)
{
	const struct ff_node_block *b = mn->block;

	if (mn->is_row && mn->rest->shape->even && all_equal(to, b->n_parts)) {
		count_row(c, mn, bytes[0], from, to[0]);
		return;
	}
	for (uint32_t k = 0; k < b->n_parts; k++) {
		uint32_t other = to[k];

		if (other == FF_NONE)
			continue;
		for (uint32_t i = k; i < b->n_parts; i++) {
			if (to[i] != other)
				continue;
			put(c, b->device[i], bytes[i]);
			to[i] = FF_NONE;
		}
		count(c, from < other ? from : other, from < other ? other : from);
	}
}

/* What the moves of a pass at `edge` take. */
static const struct ff_memo_buffers *buffers(struct ff_trial *e, uint32_t edge, enum ff_pass pass)
{
	static const struct ff_memo_buffers none = {.known = false};
	const struct ff_edge_ends *ends = &e->ends[edge];
	struct ff_memo_edge *me = e->placed.edge[edge];
	const struct ff_memo_buffers *b = &me->moved[pass].buffers;

	if (b->known)
		return b;
	b = ff_memo_buffers(e->memo, edge, pass, e->placed.node[ends->from],
			e->placed.node[ends->to], me);
	e->order.account.failed = e->order.account.failed || !b;
	return b ? b : &none;
}

static void count_bytes(const struct counted *c, const struct ff_memo_bytes *b, uint32_t first,
		uint32_t last)
{
	ff_columns_add_bytes(c->e, b, c->sign, first, last);
}

/* Stages of gradients; what is not sent of those that are compressed is there in all steps. */
static void count_sent(const struct counted *c, const struct ff_memo_buffers *b, uint32_t moved)
{
	count_bytes(c, &b->stages, moved, moved);
	count_bytes(c, &b->unsent, 0, c->e->order.program.n - 1);
}

static enum ff_phase made_in(const struct counted *c)
{
	return c->recomputed ? FF_PHASE_RECOMPUTE : FF_PHASE_FORWARD;
}

/* The step that moves the instance at `edge`, or FF_NONE. */
static uint32_t moved_in(const struct counted *c, uint32_t edge)
{
	return ff_program_moves(&c->e->order.program, made_in(c), c->micro, edge);
}

/* The last step in which a part of the consumer reads the instance at `edge`, or
 * FF_NONE.  A parameter that is there once serves all micro-batches. */
static uint32_t last_read(const struct counted *c, uint32_t edge)
{
	const struct ff_trial *e = c->e;
	const struct ff_program *p = &e->order.program;
	uint32_t node = e->g->edges[ff_edge_last(e->g, edge)].node;
	/* what a prelude was brought, the node behind it reads in each pass forward */
	uint32_t behind = ff_node_leader(e->g, e->g->edges[edge].node);
	uint32_t from = ff_edge_source(e->g, edge);
	uint32_t final = p->micro_batches - 1;
	uint32_t micro = ff_program_instance(e->g, p, from, final) == final ? c->micro : final;
	bool last = !p->recomputed[from] || c->recomputed;

	if (last && ff_edge_read_backward(e->g, edge))
		return ff_program_compute(
				p, ff_edge_read_in(e->g, p, ff_edge_last(e->g, edge)), micro, node);
	if (last && p->recomputed[behind])
		return ff_program_compute(p, FF_PHASE_RECOMPUTE, micro, behind);
	return c->recomputed ? FF_NONE : ff_program_compute(p, FF_PHASE_FORWARD, micro, behind);
}

/* The last step in which what was moved to `edge`, and is read there last in step `last`, is read
 * by those who share it. */
static uint32_t last_shared(const struct counted *c, uint32_t edge, uint32_t last)
{
	const struct ff_graph *g = c->e->g;
	const struct ff_value *v = &g->values[c->value];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t other = ff_value_use(g, v, u), read = FF_NONE;

		if (c->e->placed.shared_from[other] == edge)
			read = last_read(c, other);
		if (read != FF_NONE && read > last)
			last = read;
	}
	return last;
}

/* Shards that were moved to the consumer, and stages. */
static void count_moved(const struct counted *c, uint32_t edge)
{
	struct ff_trial *e = c->e;
	const struct ff_memo_buffers *b;
	uint32_t first, last;

	if (e->placed.shared_from[edge] != FF_NONE)
		return;
	b = buffers(e, edge, FF_FORWARD);
	if (!b->arrived.n && !b->stages.n)
		return;
	first = moved_in(c, edge);
	if (first == FF_NONE)
		return;
	last = last_read(c, edge);
	if (e->placed.is_shared[edge])
		last = last_shared(c, edge, last);
	count_bytes(c, &b->arrived, first, last);
	count_bytes(c, &b->stages, first, first);
}

/* The last step in which the producer itself uses its shards. */
static uint32_t last_own(const struct counted *c)
{
	const struct ff_graph *g = c->e->g;
	const struct ff_program *p = &c->e->order.program;
	const struct ff_value *v = &g->values[c->value];
	bool kept = v->kind == FF_VALUE_SAVED ||
		    (ff_op_flags_of(g, v->producer) & FF_OP_BACKWARD_OUT);
	enum ff_phase own =
			kept && ff_node_needs_grad(g, v->producer) &&
							c->recomputed == p->recomputed[v->producer]
					? FF_PHASE_BACKWARD
					: made_in(c);

	return ff_node_is_loss(g, v->producer) ? p->n - 1
					       : ff_program_compute(p, own, c->micro, v->producer);
}

/* The last step that reads the producer's shards, by part. */
static void last_uses(const struct counted *c, uint32_t *last)
{
	const struct ff_trial *e = c->e;
	const struct ff_graph *g = e->g;
	const struct ff_value *v = &g->values[c->value];
	uint32_t own = last_own(c);

	for (uint32_t k = 0; k < e->placed.node[v->producer]->n_parts; k++)
		last[k] = own;
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(g, v, u);
		const struct ff_redistribution *r = ff_trial_forward(e, edge);
		uint32_t parts = e->placed.node[g->edges[edge].node]->block->n_parts;
		uint32_t read = last_read(c, edge), moved = moved_in(c, edge);

		for (uint32_t k = 0; k < parts && read != FF_NONE; k++)
			if (r->alias[k] != FF_NONE && last[r->alias[k]] < read)
				last[r->alias[k]] = read;
		if (e->placed.shared_from[edge] != FF_NONE)
			continue; /* moved there */
		for (uint32_t i = 0; i < r->n_moves && moved != FF_NONE; i++)
			for (uint32_t k = 0; k < r->move[i].n_sources; k++)
				if (last[r->move[i].source[k]] < moved)
					last[r->move[i].source[k]] = moved;
	}
}

/* One that is added to another's as soon as it is made. */
static void count_added(const struct counted *c, uint32_t edge, uint32_t made)
{
	const struct ff_edge *x = &c->e->g->edges[edge];
	const struct ff_memo_node *to = c->e->placed.node[x->node];

	for (uint32_t p = 0; p < to->block->n_parts; p++)
		put(c, to->block->device[p], to->rest->shape->din_bytes[x->slot][p]);
	count(c, made, made);
}

/* Gradients at one edge: the consumer's own shards until they are moved or added to others', and,
 * of parts of the producer in `first`, the step in which their gradient begins.  What others are
 * added to is there until the last of them is.  A parameter's are there from the first micro-batch
 * until the last one's are moved. */
static void count_gradient(
		const struct counted *c, uint32_t edge, uint32_t *first, uint32_t *scratch)
{
	const struct ff_trial *e = c->e;
	const struct ff_program *program = &e->order.program;
	const struct ff_edge *x = &e->g->edges[edge];
	uint32_t sent = ff_trial_sent(e, edge);
	const struct ff_redistribution *r = &e->placed.edge[sent]->moved[FF_BACKWARD].by;
	const struct ff_memo_node *to = e->placed.node[x->node];
	const struct ff_memo_node *from = e->placed.node[ff_edge_source(e->g, edge)];
	bool param = ff_node_is_parameter(e->g, ff_edge_source(e->g, edge));
	uint32_t micro = param ? program->micro_batches - 1 : c->micro;
	enum ff_phase phase = ff_edge_made_in(e->g, program, edge);
	uint32_t made = ff_program_compute(program, phase, param ? 0 : micro, x->node);
	uint32_t written = ff_program_compute(program, phase, micro, e->g->edges[sent].node);
	uint32_t moved = ff_program_moves(program, phase, micro, sent);

	if (ff_trial_sums(e, edge)) {
		count_added(c, edge, made);
		return;
	}
	for (uint32_t p = 0; p < to->block->n_parts; p++)
		scratch[p] = written;
	for (uint32_t i = 0; i < r->n_moves; i++) {
		for (uint32_t k = 0; k < r->move[i].n_sources; k++)
			scratch[r->move[i].source[k]] = moved;
		for (uint32_t k = 0; first && k < r->move[i].n_sinks; k++)
			if (first[r->move[i].sink[k]] > moved)
				first[r->move[i].sink[k]] = moved;
	}
	for (uint32_t k = 0; k < from->block->n_parts; k++) {
		if (r->alias[k] == FF_NONE)
			continue;
		scratch[r->alias[k]] = FF_NONE; /* it is the producer's */
		if (first)
			first[k] = made;
	}
	count_parts(c, to, to->rest->shape->din_bytes[x->slot], made, scratch);
	count_sent(c, buffers(c->e, sent, FF_BACKWARD), moved);
}

/* The last step in which there is the gradient of the value: backward of its producer, or,
 * where a prelude makes another one in its place, the step before that. */
static uint32_t last_gradient(const struct counted *c)
{
	const struct ff_graph *g = c->e->g;
	const struct ff_value *v = &g->values[c->value];
	uint32_t prelude = ff_node_prelude(g, v->producer);

	if (prelude == FF_NONE || v->port || !ff_node_needs_grad(g, prelude))
		return ff_program_compute(&c->e->order.program,
				ff_node_ends_in(&c->e->order.program, v->producer), c->micro,
				v->producer);
	return ff_program_compute(&c->e->order.program, FF_PHASE_BACKWARD, c->micro, prelude) - 1;
}

/* What the producer has: shards, and their gradients (of a first instance) from the
 * first that is written until its backward. */
static void count_own(const struct counted *c, uint32_t *last, uint32_t *first_gradient)
{
	const struct ff_value *v = &c->e->g->values[c->value];
	const struct ff_memo_node *mn = c->e->placed.node[v->producer];
	const int64_t *bytes = mn->rest->shape->out_bytes[v->port];

	count_parts(c, mn, bytes,
			ff_program_compute(&c->e->order.program, made_in(c), c->micro, v->producer),
			last);
	count_parts(c, mn, bytes, last_gradient(c), first_gradient);
}

/* One instance: shards, what was moved of them, and, with the one of forward, the
 * gradients of its micro-batch. */
static void count_instance(const struct counted *c)
{
	const struct ff_trial *e = c->e;
	const struct ff_value *v = &e->g->values[c->value];
	uint32_t last[FF_MAX_DEVICES], first[FF_MAX_DEVICES], scratch[FF_MAX_DEVICES];
	bool computed = ff_node_is_computed(e->g, v->producer);

	if (computed) {
		last_uses(c, last);
		memset(first, 0xff, e->placed.node[v->producer]->block->n_parts * sizeof(*first));
	}
	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(e->g, v, u);

		count_moved(c, edge);
		if (ff_edge_needs_grad(e->g, edge) && !c->recomputed && (computed || c->micro == 0))
			count_gradient(c, edge, computed ? first : NULL, scratch);
	}
	if (computed)
		count_own(c, last, first);
}

/* ---- where all parts do alike ---- */

/* A buffer of each part, from step `from` to `to`, or the other way round. */
static void count_all(const struct counted *c, const struct ff_memo_node *on, const int64_t *bytes,
		uint32_t from, uint32_t to)
{
	if (on->is_row && on->rest->shape->even) {
		count_row(c, on, bytes[0], from, to);
		return;
	}
	if (to == FF_NONE)
		return;
	for (uint32_t p = 0; p < on->n_parts; p++)
		put(c, on->device[p], bytes[p]);
	count(c, from < to ? from : to, from < to ? to : from);
}

/* Whether all parts are the other end's as they are, or none is, and all are moved or none is. */
static bool is_share_whole(enum ff_memo_share same, enum ff_memo_share moved)
{
	return same == FF_ALL_PARTS || (same == FF_NO_PART && moved != FF_SOME_PARTS);
}

/* Whether gradients of all parts come and go alike; `computed`: at both ends. */
static bool is_gradient_alike(struct ff_trial *e, uint32_t edge, bool computed)
{
	uint32_t sent = ff_trial_sent(e, edge);
	const struct ff_memo_buffers *b;

	if (ff_trial_sums(e, edge))
		return true;
	b = buffers(e, sent, FF_BACKWARD);
	return e->placed.node[e->ends[edge].to]->n_parts ==
			       e->placed.node[e->ends[sent].to]->n_parts &&
	       is_share_whole(b->lent, b->sent) && (!computed || is_share_whole(b->same, b->got));
}

/* Whether all parts of who reads at `edge` do alike, and all of who made that. */
static bool is_use_alike(struct ff_trial *e, uint32_t edge, bool computed)
{
	uint32_t from = e->placed.shared_from[edge];
	const struct ff_memo_buffers *b;

	if (ff_edge_needs_grad(e->g, edge) && !is_gradient_alike(e, edge, computed))
		return false;
	if (!computed)
		return true;
	b = buffers(e, from == FF_NONE ? edge : from, FF_FORWARD);
	return b->lent != FF_SOME_PARTS && (from != FF_NONE || b->sent != FF_SOME_PARTS);
}

static bool is_alike(struct ff_trial *e, uint32_t value)
{
	const struct ff_value *v = &e->g->values[value];
	bool computed = ff_node_is_computed(e->g, v->producer), alike = true;

	for (uint32_t u = 0; u < v->n_uses && alike; u++)
		alike = is_use_alike(e, ff_value_use(e->g, v, u), computed);
	return alike;
}

/* last_uses likewise, of one use more. */
static uint32_t last_alike(const struct counted *c, uint32_t edge, uint32_t last)
{
	uint32_t from = c->e->placed.shared_from[edge], step;
	const struct ff_memo_buffers *b = buffers(c->e, from == FF_NONE ? edge : from, FF_FORWARD);

	step = b->lent == FF_ALL_PARTS ? last_read(c, edge) : FF_NONE;
	last = step != FF_NONE && last < step ? step : last;
	step = from == FF_NONE && b->sent == FF_ALL_PARTS ? moved_in(c, edge) : FF_NONE;
	return step != FF_NONE && last < step ? step : last;
}

/* count_gradient likewise.  The step in which the producer's gradient begins; `first`: of the edges
 * before. */
static uint32_t count_gradient_alike(const struct counted *c, uint32_t edge, uint32_t first)
{
	const struct ff_trial *e = c->e;
	const struct ff_program *p = &e->order.program;
	const struct ff_edge *x = &e->g->edges[edge];
	const struct ff_memo_node *to = e->placed.node[x->node];
	const int64_t *bytes = to->rest->shape->din_bytes[x->slot];
	bool param = ff_node_is_parameter(e->g, ff_edge_source(e->g, edge));
	uint32_t micro = param ? p->micro_batches - 1 : c->micro;
	enum ff_phase phase = ff_edge_made_in(e->g, p, edge);
	uint32_t made = ff_program_compute(p, phase, param ? 0 : micro, x->node);
	uint32_t sent = ff_trial_sent(e, edge), moved = ff_program_moves(p, phase, micro, sent);
	const struct ff_memo_buffers *b;

	if (ff_trial_sums(e, edge)) {
		count_all(c, to, bytes, made, made);
		return first;
	}
	b = buffers(c->e, sent, FF_BACKWARD);
	if (b->lent == FF_NO_PART) /* else it is the producer's */
		count_all(c, to, bytes, made,
				b->sent == FF_ALL_PARTS ? moved
							: ff_program_compute(p, phase, micro,
									  e->g->edges[sent].node));
	count_sent(c, b, moved);
	if (b->same == FF_ALL_PARTS)
		return made;
	return b->got == FF_ALL_PARTS && first > moved ? moved : first;
}

/* count_instance likewise. */
static void count_alike(const struct counted *c)
{
	const struct ff_trial *e = c->e;
	const struct ff_value *v = &e->g->values[c->value];
	bool computed = ff_node_is_computed(e->g, v->producer);
	uint32_t last = computed ? last_own(c) : FF_NONE, first = FF_NONE;
	const struct ff_memo_node *on = e->placed.node[v->producer];
	const int64_t *bytes;

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = ff_value_use(e->g, v, u);

		count_moved(c, edge);
		if (computed)
			last = last_alike(c, edge, last);
		if (ff_edge_needs_grad(e->g, edge) && !c->recomputed && (computed || c->micro == 0))
			first = count_gradient_alike(c, edge, first);
	}
	if (!computed)
		return;
	bytes = on->rest->shape->out_bytes[v->port];
	count_all(c, on, bytes,
			ff_program_compute(&e->order.program, made_in(c), c->micro, v->producer),
			last);
	count_all(c, on, bytes, last_gradient(c), first);
}

void ff_account_value(struct ff_trial *e, uint32_t value, int64_t sign)
{
	uint32_t from = e->g->values[value].producer;
	struct counted c = {.e = e, .value = value, .sign = sign};
	void (*count_one)(const struct counted *);

	if (e->placed.synced[from] || ff_value_is_kept(e->g, value))
		return; /* all of it lies in buckets, or stays */
	count_one = is_alike(e, value) ? count_alike : count_instance;
	for (c.micro = 0; c.micro < e->order.program.micro_batches; c.micro++) {
		if (ff_program_instance(e->g, &e->order.program, from, c.micro) != c.micro)
			break;
		if (!e->order.account.counted[c.micro])
			continue;
		c.recomputed = false;
		count_one(&c);
		c.recomputed = e->order.program.recomputed[from];
		if (c.recomputed)
			count_one(&c);
	}
}

void ff_account_over(struct ff_trial *e, int64_t most_bytes, struct ff_evaluation *ret)
{
	int64_t peak = 0;

	ff_pinned_count(e);
	ret->tight = false;
	ret->over_bytes = 0;
	ret->spare_bytes = INT64_MAX;
	for (uint32_t d = 0; d < e->m->n_devices && ret->over_bytes <= most_bytes; d++) {
		int64_t most, spare;

		peak = ff_columns_peak(e, d, peak);
		most = e->tally.pinned[d] + peak;
		spare = e->limit[d] - most;
		ret->over_bytes = ff_sat_add(ret->over_bytes, spare < 0 ? -spare : 0);
		ret->spare_bytes = spare < ret->spare_bytes ? spare : ret->spare_bytes;
		ret->tight = ret->tight || most > e->limit[d] / 2;
	}
	ret->fits = ret->over_bytes == 0;
}
