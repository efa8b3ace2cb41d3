/* Programs.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/program.h"

#include <string.h>

#include "ff/backward.h"

/* Of one stage, or one rank, micro-batches. */
struct progress {
	uint32_t forward, backward, weights;
};

/* Nodes of one stage: `order` from `first` to `end`. */
struct stage {
	uint32_t first, end;
	struct progress begun, done;
};

/* Who holds stages `rank`, `rank` + n_ranks, ...: its chunks. */
struct rank {
	uint32_t n_chunks;
	struct progress begun; /* of all chunks together */
	uint32_t busy;         /* ticks that what it does now still takes */
	uint32_t *counts;      /* where that is counted when it is done */
};

/* A step that its rank issues when it has computed: a move to another stage, or the
 * synchronisation of gradients. */
struct late {
	struct ff_step step;
	uint32_t rank;
};

struct writer {
	const struct ff_graph *g;
	const struct ff_strategy *s;
	const uint32_t *order;
	struct ff_program p;
	struct ff_step *step;
	uint32_t n_stages, n_ranks;
	struct stage *stage;
	struct rank *rank;
	struct late *late, *held; /* moves; synchronisations */
	uint32_t n_late, n_held;
	uint32_t at;     /* the rank that computes */
	uint32_t *stack; /* of nodes to be recomputed */
	/* Inputs that are brought once: nodes of `order` that were looked at, and how many of
	 * those that read such have theirs on the way. */
	uint32_t ahead, n_ahead;
	/* Likewise of weights, whose flat buckets may have to be gathered. */
	uint32_t gathered, n_gathered;
};

static void put(struct writer *w, struct ff_step step)
{
	uint32_t at = w->p.n++;

	w->step[at] = step;
	if (step.kind == FF_STEP_COMPUTE)
		w->p.compute[step.phase][(size_t)step.micro * w->g->n_nodes + step.id] = at;
	else if (step.kind == FF_STEP_MOVES)
		w->p.moves[step.phase][(size_t)step.micro * w->g->n_edges + step.id] = at;
	else if (step.kind == FF_STEP_GATHER && step.limited)
		w->p.gathers[step.phase != FF_PHASE_FORWARD]
			    [(size_t)step.micro * w->g->n_nodes + step.id] = at;
	else if (step.kind == FF_STEP_SYNC && step.limited)
		w->p.syncs[(size_t)step.micro * w->g->n_nodes + step.id] = at;
}

/* All parts, and what they carry. */
static void put_compute(
		struct writer *w, enum ff_phase phase, uint32_t micro, uint32_t node, bool limited)
{
	const struct ff_node *n = &w->g->nodes[node];
	uint32_t *moves = w->p.moves[phase] + (size_t)micro * w->g->n_edges;

	for (uint32_t k = n->n_data - n->n_carried; k < n->n_data; k++)
		moves[n->in + k] = w->p.n;
	put(w, (struct ff_step){FF_STEP_COMPUTE, phase, micro, node, limited});
}

/* Whether what is at `edge` is brought several times: an input for every micro-batch, a
 * parameter for backward once more. */
static bool is_limited(const struct writer *w, uint32_t edge)
{
	uint32_t from = ff_edge_source(w->g, edge);

	if (!ff_edge_is_brought(w->g, edge) || w->g->edges[edge].shared != FF_NONE)
		return false;
	return ff_node_is_source(w->g, from) ? w->s->micro_batches > 1 : w->p.again[from];
}

/* What is carried moves while it is computed. */
static void put_moves(struct writer *w, enum ff_phase phase, uint32_t micro, uint32_t edge)
{
	uint32_t from = ff_edge_source(w->g, edge), to = w->g->edges[edge].node;
	struct ff_step step = {FF_STEP_MOVES, phase, micro, edge,
			phase != FF_PHASE_BACKWARD && is_limited(w, edge)};

	if (from == to)
		return;
	if (phase != FF_PHASE_RECOMPUTE && ff_node_is_computed(w->g, from) &&
			ff_strategy_stage(w->g, w->s, from) != ff_strategy_stage(w->g, w->s, to))
		w->late[w->n_late++] = (struct late){step, w->at};
	else
		put(w, step);
}

/* ---- inputs ---- */

/* Whether what is at `edge` is an input that is brought once. */
static bool is_loaded(const struct writer *w, uint32_t edge)
{
	return w->s->micro_batches == 1 && ff_node_is_source(w->g, ff_edge_source(w->g, edge));
}

static bool loads_any(const struct writer *w, uint32_t node)
{
	const struct ff_node *n = &w->g->nodes[node];

	for (uint32_t k = n->in; k < n->in + n->n_in; k++)
		if (is_loaded(w, k))
			return true;
	return false;
}

/* Inputs are there from the start.  Brought when they are needed they would wait behind
 * messages that wait for others, so the next FF_PREFETCH_DISTANCE operators that read such have
 * theirs on the way. */
static void put_loads(struct writer *w)
{
	const struct ff_graph *g = w->g;

	while (w->n_ahead < FF_PREFETCH_DISTANCE && w->ahead < g->n_nodes) {
		uint32_t node = w->order[w->ahead++];
		const struct ff_node *n = &g->nodes[node];

		for (uint32_t k = n->in; k < n->in + n->n_in; k++)
			if (is_loaded(w, k))
				put_moves(w, FF_PHASE_FORWARD, 0, k);
		w->n_ahead += loads_any(w, node);
	}
}

/* ---- weights ---- */

static bool reads_weights(const struct writer *w, uint32_t node)
{
	return ff_node_is_computed(w->g, node) && w->g->nodes[node].n_in > w->g->nodes[node].n_data;
}

/* The next FF_PREFETCH_DISTANCE operators that read weights have theirs on the way, for the same
 * reason. */
static void put_gathers(struct writer *w)
{
	while (w->n_gathered < FF_PREFETCH_DISTANCE && w->gathered < w->g->n_nodes) {
		uint32_t node = w->order[w->gathered++];

		if (!reads_weights(w, node))
			continue;
		put(w, (struct ff_step){FF_STEP_GATHER, FF_PHASE_FORWARD, 0, node, false});
		w->p.gathers_end = w->p.n;
		w->n_gathered++;
	}
}

/* Whether a node reads weights that are brought several times. */
static bool reads_again(const struct writer *w, uint32_t node)
{
	const struct ff_node *n = &w->g->nodes[node];
	bool again = false;

	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		again = again || w->p.again[ff_edge_source(w->g, k)];
	return again;
}

/* These are gathered as often, just before they are read. */
static void put_gather(struct writer *w, enum ff_phase phase, uint32_t micro, uint32_t node)
{
	if (reads_again(w, node) && ff_program_gathers(&w->p, phase != FF_PHASE_FORWARD, micro,
						    node) == FF_NONE)
		put(w, (struct ff_step){FF_STEP_GATHER, phase, micro, node, true});
}

/* ---- forward ---- */

/* Parameters, and inputs of micro-batches, are brought just before they are used,
 * everything else moves as soon as it is there. */
static void put_forward(struct writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];
	bool limited = false;

	put_loads(w);
	put_gathers(w);
	put_gather(w, FF_PHASE_FORWARD, micro, node);
	for (uint32_t k = n->in; k < n->in + n->n_in; k++) {
		limited = limited || is_limited(w, k);
		if (ff_edge_is_brought(g, k) && !is_loaded(w, k) &&
				ff_program_instance(g, &w->p, ff_edge_source(g, k), micro) == micro)
			put_moves(w, FF_PHASE_FORWARD, micro, k);
	}
	put_compute(w, FF_PHASE_FORWARD, micro, node, limited);
	w->n_ahead -= loads_any(w, node);
	w->n_gathered -= micro == 0 && reads_weights(w, node);
	for (uint32_t k = n->out; k < n->out + n->n_out; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++)
			put_moves(w, FF_PHASE_FORWARD, micro, g->uses[g->values[k].first_use + u]);
}

/* ---- recomputation ---- */

/* Which values are made again: what backward reads of what was dropped, and what is
 * read to make that. */
static void find_again(struct writer *w, bool *again)
{
	const struct ff_graph *g = w->g;

	w->p.again = again;
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		uint32_t node = w->order[i];
		const struct ff_node *n = &g->nodes[node];

		again[node] = false;
		if (!ff_strategy_recomputes(g, w->s, node))
			continue;
		again[node] = ff_node_is_computed(g, node) && ff_node_reads_own(g, node);
		for (uint32_t k = n->out; k < n->out + n->n_out; k++)
			for (uint32_t u = 0; u < g->values[k].n_uses && !again[node]; u++)
				again[node] = ff_edge_read_again(
						g, &w->p, g->uses[g->values[k].first_use + u]);
	}
}

static bool is_there(const struct writer *w, uint32_t node, uint32_t micro)
{
	return !w->p.again[node] || !ff_node_is_computed(w->g, node) ||
	       ff_program_compute(&w->p, FF_PHASE_RECOMPUTE, micro, node) != FF_NONE;
}

/* What a parameter's reader must have gathered again, unless it has; says if it has not. */
static bool bring_again(struct writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &w->g->nodes[node];
	uint32_t before = w->p.n;

	put_gather(w, FF_PHASE_RECOMPUTE, micro, node);
	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		if (w->p.again[ff_edge_source(w->g, k)] &&
				ff_program_moves(&w->p, FF_PHASE_RECOMPUTE, micro, k) == FF_NONE)
			put_moves(w, FF_PHASE_RECOMPUTE, micro, k);
	return w->p.n > before;
}

/* All inputs of `node` are there. */
static void put_again(struct writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];
	bool limited = bring_again(w, node, micro);

	put_compute(w, FF_PHASE_RECOMPUTE, micro, node, limited);
	for (uint32_t k = n->out; k < n->out + n->n_out; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++) {
			uint32_t edge = g->uses[g->values[k].first_use + u];

			if (ff_edge_read_again(g, &w->p, edge))
				put_moves(w, FF_PHASE_RECOMPUTE, micro, edge);
		}
}

/* Makes `node` again, and before it what it reads; `node` itself when all is there.
 * A network is deep, so the stack is not the C stack. */
static void recompute(struct writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_graph *g = w->g;
	uint32_t depth = 0;

	if (is_there(w, node, micro))
		return;
	w->stack[depth++] = node;
	while (depth) {
		const struct ff_node *n = &g->nodes[w->stack[depth - 1]];
		uint32_t k = n->in;

		while (k < n->in + n->n_in &&
				(ff_edge_is_carried(g, k) ||
						is_there(w, ff_edge_source(g, k), micro)))
			k++;
		if (k < n->in + n->n_in)
			w->stack[depth++] = ff_edge_source(g, k);
		else
			put_again(w, w->stack[--depth], micro);
	}
}

/* Gradients of parameters, once all micro-batches have added to them. */
static void put_params(struct writer *w, enum ff_phase phase, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &w->g->nodes[node];

	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		if (ff_edge_needs_grad(w->g, k) && micro + 1 == w->s->micro_batches)
			put_moves(w, phase, micro, k);
}

/* Gradients are synchronised as soon as they are there.  What other stages wait for goes first:
 * a later stage's turn comes when all its chunks are through, where it would idle anyway. */
static void put_sync(struct writer *w, uint32_t node, uint32_t micro)
{
	struct ff_step step = {FF_STEP_SYNC, FF_PHASE_BACKWARD, micro, node};
	uint32_t first = w->order[w->stage[0].first];

	if (ff_strategy_stage(w->g, w->s, node) == ff_strategy_stage(w->g, w->s, first))
		put(w, step);
	else
		w->held[w->n_held++] = (struct late){step, w->at};
}

static void put_backward(struct writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];
	bool limited;

	for (uint32_t k = n->in; k < n->in + n->n_in; k++)
		if (ff_edge_read_backward(g, k))
			recompute(w, ff_edge_source(g, k), micro);
	if (ff_node_reads_own(g, node))
		recompute(w, node, micro);
	limited = bring_again(w, node, micro);
	put_compute(w, FF_PHASE_BACKWARD, micro, node, limited);
	for (uint32_t k = n->in; k < n->in + n->n_data; k++)
		if (ff_edge_needs_grad(g, k))
			put_moves(w, FF_PHASE_BACKWARD, micro, k);
	if (reads_again(w, node))
		put(w, (struct ff_step){FF_STEP_SYNC, FF_PHASE_BACKWARD, micro, node, true});
	if (!w->p.halved[node])
		put_params(w, FF_PHASE_BACKWARD, node, micro);
	if (!w->p.halves && n->n_in > n->n_data && micro + 1 == w->s->micro_batches)
		put_sync(w, node, micro);
}

/* ---- gradients of parameters apart ---- */

/* Backward of a node is computed in two if the row can, there is something to send back, and its
 * parameters are there all the time and nobody else's: their gradients are added up in the order
 * in which backward comes to who reads them. */
static bool is_halved(const struct writer *w, uint32_t node)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];
	bool data = false, params = n->n_in > n->n_data;

	if (!(ff_op_row(n->op)->flags & FF_OP_HALVES) || !ff_node_needs_grad(g, node))
		return false;
	for (uint32_t k = n->in; k < n->in + n->n_data; k++)
		data = data || ff_edge_needs_grad(g, k);
	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		params = params && ff_edge_needs_grad(g, k) && !w->p.again[ff_edge_source(g, k)] &&
			 g->values[g->edges[k].value].n_uses == 1;
	return data && params;
}

static void find_halved(struct writer *w, bool *halved)
{
	w->p.halved = halved;
	w->p.halves = w->s->rule == FF_ORDER_ZB_H1 && w->n_stages > 1 && w->s->micro_batches > 1;
	for (uint32_t i = 0; i < w->g->n_nodes; i++)
		halved[i] = w->p.halves && ff_node_is_computed(w->g, i) && is_halved(w, i);
}

/* Buckets may be of several stages, so they are complete when the last stage is. */
static void put_syncs(struct writer *w)
{
	for (uint32_t i = w->g->n_nodes; i-- > 0 && w->p.halves;) {
		const struct ff_node *n = &w->g->nodes[w->order[i]];

		if (ff_node_is_computed(w->g, w->order[i]) &&
				ff_node_needs_grad(w->g, w->order[i]) && n->n_in > n->n_data)
			put(w, (struct ff_step){FF_STEP_SYNC, FF_PHASE_BACKWARD,
					       w->s->micro_batches - 1, w->order[i]});
	}
}

/* ---- stages ---- */

static void run_forward(struct writer *w, struct stage *s)
{
	for (uint32_t i = s->first; i < s->end; i++)
		if (ff_node_is_computed(w->g, w->order[i]))
			put_forward(w, w->order[i], s->begun.forward);
	s->begun.forward++;
}

static void run_backward(struct writer *w, struct stage *s)
{
	for (uint32_t i = s->end; i-- > s->first;)
		if (ff_node_is_computed(w->g, w->order[i]) && ff_node_needs_grad(w->g, w->order[i]))
			put_backward(w, w->order[i], s->begun.backward);
	s->begun.backward++;
}

static void run_weights(struct writer *w, struct stage *s)
{
	for (uint32_t i = s->end; i-- > s->first;) {
		uint32_t node = w->order[i];

		if (!w->p.halved[node])
			continue;
		put_compute(w, FF_PHASE_WEIGHTS, s->begun.weights, node, false);
		put_params(w, FF_PHASE_WEIGHTS, node, s->begun.weights);
	}
	s->begun.weights++;
}

/* How many micro-batches of all its chunks may be under way at a rank before it turns back: as
 * many as follow it.  With several chunks a group of n_ranks goes through all but the last, and
 * what follows is twice as far (Megatron-LM's interleaved schedule). */
static uint32_t most_under_way(const struct writer *w, uint32_t rank)
{
	uint32_t p = w->n_ranks, rest = p - rank, chunks = w->rank[0].n_chunks;

	if (w->s->rule == FF_ORDER_GPIPE)
		return UINT32_MAX;
	return chunks == 1 ? rest : (chunks - 1) * p + 2 * rest - 1;
}

/* The `k`-th that a rank computes forward, or backward: groups of n_ranks micro-batches (the last
 * may be smaller) go through its chunks in turn, first to last or last to first. */
static void find_turn(const struct writer *w, uint32_t rank, uint32_t k, bool back,
		struct stage **stage, uint32_t *micro)
{
	uint32_t p = w->n_ranks, chunks = w->rank[rank].n_chunks;
	uint32_t first = k / (p * chunks) * p, left = w->s->micro_batches - first;
	uint32_t size = left < p ? left : p, within = k % (p * chunks), chunk = within / size;

	*micro = first + within % size;
	*stage = &w->stage[(back ? chunks - 1 - chunk : chunk) * p + rank];
}

static bool try_forward(struct writer *w, struct rank *r)
{
	struct stage *s;
	uint32_t micro;

	find_turn(w, w->at, r->begun.forward, false, &s, &micro);
	if (s > w->stage && s[-1].done.forward <= micro)
		return false;
	run_forward(w, s);
	r->begun.forward++;
	r->busy = 1;
	r->counts = &s->done.forward;
	return true;
}

static bool try_backward(struct writer *w, struct rank *r)
{
	struct stage *s;
	uint32_t micro;

	find_turn(w, w->at, r->begun.backward, true, &s, &micro);
	if (s + 1 < w->stage + w->n_stages ? s[1].done.backward <= micro : s->done.forward <= micro)
		return false;
	run_backward(w, s);
	r->begun.backward++;
	r->busy = w->rank[0].n_chunks > 1 ? 2 : 1;
	r->counts = &s->done.backward;
	return true;
}

/* Gradients of parameters of the next micro-batch. */
static void run_later(struct writer *w, struct rank *r)
{
	struct stage *s = &w->stage[w->at];

	run_weights(w, s);
	r->begun.weights++;
	r->busy = 1;
	r->counts = &s->done.weights;
}

/* Forward or backward, unless what that needs is not there.  `beyond`: forward, however much is
 * under way. */
static bool begin_pass(struct writer *w, struct rank *r, bool beyond)
{
	bool all = r->begun.forward == r->n_chunks * w->s->micro_batches;

	if (!all && (beyond || r->begun.forward - r->begun.backward < most_under_way(w, w->at)))
		return try_forward(w, r);
	return r->begun.backward < r->begun.forward && try_backward(w, r);
}

/* What a rank does next; says whether it does anything.  Gradients of parameters fill the time in
 * which it would wait.  So many micro-batches may lack them as the rank has fewer under way than
 * the first one: no rank keeps more than that one under 1F1B (Qi et al.'s ZB-H1). */
static bool begin(struct writer *w, struct rank *r, bool beyond)
{
	uint32_t later = w->p.halves ? r->begun.backward - r->begun.weights : 0;

	if (later <= w->at && begin_pass(w, r, beyond))
		return true;
	if (later)
		run_later(w, r);
	return later;
}

static bool begin_all(struct writer *w, bool beyond)
{
	bool any = false;

	for (w->at = 0; w->at < w->n_ranks; w->at++) {
		struct rank *r = &w->rank[w->at];

		any = r->busy || begin(w, r, beyond) || any;
	}
	return any;
}

static bool is_through(const struct writer *w, const struct rank *r)
{
	return !r->busy && r->begun.backward == r->n_chunks * w->s->micro_batches;
}

/* Those that are due of `late`; says how many are left. */
static uint32_t put_late(struct writer *w, struct late *late, uint32_t n, bool held)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct rank *r = &w->rank[late[i].rank];

		if (held ? is_through(w, r) : !r->busy)
			put(w, late[i].step);
		else
			late[left++] = late[i];
	}
	return left;
}

/* A tick is over.  What goes from stage to stage is issued then, so that no device waits for
 * another's message before its own work. */
static void end_tick(struct writer *w)
{

	for (uint32_t i = 0; i < w->n_ranks; i++)
		if (w->rank[i].busy && !--w->rank[i].busy)
			++*w->rank[i].counts;
	w->n_late = put_late(w, w->late, w->n_late, false);
	w->n_held = put_late(w, w->held, w->n_held, true);
}

static bool is_over(const struct writer *w)
{
	bool over = w->stage[0].done.backward == w->s->micro_batches;

	for (uint32_t i = 0; i < w->n_ranks && over && w->p.halves; i++)
		over = w->stage[i].done.weights == w->s->micro_batches;
	return over;
}

/* Tick by tick.  Where ranks all wait (a group is smaller than the others, or some ranks hold
 * fewer chunks) they go on forward: of all that has not been forward yet, the chunk that comes
 * first in its group's turn has what it needs. */
static void run_stages(struct writer *w)
{
	while (!is_over(w)) {
		if (!begin_all(w, false))
			begin_all(w, true);
		end_tick(w);
	}
}

static void find_stages(struct writer *w)
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

/* Where stages are not so many times the ranks the last ranks hold one less. */
static void find_ranks(struct writer *w)
{
	uint32_t n = w->n_stages, chunks = w->s->rule == FF_ORDER_INTERLEAVED ? w->s->chunks : 1;

	w->n_ranks = n ? (n + chunks - 1) / chunks : 0;
	for (uint32_t r = 0; r < w->n_ranks; r++)
		w->rank[r].n_chunks = (n - r + w->n_ranks - 1) / w->n_ranks;
}

static int allocate(struct writer *w, struct ff_arena *a, bool **again, bool **halved,
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
	*again = ff_arena_array(a, g->n_nodes, sizeof(**again));
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
	w->p.syncs = ff_arena_array(a, m * g->n_nodes, sizeof(*w->p.syncs));
	if (failed || !w->p.syncs || !w->step || !w->late || !w->held || !w->stage || !w->rank ||
			!w->stack || !*again || !*halved)
		return ff_fail_memory(err);
	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		memset(w->p.compute[k], 0xff, m * g->n_nodes * sizeof(uint32_t));
		memset(w->p.moves[k], 0xff, m * g->n_edges * sizeof(uint32_t));
	}
	for (int k = 0; k < 2; k++)
		memset(w->p.gathers[k], 0xff, m * g->n_nodes * sizeof(uint32_t));
	memset(w->p.syncs, 0xff, m * g->n_nodes * sizeof(*w->p.syncs));
	return FF_OK;
}

int ff_program_build(const struct ff_graph *g, const struct ff_strategy *s, const uint32_t *order,
		struct ff_arena *a, struct ff_program *ret, struct ff_error *err)
{
	struct writer w = {.g = g, .s = s, .order = order};
	bool *again, *halved;
	int code = allocate(&w, a, &again, &halved, err);

	if (code < 0)
		return code;
	w.p.micro_batches = s->micro_batches;
	w.p.n_nodes = g->n_nodes;
	w.p.n_edges = g->n_edges;
	w.p.step = w.step;
	find_again(&w, again);
	find_stages(&w);
	find_ranks(&w);
	find_halved(&w, halved);
	run_stages(&w);
	put_syncs(&w);
	put(&w, (struct ff_step){FF_STEP_UPDATE, FF_PHASE_BACKWARD, s->micro_batches - 1, FF_NONE});
	while (w.p.step[w.p.n_ahead].phase == FF_PHASE_FORWARD && w.p.step[w.p.n_ahead].micro == 0)
		w.p.n_ahead++;
	*ret = w.p;
	return FF_OK;
}
