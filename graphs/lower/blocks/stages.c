/* Stages: whose turn it is in a program.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/program.h"

#include <string.h>

#include "steps.h"

static void put_forward(struct ff_writer *w, struct ff_writer_pass *p, uint32_t i)
{
	uint32_t node = w->order[p->stage->first + i];

	if (ff_node_is_computed(w->g, node))
		ff_steps_forward(w, node, p->micro);
}

/* The next node of the stage that reads parameters which are gathered again.  It is asked for in the
 * last micro-batch alone: only then gradients of parameters are moved.  What was found for the node
 * before holds up to there. */
static uint32_t next_that_reads_again(struct ff_writer *w, struct ff_writer_pass *p, uint32_t i)
{
	if (!w->again || p->micro + 1 != w->s->micro_batches)
		return FF_NONE;
	for (p->again = p->again > i ? p->again : i + 1; p->again < p->stage->end - p->stage->first;
			p->again++) {
		uint32_t node = w->order[p->stage->end - 1 - p->again];

		if (ff_node_needs_grad(w->g, node) && ff_steps_reads_again(w, node))
			return node;
	}
	return FF_NONE;
}

static void put_backward(struct ff_writer *w, struct ff_writer_pass *p, uint32_t i)
{
	uint32_t node = w->order[p->stage->end - 1 - i];

	if (ff_node_is_computed(w->g, node) && ff_node_needs_grad(w->g, node))
		ff_steps_backward(w, node, next_that_reads_again(w, p, i), p->micro);
}

static void put_weights(struct ff_writer *w, struct ff_writer_pass *p, uint32_t i)
{
	ff_steps_weights(w, w->order[p->stage->end - 1 - i], p->micro);
}

/* Ticks that passes take: where gradients of parameters are made with those of data, about as with
 * transformers whose layers are cut over a node; else equal halves, as Qi et al. have them.  What
 * is issued in the order of ticks that are far off waits in its lane for what another rank is not
 * yet at. */
static const struct {
	void (*put)(struct ff_writer *w, struct ff_writer_pass *p, uint32_t i);
	uint32_t ticks[2]; /* whole, in halves */
} passes[FF_STAGE_PASSES] = {[FF_STAGE_FORWARD] = {put_forward, {6, 1}},
		[FF_STAGE_BACKWARD] = {put_backward, {14, 1}},
		[FF_STAGE_WEIGHTS] = {put_weights, {1, 1}}};

/* Puts a tick's share of a pass: what other ranks do meanwhile comes between. */
static void go_on(struct ff_writer *w, struct ff_writer_pass *p)
{
	uint32_t n = p->stage->end - p->stage->first, over = p->ticks - p->left + 1;
	uint32_t end = (uint32_t)((uint64_t)n * over / p->ticks);

	for (; p->next < end; p->next++)
		passes[p->kind].put(w, p, p->next);
}

/* ---- whose turn it is ---- */

static bool is_vee(const struct ff_writer *w)
{
	return w->s->rule == FF_ORDER_ZB_V;
}

/* The stage that is chunk `chunk` of rank `rank`: stages go round all ranks, or down and up
 * again. */
static uint32_t stage_of(const struct ff_writer *w, uint32_t rank, uint32_t chunk)
{
	return chunk && is_vee(w) ? 2 * w->n_ranks - 1 - rank : chunk * w->n_ranks + rank;
}

/* Begins a pass, unless what it needs is not there. */
static bool try_pass(struct ff_writer *w, struct ff_writer_rank *r, enum ff_stage_pass kind,
		struct ff_writer_stage *s, uint32_t micro)
{
	uint32_t own = w->s->ticks[kind], ticks = own ? own : passes[kind].ticks[w->p.halves];
	bool last = s + 1 == w->stage + w->n_stages;
	uint32_t there = kind == FF_STAGE_WEIGHTS    ? s->done[FF_STAGE_BACKWARD]
			 : kind == FF_STAGE_BACKWARD ? (last ? s->done[FF_STAGE_FORWARD]
							     : s[1].done[FF_STAGE_BACKWARD])
			 : s > w->stage              ? s[-1].done[FF_STAGE_FORWARD]
						     : w->s->micro_batches;

	if (micro >= there)
		return false;
	r->begun[kind]++;
	s->begun[kind]++;
	r->pass = (struct ff_writer_pass){kind, s, micro, ticks, ticks, 0, 0};
	return true;
}

/* How many micro-batches of all its chunks may be under way at a rank before it turns back: as
 * many as follow it.  With several chunks a group of n_ranks goes through all but the last, and
 * what follows is twice as far (Megatron-LM's interleaved schedule). */
static uint32_t most_under_way(const struct ff_writer *w, uint32_t rank)
{
	uint32_t p = w->n_ranks, rest = p - rank, chunks = w->rank[0].n_chunks;

	if (w->s->rule == FF_ORDER_GPIPE)
		return UINT32_MAX;
	return chunks == 1 ? rest : (chunks - 1) * p + 2 * rest - 1;
}

/* The next that a rank computes forward, or backward: groups of n_ranks micro-batches (the last
 * may be smaller) go through its chunks in turn, first to last or last to first. */
static bool try_turn(struct ff_writer *w, struct ff_writer_rank *r, enum ff_stage_pass kind)
{
	uint32_t p = w->n_ranks, chunks = r->n_chunks, k = r->begun[kind];
	uint32_t first = k / (p * chunks) * p, left = w->s->micro_batches - first;
	uint32_t size = left < p ? left : p, within = k % (p * chunks), chunk = within / size;

	chunk = kind == FF_STAGE_BACKWARD ? chunks - 1 - chunk : chunk;
	return try_pass(w, r, kind, &w->stage[stage_of(w, w->at, chunk)], first + within % size);
}

/* Forward or backward, unless what that needs is not there.  `beyond`: forward, however much is
 * under way. */
static bool begin_pass(struct ff_writer *w, struct ff_writer_rank *r, bool beyond)
{
	uint32_t forward = r->begun[FF_STAGE_FORWARD], back = r->begun[FF_STAGE_BACKWARD];
	bool all = forward == r->n_chunks * w->s->micro_batches;

	if (!all && (beyond || forward - back < most_under_way(w, w->at)))
		return try_turn(w, r, FF_STAGE_FORWARD);
	return back < forward && try_turn(w, r, FF_STAGE_BACKWARD);
}

/* What a rank does next; says whether it does anything.  Gradients of parameters fill the time in
 * which it would wait.  So many micro-batches may lack them as the rank has fewer under way than
 * the first one: no rank keeps more than that one under 1F1B (Qi et al.'s ZB-H1). */
static bool begin(struct ff_writer *w, struct ff_writer_rank *r, bool beyond)
{
	uint32_t made = r->begun[FF_STAGE_WEIGHTS];
	uint32_t later = w->p.halves ? r->begun[FF_STAGE_BACKWARD] - made : 0;

	if (later <= w->at && begin_pass(w, r, beyond))
		return true;
	return later && try_pass(w, r, FF_STAGE_WEIGHTS, &w->stage[w->at], made);
}

/* ---- in a V ---- */

/* How many micro-batches a stage keeps, at most: as many as follow it, one less on the way down.
 * So a rank keeps 2 n_ranks in both of its stages, as much as the first one under 1F1B.  The first
 * micro-batch that is not through can always go on, as those before it are kept nowhere. */
static uint32_t most_kept(const struct ff_writer *w, uint32_t stage)
{
	return 2 * w->n_ranks - stage - (stage < w->n_ranks);
}

/* Whether another micro-batch may begin a pass of a stage. */
static bool may_begin(const struct ff_writer *w, enum ff_stage_pass kind, uint32_t stage)
{
	const uint32_t *begun = w->stage[stage].begun;
	uint32_t over = begun[w->p.halves ? FF_STAGE_WEIGHTS : FF_STAGE_BACKWARD];

	if (begun[kind] == w->s->micro_batches)
		return false;
	return kind == FF_STAGE_FORWARD ? begun[kind] - over < most_kept(w, stage)
					: w->p.halves || kind == FF_STAGE_BACKWARD;
}

/* Of what a rank can do it does what stands first here.  What other ranks wait for longest goes
 * first: forward on the way up, where backward begins, and backward on the way down.  New
 * micro-batches come last, as they wait for those that are kept. */
static bool begin_in_vee(struct ff_writer *w, struct ff_writer_rank *r)
{
	static const struct {
		enum ff_stage_pass kind;
		uint32_t chunk;
	} turns[] = {{FF_STAGE_FORWARD, 1}, {FF_STAGE_BACKWARD, 0}, {FF_STAGE_WEIGHTS, 0},
			{FF_STAGE_BACKWARD, 1}, {FF_STAGE_FORWARD, 0}, {FF_STAGE_WEIGHTS, 1}};

	for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
		enum ff_stage_pass kind = turns[i].kind;
		uint32_t stage = stage_of(w, w->at, turns[i].chunk);
		struct ff_writer_stage *s = &w->stage[stage];

		if (turns[i].chunk < r->n_chunks && may_begin(w, kind, stage) &&
				try_pass(w, r, kind, s, s->begun[kind]))
			return true;
	}
	return false;
}

/* ---- tick by tick ---- */

static bool begin_all(struct ff_writer *w, bool beyond)
{
	bool any = false;

	for (w->at = 0; w->at < w->n_ranks; w->at++) {
		struct ff_writer_rank *r = &w->rank[w->at];

		any = r->pass.left || (is_vee(w) ? begin_in_vee(w, r) : begin(w, r, beyond)) || any;
	}
	for (w->at = 0; w->at < w->n_ranks; w->at++)
		if (w->rank[w->at].pass.left)
			go_on(w, &w->rank[w->at].pass);
	return any;
}

static bool is_through(const struct ff_writer *w, const struct ff_writer_rank *r)
{
	return !r->pass.left && r->begun[FF_STAGE_BACKWARD] == r->n_chunks * w->s->micro_batches;
}

/* Puts the steps of `late` whose ranks have computed (`held`: are through); says how many are left.
 */
static uint32_t put_late(struct ff_writer *w, struct ff_writer_late *late, uint32_t n, bool held)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct ff_writer_rank *r = &w->rank[late[i].rank];

		if (held ? is_through(w, r) : !r->pass.left)
			ff_steps_put(w, late[i].step);
		else
			late[left++] = late[i];
	}
	return left;
}

/* A tick is over.  What goes from stage to stage is issued then, so that no device waits for
 * another's message before its own work. */
static void end_tick(struct ff_writer *w)
{
	for (uint32_t i = 0; i < w->n_ranks; i++) {
		struct ff_writer_pass *p = &w->rank[i].pass;

		if (p->left && !--p->left)
			p->stage->done[p->kind]++;
	}
	w->n_late = put_late(w, w->late, w->n_late, false);
	w->n_held = put_late(w, w->held, w->n_held, true);
}

static bool is_over(const struct ff_writer *w)
{
	bool over = w->stage[0].done[FF_STAGE_BACKWARD] == w->s->micro_batches;

	for (uint32_t i = 0; i < w->n_stages && over && w->p.halves; i++)
		over = w->stage[i].done[FF_STAGE_WEIGHTS] == w->s->micro_batches;
	return over;
}

/* Tick by tick.  Where ranks all wait (a group is smaller than the others, or some ranks hold
 * fewer chunks) they go on forward: of all that has not been forward yet, the chunk that comes
 * first in its group's turn has what it needs. */
static void run_stages(struct ff_writer *w)
{
	while (!is_over(w)) {
		if (!begin_all(w, false))
			begin_all(w, true);
		end_tick(w);
	}
}

static void find_stages(struct ff_writer *w)
{
	uint32_t stage = 0;

	for (uint32_t i = 0; i < w->g->n_nodes; i++) {
		uint32_t node = w->order[i];

		if (!ff_node_is_computed(w->g, node))
			continue;
		if (!w->n_stages || ff_strategy_stage(w->g, w->s, node) != stage)
			w->stage[w->n_stages++].first = i;
		stage = ff_strategy_stage(w->g, w->s, node);
		w->stage[w->n_stages - 1].end = i + 1;
	}
}

/* Where stages are not so many times the ranks the last ranks (in a V the first) hold one less. */
static void find_ranks(struct ff_writer *w)
{
	uint32_t n = w->n_stages, chunks = ff_strategy_chunks(w->s);

	w->n_ranks = n ? (n + chunks - 1) / chunks : 0;
	for (uint32_t r = 0; r < w->n_ranks; r++)
		while (w->rank[r].n_chunks < chunks && stage_of(w, r, w->rank[r].n_chunks) < n)
			w->rank[r].n_chunks++;
}

static int allocate(struct ff_writer *w, struct ff_arena *a, bool **recomputed, bool **halved,
		struct ff_error *err)
{
	const struct ff_graph *g = w->g;
	size_t m = w->s->micro_batches;
	/* compute, synchronisation and gathers; moves forward, again and backward; flat weights,
	 * and what is synchronised once */
	size_t bound = m * (7 * (size_t)g->n_nodes + 3 * (size_t)g->n_edges) +
		       2 * (size_t)g->n_nodes + 1;
	bool failed = false;

	if (bound >= FF_NONE)
		return ff_fail(err, FF_E_INPUT,
				"%u micro-batches of a graph of %u operators are too many",
				w->s->micro_batches, g->n_nodes);
	w->step = ff_arena_array(a, bound, sizeof(*w->step));
	w->late = ff_arena_array(a, 3 * (size_t)g->n_edges, sizeof(*w->late));
	w->held = ff_arena_array(a, g->n_nodes, sizeof(*w->held));
	w->stage = ff_arena_array(a, g->n_nodes, sizeof(*w->stage));
	w->rank = ff_arena_array(a, g->n_nodes, sizeof(*w->rank));
	w->stack = ff_arena_array(a, g->n_nodes, sizeof(*w->stack));
	*recomputed = ff_arena_array(a, g->n_nodes, sizeof(**recomputed));
	*halved = ff_arena_array(a, g->n_nodes, sizeof(**halved));
	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		w->p.compute[k] = ff_arena_array(a, m * g->n_nodes, sizeof(uint32_t));
		w->p.moves[k] = ff_arena_array(a, m * g->n_edges, sizeof(uint32_t));
		failed = failed || !w->p.compute[k] || !w->p.moves[k];
	}
	for (int k = 0; k < 2; k++) {
		w->p.gathers[k] = ff_arena_array(a, m * g->n_nodes, sizeof(uint32_t));
		failed = failed || !w->p.gathers[k];
	}
	w->p.syncs = ff_arena_array(a, (m + 1) * g->n_nodes, sizeof(*w->p.syncs));
	if (failed || !w->p.syncs || !w->step || !w->late || !w->held || !w->stage || !w->rank ||
			!w->stack || !*recomputed || !*halved)
		return ff_fail_memory(err);
	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		memset(w->p.compute[k], 0xff, m * g->n_nodes * sizeof(uint32_t));
		memset(w->p.moves[k], 0xff, m * g->n_edges * sizeof(uint32_t));
	}
	for (int k = 0; k < 2; k++)
		memset(w->p.gathers[k], 0xff, m * g->n_nodes * sizeof(uint32_t));
	memset(w->p.syncs, 0xff, (m + 1) * g->n_nodes * sizeof(*w->p.syncs));
	w->p.sync_once = w->p.syncs + m * g->n_nodes;
	return FF_OK;
}

int ff_program_build(const struct ff_graph *g, const struct ff_strategy *s, const uint32_t *order,
		struct ff_arena *a, struct ff_program *ret, struct ff_error *err)
{
	struct ff_writer w = {.g = g, .s = s, .order = order};
	bool *recomputed, *halved;
	int code = allocate(&w, a, &recomputed, &halved, err);

	if (code < 0)
		return code;
	w.p.micro_batches = s->micro_batches;
	w.p.n_nodes = g->n_nodes;
	w.p.n_edges = g->n_edges;
	w.p.step = w.step;
	ff_steps_find_recomputed(&w, recomputed);
	find_stages(&w);
	find_ranks(&w);
	ff_steps_find_halved(&w, halved);
	w.p.scatters = s->scatter && s->micro_batches > 1;
	run_stages(&w);
	ff_steps_syncs(&w);
	ff_steps_put(&w, (struct ff_step){FF_STEP_UPDATE, FF_PHASE_BACKWARD, s->micro_batches - 1,
					 FF_NONE});
	while (w.p.step[w.p.n_ahead].phase == FF_PHASE_FORWARD && w.p.step[w.p.n_ahead].micro == 0)
		w.p.n_ahead++;
	*ret = w.p;
	return FF_OK;
}
