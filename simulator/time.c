/* The evaluator's pass: when every task starts and ends.  It takes the blocks in
 * the order of ff_lower's tasks and computes the same maxima and sums as
 * ff_simulate, so its figures are the same to the bit.
 *
 * A search makes this pass for every proposal, so what it reads lies together: one
 * record for each operator and pass (struct ff_timed_node), made when blocks
 * change; operators whose parts run on devices side by side are added up as
 * vectors.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))

static double later(double a, double b)
{
	return a > b ? a : b;
}

/* ---- records ---- */

static bool has_moves(const struct ff_evaluator *e, uint32_t edge, enum ff_pass pass)
{
	const struct ff_memo_edge *me = e->edge[edge];

	if (!me || (pass == FF_FORWARD && e->g->edges[edge].shared != FF_NONE))
		return false;
	return pass == FF_FORWARD ? me->block.forward.n_moves > 0 : me->block.backward.n_moves > 0;
}

/* Whether someone asks when the parts of `node` are done. */
static bool is_watched(const struct ff_evaluator *e, uint32_t node, enum ff_phase phase)
{
	const struct ff_graph *g = e->g;
	const struct ff_node *n = &g->nodes[node];
	bool watched = phase == FF_PHASE_BACKWARD && n->n_in > n->n_data; /* synchronisation */

	if (phase == FF_PHASE_BACKWARD) {
		for (uint32_t k = n->in; k < n->in + n->n_in && !watched; k++)
			watched = has_moves(e, k, FF_BACKWARD) ||
				  g->values[g->edges[k].value].n_uses > 1;
		return watched;
	}
	for (uint32_t k = n->out; k < n->out + n->n_out; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses && !watched; u++)
			watched = has_moves(e, g->uses[g->values[k].first_use + u], FF_FORWARD);
	return watched;
}

/* The phase in which what is made again arrives at `node`: the first that reads it. */
static enum ff_phase reads_again(const struct ff_evaluator *e, uint32_t node)
{
	return e->program.again[node] ? FF_PHASE_RECOMPUTE : FF_PHASE_BACKWARD;
}

/* The edge over which is moved what is read at `edge`. */
static uint32_t moved_at(const struct ff_graph *g, uint32_t edge)
{
	return g->edges[edge].shared == FF_NONE ? edge : g->edges[edge].shared;
}

/* Who reads first what is moved again over `edge`: of a prelude that is not computed
 * again the node behind it. */
static uint32_t reader_of(const struct ff_evaluator *e, uint32_t edge)
{
	uint32_t node = e->g->edges[edge].node;

	return e->program.again[node] ? node : ff_node_leader(e->g, node);
}

/* Whether something is moved to `node` in a phase. */
static bool is_moved_to(const struct ff_evaluator *e, uint32_t node, enum ff_phase phase)
{
	const struct ff_graph *g = e->g;
	const struct ff_node *n = &g->nodes[node];
	bool moved = false;

	for (uint32_t k = n->in; k < n->in + n->n_in && !moved; k++) {
		if (phase == FF_PHASE_FORWARD)
			moved = has_moves(e, k, FF_FORWARD);
		else
			moved = e->program.again[ff_edge_source(g, k)] &&
				has_moves(e, moved_at(g, k), FF_FORWARD) &&
				reader_of(e, moved_at(g, k)) == node &&
				reads_again(e, node) == phase;
	}
	for (uint32_t k = n->out; k < n->out + n->n_out && phase == FF_PHASE_BACKWARD; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses && !moved; u++)
			moved = has_moves(e, g->uses[g->values[k].first_use + u], FF_BACKWARD);
	return moved;
}

static bool is_uniform(const double *us, uint32_t n)
{
	for (uint32_t p = 1; p < n; p++)
		if (us[p] != us[0])
			return false;
	return true;
}

/* Room for the times of as many parts in every micro-batch; it never shrinks. */
static int reserve_times(struct ff_timed_node *t, uint32_t n, struct ff_error *err)
{
	double *times;

	if (n <= t->cap)
		return FF_OK;
	times = calloc(2 * (size_t)n, sizeof(*times));
	if (!times)
		return ff_fail_memory(err);
	free(t->finish);
	t->finish = times;
	t->ready = times + n;
	t->cap = n;
	return FF_OK;
}

static int refresh(struct ff_evaluator *e, uint32_t node, enum ff_phase phase, struct ff_error *err)
{
	const struct ff_memo_node *mn = e->node[node];
	struct ff_timed_node *t = &e->timed[phase][node];
	uint32_t n = mn->block.n_parts;
	int code = reserve_times(t, n * e->program.micro_batches, err);

	if (code < 0)
		return code;
	t->us = mn->us[ff_phase_pass(phase)];
	t->device = mn->block.device;
	t->n = n;
	t->first = mn->block.device[0];
	t->in_line = mn->in_line;
	t->uniform = is_uniform(t->us, n);
	t->watched = is_watched(e, node, phase);
	t->moved = is_moved_to(e, node, phase);
	return FF_OK;
}

int ff_time_refresh_node(struct ff_evaluator *e, uint32_t node, struct ff_error *err)
{
	int code = refresh(e, node, FF_PHASE_FORWARD, err);

	if (code == FF_OK)
		code = refresh(e, node, FF_PHASE_BACKWARD, err);
	if (code == FF_OK && e->program.again[node])
		code = refresh(e, node, FF_PHASE_RECOMPUTE, err);
	return code;
}

void ff_time_finish(struct ff_evaluator *e)
{
	for (int k = 0; k < FF_PHASE_COUNT; k++)
		for (uint32_t i = 0; i < e->g->n_nodes && e->timed[k]; i++)
			free(e->timed[k][i].finish);
}

void ff_time_refresh_edge(struct ff_evaluator *e, uint32_t edge)
{
	for (int pass = 0; pass < 2; pass++)
		e->moves[pass][edge] = has_moves(e, edge, (enum ff_pass)pass);
}

/* ---- moves ---- */

/* Times are never negative, so their bits compare as they do; and whole numbers
 * are what compilers find the largest of side by side. */
typedef int64_t __attribute__((may_alias)) time_bits;

CLONES static void latest_bits(uint32_t n, const time_bits *x, time_bits *at)
{
	time_bits most = *at;

	for (uint32_t i = 0; i < n; i++)
		most = x[i] > most ? x[i] : most;
	*at = most;
}

CLONES static void wait_bits(uint32_t n, time_bits *x, time_bits at)
{
	for (uint32_t i = 0; i < n; i++)
		x[i] = x[i] > at ? x[i] : at;
}

static double latest(uint32_t n, const double *x, double at)
{
	if (n > 2)
		latest_bits(n, (const time_bits *)x, (time_bits *)&at);
	else
		for (uint32_t i = 0; i < n; i++)
			at = later(at, x[i]);
	return at;
}

static void occupy(const struct ff_lanes *l, double *lane, double at)
{
	for (uint32_t i = 0; i < l->n; i++)
		lane[l->first + i] = at;
}

/* One move: it starts when its lanes are free and its sources done. */
static double time_move(struct ff_evaluator *e, const struct ff_memo_move *tm, const double *finish,
		double at)
{
	uint32_t near = tm->n_lanes < 2 ? tm->n_lanes : 2;

	for (uint32_t k = 0; k < near; k++)
		at = latest(tm->lane[k].n, e->lane + tm->lane[k].first, at);
	for (uint32_t k = 2; k < tm->n_lanes; k++)
		at = latest(tm->more[k - 2].n, e->lane + tm->more[k - 2].first, at);
	if (finish && tm->sources_in_line)
		at = latest(tm->n_sources, finish + tm->first_source, at);
	else
		for (uint32_t k = 0; finish && k < tm->n_sources; k++)
			at = later(at, finish[tm->move->source[k]]);
	at += tm->us;
	for (uint32_t k = 0; k < near; k++)
		occupy(&tm->lane[k], e->lane, at);
	for (uint32_t k = 2; k < tm->n_lanes; k++)
		occupy(&tm->more[k - 2], e->lane, at);
	return at;
}

static void arrive(const struct ff_memo_move *tm, double at, double *ready)
{
	time_bits bits;

	if (tm->sinks_in_line && tm->n_sinks > 2) {
		memcpy(&bits, &at, sizeof(bits));
		wait_bits(tm->n_sinks, (time_bits *)(ready + tm->first_sink), bits);
		return;
	}
	for (uint32_t k = 0; k < tm->n_sinks; k++) {
		double *sink = &ready[tm->move->sink[k]];

		*sink = later(*sink, at);
	}
}

static double *finish_of(const struct ff_timed_node *t, uint32_t micro)
{
	return t->finish + (size_t)micro * t->n;
}

static double *ready_of(const struct ff_timed_node *t, uint32_t micro)
{
	return t->ready + (size_t)micro * t->n;
}

/* A parameter is not updated before it was brought to who reads it. */
static void leave(struct ff_evaluator *e, uint32_t param, const struct ff_memo_move *tm, double at)
{
	double *ready = ready_of(&e->timed[FF_PHASE_BACKWARD][param], e->program.micro_batches - 1);

	for (uint32_t k = 0; k < tm->n_sources; k++)
		ready[tm->move->source[k]] = later(ready[tm->move->source[k]], at);
}

static void forward_moves(struct ff_evaluator *e, const struct ff_step *s)
{
	const struct ff_memo_edge *me = e->edge[s->id];
	uint32_t from = ff_edge_source(e->g, s->id), to = e->g->edges[s->id].node;
	enum ff_phase reader = s->phase;
	const double *finish = NULL;
	double *ready;

	if (s->phase == FF_PHASE_RECOMPUTE) {
		to = reader_of(e, s->id);
		reader = reads_again(e, to);
	}
	ready = ready_of(&e->timed[reader][to], s->micro);
	if (ff_node_is_computed(e->g, from))
		finish = finish_of(&e->timed[s->phase][from], s->micro);
	for (uint32_t i = 0; i < me->block.forward.n_moves; i++) {
		const struct ff_memo_move *tm = &me->move[FF_FORWARD][i];
		double at = time_move(e, tm, finish, 0);

		arrive(tm, at, ready);
		if (ff_node_is_parameter(e->g, from))
			leave(e, from, tm, at);
	}
}

/* When what a move adds to was written: a first use that is aliased was written
 * by compute; one that moved stands on the same lane. */
static double first_written(const struct ff_evaluator *e, uint32_t value, uint32_t micro,
		const struct ff_move *mv)
{
	uint32_t first = e->first_edge[value];
	const struct ff_memo_edge *me = e->edge[first];
	const double *finish =
			finish_of(&e->timed[FF_PHASE_BACKWARD][e->g->edges[first].node], micro);
	double at = 0;

	for (uint32_t k = 0; k < mv->n_sinks; k++) {
		uint32_t alias = me->block.backward.alias[mv->sink[k]];

		if (alias != FF_NONE)
			at = later(at, finish[alias]);
	}
	return at;
}

static void backward_moves(struct ff_evaluator *e, const struct ff_step *s)
{
	const struct ff_memo_edge *me = e->edge[s->id];
	const struct ff_edge *x = &e->g->edges[s->id];
	uint32_t to = ff_edge_source(e->g, s->id);
	const double *finish = finish_of(&e->timed[FF_PHASE_BACKWARD][x->node], s->micro);
	double *ready = ready_of(&e->timed[FF_PHASE_BACKWARD][to], s->micro);

	for (uint32_t i = 0; i < me->block.backward.n_moves; i++) {
		const struct ff_memo_move *tm = &me->move[FF_BACKWARD][i];
		double at = tm->accumulate ? first_written(e, x->value, s->micro, tm->move) : 0;

		arrive(tm, time_move(e, tm, finish, at), ready);
	}
}

/* ---- compute ---- */

/* Parts in turn on lanes that follow each other. */
CLONES static void run_in_line(uint32_t n, const double *us, double *lane)
{
	for (uint32_t p = 0; p < n; p++)
		lane[p] += us[p];
}

CLONES static void run_uniform(uint32_t n, double us, double *lane)
{
	for (uint32_t p = 0; p < n; p++)
		lane[p] += us;
}

CLONES static void run_moved(uint32_t n, const double *us, double *restrict ready, double *lane)
{
	for (uint32_t p = 0; p < n; p++) {
		lane[p] = (ready[p] > lane[p] ? ready[p] : lane[p]) + us[p];
		ready[p] = 0;
	}
}

static void time_compute(struct ff_evaluator *e, const struct ff_timed_node *t, uint32_t micro,
		const double *us)
{
	double *lane = e->lane + t->first; /* compute lanes are numbered as devices are */
	double *finish = finish_of(t, micro), *ready = ready_of(t, micro);

	if (!t->in_line) {
		for (uint32_t p = 0; p < t->n; p++) {
			lane = &e->lane[t->device[p]];
			*lane = finish[p] = later(*lane, ready[p]) + us[p];
			ready[p] = 0;
		}
		return;
	}
	if (t->moved)
		run_moved(t->n, us, ready, lane);
	else if (t->uniform && us == t->us)
		run_uniform(t->n, us[0], lane);
	else
		run_in_line(t->n, us, lane);
	if (t->watched)
		memcpy(finish, lane, t->n * sizeof(*lane));
}

/* What a part of `node` adds to gradients that are there already, in bytes. */
static int64_t added_bytes(const struct ff_evaluator *e, uint32_t node, uint32_t micro, uint32_t p)
{
	const struct ff_node *n = &e->g->nodes[node];
	int64_t bytes = 0;

	for (uint32_t i = n->n_data; i < n->n_in; i++) {
		if (ff_evaluator_adds(e, n->in + i, micro))
			bytes += ff_placement_gradient_bytes(&e->node[node]->block.in[i], p);
	}
	return bytes;
}

/* Backward of a part that adds to gradients takes longer by the adding. */
static int time_backward(
		struct ff_evaluator *e, uint32_t node, uint32_t micro, struct ff_error *err)
{
	const struct ff_timed_node *t = &e->timed[FF_PHASE_BACKWARD][node];
	const struct ff_node *n = &e->g->nodes[node];
	struct ff_arena_mark mark;
	double *us;

	if (!e->adds[node] && (micro == 0 || n->n_in == n->n_data)) {
		time_compute(e, t, micro, t->us);
		return FF_OK;
	}
	mark = ff_arena_mark(&e->scratch);
	us = ff_arena_array(&e->scratch, t->n, sizeof(*us));
	if (!us)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < t->n; p++)
		us[p] = t->us[p] + ff_price_add(e->p, t->device[p], added_bytes(e, node, micro, p));
	time_compute(e, t, micro, us);
	ff_arena_rewind(&e->scratch, mark);
	return FF_OK;
}

/* ---- parameters ---- */

/* Gradients of a bucket are complete when the node that closes it is done. */
static void time_sync(struct ff_evaluator *e, uint32_t bucket)
{
	const struct ff_bucket_build *b = &e->buckets.bucket[bucket];
	const struct ff_weight_group *last = e->buckets.member[b->last].group;
	const double *finish = finish_of(
			&e->timed[FF_PHASE_BACKWARD][b->close], e->program.micro_batches - 1);
	struct ff_timed_bucket *t = &e->timed_bucket[bucket];
	double at = 0;
	uint32_t n;

	t->done_us = 0; /* of one device: same lane as the update */
	if (!b->synced || b->n_devices < 2)
		return;
	n = ff_transfer_lanes(e->m, b->n_devices, b->device, e->sync_lane);
	for (uint32_t k = 0; k < n; k++)
		at = later(at, e->lane[e->sync_lane[k]]);
	for (uint32_t k = 0; k < last->n_devices; k++)
		at = later(at, finish[last->part[k]]);
	at += t->sync_us;
	for (uint32_t k = 0; k < n; k++)
		e->lane[e->sync_lane[k]] = at;
	t->done_us = at;
}

/* When the gradients of a bucket's members were brought to its device number `d`, and
 * they themselves to who reads them. */
static double brought_us(struct ff_evaluator *e, const struct ff_bucket_build *b, uint32_t d)
{
	double at = 0;

	for (uint32_t i = b->first; i != FF_NONE; i = e->buckets.member[i].next) {
		const struct ff_bucket_member *m = &e->buckets.member[i];
		double *ready = ready_of(&e->timed[FF_PHASE_BACKWARD][m->param],
				e->program.micro_batches - 1);
		uint32_t part = m->group->part[d];

		at = later(at, ready[part]);
		ready[part] = 0;
	}
	return at;
}

static void time_updates(struct ff_evaluator *e)
{
	for (uint32_t i = 0; i < e->buckets.n_buckets; i++) {
		const struct ff_bucket_build *b = &e->buckets.bucket[i];
		const struct ff_timed_bucket *t = &e->timed_bucket[i];

		for (uint32_t d = 0; d < b->n_devices; d++) {
			double *lane = &e->lane[b->device[d]];
			double at = b->synced ? t->done_us : brought_us(e, b, d);

			*lane = later(*lane, at) +
				(e->m->n_kinds == 1 ? t->update_us
						    : ff_price_update(e->p, b->device[d],
								      b->bytes));
		}
	}
}

/* The parameters that `node`, in reverse order, is the last to give gradients. */
static int complete_params(struct ff_evaluator *e, uint32_t node, struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[node];
	int code = FF_OK;

	for (uint32_t i = n->n_data; i < n->n_in && code == FF_OK; i++) {
		uint32_t param = ff_edge_source(e->g, n->in + i), count;
		bool synced = e->synced[param];
		const struct ff_memo_node *owner = e->node[synced ? node : param];
		const struct ff_weight_group *group;

		if (!e->completes[n->in + i])
			continue;
		group = ff_node_block_groups(&owner->block, synced ? i : FF_NONE, &count);
		code = ff_bucketing_add(&e->buckets, node, param, group, count, synced, err);
	}
	return code;
}

static int price_buckets(struct ff_evaluator *e, struct ff_error *err)
{
	if (e->buckets.n_buckets > e->bucket_cap) {
		uint32_t cap = 2 * e->buckets.n_buckets;
		struct ff_timed_bucket *grown = realloc(e->timed_bucket, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		e->timed_bucket = grown;
		e->bucket_cap = cap;
	}
	for (uint32_t i = 0; i < e->buckets.n_buckets; i++) {
		const struct ff_bucket_build *b = &e->buckets.bucket[i];

		e->timed_bucket[i].update_us = ff_price_update(e->p, b->device[0], b->bytes);
		if (b->synced)
			e->timed_bucket[i].sync_us =
					ff_price_sync(e->p, b->n_devices, b->device, b->bytes);
	}
	return FF_OK;
}

/* Only where a node with parameters has changed since. */
static int gather_buckets(struct ff_evaluator *e, struct ff_error *err)
{
	int code = FF_OK;

	if (e->buckets_hold)
		return FF_OK;
	ff_bucketing_begin(&e->buckets);
	memset(e->adds, 0, e->g->n_nodes * sizeof(*e->adds));
	for (uint32_t i = 0; i < e->program.n && code == FF_OK; i++) {
		uint32_t node = e->program.step[i].id;
		const struct ff_node *n = &e->g->nodes[node];

		if (e->program.step[i].kind != FF_STEP_SYNC)
			continue;
		code = complete_params(e, node, err);
		for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
			if (ff_evaluator_adds(e, k, 0))
				e->adds[node] = true;
	}
	ff_bucketing_end(&e->buckets);
	if (code == FF_OK)
		code = price_buckets(e, err);
	e->buckets_hold = code == FF_OK;
	return code;
}

/* ---- the pass ---- */

static int time_node(struct ff_evaluator *e, const struct ff_step *s, struct ff_error *err)
{
	const struct ff_timed_node *t = &e->timed[s->phase][s->id];

	if (s->phase == FF_PHASE_BACKWARD)
		return time_backward(e, s->id, s->micro, err);
	time_compute(e, t, s->micro, t->us);
	return FF_OK;
}

static void time_moves(struct ff_evaluator *e, const struct ff_step *s)
{
	if (!e->moves[ff_phase_pass(s->phase)][s->id])
		return;
	if (s->phase == FF_PHASE_BACKWARD)
		backward_moves(e, s);
	else
		forward_moves(e, s);
}

int ff_evaluator_time(struct ff_evaluator *e, double *step_us, struct ff_error *err)
{
	int code = gather_buckets(e, err);

	memset(e->lane, 0, ff_lane_count(e->m) * sizeof(*e->lane));
	for (uint32_t i = 0; i < e->program.n && code == FF_OK; i++) {
		const struct ff_step *s = &e->program.step[i];

		switch (s->kind) {
		case FF_STEP_MOVES:
			time_moves(e, s);
			break;
		case FF_STEP_COMPUTE:
			code = time_node(e, s, err);
			break;
		case FF_STEP_SYNC:
			for (uint32_t b = e->buckets.first_at[s->id]; b != FF_NONE;
					b = e->buckets.bucket[b].next_at)
				time_sync(e, b);
			break;
		case FF_STEP_UPDATE:
			time_updates(e);
			break;
		}
	}
	if (code == FF_OK)
		*step_us = latest(ff_lane_count(e->m), e->lane, 0);
	return code;
}
