/* Issue: gives the tasks of a pass to their streams, in the schedule's order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "issue.h"

#include <string.h>

#include "exec/core/ranks.h"
#include "exec/messages/transfer.h"
#include "ff/clock.h"
#include "process/pulse.h"

/* Whether the pass under way has this task. */
static bool is_in_pass(const struct ff_executor *x, uint32_t task)
{
	const struct ff_bound_task *j = &x->bound[task];
	const struct ff_task *t = &x->s->tasks[task];
	bool updates = t->compute == FF_COMPUTE_UPDATE;
	bool averages = ff_task_moves_bucket(t) && x->s->buckets[t->bucket].averaged;

	if (!j->here || (!x->training && !j->forward))
		return false;
	if (updates && x->step < x->s->travel.staleness)
		return false; /* there is nothing yet */
	if (averages && !ff_schedule_averages(x->s, x->step, x->opt.last))
		return false;
	return !x->opt.keep_gradients || (!updates && !averages);
}

/* Where a pass is captured its figures are read later: who takes these computes nonsense. */
static void set_figures(const struct ff_executor *x, struct ff_kernel_io *io)
{
	io->step = x->launches.capturing ? UINT64_MAX : x->step;
	io->valid = x->launches.capturing ? 0 : x->losses.valid[io->loss];
	io->figures = x->launches.capturing ? x->launches.figures : NULL;
}

static int issue_additions(
		struct ff_executor *x, const struct ff_bound_task *j, struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < j->n_additions && code == FF_OK; i++)
		code = x->b->move.copy(j->stream, &j->addition[i], err);
	return code;
}

static int issue_part(struct ff_executor *x, struct ff_bound_task *j, struct ff_error *err)
{
	float *score = x->launches.capturing ? &x->launches.capturing->score[FF_SCORES *
									     (size_t)j->score_index]
					     : j->score;
	int code = FF_OK;

	if (!j->kernel)
		return FF_OK;
	set_figures(x, j->io);
	j->io->micro = x->s->tasks[j - x->bound].micro;
	j->io->training = x->training;
	j->io->rank = x->training ? NULL : j->rank;
	if (j->ahead)
		code = x->b->move.copy(j->stream, j->ahead, err);
	if (code == FF_OK)
		code = x->b->kernel.run(j->stream, j->kernel, j->io, err);
	if (code == FF_OK)
		code = issue_additions(x, j, err);
	if (code == FF_OK && j->score)
		code = x->b->move.download(
				j->stream, score, j->io->out[0], FF_SCORES * sizeof(*score), err);
	if (code == FF_OK && j->io->rank)
		code = ff_ranks_download(x, j, err);
	return code;
}

static int issue_update(struct ff_executor *x, struct ff_bound_task *j, struct ff_error *err)
{
	for (uint32_t i = 0; i < j->n_updates; i++) {
		struct ff_update *u = &j->update[i];

		x->s->optimizer->factors(x->opt.groups.setting[u->group], ff_executor_updates(x),
				&u->factors);
		u->figures = x->launches.capturing ? x->launches.figures : NULL;
		if (x->launches.capturing) /* as set_figures has it */
			memset(&u->factors, 0xff, sizeof(u->factors));
	}
	return x->b->math.update(j->stream, j->update, j->n_updates, err);
}

static int issue(struct ff_executor *x, uint32_t task, struct ff_error *err)
{
	struct ff_bound_task *j = &x->bound[task];

	if (j->transfer)
		return ff_transfer_issue(j->transfer, j->stream, err);
	switch (x->s->tasks[task].compute) {
	case FF_COMPUTE_PART:
		return issue_part(x, j, err);
	case FF_COMPUTE_UPDATE:
		return issue_update(x, j, err);
	case FF_COMPUTE_NORM:
		return x->b->math.squares(j->stream, j->norm, err);
	case FF_COMPUTE_DELAY:
		return issue_additions(x, j, err);
	}
	return FF_OK;
}

static int note_time(void *arg, struct ff_error *err)
{
	(void)err;
	*(double *)arg = ff_clock_us();
	return FF_OK;
}

/* Where the caller communicates, it is now that it waits for other ranks. */
static int await(struct ff_executor *x, struct ff_stream *stream, struct ff_event *done,
		struct ff_error *err)
{
	bool waits = ff_executor_has_guest(x) && stream != x->transfers && stream != x->messages;
	int code;

	if (waits)
		ff_pulse_wait(x->comm->pulse);
	code = x->b->event.wait(stream, done, err);
	if (waits)
		ff_pulse_met(x->comm->pulse);
	return code;
}

/* Without overlap a device's transfers have their place among what it computes, and the memory
 * plan relies on that; but all of a process run on the first device's stream.  So the others'
 * streams wait for it, or (`before`) it for them. */
static int keep_place(struct ff_executor *x, const struct ff_bound_task *j, bool before,
		struct ff_error *err)
{
	int code = FF_OK;

	if (x->s->machine->overlap || j->stream != x->transfers)
		return FF_OK;
	for (uint32_t i = 0; i < j->n_hosts && code == FF_OK; i++) {
		struct ff_host *h = &x->host[j->hosts[i]];
		struct ff_stream *first = before ? h->compute : x->transfers;
		struct ff_event *turn = before ? h->turn : x->host[0].turn;

		if (h->compute == x->transfers)
			continue;
		code = x->b->event.record(first, turn, err);
		if (code == FF_OK)
			code = x->b->event.wait(before ? x->transfers : h->compute, turn, err);
	}
	return code;
}

static int issue_in_order(struct ff_executor *x, uint32_t task, struct ff_error *err)
{
	struct ff_bound_task *j = &x->bound[task];
	int code = j->transfer ? keep_place(x, j, true, err) : FF_OK;

	for (uint32_t i = 0; i < j->n_waits && code == FF_OK; i++)
		if (is_in_pass(x, j->wait[i]))
			code = await(x, j->stream, x->bound[j->wait[i]].done, err);
	if (code == FF_OK && x->trace.on)
		code = x->b->stream.call(j->stream, note_time, &j->start_us, err);
	if (code == FF_OK)
		code = issue(x, task, err);
	if (code == FF_OK && x->trace.on)
		code = x->b->stream.call(j->stream, note_time, &j->finish_us, err);
	if (code == FF_OK && j->done)
		code = x->b->event.record(j->stream, j->done, err);
	if (code == FF_OK && j->transfer)
		code = keep_place(x, j, false, err);
	j->traced = x->trace.on;
	ff_pulse_beat(x->comm->pulse);
	if (code == FF_OK && ff_executor_has_guest(x))
		x->b->stream.go_on(x->transfers);
	return code;
}

/* The task to come, on `next`, waits for all before it, the last of which is on `last`
 * (NULL: there is none). */
static int take_turn(struct ff_executor *x, struct ff_stream *last, struct ff_stream *next,
		struct ff_error *err)
{
	struct ff_event *turn = x->turn;
	int code;

	if (!last || last == next)
		return FF_OK;
	for (uint32_t i = 0; i < x->n_hosts; i++)
		if (x->host[i].compute == last)
			turn = x->host[i].turn;
	code = x->b->event.record(last, turn, err);
	return code < 0 ? code : await(x, next, turn, err);
}

int ff_executor_issue(struct ff_executor *x, struct ff_error *err)
{
	/* A buffer may be used again because a task of backward lies between; without
	 * backward only one task at a time is safe. */
	bool alone = !x->training && x->s->n_instances > 2;
	struct ff_stream *last = NULL;
	int code = FF_OK;

	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK; i++) {
		struct ff_bound_task *j = &x->bound[i];

		j->traced = false;
		if (!is_in_pass(x, i))
			continue;
		if (alone)
			code = take_turn(x, last, j->stream, err);
		if (code == FF_OK)
			code = issue_in_order(x, i, err);
		last = j->stream;
	}
	return code;
}
