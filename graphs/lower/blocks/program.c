/* Programs: what one operator has of a pass, step behind step.  SPDX-License-Identifier: Apache-2.0
 */
#include "steps.h"

#include "ff/backward.h"

void ff_steps_put(struct ff_writer *w, struct ff_step step)
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
	else if (step.kind == FF_STEP_SYNC)
		w->p.sync_once[step.id] = at;
}

/* Computes all parts of a node; moves of what they carry are within that step. */
static void put_compute(struct ff_writer *w, enum ff_phase phase, uint32_t micro, uint32_t node,
		bool limited)
{
	const struct ff_node *n = &w->g->nodes[node];
	uint32_t *moves = w->p.moves[phase] + (size_t)micro * w->g->n_edges;

	for (uint32_t k = n->n_data - n->n_carried; k < n->n_data; k++)
		moves[n->in + k] = w->p.n;
	ff_steps_put(w, (struct ff_step){FF_STEP_COMPUTE, phase, micro, node, limited});
}

/* Whether what is at `edge` is brought several times: an input for every micro-batch, a
 * parameter for backward once more. */
static bool is_limited(const struct ff_writer *w, uint32_t edge)
{
	uint32_t from = ff_edge_source(w->g, edge);

	if (!ff_edge_is_brought(w->g, edge) || w->g->edges[edge].shared != FF_NONE)
		return false;
	return ff_node_is_source(w->g, from) ? w->s->micro_batches > 1 : w->p.recomputed[from];
}

/* Moves what is at `edge`, but for what is carried, which moves while its node computes.  Moves to
 * another stage are put when the tick is over. */
static void put_moves(struct ff_writer *w, enum ff_phase phase, uint32_t micro, uint32_t edge)
{
	uint32_t from = ff_edge_source(w->g, edge), to = w->g->edges[edge].node;
	struct ff_step step = {FF_STEP_MOVES, phase, micro, edge,
			phase != FF_PHASE_BACKWARD && is_limited(w, edge)};

	if (from == to)
		return;
	if (phase != FF_PHASE_RECOMPUTE && ff_node_is_computed(w->g, from) &&
			ff_strategy_stage(w->g, w->s, from) != ff_strategy_stage(w->g, w->s, to))
		w->late[w->n_late++] = (struct ff_writer_late){step, w->at};
	else
		ff_steps_put(w, step);
}

/* ---- inputs ---- */

/* Whether what is at `edge` is an input that is brought once. */
static bool is_loaded(const struct ff_writer *w, uint32_t edge)
{
	return w->s->micro_batches == 1 && ff_node_is_source(w->g, ff_edge_source(w->g, edge));
}

static bool loads_any(const struct ff_writer *w, uint32_t node)
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
static void put_loads(struct ff_writer *w)
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

static bool reads_weights(const struct ff_writer *w, uint32_t node)
{
	return ff_node_is_computed(w->g, node) && w->g->nodes[node].n_in > w->g->nodes[node].n_data;
}

/* The next FF_PREFETCH_DISTANCE operators that read weights have theirs on the way, for the same
 * reason. */
static void put_gathers(struct ff_writer *w)
{
	while (w->n_gathered < FF_PREFETCH_DISTANCE && w->gathered < w->g->n_nodes) {
		uint32_t node = w->order[w->gathered++];

		if (!reads_weights(w, node))
			continue;
		ff_steps_put(w, (struct ff_step){FF_STEP_GATHER, FF_PHASE_FORWARD, 0, node, false});
		w->p.gathers_end = w->p.n;
		w->n_gathered++;
	}
}

bool ff_steps_reads_again(const struct ff_writer *w, uint32_t node)
{
	const struct ff_node *n = &w->g->nodes[node];
	bool recomputed = false;

	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		recomputed = recomputed || w->p.recomputed[ff_edge_source(w->g, k)];
	return recomputed;
}

/* Weights of dropped buckets are gathered in every micro-batch, just before they are read. */
static void put_gather(struct ff_writer *w, enum ff_phase phase, uint32_t micro, uint32_t node)
{
	if (ff_steps_reads_again(w, node) && ff_program_gathers(&w->p, phase != FF_PHASE_FORWARD,
							     micro, node) == FF_NONE)
		ff_steps_put(w, (struct ff_step){FF_STEP_GATHER, phase, micro, node, true});
}

/* ---- forward ---- */

/* Parameters, and inputs of micro-batches, are brought just before they are used,
 * everything else moves as soon as it is there. */
void ff_steps_forward(struct ff_writer *w, uint32_t node, uint32_t micro)
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
			put_moves(w, FF_PHASE_FORWARD, micro, ff_value_use(g, &g->values[k], u));
}

/* ---- recomputation ---- */

/* Which values are made again: what backward reads of what was dropped, and what is
 * read to make that. */
void ff_steps_find_recomputed(struct ff_writer *w, bool *recomputed)
{
	const struct ff_graph *g = w->g;

	w->p.recomputed = recomputed;
	for (uint32_t i = g->n_nodes; i-- > 0;) {
		uint32_t node = w->order[i];
		const struct ff_node *n = &g->nodes[node];

		recomputed[node] = false;
		if (!ff_strategy_recomputes(g, w->s, node))
			continue;
		recomputed[node] = ff_node_is_computed(g, node) && ff_node_reads_own(g, node);
		for (uint32_t k = n->out; k < n->out + n->n_out; k++)
			for (uint32_t u = 0; u < g->values[k].n_uses && !recomputed[node]; u++)
				recomputed[node] = ff_edge_read_recomputed(
						g, &w->p, ff_value_use(g, &g->values[k], u));
		w->again = w->again || (recomputed[node] && ff_node_is_parameter(g, node));
	}
}

static bool is_there(const struct ff_writer *w, uint32_t node, uint32_t micro)
{
	return !w->p.recomputed[node] || !ff_node_is_computed(w->g, node) ||
	       ff_program_compute(&w->p, FF_PHASE_RECOMPUTE, micro, node) != FF_NONE;
}

/* Parameters that are moved to who reads them again, unless they have been. */
static void move_again(struct ff_writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &w->g->nodes[node];

	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		if (w->p.recomputed[ff_edge_source(w->g, k)] &&
				ff_program_moves(&w->p, FF_PHASE_RECOMPUTE, micro, k) == FF_NONE)
			put_moves(w, FF_PHASE_RECOMPUTE, micro, k);
}

/* What a parameter's reader must have gathered again, unless it has; says if it has not. */
static bool bring_again(struct ff_writer *w, uint32_t node, uint32_t micro)
{
	uint32_t before = w->p.n;

	put_gather(w, FF_PHASE_RECOMPUTE, micro, node);
	move_again(w, node, micro);
	return w->p.n > before;
}

/* Recomputes `node`, all of whose inputs are there. */
static void put_again(struct ff_writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];
	bool limited = bring_again(w, node, micro);

	put_compute(w, FF_PHASE_RECOMPUTE, micro, node, limited);
	for (uint32_t k = n->out; k < n->out + n->n_out; k++)
		for (uint32_t u = 0; u < g->values[k].n_uses; u++) {
			uint32_t edge = ff_value_use(g, &g->values[k], u);

			if (ff_edge_read_recomputed(g, &w->p, edge))
				put_moves(w, FF_PHASE_RECOMPUTE, micro, edge);
		}
}

/* Makes `node` again, and before it what it reads; `node` itself when all is there.
 * A network is deep, so the stack is not the C stack. */
static void recompute(struct ff_writer *w, uint32_t node, uint32_t micro)
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

/* Gradients of parameters, once all micro-batches have added to them.  What `next` reads again
 * comes before them, as it does not wait for `node`. */
static void put_params(struct ff_writer *w, enum ff_phase phase, uint32_t node, uint32_t next,
		uint32_t micro)
{
	const struct ff_node *n = &w->g->nodes[node];

	if (next != FF_NONE && n->n_in > n->n_data)
		move_again(w, next, micro);
	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		if (ff_edge_needs_grad(w->g, k) && micro + 1 == w->s->micro_batches)
			put_moves(w, phase, micro, k);
}

/* Gradients are synchronised as soon as they are there.  What other stages wait for goes first:
 * a later stage's turn comes when all its chunks are through, where it would idle anyway. */
static void put_sync(struct ff_writer *w, uint32_t node, uint32_t micro)
{
	struct ff_step step = {FF_STEP_SYNC, FF_PHASE_BACKWARD, micro, node};
	uint32_t first = w->order[w->stage[0].first];

	if (ff_strategy_stage(w->g, w->s, node) == ff_strategy_stage(w->g, w->s, first))
		ff_steps_put(w, step);
	else
		w->held[w->n_held++] = (struct ff_writer_late){step, w->at};
}

/* Synchronises what is synchronised in every micro-batch. */
static void put_sync_each(struct ff_writer *w, uint32_t node, uint32_t micro)
{
	const struct ff_node *n = &w->g->nodes[node];

	if (ff_steps_reads_again(w, node) || (w->p.scatters && n->n_in > n->n_data))
		ff_steps_put(w, (struct ff_step){FF_STEP_SYNC, FF_PHASE_BACKWARD, micro, node,
						true});
}

void ff_steps_backward(struct ff_writer *w, uint32_t node, uint32_t next, uint32_t micro)
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
	if (!w->p.halved[node]) {
		put_sync_each(w, node, micro);
		put_params(w, FF_PHASE_BACKWARD, node, next, micro);
	}
	if (!w->p.halves && n->n_in > n->n_data && micro + 1 == w->s->micro_batches)
		put_sync(w, node, micro);
}

/* ---- gradients of parameters apart ---- */

/* Backward of a node is computed in two if the row can, there is something to send back, and its
 * parameters are there all the time and nobody else's: their gradients are added up in the order
 * in which backward comes to who reads them. */
static bool is_halved(const struct ff_writer *w, uint32_t node)
{
	const struct ff_graph *g = w->g;
	const struct ff_node *n = &g->nodes[node];
	bool data = false, params = n->n_in > n->n_data;

	if (!(ff_op_row(n->op)->flags & FF_OP_HALVES) || !ff_node_needs_grad(g, node))
		return false;
	for (uint32_t k = n->in; k < n->in + n->n_data; k++)
		data = data || ff_edge_needs_grad(g, k);
	for (uint32_t k = n->in + n->n_data; k < n->in + n->n_in; k++)
		params = params && ff_edge_needs_grad(g, k) &&
			 !w->p.recomputed[ff_edge_source(g, k)] &&
			 g->values[g->edges[k].value].n_uses == 1;
	return data && params;
}

void ff_steps_find_halved(struct ff_writer *w, bool *halved)
{
	w->p.halved = halved;
	w->p.halves = ff_order_row(w->s->rule)->halves && w->n_stages > 1 &&
		      w->s->micro_batches > 1;
	for (uint32_t i = 0; i < w->g->n_nodes; i++)
		halved[i] = w->p.halves && ff_node_is_computed(w->g, i) && is_halved(w, i);
}

void ff_steps_weights(struct ff_writer *w, uint32_t node, uint32_t micro)
{
	if (!w->p.halved[node])
		return;
	put_compute(w, FF_PHASE_WEIGHTS, micro, node, false);
	put_sync_each(w, node, micro);
	put_params(w, FF_PHASE_WEIGHTS, node, FF_NONE, micro);
}

void ff_steps_syncs(struct ff_writer *w)
{
	for (uint32_t i = w->g->n_nodes; i-- > 0 && w->p.halves;) {
		const struct ff_node *n = &w->g->nodes[w->order[i]];

		if (ff_node_is_computed(w->g, w->order[i]) &&
				ff_node_needs_grad(w->g, w->order[i]) && n->n_in > n->n_data)
			ff_steps_put(w, (struct ff_step){FF_STEP_SYNC, FF_PHASE_BACKWARD,
							w->s->micro_batches - 1, w->order[i]});
	}
}
