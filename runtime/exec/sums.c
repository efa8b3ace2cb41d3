/* Sums of gradients: what a kernel has made and a copy would add to a gradient that is there, the
 * kernel adds to it itself, where the backend's can.  Buffers and tasks stay as they are; of what
 * the copy was, nothing is left.
 * SPDX-License-Identifier: Apache-2.0 */
#include "sums.h"

#include "exec/core/fuse.h"
#include "exec/messages/communication.h"
#include "ff/cli.h"
#include "ff/instance.h"

/* Whether something that is read or written is at `place`. */
static bool has(const struct ff_kernel_io *io, const void *place)
{
	bool found = false;

	for (uint32_t i = 0; i < FF_MAX_INPUTS; i++)
		found = found || io->in[i] == place || io->din[i] == place;
	for (uint32_t k = 0; k < FF_MAX_OUTPUTS; k++)
		found = found || io->out[k] == place || io->dout[k] == place;
	return found;
}

static bool is_whole(const struct ff_copy *c)
{
	return c->add && c->reduce == FF_REDUCE_SUM &&
	       ff_region_equal(&c->source_region, &c->region) &&
	       ff_region_equal(&c->sink_region, &c->region);
}

/* The kernel adds gradient `slot` where the copy would have, if it can. */
static int give(const struct ff_executor *x, const struct ff_bound_task *j, uint32_t slot,
		const struct ff_copy *c, bool *given, struct ff_error *err)
{
	int code = FF_OK;

	*given = false;
	if (is_whole(c) && !has(j->io, c->sink))
		code = x->b->kernel.add(j->kernel, slot, given, err);
	if (*given && slot == 0)
		j->io->left = j->io->din[0];
	if (*given)
		j->io->din[slot] = c->sink;
	return code;
}

/* Of an earlier micro-batch, another use of a parameter, another reader on other devices. */
static int give_additions(
		const struct ff_executor *x, struct ff_bound_task *j, struct ff_error *err)
{
	uint32_t slot = 0, left = 0;
	int code = FF_OK;

	for (uint32_t i = 0; i < j->n_additions; i++, slot++) {
		const struct ff_copy c = j->addition[i];
		bool given = false;

		while (j->io->din[slot] != c.source) /* they stand in the order of slots */
			slot++;
		if (code == FF_OK)
			code = give(x, j, slot, &c, &given, err);
		if (!given)
			j->addition[left++] = c;
	}
	j->n_additions = left;
	return code;
}

/* Whether a transfer does something else than copies behind it. */
static bool does_more(const struct ff_transfer *t)
{
	return t->n_fills || t->n_before || t->n_parcels || t->n_encoded || t->n_aside ||
	       t->n_decoded || t->collective.n_devices || t->averaging || t->packing;
}

/* Whether what is added to came by the stream that computes alone, on which the move may not be:
 * nothing was moved there since its buffer is in use. */
static bool is_computed(const struct ff_executor *x, const struct ff_task *t, uint32_t second)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *move = &s->tasks[second];
	const uint32_t *source, *sink;
	uint32_t at = FF_NONE;

	ff_task_ends(s, move, &source, &sink);
	for (uint32_t i = 0; i < move->move->n_pieces; i++)
		if (move->move->piece[i].to == t->device)
			at = sink[move->move->piece[i].sink];
	for (uint32_t i = at == FF_NONE ? 0 : s->buffers[at].first; i < second; i++) {
		const struct ff_task *m = &s->tasks[i];

		if (ff_task_moves_edge(m) && ff_task_pass(m) == FF_BACKWARD && x->bound[i].here &&
				s->graph->edges[m->edge].value ==
						s->graph->edges[move->edge].value &&
				(x->bound[i].transfer->n_after || does_more(x->bound[i].transfer)))
			return false;
	}
	return at != FF_NONE;
}

/* `second` moves to another reader's gradient what `first`, the task before it on its device, has
 * made, and nobody else needs that. */
static int give_move(struct ff_executor *x, uint32_t first, uint32_t second, struct ff_error *err)
{
	const struct ff_schedule *s = x->s;
	const struct ff_task *t = &s->tasks[first], *move = &s->tasks[second];
	const struct ff_bound_task *j = &x->bound[first], *m = &x->bound[second];
	const struct ff_copy *c = m->transfer->after;
	uint32_t slot = s->graph->edges[move->edge].slot;
	bool given;
	int code;

	if (does_more(m->transfer) || m->transfer->n_after != 1 || !j->kernel ||
			!ff_task_computes_in(t, FF_BACKWARD) || t->node != move->node ||
			t->micro != move->micro || j->io->din[slot] != c->source ||
			ff_task_sum(s, t, slot) || !ff_fuse_is_ready(x, &first, 1, second))
		return FF_OK;
	if (s->buffers[ff_task_din(s, t, slot)[t->part]].last != second ||
			(j->stream != m->stream && !is_computed(x, t, second)))
		return FF_OK;
	code = give(x, j, slot, c, &given, err);
	if (given)
		m->transfer->n_after = 0;
	return code;
}

static int give_moves(struct ff_executor *x, struct ff_error *err)
{
	uint32_t *last = ff_arena_array(&x->arena, x->n_hosts, sizeof(*last));
	int code = last ? FF_OK : ff_fail_memory(err);

	for (uint32_t i = 0; i < x->n_hosts && last; i++)
		last[i] = FF_NONE;
	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK; i++) {
		const struct ff_task *t = &x->s->tasks[i];
		const struct ff_bound_task *j = &x->bound[i];

		if (ff_task_moves_edge(t) && ff_task_pass(t) == FF_BACKWARD && j->n_hosts == 1 &&
				last[j->hosts[0]] != FF_NONE)
			code = give_move(x, last[j->hosts[0]], i, err);
		for (uint32_t k = 0; k < j->n_hosts && !ff_task_moves_bucket(t); k++)
			last[j->hosts[k]] = i;
	}
	return code;
}

int ff_sums_give(struct ff_executor *x, struct ff_error *err)
{
	bool wanted = x->b->kernel.add;
	int code = ff_cli_switch("FF_FUSE", &wanted, err);

	if (code < 0 || !wanted || !x->b->kernel.add)
		return code;
	code = give_moves(x, err);
	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK; i++)
		if (x->bound[i].kernel && x->bound[i].n_additions)
			code = give_additions(x, &x->bound[i], err);
	return code;
}
