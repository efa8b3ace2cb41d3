/* When every task of a strategy starts and ends.  Which tasks there are, and what waits for what,
 * is the walk's (ff/walk.h); this is its sink of times.  It computes the same maxima and sums as
 * ff_simulate does of ff_lower's tasks, so its figures are the same to the bit.
 *
 * A search makes passes over all steps for every proposal (run_pass.c), so what they read lies
 * together: one record for each operator and pass (struct ff_timed_node), made when blocks change;
 * operators whose parts run on devices side by side are added up as vectors.
 * SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include <string.h>

#include "lanes.h"
#include "place.h"
#include "shortcuts/stretch.h"

/* A task while the walk tells it: a move, or one of a bucket. */
struct timed_task {
	double from; /* what it waits for is done, so far */
	const struct ff_memo_move *move;
	const struct ff_bucket_build *bucket;
	const struct ff_bucket_move *takes; /* of a bucket's: what it takes */
	double *each; /* of moves of each device: what that of each waits for, then when it is done
		       */
};

#define FF_WALK struct ff_trial
#define FF_WALK_MOVE struct ff_memo_move
#define FF_WALK_TASK struct timed_task
#define FF_WALK_DONE double
#define FF_WALK_START 0.0
#include "ff/program_phases.h"
#include "ff/walk.h"

/* ---- what the walk reads ---- */

static inline const struct ff_graph *sink_graph(const struct ff_trial *e)
{
	return e->g;
}

static inline const struct ff_program *sink_program(const struct ff_trial *e)
{
	return &e->order.program;
}

static inline bool sink_overlaps(const struct ff_trial *e)
{
	return e->m->overlap;
}

static inline bool sink_passes(const struct ff_trial *e)
{
	return e->m->message_lane;
}

static inline struct ff_edge_ends sink_ends(const struct ff_trial *e, uint32_t edge)
{
	return e->ends[edge];
}

static inline const struct ff_node_block *sink_block(const struct ff_trial *e, uint32_t node)
{
	return e->placed.block[node];
}

static inline const struct ff_bucketing *sink_buckets(const struct ff_trial *e)
{
	return &ff_trial_gathered(e)->synced;
}

/* What is averaged, or late, is simulated, not searched. */
static inline bool sink_averages(const struct ff_trial *e)
{
	(void)e;
	return false;
}

static inline void sink_wait_late(struct ff_trial *e, struct timed_task *t, const struct ff_step *s)
{
	(void)e, (void)t, (void)s;
}

static inline uint32_t sink_n_moves(const struct ff_trial *e, enum ff_pass pass, uint32_t edge)
{
	return e->placed.state[pass][edge] == FF_EDGE_MOVES ? e->placed.edge[edge]->n_moves[pass]
							    : 0;
}

static inline const struct ff_memo_move *sink_move(
		const struct ff_trial *e, enum ff_pass pass, uint32_t edge, uint32_t i)
{
	return &e->placed.edge[edge]->move[pass][i];
}

static inline const struct ff_move *sink_move_parts(const struct ff_memo_move *mv)
{
	return mv->move;
}

static inline bool sink_is_shared(const struct ff_trial *e, uint32_t edge)
{
	return e->placed.is_shared[edge];
}

static inline bool sink_shares(const struct ff_trial *e, uint32_t edge, uint32_t other)
{
	return e->placed.shared_from[other] == edge;
}

static inline double *sink_limited(struct ff_trial *e, uint32_t device)
{
	return e->times.limited + (size_t)FF_PREFETCH_DISTANCE * device;
}

/* Compute lanes are numbered as devices are. */
static inline double sink_computed(const struct ff_trial *e, const struct ff_step *s, uint32_t part)
{
	return e->times.lane[e->times.node[s->phase][s->id].device[part]];
}

static inline int sink_begin_step(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	enum ff_pass pass = ff_phase_pass(s->phase);
	struct ff_gathered *g;
	int code;

	if (s->kind == FF_STEP_MOVES)
		return e->placed.state[pass][s->id] == FF_EDGE_UNKNOWN
				       ? ff_place_resolve(e, s->id, pass, err)
				       : FF_OK;
	if (s->kind == FF_STEP_COMPUTE && pass == FF_FORWARD)
		return FF_OK;
	/* adding to gradients, too, depends on buckets */
	code = ff_trial_gather(e, s->kind == FF_STEP_UPDATE, &g, err);
	if (code == FF_OK && s->kind == FF_STEP_SYNC && !s->limited) {
		enum ff_phase last = ff_node_ends_in(&e->order.program, s->id);
		const struct ff_timed_node *t = &e->times.node[last][s->id];

		e->early.closed_next[s->id] = latest(
				t->n, ff_time_finish(e, t, e->order.program.micro_batches - 1), 0);
	}
	return code;
}

/* ---- moves ---- */

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

/* Whoever communicates takes longer for what it computes; `device` ascends. */
static void slow_down(struct ff_trial *e, uint32_t n, const uint16_t *device, double us)
{
	double *lane = e->times.lane; /* compute lanes are numbered as devices are */

	if (us <= 0)
		return;
	if (device[n - 1] - device[0] == (int)n - 1)
		delay_each(n, us, lane + device[0]);
	else
		for (uint32_t i = 0; i < n; i++)
			lane[device[i]] += us;
}

static inline void sink_wait(struct ff_trial *e, struct timed_task *t, double done)
{
	(void)e;
	t->from = later(t->from, done);
}

static inline struct timed_task sink_begin_move(
		struct ff_trial *e, const struct ff_step *s, const struct ff_memo_move *mv)
{
	(void)s;
	if (!mv->each)
		return (struct timed_task){.move = mv};
	memset(e->times.each, 0, mv->n_sinks * sizeof(*e->times.each));
	return (struct timed_task){.move = mv, .each = e->times.each};
}

static inline void sink_wait_sources(struct ff_trial *e, struct timed_task *t, enum ff_phase phase,
		uint32_t micro, uint32_t node, const struct ff_memo_move *mv)
{
	const double *finish = ff_time_finish(e, &e->times.node[phase][node], micro);

	if (t->each)
		wait_each(mv->n_sources, finish + mv->first_source, t->each);
	else if (mv->source_range)
		t->from = latest(mv->n_sources, finish + mv->first_source, t->from);
	else
		for (uint32_t k = 0; k < mv->n_sources; k++)
			t->from = later(t->from, finish[mv->move->source[k]]);
}

/* For what has arrived where the move adds. */
static void wait_arrived(const struct ff_trial *e, struct timed_task *t, uint32_t node,
		uint32_t micro, const struct ff_memo_move *mv)
{
	const struct ff_timed_node *to = &e->times.node[FF_PHASE_BACKWARD][node];
	const double *ready = to->ready + (size_t)micro * to->n;

	if (!ff_node_is_computed(e->g, node) || !to->arrived[micro])
		return;
	if (t->each)
		wait_each(mv->n_sinks, ready + mv->first_sink, t->each);
	else if (mv->sink_range)
		t->from = latest(mv->n_sinks, ready + mv->first_sink, t->from);
	else
		for (uint32_t k = 0; k < mv->n_sinks; k++)
			t->from = later(t->from, ready[mv->move->sink[k]]);
}

static inline void sink_wait_written(struct ff_trial *e, struct timed_task *t, uint32_t value,
		uint32_t micro, const struct ff_memo_move *mv)
{
	uint32_t first = e->order.first_edge[value];
	const struct ff_memo_edge *me = e->placed.edge[first];
	const double *finish = ff_time_finish(
			e, &e->times.node[FF_PHASE_BACKWARD][e->ends[first].to], micro);

	wait_arrived(e, t, e->g->values[value].producer, micro, mv);
	if (me->none_alike)
		return;
	if (t->each) {
		for (uint32_t k = 0; k < mv->n_sinks; k++)
			if (me->alias[mv->first_sink + k] != FF_NONE)
				t->each[k] = later(
						t->each[k], finish[me->alias[mv->first_sink + k]]);
		return;
	}
	if (me->all_alike && mv->sink_range) {
		t->from = latest(mv->n_sinks, finish + mv->first_sink, t->from);
		return;
	}
	for (uint32_t k = 0; k < mv->n_sinks; k++) {
		uint32_t sink = mv->sink_range ? mv->first_sink + k : mv->move->sink[k];

		if (me->alias[sink] != FF_NONE)
			t->from = later(t->from, finish[me->alias[sink]]);
	}
}

/* One move of each device.  Who waits is told when by `each`. */
static double end_each(struct ff_trial *e, struct timed_task *t)
{
	const struct ff_memo_move *mv = t->move;
	uint32_t first = mv->lane[0].first, n = mv->lane[0].n;

	if (first < e->m->n_devices)
		idle_each(n, e->times.lane + first, t->each, e->times.idle + first);
	move_each(n, mv->us, e->times.lane + first, t->each);
	if (mv->beside_us > 0)
		delay_each(n, mv->beside_us, e->times.lane + mv->move->device[0]);
	return 0;
}

/* It starts when its lanes are free, too. */
static inline double sink_end_move(struct ff_trial *e, struct timed_task *t)
{
	const struct ff_memo_move *mv = t->move;
	uint32_t near = mv->n_lanes < 2 ? mv->n_lanes : 2;
	double from = t->from, at;

	if (t->each)
		return end_each(e, t);
	for (uint32_t k = 0; k < near; k++)
		from = latest(mv->lane[k].n, e->times.lane + mv->lane[k].first, from);
	for (uint32_t k = 2; k < mv->n_lanes; k++)
		from = latest(mv->more[k - 2].n, e->times.lane + mv->more[k - 2].first, from);
	at = from + mv->us;
	for (uint32_t k = 0; k < near; k++)
		occupy(e, &mv->lane[k], from, at);
	for (uint32_t k = 2; k < mv->n_lanes; k++)
		occupy(e, &mv->more[k - 2], from, at);
	if (mv->beside_us > 0)
		slow_down(e, mv->move->n_devices, mv->move->device, mv->beside_us);
	return at;
}

static inline void sink_arrive(struct ff_trial *e, double done, enum ff_phase phase, uint32_t micro,
		uint32_t node, const struct ff_memo_move *mv)
{
	double *ready = ff_time_expect(e, &e->times.node[phase][node], micro);

	if (mv->each)
		wait_each(mv->n_sinks, e->times.each, ready + mv->first_sink);
	else if (mv->sink_range)
		wait_range(done, mv->n_sinks, ready + mv->first_sink);
	else
		wait_list(done, mv->n_sinks, mv->move->sink, ready);
}

static inline void sink_leave(
		struct ff_trial *e, double done, uint32_t param, const struct ff_memo_move *mv)
{
	double *ready = ff_time_expect(e, &e->times.node[FF_PHASE_BACKWARD][param],
			e->order.program.micro_batches - 1);

	if (mv->source_range)
		wait_range(done, mv->n_sources, ready + mv->first_source);
	else
		wait_list(done, mv->n_sources, mv->move->source, ready);
}

static bool takes_from(const struct ff_memo_move *mv, uint32_t part)
{
	return mv->source_range ? part - mv->first_source < mv->n_sources
				: ff_move_takes_from(mv->move, part);
}

static inline void sink_replace(struct ff_trial *e, double done, const struct ff_step *s,
		uint32_t prelude, const struct ff_memo_move *mv)
{
	const struct ff_memo_edge *me = e->placed.edge[s->id];
	struct ff_timed_node *t = &e->times.node[FF_PHASE_BACKWARD][prelude];
	double *ready;

	if (me->none_alike)
		return;
	ready = ff_time_expect(e, t, s->micro);
	for (uint32_t k = 0; k < t->n; k++)
		if (me->alias[k] != FF_NONE && takes_from(mv, me->alias[k]))
			ready[k] = later(ready[k],
					mv->each ? e->times.each[me->alias[k] - mv->first_source]
						 : done);
}

/* ---- compute ---- */

/* A part anywhere; whether its lane will be too late. */
static bool run_part(struct ff_trial *e, const struct ff_timed_node *t, uint32_t p, double us,
		const double *ready, double *finish)
{
	uint32_t d = t->device[p];
	double from = later(ready[p], e->times.lane[d]);

	e->times.idle[d] += from - e->times.lane[d];
	finish[p] = e->times.lane[d] = from + us;
	return e->times.idle[d] + e->busy.known[d] > e->busy.most_us;
}

static int64_t run_anywhere(struct ff_trial *e, const struct ff_timed_node *t, const double *us,
		const double *ready, double *finish)
{
	int64_t late = 0;

	for (uint32_t p = 0; p < t->n; p++)
		late += run_part(e, t, p, us[p], ready, finish);
	return late;
}

/* How long the parts of step `s` take: backward longer by the adding, if it adds to gradients. */
static inline int price_parts(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	const struct ff_memo_adding *adding = NULL;
	int code = FF_OK;

	if (ff_phase_pass(s->phase) == FF_BACKWARD)
		code = ff_adding_find(e, s, &adding, err);
	e->times.us = adding ? adding->us : e->times.node[s->phase][s->id].us;
	return code;
}

static inline int sink_begin_compute(
		struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	const struct ff_node *n = &e->g->nodes[s->id];
	int code = price_parts(e, s, err);

	for (uint32_t k = n->n_data - n->n_carried; k < n->n_data && code == FF_OK; k++)
		if (e->placed.block[s->id]->turns.n > 1)
			code = ff_place_resolve(e, n->in + k, ff_phase_pass(s->phase), err);
	return code;
}

static inline void sink_compute_all(struct ff_trial *e, const struct ff_step *s)
{
	struct ff_timed_node *t = &e->times.node[s->phase][s->id];
	double *lane = e->times.lane + t->first; /* compute lanes are numbered as devices are */
	double *finish = ff_time_finish(e, t, s->micro), *ready = ff_timed_ready(t, s->micro);
	const double *us = e->times.us;
	int64_t late = 0;

	if (!t->in_line)
		late = run_anywhere(e, t, us, ready, finish);
	else if (t->arrived[s->micro])
		late = run_moved(t->n, us, ready, e->busy.known + t->first, e->busy.most_us, lane,
				e->times.idle + t->first, finish);
	else if (t->uniform && us == t->us)
		run_uniform(t->n, t->each_us, lane, finish);
	else
		run_in_line(t->n, us, lane, finish);
	e->busy.too_slow = e->busy.too_slow || late > 0;
}

static inline void sink_compute_part(struct ff_trial *e, const struct ff_step *s, uint32_t part)
{
	struct ff_timed_node *t = &e->times.node[s->phase][s->id];

	if (run_part(e, t, part, e->times.us[part], ff_timed_ready(t, s->micro),
			    ff_time_finish(e, t, s->micro)))
		e->busy.too_slow = true;
}

static inline void sink_end_compute(struct ff_trial *e, const struct ff_step *s)
{
	struct ff_timed_node *t = &e->times.node[s->phase][s->id];

	if (t->arrived[s->micro])
		ff_time_forget(t, s->micro);
}

/* ---- buckets ---- */

static inline struct timed_task sink_begin_sync(
		struct ff_trial *e, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_gathered *g = ff_trial_gathered(e);
	const struct ff_bucket_build *b = &g->synced.bucket[bucket];
	const struct ff_memo_bucket *price = g->timed[bucket].price;
	bool adds = b->way.stage && s->micro > 0;

	return (struct timed_task){.bucket = b, .takes = &price->sync[adds]};
}

static inline struct timed_task sink_begin_across(
		struct ff_trial *e, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_gathered *g = ff_trial_gathered(e);

	(void)s;
	return (struct timed_task){.bucket = &g->synced.bucket[bucket],
			.takes = &g->timed[bucket].price->across};
}

static inline struct timed_task sink_begin_gather(
		struct ff_trial *e, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_gathered *g = ff_trial_gathered(e);

	(void)s;
	return (struct timed_task){.bucket = &g->synced.bucket[bucket],
			.takes = &g->timed[bucket].price->gather};
}

/* Each member has its own time where gradients of parameters are made apart, or readers are. */
static void wait_for_each(const struct ff_trial *e, struct timed_task *t, const struct ff_step *s,
		const struct ff_bucketing *all, uint32_t bucket)
{
	const struct ff_block_graph blocks = ff_trial_blocks(e);

	for (uint32_t i = all->bucket[bucket].first; i != FF_NONE; i = all->member[i].next) {
		const struct ff_weight_group *group = all->member[i].group;
		const struct ff_value *v = &e->g->values[e->g->nodes[all->member[i].param].out];

		for (uint32_t u = 0; u < v->n_uses; u++) {
			uint32_t edge = ff_value_use(e->g, v, u);
			const struct ff_timed_node *node = &e->times.node[ff_edge_made_in(
					e->g, &e->order.program, edge)][e->ends[edge].to];
			const struct ff_weight_group *own = ff_reader_group(&blocks, edge, group);

			for (uint32_t k = 0; k < own->n_devices; k++)
				t->from = later(t->from,
						ff_time_finish(e, node, s->micro)[own->part[k]]);
		}
	}
}

/* They are complete when the node that closes the bucket is done. */
static inline void sink_wait_members(
		struct ff_trial *e, struct timed_task *t, const struct ff_step *s, uint32_t bucket)
{
	const struct ff_bucketing *all = sink_buckets(e);
	const struct ff_weight_group *last = all->member[all->bucket[bucket].last].group;
	const double *finish = ff_time_finish(
			e, &e->times.node[FF_PHASE_BACKWARD][t->bucket->close], s->micro);

	if (e->order.program.halves || t->bucket->apart) {
		wait_for_each(e, t, s, all, bucket);
		return;
	}
	if (last->in_line)
		t->from = latest(last->n_devices, finish + last->part[0], t->from);
	else
		for (uint32_t k = 0; k < last->n_devices; k++)
			t->from = later(t->from, finish[last->part[k]]);
}

static inline double sink_end_bucket(struct ff_trial *e, struct timed_task *t)
{
	const struct ff_bucket_move *x = t->takes;
	double at = free_at(x->n_lanes, x->lane, e->times.lane, t->from) + x->us;

	hold_until(x->n_lanes, x->lane, at, e->times.lane);
	slow_down(e, t->bucket->n_devices, t->bucket->device, x->beside_us);
	return at;
}

static inline void sink_synced(struct ff_trial *e, uint32_t bucket, double done)
{
	ff_trial_gathered(e)->timed[bucket].done_us = done;
}

static inline void sink_arrive_weights(struct ff_trial *e, double done, enum ff_phase phase,
		uint32_t micro, uint32_t edge, const struct ff_bucket_member *m)
{
	const struct ff_block_graph blocks = ff_trial_blocks(e);
	struct ff_timed_node *t = &e->times.node[phase][e->ends[edge].to];
	const struct ff_weight_group *own = ff_reader_group(&blocks, edge, m->group);
	double *ready = ff_time_expect(e, t, micro);

	if (own->in_line)
		wait_range(done, own->n_devices, ready + own->part[0]);
	else
		wait_list(done, own->n_devices, own->part, ready);
}

static inline int sink_update(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	(void)s;
	return ff_updates_time(e, err);
}

int ff_time_step(struct ff_trial *e, const struct ff_step *s, struct ff_error *err)
{
	return walk_step(e, s, err);
}
