/* Where a program goes through equal layers, one after another.  Whatever a step of one does the
 * step a period later does for the next layer, as far as graph and order can say; whether blocks
 * are alike, too, is asked in each pass (layers.c).  SPDX-License-Identifier: Apache-2.0 */
#include "layer_runs.h"

#include "ff/grow.h"
#include "ff/program_phases.h"

#define LEAST_TIMES 5 /* of a run: fewer are not worth it */

/* ---- nodes ---- */

static bool same_input(const struct ff_trial *e, const struct ff_layers *l, uint32_t a)
{
	const struct ff_graph *g = e->g;
	uint32_t b = a + l->edges;
	const struct ff_edge_ends *x = &e->ends[a], *y = &e->ends[b];
	const struct ff_value *v = &g->values[x->value], *w = &g->values[y->value];

	return ff_is_behind(x->value, y->value, l->values) &&
	       ff_is_behind(x->from, y->from, l->nodes) && ff_is_behind(x->to, y->to, l->nodes) &&
	       ff_is_behind(x->prelude, y->prelude, l->nodes) &&
	       ff_is_behind(g->edges[a].shared, g->edges[b].shared, l->edges) &&
	       (!x->parameter || (v->n_uses == 1 && w->n_uses == 1)) &&
	       e->order.first_use[a] == e->order.first_use[b] &&
	       e->order.completes[a] == e->order.completes[b] && x->computed == y->computed &&
	       x->parameter == y->parameter &&
	       e->order.program.recomputed[x->from] == e->order.program.recomputed[y->from];
}

static bool same_output(const struct ff_trial *e, const struct ff_layers *l, uint32_t a)
{
	const struct ff_value *v = &e->g->values[a], *w = &e->g->values[a + l->values];
	const uint32_t *uses = e->g->uses;
	bool same = v->kind == w->kind && v->n_uses == w->n_uses && v->needs_grad == w->needs_grad;

	for (uint32_t u = 0; u < v->n_uses && same; u++)
		same = ff_is_behind(uses[v->first_use + u], uses[w->first_use + u], l->edges);
	if (same && v->n_uses && v->needs_grad)
		same = ff_is_behind(e->order.first_edge[a], e->order.first_edge[a + l->values],
				l->edges);
	return same;
}

/* Whether node `i` is as the one a layer behind. */
static bool is_regular(const struct ff_trial *e, const struct ff_layers *l, uint32_t i)
{
	const struct ff_graph *g = e->g;
	const struct ff_program *p = &e->order.program;
	uint32_t k = i + l->nodes;
	const struct ff_node *n = &g->nodes[i], *o = &g->nodes[k];
	bool same = e->memo->class[i] == e->memo->class[k] && n->n_in == o->n_in &&
		    n->n_out == o->n_out && !n->n_carried && !ff_node_is_source(g, i) &&
		    o->in - n->in == l->edges && o->out - n->out == l->values &&
		    p->recomputed[i] == p->recomputed[k] &&
		    ff_is_behind(ff_node_leader(g, i), ff_node_leader(g, k), l->nodes) &&
		    ff_is_behind(ff_node_prelude(g, i), ff_node_prelude(g, k), l->nodes);

	for (uint32_t s = 0; s < n->n_in && same; s++)
		same = same_input(e, l, n->in + s);
	for (uint32_t s = 0; s < n->n_out && same; s++)
		same = same_output(e, l, n->out + s);
	return same;
}

static int find_regular(struct ff_trial *e, struct ff_layers *l, struct ff_error *err)
{
	const struct ff_graph *g = e->g;
	uint32_t at = e->memo->period_at;
	bool *regular = ff_arena_array(&e->order.arena, g->n_nodes, sizeof(*regular));

	if (!regular)
		return ff_fail_memory(err);
	l->nodes = e->memo->period;
	l->edges = g->nodes[at + l->nodes].in - g->nodes[at].in;
	l->values = g->nodes[at + l->nodes].out - g->nodes[at].out;
	for (uint32_t i = 0; i < g->n_nodes; i++)
		regular[i] = i + l->nodes < g->n_nodes && is_regular(e, l, i);
	l->regular = regular;
	return FF_OK;
}

/* ---- runs ---- */

/* Whether step `b` does for the next layer, or (`back`) the one before, what step `a` does. */
static bool is_next(const struct ff_trial *e, uint32_t a, uint32_t b, bool back)
{
	const struct ff_layers *l = &e->order.layers;
	const struct ff_step *s = &e->order.program.step[a], *t = &e->order.program.step[b];
	uint32_t low = back ? t->id : s->id, high = back ? s->id : t->id;

	if (s->kind != t->kind || s->phase != t->phase || s->micro != t->micro ||
			s->limited != t->limited || s->kind == FF_STEP_UPDATE)
		return false;
	if (s->kind == FF_STEP_MOVES)
		return ff_is_behind(low, high, l->edges) && l->regular[e->ends[low].to];
	return ff_is_behind(low, high, l->nodes) && l->regular[low];
}

static uint32_t count_repeated(const struct ff_trial *e, uint32_t i, uint32_t period, bool back)
{
	uint32_t n = 0;

	while (i + n + period < e->order.program.n && is_next(e, i + n, i + n + period, back))
		n++;
	return n;
}

/* How many steps behind step `i`, which computes, the next layer's is; 0: there is none. */
static uint32_t period_at(const struct ff_trial *e, uint32_t i, bool back)
{
	const struct ff_program *p = &e->order.program;
	const struct ff_step *s = &p->step[i];
	uint32_t nodes = e->order.layers.nodes, next;

	if (back ? s->id < nodes : s->id + nodes >= e->g->n_nodes)
		return 0;
	next = ff_program_compute(p, s->phase, s->micro, back ? s->id - nodes : s->id + nodes);
	return next != FF_NONE && next > i ? next - i : 0;
}

static void take_in(struct ff_layer_run *r, uint32_t node)
{
	r->low = node < r->low ? node : r->low;
	r->high = node > r->high ? node : r->high;
}

static void look_at_time(const struct ff_trial *e, struct ff_layer_run *r)
{
	for (uint32_t i = r->first; i < r->first + r->period; i++) {
		const struct ff_step *s = &e->order.program.step[i];

		r->limited = r->limited || s->limited;
		if (s->kind != FF_STEP_MOVES) {
			take_in(r, s->id);
			continue;
		}
		take_in(r, e->ends[s->id].from);
		take_in(r, e->ends[s->id].to);
	}
}

static int add_run(struct ff_trial *e, struct ff_layer_run r, uint32_t *cap, struct ff_error *err)
{
	struct ff_layers *l = &e->order.layers;
	struct ff_layer_run *grown =
			ff_grow_in(&e->order.arena, l->run, l->n_runs, cap, sizeof(*grown));

	if (!grown)
		return ff_fail_memory(err);
	look_at_time(e, &r);
	l->run = grown;
	l->run[l->n_runs++] = r;
	return FF_OK;
}

static int find_runs(struct ff_trial *e, struct ff_error *err)
{
	const struct ff_program *p = &e->order.program;
	uint32_t i = 0, cap = 0;
	int code = FF_OK;

	while (i < p->n && code == FF_OK) {
		bool back = p->step[i].phase != FF_PHASE_FORWARD;
		uint32_t period = p->step[i].kind == FF_STEP_COMPUTE ? period_at(e, i, back) : 0;
		uint32_t n = period ? count_repeated(e, i, period, back) : 0;

		if (n >= (LEAST_TIMES - 1) * period && n > 0) {
			n = n / period + 1;
			code = add_run(e,
					(struct ff_layer_run){.first = i,
							.period = period,
							.n = n,
							.low = FF_NONE,
							.back = back,
							.still = true},
					&cap, err);
			i += n * period;
		} else {
			i += n ? n : 1;
		}
	}
	return code;
}

/* ---- what is read later than it is computed ---- */

/* The run with step `i`, or NULL. */
static struct ff_layer_run *run_with(const struct ff_layers *l, uint32_t i)
{
	uint32_t low = 0, high = l->n_runs;

	while (low < high) {
		uint32_t k = (low + high) / 2;
		struct ff_layer_run *r = &l->run[k];

		if (i < r->first)
			high = k;
		else if (i >= r->first + r->n * r->period)
			low = k + 1;
		else
			return r;
	}
	return NULL;
}

static int add_live(struct ff_trial *e, struct ff_layer_run *r, struct ff_layer_live v,
		struct ff_error *err)
{
	struct ff_layer_live *grown;

	for (uint32_t i = 0; i < r->n_live; i++)
		if (r->live[i].node == v.node && r->live[i].phase == v.phase)
			return FF_OK;
	grown = ff_grow_in(&e->order.arena, r->live, r->n_live, &r->cap_live, sizeof(*grown));
	if (!grown)
		return ff_fail_memory(err);
	r->live = grown;
	r->live[r->n_live++] = v;
	return FF_OK;
}

/* Step `reads` may ask when `phase` has computed `node`. */
static int look_at_read(struct ff_trial *e, struct ff_layer_run *in, uint32_t reads,
		enum ff_phase phase, uint32_t micro, uint32_t node, struct ff_error *err)
{
	uint32_t wrote = ff_program_compute(&e->order.program, phase, micro, node);
	struct ff_layer_run *from;
	uint32_t at, time;

	if (wrote == FF_NONE)
		return FF_OK;
	from = in && wrote >= in->first && wrote < in->first + in->n * in->period
			       ? in
			       : run_with(&e->order.layers, wrote);
	if (in && from != in && reads >= in->first + in->period)
		in->still = false; /* the same time is asked for again and again, or another each
				      time */
	if (!from)
		return FF_OK;
	time = (wrote - from->first) / from->period;
	if (from != in) {
		if (time + FF_LAYERS_LAST < from->n)
			from->still = false;
		return FF_OK;
	}
	at = (reads - in->first) / in->period;
	if (at == time)
		return FF_OK;
	if (at != time + 1)
		in->still = false;
	return time == 0 ? add_live(e, in, (struct ff_layer_live){phase, node}, err) : FF_OK;
}

static int look_at_moves(
		struct ff_trial *e, struct ff_layer_run *in, uint32_t i, struct ff_error *err)
{
	const struct ff_step *s = &e->order.program.step[i];
	const struct ff_edge_ends *x = &e->ends[s->id];
	int code = FF_OK;

	if (ff_phase_pass(s->phase) == FF_FORWARD)
		return x->computed ? look_at_read(e, in, i, s->phase, s->micro, x->from, err)
				   : FF_OK;
	code = look_at_read(e, in, i, s->phase, s->micro, x->to, err);
	if (code == FF_OK && x->computed)
		code = look_at_read(e, in, i, FF_PHASE_BACKWARD, s->micro,
				e->ends[e->order.first_edge[x->value]].to, err);
	return code;
}

static int look_at_reads(struct ff_trial *e, struct ff_error *err)
{
	const struct ff_program *p = &e->order.program;
	const struct ff_layers *l = &e->order.layers;
	uint32_t next = 0;
	int code = FF_OK;

	for (uint32_t i = 0; i < p->n && code == FF_OK; i++) {
		while (next < l->n_runs &&
				i >= l->run[next].first + l->run[next].n * l->run[next].period)
			next++;
		if (p->step[i].kind == FF_STEP_MOVES)
			code = look_at_moves(e,
					next < l->n_runs && i >= l->run[next].first ? &l->run[next]
										    : NULL,
					i, err);
	}
	return code;
}

int ff_layer_runs_find(struct ff_trial *e, struct ff_error *err)
{
	struct ff_layers *l = &e->order.layers;
	int code;

	*l = (struct ff_layers){0};
	/* gradients made apart are synchronised behind all layers */
	if (e->fold.off || !e->memo->period || e->order.program.halves)
		return FF_OK;
	code = find_regular(e, l, err);
	if (code == FF_OK)
		code = find_runs(e, err);
	return code == FF_OK ? look_at_reads(e, err) : code;
}
