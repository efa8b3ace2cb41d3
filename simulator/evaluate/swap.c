/* One block put in the place of another, and what was there noted.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ff/grow.h"
#include "ff/program_phases.h"
#include "trial.h"

static int note_swap(struct ff_trial *e, struct ff_swap s, struct ff_error *err)
{
	int code = ff_grow(&e->proposal.swap, e->proposal.n_swaps, &e->proposal.cap_swaps,
			sizeof(*e->proposal.swap), err);

	if (code == FF_OK)
		e->proposal.swap[e->proposal.n_swaps++] = s;
	return code;
}

/* Which stretch it was computed in is known of no micro-batch. */
static int reserve_stretched(struct ff_timed_node *t, uint32_t micro_batches, struct ff_error *err)
{
	size_t size = micro_batches * sizeof(*t->stretched);

	if (micro_batches > t->cap_micro) {
		free(t->stretched);
		t->cap_micro = 0;
		t->stretched = malloc(size);
		if (!t->stretched)
			return ff_fail_memory(err);
		t->cap_micro = micro_batches;
		memset(t->stretched, 0xff, size);
	}
	return FF_OK;
}

/* Room for the times of as many parts in every micro-batch; it never shrinks. */
static int reserve_times(struct ff_timed_node *t, uint32_t n, struct ff_error *err)
{
	char *room;

	if (n <= t->cap)
		return FF_OK;
	room = calloc(n, 2 * sizeof(double) + sizeof(bool));
	if (!room)
		return ff_fail_memory(err);
	free(t->finish);
	t->finish = (double *)(void *)room;
	t->ready = t->finish + n;
	t->arrived = (bool *)(t->ready + n);
	t->cap = n;
	return FF_OK;
}

static int reserve_node(struct ff_trial *e, uint32_t node, uint32_t n_parts, struct ff_error *err)
{
	uint32_t micro_batches = e->order.program.micro_batches;
	int code = FF_OK;

	for (int k = 0; k < FF_PHASE_COUNT && code == FF_OK; k++) {
		struct ff_timed_node *t = &e->times.node[k][node];

		if ((k == FF_PHASE_RECOMPUTE && !e->order.program.recomputed[node]) ||
				(k == FF_PHASE_WEIGHTS && !e->order.program.halved[node]))
			continue;
		code = reserve_times(t, n_parts * micro_batches, err);
		if (code == FF_OK)
			code = reserve_stretched(t, micro_batches, err);
	}
	return code;
}

/* There is room for it. */
void ff_swap_put_node(struct ff_trial *e, uint32_t node, struct ff_memo_node *new)
{
	e->placed.node[node] = new;
	e->placed.block[node] = new ? new->block : NULL;
	for (int k = 0; k < FF_PHASE_COUNT; k++) {
		struct ff_timed_node *t = &e->times.node[k][node];
		enum ff_pass pass = ff_phase_pass((enum ff_phase)k);

		t->n = 0;
		if (!new)
			continue;
		t->us = new->us[pass];
		t->each_us = new->each_us[pass];
		t->device = new->device;
		t->n = new->n_parts;
		t->first = new->first;
		t->is_row = new->is_row;
		t->in_line = new->in_line;
		t->uniform = new->uniform[pass];
		if (pass == FF_BACKWARD && e->order.program.halved[node]) {
			t->us = new->rest->half_us[k == FF_PHASE_WEIGHTS];
			t->each_us = t->us[0];
			t->uniform = new->rest->half_uniform[k == FF_PHASE_WEIGHTS];
		}
		t->plain = t->is_row && t->uniform && new->block->turns.n <= 1;
	}
}

int ff_swap_node(struct ff_trial *e, uint32_t node, struct ff_memo_node *new, struct ff_error *err)
{
	struct ff_swap s = {.id = node, .was.node = e->placed.node[node]};
	int code = FF_OK;

	if (new == e->placed.node[node])
		return FF_OK;
	if (new)
		code = reserve_node(e, node, new->n_parts, err);
	if (code == FF_OK && new && e->order.program.halved[node])
		code = ff_memo_halves(e->memo, node, new, err);
	if (code == FF_OK)
		code = note_swap(e, s, err);
	if (code == FF_OK)
		ff_swap_put_node(e, node, new);
	return code;
}

static enum ff_edge_state state_of(const struct ff_trial *e, uint32_t edge, enum ff_pass pass)
{
	const struct ff_memo_edge *me = e->placed.edge[edge];

	if (!me || (pass == FF_FORWARD ? e->placed.shared_from[edge] != FF_NONE
				       : ff_trial_sent(e, edge) != edge))
		return FF_EDGE_STILL;
	if (!me->built[pass])
		return FF_EDGE_UNKNOWN;
	return me->n_moves[pass] > 0 ? FF_EDGE_MOVES : FF_EDGE_STILL;
}

static void activate(struct ff_trial *e, enum ff_phase phase, uint32_t edge, bool on)
{
	for (uint32_t micro = 0; micro < e->order.program.micro_batches; micro++) {
		uint32_t step = ff_program_moves(&e->order.program, phase, micro, edge);
		uint64_t bit = (uint64_t)1 << step % 64;

		/* what is carried moves while its operator is computed */
		if (step != FF_NONE && e->order.program.step[step].kind == FF_STEP_MOVES)
			e->order.active[step / 64] = on ? e->order.active[step / 64] | bit
							: e->order.active[step / 64] & ~bit;
	}
}

void ff_swap_set_state(struct ff_trial *e, uint32_t edge, enum ff_pass pass)
{
	uint8_t was = e->placed.state[pass][edge], is = (uint8_t)state_of(e, edge, pass);

	e->placed.state[pass][edge] = is;
	if ((was == FF_EDGE_STILL) == (is == FF_EDGE_STILL))
		return;
	activate(e,
			pass == FF_FORWARD ? FF_PHASE_FORWARD
					   : ff_edge_made_in(e->g, &e->order.program, edge),
			edge, is != FF_EDGE_STILL);
	if (pass == FF_FORWARD)
		activate(e, FF_PHASE_RECOMPUTE, edge, is != FF_EDGE_STILL);
}

void ff_swap_put_edge(struct ff_trial *e, uint32_t edge, struct ff_memo_edge *new)
{
	e->placed.edge[edge] = new;
	ff_swap_set_state(e, edge, FF_FORWARD);
	ff_swap_set_state(e, edge, FF_BACKWARD);
}

bool ff_swap_has_ends(const struct ff_trial *e, uint32_t edge, uint64_t ends)
{
	const struct ff_memo_edge *me = e->placed.edge[edge];

	return me && me->ends == ends && me->first_use == e->order.first_use[edge];
}

int ff_swap_edge(struct ff_trial *e, uint32_t edge, struct ff_error *err)
{
	struct ff_swap s = {.is_edge = true, .id = edge, .was.edge = e->placed.edge[edge]};
	uint32_t from = e->ends[edge].from, to = e->ends[edge].to;
	struct ff_memo_edge *new = NULL;
	int code = FF_OK;

	if (!e->placed.synced[from] &&
			ff_swap_has_ends(e, edge,
					ff_memo_ends(e->placed.node[from], e->placed.node[to])))
		return FF_OK;
	if (!e->placed.synced[from])
		code = ff_memo_edge(
				e->memo, edge, e->placed.node[from], e->placed.node[to], &new, err);
	if (code == FF_OK && new != e->placed.edge[edge])
		code = note_swap(e, s, err);
	if (code == FF_OK)
		ff_swap_put_edge(e, edge, new);
	return code;
}
