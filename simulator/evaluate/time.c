/* The evaluator's pass: when every task starts and ends.  It takes the blocks in
 * the order of ff_lower's tasks and computes the same maxima and sums as
 * ff_simulate, so its figures are the same to the bit.
 *
 * A search makes this pass for every proposal, so what it reads lies together: one
 * record for each operator and pass (struct ff_timed_node), made when blocks
 * change; operators whose parts run on devices side by side are added up as
 * vectors.  It begins where the proposal differs from the current strategy
 * (snapshot.c), ends where it is known to be too slow, and goes through equal micro-batches
 * once (fold.c).  SPDX-License-Identifier: Apache-2.0 */
#include "arrivals.h"

#include <math.h>
#include <string.h>

#include "early.h"
#include "fold.h"
#include "place.h"

static double later(double a, double b)
{
	return a > b ? a : b;
}

/* ---- moves ---- */

/* Times are never negative, so their bits compare as they do; and whole numbers
 * are what compilers find the largest of side by side. */
typedef int64_t __attribute__((may_alias)) time_bits;

FF_CLONES static void latest_bits(uint32_t n, const time_bits *x, time_bits *at)
{
	time_bits most = *at;

	for (uint32_t i = 0; i < n; i++)
		most = x[i] > most ? x[i] : most;
	*at = most;
}

FF_CLONES static void wait_bits(uint32_t n, time_bits *x, time_bits at)
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

/* Where nothing overlaps, a lane that computes waits for moves, too. */
static void occupy(struct ff_trial *e, const struct ff_lanes *l, double from, double at)
{
	double *lane = e->times.lane + l->first, *idle = e->times.idle + l->first;

	if (l->first < e->m->n_devices)
		for (uint32_t i = 0; i < l->n; i++)
			idle[i] += from - lane[i];
	for (uint32_t i = 0; i < l->n; i++)
		lane[i] = at;
}

/* Whoever communicates takes longer for what it computes. */
static void slow_down(struct ff_trial *e, uint32_t n, const uint16_t *device, double us)
{
	for (uint32_t i = 0; i < n && us > 0; i++)
		e->times.lane[device[i]] += us; /* compute lanes are numbered as devices are */
}

/* One move: it starts when its lanes are free and its sources done. */
static double time_move(struct ff_trial *e, const struct ff_memo_move *tm, const double *finish,
		double from)
{
	uint32_t near = tm->n_lanes < 2 ? tm->n_lanes : 2;
	double at;

	for (uint32_t k = 0; k < near; k++)
		from = latest(tm->lane[k].n, e->times.lane + tm->lane[k].first, from);
	for (uint32_t k = 2; k < tm->n_lanes; k++)
		from = latest(tm->more[k - 2].n, e->times.lane + tm->more[k - 2].first, from);
	if (finish && tm->source_range)
		from = latest(tm->n_sources, finish + tm->first_source, from);
	else
		for (uint32_t k = 0; finish && k < tm->n_sources; k++)
			from = later(from, finish[tm->move->source[k]]);
	at = from + tm->us;
	for (uint32_t k = 0; k < near; k++)
		occupy(e, &tm->lane[k], from, at);
	for (uint32_t k = 2; k < tm->n_lanes; k++)
		occupy(e, &tm->more[k - 2], from, at);
	if (tm->beside_us > 0)
		slow_down(e, tm->move->n_devices, tm->move->device, tm->beside_us);
	return at;
}

static double *finish_of(const struct ff_timed_node *t, uint32_t micro)
{
	return t->finish + (size_t)micro * t->n;
}

static void forget_all(struct ff_trial *e)
{
	for (uint32_t i = 0; i < e->times.n_arrivals; i++)
		if (e->order.arrival[i].node->arrived[e->order.arrival[i].micro])
			ff_time_forget(e->order.arrival[i].node, e->order.arrival[i].micro);
	e->times.n_arrivals = 0;
}

/* Parts in a row wait until `at`. */
static void wait_range(double at, uint32_t n, double *ready)
{
	time_bits bits;

	memcpy(&bits, &at, sizeof(bits));
	if (n > 2)
		wait_bits(n, (time_bits *)ready, bits);
	else
		for (uint32_t k = 0; k < n; k++)
			ready[k] = later(ready[k], at);
}

static void wait_list(double at, uint32_t n, const uint16_t *part, double *ready)
{
	for (uint32_t k = 0; k < n; k++)
		ready[part[k]] = later(ready[part[k]], at);
}

static void arrive(const struct ff_memo_move *tm, double at, double *ready)
{
	if (tm->sink_range)
		wait_range(at, tm->n_sinks, ready + tm->first_sink);
	else
		wait_list(at, tm->n_sinks, tm->move->sink, ready);
}

/* A parameter is not updated before it was brought to who reads it. */
static void leave(struct ff_trial *e, uint32_t param, const struct ff_memo_move *tm, double at)
{
	double *ready = ff_time_expect(e, &e->times.node[FF_PHASE_BACKWARD][param],
			e->order.program.micro_batches - 1);

	if (tm->source_range)
		wait_range(at, tm->n_sources, ready + tm->first_source);
	else
		wait_list(at, tm->n_sources, tm->move->source, ready);
}

/* `ready` of who reads at `edge` what step `s` moves. */
static double *expect(struct ff_trial *e, const struct ff_step *s, uint32_t edge)
{
	uint32_t to = e->ends[edge].to;
	enum ff_phase reader = s->phase;

	if (s->phase == FF_PHASE_RECOMPUTE) {
		to = ff_time_reader(e, edge);
		reader = ff_time_reads_again(e, to);
	}
	return ff_time_expect(e, &e->times.node[reader][to], s->micro);
}

/* What is moved at the edge of step `s` for other uses, too. */
static void share(struct ff_trial *e, const struct ff_step *s, const struct ff_memo_move *tm,
		double at)
{
	const struct ff_value *v = &e->g->values[e->ends[s->id].value];

	for (uint32_t u = 0; u < v->n_uses; u++) {
		uint32_t edge = e->g->uses[v->first_use + u];

		if (e->placed.shared_from[edge] == s->id &&
				(s->phase != FF_PHASE_RECOMPUTE ||
						ff_edge_read_again(e->g, &e->order.program, edge)))
			arrive(tm, at, expect(e, s, edge));
	}
}

static void forward_moves(struct ff_trial *e, const struct ff_step *s)
{
	const struct ff_memo_edge *me = e->placed.edge[s->id];
	const struct ff_ends *ends = &e->ends[s->id];
	const double *finish = NULL;
	double *ready = expect(e, s, s->id);

	if (ends->computed)
		finish = finish_of(&e->times.node[s->phase][ends->from], s->micro);
	for (uint32_t i = 0; i < me->n_moves[FF_FORWARD]; i++) {
		const struct ff_memo_move *tm = &me->move[FF_FORWARD][i];
		double at = time_move(e, tm, finish, ff_time_held(e, s, tm));

		arrive(tm, at, ready);
		if (e->placed.is_shared[s->id])
			share(e, s, tm, at);
		if (ends->parameter)
			leave(e, ends->from, tm, at);
	}
}

/* When what a move adds to was written: a first use that is aliased was written
 * by compute; one that moved stands on the same lane. */
static double first_written(const struct ff_trial *e, uint32_t value, uint32_t micro,
		const struct ff_memo_move *tm)
{
	uint32_t first = e->order.first_edge[value];
	const struct ff_memo_edge *me = e->placed.edge[first];
	const double *finish =
			finish_of(&e->times.node[FF_PHASE_BACKWARD][e->ends[first].to], micro);
	double at = 0;

	if (me->none_alike)
		return at;
	if (me->all_alike && tm->sink_range)
		return latest(tm->n_sinks, finish + tm->first_sink, at);
	for (uint32_t k = 0; k < tm->n_sinks; k++) {
		uint32_t sink = tm->sink_range ? tm->first_sink + k : tm->move->sink[k];

		if (me->alias[sink] != FF_NONE)
			at = later(at, finish[me->alias[sink]]);
	}
	return at;
}

static void backward_moves(struct ff_trial *e, const struct ff_step *s)
{
	const struct ff_memo_edge *me = e->placed.edge[s->id];
	const struct ff_ends *ends = &e->ends[s->id];
	const double *finish = finish_of(&e->times.node[FF_PHASE_BACKWARD][ends->to], s->micro);
	double *ready = ff_time_expect(e, &e->times.node[FF_PHASE_BACKWARD][ends->from], s->micro);

	for (uint32_t i = 0; i < me->n_moves[FF_BACKWARD]; i++) {
		const struct ff_memo_move *tm = &me->move[FF_BACKWARD][i];
		double at = tm->accumulate ? first_written(e, ends->value, s->micro, tm) : 0;

		at = time_move(e, tm, finish, at);
		arrive(tm, at, ready);
		if (ends->prelude != FF_NONE && !me->none_alike)
			ff_time_replaced(e, s, tm, at);
	}
}

static int time_moves(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	enum ff_pass pass = ff_phase_pass(s->phase);
	int code = FF_OK;

	if (e->placed.state[pass][s->id] == FF_EDGE_UNKNOWN)
		code = ff_place_resolve(e, s->id, pass, err);
	if (code < 0 || e->placed.state[pass][s->id] != FF_EDGE_MOVES)
		return code;
	if (pass == FF_BACKWARD)
		backward_moves(e, s);
	else
		forward_moves(e, s);
	return FF_OK;
}

/* ---- compute ---- */

/* Parts in turn on lanes that follow each other. */
FF_CLONES static void run_in_line(
		uint32_t n, const double *us, double *restrict lane, double *restrict finish)
{
	for (uint32_t p = 0; p < n; p++)
		finish[p] = lane[p] += us[p];
}

FF_CLONES static void run_uniform(
		uint32_t n, double us, double *restrict lane, double *restrict finish)
{
	for (uint32_t p = 0; p < n; p++)
		finish[p] = lane[p] += us;
}

/* The same for parts that wait for what is moved to them.  Returns how many lanes will
 * be too late: idle so far and busy in all for longer than `most`. */
FF_CLONES static int64_t run_moved(uint32_t n, const double *us, const double *ready,
		const double *busy, double most, double *restrict lane, double *restrict idle,
		double *restrict finish)
{
	int64_t late = 0;

	for (uint32_t p = 0; p < n; p++) {
		double from = ready[p] > lane[p] ? ready[p] : lane[p];

		idle[p] += from - lane[p];
		finish[p] = lane[p] = from + us[p];
		late += idle[p] + busy[p] > most;
	}
	return late;
}

/* A part anywhere; whether its lane will be too late. */
static bool run_part(struct ff_trial *e, const struct ff_timed_node *t, uint32_t p, double us,
		const double *ready, double *finish)
{
	uint32_t d = t->device[p];
	double from = later(ready[p], e->times.lane[d]);

	e->times.idle[d] += from - e->times.lane[d];
	finish[p] = e->times.lane[d] = from + us;
	return e->times.idle[d] + e->busy.next[d] > e->busy.most_us;
}

static int64_t run_anywhere(struct ff_trial *e, const struct ff_timed_node *t, const double *us,
		const double *ready, double *finish)
{
	int64_t late = 0;

	for (uint32_t p = 0; p < t->n; p++)
		late += run_part(e, t, p, us[p], ready, finish);
	return late;
}

/* What is carried to the parts of `turn`; `moved` of each has been: lowering's emit_carried. */
static void carry(struct ff_trial *e, const struct ff_step *s, const double *finish, uint32_t turn,
		uint32_t *moved, double *ready)
{
	const struct ff_node *n = &e->g->nodes[s->id];
	enum ff_pass pass = ff_phase_pass(s->phase);

	for (uint32_t k = 0; k < n->n_carried; k++) {
		const struct ff_memo_edge *me =
				e->placed.edge[n->in + n->n_data - n->n_carried + k];

		for (; moved[k] < me->n_moves[pass]; moved[k]++) {
			const struct ff_memo_move *tm = &me->move[pass][moved[k]];

			if (ff_turn_of(e->placed.block[s->id], pass, tm->move->sink[0]) > turn)
				break;
			arrive(tm, time_move(e, tm, finish, 0), ready);
		}
	}
}

/* Parts in turn, which carry something from one to the next. */
static int time_turns(
		struct ff_trial *e, const struct ff_step *s, const double *us, struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[s->id];
	const struct ff_node_block *b = e->placed.block[s->id];
	struct ff_timed_node *t = &e->times.node[s->phase][s->id];
	enum ff_pass pass = ff_phase_pass(s->phase);
	double *finish = finish_of(t, s->micro), *ready = ff_time_expect(e, t, s->micro);
	uint32_t moved[FF_MAX_CARRIED] = {0};
	int code = FF_OK;

	for (uint32_t k = n->n_data - n->n_carried; k < n->n_data && code == FF_OK; k++)
		code = ff_place_resolve(e, n->in + k, pass, err);
	for (uint32_t i = 0; i < t->n && code == FF_OK; i++) {
		uint32_t p = ff_turn_part(b, pass, i);

		carry(e, s, finish, ff_turn_of(b, pass, p), moved, ready);
		if (run_part(e, t, p, us[p], ready, finish))
			e->busy.too_slow = true;
	}
	ff_time_forget(t, s->micro);
	return code;
}

/* All parts of step `s`, which take so long. */
static int time_compute(
		struct ff_trial *e, const struct ff_step *s, const double *us, struct ff_error *err)
{
	struct ff_timed_node *t = &e->times.node[s->phase][s->id];
	uint32_t micro = s->micro;
	double *lane = e->times.lane + t->first; /* compute lanes are numbered as devices are */
	double *finish = finish_of(t, micro), *ready = ff_timed_ready(t, micro);
	bool moved = t->arrived[micro];
	int64_t late = 0;

	if (e->placed.block[s->id]->turns.n > 1)
		return time_turns(e, s, us, err);
	if (!t->in_line)
		late = run_anywhere(e, t, us, ready, finish);
	else if (moved)
		late = run_moved(t->n, us, ready, e->busy.next + t->first, e->busy.most_us, lane,
				e->times.idle + t->first, finish);
	else if (t->uniform && us == t->us)
		run_uniform(t->n, t->each_us, lane, finish);
	else
		run_in_line(t->n, us, lane, finish);
	if (moved)
		ff_time_forget(t, micro);
	e->busy.too_slow = e->busy.too_slow || late > 0;
	return FF_OK;
}

/* What a part of `node` adds to gradients that are there already, in bytes. */
static int64_t added_bytes(const struct ff_trial *e, uint32_t node, uint32_t micro, uint32_t p)
{
	const struct ff_node *n = &e->g->nodes[node];
	int64_t bytes = 0;

	for (uint32_t i = 0; i < n->n_in; i++) {
		if (i < n->n_data ? ff_trial_sums(e, n->in + i)
				  : ff_trial_adds(e, n->in + i, micro))
			bytes += ff_placement_gradient_bytes(
					&e->placed.node[node]->block->in[i], p);
	}
	return bytes;
}

static bool adds_all(const struct ff_trial *e, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &e->g->nodes[node];
	bool all = !e->placed.n_added[node];

	for (uint32_t i = n->n_data; i < n->n_in && micro == 0; i++)
		all = all && ff_trial_adds(e, n->in + i, micro);
	return all;
}

/* Backward that adds to some gradients of its parameters, but not to all, or of its data. */
static int time_adding_some(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	struct ff_timed_node *t = &e->times.node[FF_PHASE_BACKWARD][s->id];
	struct ff_arena_mark mark = ff_arena_mark(&e->scratch);
	double *us = ff_arena_array(&e->scratch, t->n, sizeof(*us));
	int code;

	if (!us)
		return ff_fail_memory(err);
	for (uint32_t p = 0; p < t->n; p++)
		us[p] = t->us[p] +
			ff_price_add(e->p, e->g, t->device[p], added_bytes(e, s->id, s->micro, p));
	code = time_compute(e, s, us, err);
	ff_arena_rewind(&e->scratch, mark);
	return code;
}

/* Backward of a part that adds to gradients takes longer by the adding. */
static int time_backward(struct ff_trial *e, const struct ff_gathered *b, const struct ff_step *s,
		struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[s->id];
	const double *us = e->times.node[FF_PHASE_BACKWARD][s->id].us;

	if (b->adds[s->id] || (s->micro > 0 && n->n_in > n->n_data) ||
			(e->placed.n_sums && e->placed.n_added[s->id])) {
		if (!adds_all(e, s->id, s->micro))
			return time_adding_some(e, s, err);
		us = ff_memo_adding(e->memo, s->id, e->placed.node[s->id]);
		if (!us)
			return ff_fail_memory(err);
	}
	return time_compute(e, s, us, err);
}

/* ---- parameters ---- */

/* Gradients of a bucket are complete when the node that closes it is done. */
static void time_sync(struct ff_trial *e, const struct ff_gathered *g, uint32_t bucket)
{
	const struct ff_bucket_build *b = &g->synced.bucket[bucket];
	const struct ff_weight_group *last = g->synced.member[b->last].group;
	const double *finish = finish_of(&e->times.node[FF_PHASE_BACKWARD][b->close],
			e->order.program.micro_batches - 1);
	struct ff_timed_bucket *t = &g->timed[bucket];
	double at = 0;
	uint32_t n;

	t->done_us = 0; /* of one device: same lane as the update */
	if (b->n_devices < 2)
		return;
	n = ff_transfer_lanes(e->m, b->n_devices, b->device, e->times.sync_lane);
	for (uint32_t k = 0; k < n; k++)
		at = later(at, e->times.lane[e->times.sync_lane[k]]);
	for (uint32_t k = 0; k < last->n_devices; k++)
		at = later(at, finish[last->part[k]]);
	at += t->sync_us;
	for (uint32_t k = 0; k < n; k++)
		e->times.lane[e->times.sync_lane[k]] = at;
	slow_down(e, b->n_devices, b->device,
			ff_price_beside(e->p, b->n_devices, b->device, t->sync_us));
	t->done_us = at;
}

static void time_syncs(struct ff_trial *e, const struct ff_gathered *g, uint32_t node)
{
	const struct ff_timed_node *t = &e->times.node[FF_PHASE_BACKWARD][node];

	e->early.closed_next[node] =
			latest(t->n, finish_of(t, e->order.program.micro_batches - 1), 0);
	for (uint32_t b = g->synced.first_at[node]; b != FF_NONE; b = g->synced.bucket[b].next_at)
		time_sync(e, g, b);
}

/* Weights of a flat bucket arrive at all who read them: once for all micro-batches, or, if it is
 * dropped, in each forward and again. */
static void arrive_weights(struct ff_trial *e, const struct ff_step *s,
		const struct ff_bucketing *all, uint32_t bucket, double at)
{
	for (uint32_t i = all->bucket[bucket].first; i != FF_NONE; i = all->member[i].next) {
		const struct ff_bucket_member *m = &all->member[i];
		const struct ff_value *v = &e->g->values[e->g->nodes[m->param].out];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t to = e->ends[e->g->uses[v->first_use + u]].to;
			bool later = s->phase != FF_PHASE_FORWARD;
			enum ff_phase phase = later ? ff_time_reads_again(e, to) : s->phase;

			if (later && ff_program_gathers(&e->order.program, later, s->micro, to) ==
							FF_NONE)
				continue;
			wait_list(at, m->group->n_devices, m->group->part,
					ff_time_expect(e, &e->times.node[phase][to], s->micro));
		}
	}
}

/* When the weights of a dropped bucket may begin to come: lowering's limit_prefetch. */
static double gather_held(
		const struct ff_trial *e, const struct ff_step *s, const struct ff_bucket_build *b)
{
	double at = 0;

	for (uint32_t d = 0; d < b->n_devices && s->limited && e->m->overlap; d++)
		at = later(at, e->times.limited[(size_t)FF_PREFETCH_DISTANCE * b->device[d] +
						FF_PREFETCH_DISTANCE - 1]);
	return at;
}

static void time_gather(struct ff_trial *e, const struct ff_step *s, const struct ff_gathered *g,
		uint32_t bucket)
{
	const struct ff_bucket_build *b = &g->synced.bucket[bucket];
	double us = g->timed[bucket].gather_us, at = gather_held(e, s, b);
	uint32_t n = ff_transfer_lanes(e->m, b->n_devices, b->device, e->times.sync_lane);

	for (uint32_t k = 0; k < n; k++)
		at = later(at, e->times.lane[e->times.sync_lane[k]]);
	at += us;
	for (uint32_t k = 0; k < n; k++)
		e->times.lane[e->times.sync_lane[k]] = at;
	slow_down(e, b->n_devices, b->device, ff_price_beside(e->p, b->n_devices, b->device, us));
	arrive_weights(e, s, &g->synced, bucket, at);
}

static int time_gathers(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	bool later = s->phase != FF_PHASE_FORWARD;
	struct ff_gathered *g;
	int code = ff_trial_gather(e, false, &g, err);
	const struct ff_bucketing *all;

	if (code < 0)
		return code;
	all = &g->synced;
	if (s->limited)
		for (uint32_t i = all->n_dropped ? all->first_opened[later][s->id] : FF_NONE;
				i != FF_NONE; i = all->bucket[i].next_opened[later])
			time_gather(e, s, g, i);
	else
		for (uint32_t i = all->first_at[s->id]; i != FF_NONE; i = all->bucket[i].next_at)
			if (all->bucket[i].flat && !all->bucket[i].dropped)
				time_gather(e, s, g, i);
	return FF_OK;
}

/* ---- the pass ---- */

/* What depends on buckets: all of backward. */
static int time_back(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	struct ff_gathered *b;
	int code = ff_trial_gather(
			e, s->kind != FF_STEP_COMPUTE && s->kind != FF_STEP_SYNC, &b, err);

	if (code < 0)
		return code;
	if (s->kind == FF_STEP_COMPUTE)
		return time_backward(e, b, s, err);
	if (s->kind == FF_STEP_UPDATE)
		return ff_updates_time(e, b, err);
	time_syncs(e, b, s->id);
	return FF_OK;
}

static int time_step(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	int code;

	if (s->kind == FF_STEP_MOVES)
		return time_moves(e, s, err);
	if (s->kind == FF_STEP_GATHER)
		return time_gathers(e, s, err);
	if (s->phase == FF_PHASE_BACKWARD)
		code = time_back(e, s, err);
	else
		code = time_compute(e, s, e->times.node[s->phase][s->id].us, err);
	if (s->limited)
		ff_time_pace(e, &e->times.node[s->phase][s->id]);
	return code;
}

static void start(struct ff_trial *e)
{
	memset(e->times.lane, 0, ff_lane_count(e->m) * sizeof(*e->times.lane));
	memset(e->times.idle, 0, ff_lane_count(e->m) * sizeof(*e->times.idle));
	memset(e->times.limited, 0,
			FF_PREFETCH_DISTANCE * (size_t)e->m->n_devices * sizeof(*e->times.limited));
}

/* The first active step that is not before `i`, or one behind the last. */
static uint32_t active_from(const struct ff_trial *e, uint32_t i)
{
	uint32_t word = i / 64, end = e->order.program.n / 64;
	uint64_t bits = e->order.active[word] & ~(uint64_t)0 << i % 64;

	while (!bits && word < end)
		bits = e->order.active[++word];
	return bits ? 64 * word + (uint32_t)__builtin_ctzll(bits) : e->order.program.n;
}

int ff_trial_time(struct ff_trial *e, uint32_t first, uint32_t last, double *step_us,
		struct ff_error *err)
{
	const struct ff_snapshot *s = ff_snapshot_behind(e, last);
	uint32_t i = ff_snapshots_resume(e, first);
	int code = FF_OK;

	if (i == 0)
		start(e);
	ff_fold_begin(e);
	ff_early_pass(e);
	i = active_from(e, i);
	for (; i < e->order.program.n && code == FF_OK && !ff_is_rejected(e);
			i = active_from(e, i + 1)) {
		if (s && i >= s->step) {
			ff_early_check_idle(e, s);
			s = NULL;
		}
		if (i >= e->early.mark_at)
			ff_early_mark(e, i);
		while (i >= e->fold.at)
			i = active_from(e, ff_fold_reach(e, i));
		code = time_step(e, &e->order.program.step[i], err);
	}
	forget_all(e);
	if (code == FF_OK)
		*step_us = latest(ff_lane_count(e->m), e->times.lane, 0);
	return code;
}

int ff_trial_record(struct ff_trial *e, struct ff_error *err)
{
	int code = e->snapshots.planned ? FF_OK : ff_snapshots_plan(e, err);
	uint32_t i;

	if (code < 0)
		return code;
	e->busy.most_us = INFINITY;
	i = ff_snapshots_resume(e, FF_NONE);
	if (i == 0)
		start(e);
	for (i = active_from(e, i); code == FF_OK; i = active_from(e, i + 1)) {
		while (e->snapshots.n_taken < e->snapshots.n &&
				i >= e->snapshots.at[e->snapshots.n_taken].step && code == FF_OK)
			code = ff_snapshot_take(e, &e->snapshots.at[e->snapshots.n_taken], err);
		if (e->snapshots.n_taken == e->snapshots.n || code < 0)
			break;
		code = time_step(e, &e->order.program.step[i], err);
	}
	forget_all(e);
	e->snapshots.recorded = code == FF_OK;
	return code;
}
