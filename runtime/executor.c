/* Executor: walks the schedule's tasks in their order and gives each to its
 * stream.  SPDX-License-Identifier: Apache-2.0 */
#include "executor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ff/cli.h"

static int open_host(struct ff_executor *x, uint32_t device, struct ff_error *err)
{
	const struct ff_machine *m = x->s->machine;
	struct ff_host *h = &x->host[x->n_hosts];
	int code;

	h->device = device;
	x->host_of[device] = x->n_hosts++;
	code = x->b->open(ff_machine_ordinal(m, device), &h->dev, err);
	if (code < 0)
		return code;
	if (x->b->observe)
		x->b->observe(h->dev, x->s);
	if (x->s->memory_bytes[device] > 0) {
		void *memory;

		code = x->b->alloc(h->dev, (size_t)x->s->memory_bytes[device], &memory, err);
		if (code < 0)
			return code;
		h->memory = memory;
		h->bytes = x->s->memory_bytes[device];
	}
	code = x->b->stream(h->dev, false, &h->compute, err);
	return code < 0 ? code : x->b->event(h->dev, &h->turn, err);
}

static int open_hosts(struct ff_executor *x, struct ff_error *err)
{
	uint32_t n = x->s->machine->n_devices;
	int code = FF_OK;

	if (x->comm->n_devices < n)
		return ff_fail(err, FF_E_INPUT, "the schedule is for %u devices, but %u are here",
				n, x->comm->n_devices);
	x->host = ff_arena_array(&x->arena, n, sizeof(*x->host));
	x->host_of = ff_arena_array(&x->arena, n, sizeof(*x->host_of));
	if (!x->host || !x->host_of)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++)
		x->host_of[i] = FF_NONE;
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		if (x->comm->hosts(x->comm, i))
			code = open_host(x, i, err);
	if (code < 0 || !x->n_hosts)
		return code;
	if (!x->s->machine->overlap) {
		x->transfers = x->host[0].compute;
		return FF_OK;
	}
	code = x->b->stream(x->host[0].dev, true, &x->transfers, err);
	return code < 0 ? code : x->b->event(x->host[0].dev, &x->turn, err);
}

int ff_executor_create(const struct ff_schedule *s, const struct ff_backend *backend,
		struct ff_comm *comm, const struct ff_dataset *data,
		const struct ff_executor_options *opt, struct ff_executor **ret,
		struct ff_error *err)
{
	struct ff_executor *x = calloc(1, sizeof(*x));
	int code;

	if (!x)
		return ff_fail_memory(err);
	ff_arena_init(&x->arena);
	x->s = s;
	x->b = backend;
	x->comm = comm;
	x->data = data;
	x->opt = *opt;
	if ((code = open_hosts(x, err)) < 0 || (code = ff_bind_jobs(x, err)) < 0 ||
			(code = ff_executor_init_weights(x, err)) < 0) {
		ff_executor_destroy(x);
		return code;
	}
	*ret = x;
	return FF_OK;
}

void ff_executor_destroy(struct ff_executor *x)
{
	if (!x)
		return;
	if (x->transfers && x->transfers != x->host[0].compute)
		x->b->stream_close(x->transfers);
	if (x->turn)
		x->b->event_close(x->turn);
	for (uint32_t i = 0; x->job && i < x->s->n_tasks; i++) {
		if (x->job[i].kernel)
			x->b->kernel_close(x->job[i].kernel);
		if (x->job[i].done)
			x->b->event_close(x->job[i].done);
	}
	ff_load_close(x);
	for (uint32_t i = 0; i < x->n_hosts; i++) {
		struct ff_host *h = &x->host[i];

		if (h->compute)
			x->b->stream_close(h->compute);
		if (h->turn)
			x->b->event_close(h->turn);
		if (h->memory)
			x->b->free(h->dev, h->memory);
		if (h->dev)
			x->b->close(h->dev);
	}
	free(x->loss);
	ff_arena_finish(&x->arena);
	free(x);
}

static bool runs(const struct ff_executor *x, uint32_t task)
{
	const struct ff_job *j = &x->job[task];

	if (!j->here || (!x->training && !j->forward))
		return false;
	return !x->opt.keep_gradients || x->s->tasks[task].kind != FF_TASK_UPDATE;
}

static int issue_compute(struct ff_executor *x, struct ff_job *j, struct ff_error *err)
{
	int code;

	j->io->step = x->step;
	j->io->micro = x->s->tasks[j - x->job].micro;
	j->io->training = x->training;
	j->io->valid = x->valid;
	code = x->b->run(j->stream, j->kernel, j->io, err);
	for (uint32_t i = 0; i < j->n_additions && code == FF_OK; i++)
		code = x->b->copy(j->stream, &j->addition[i], err);
	if (code == FF_OK && j->score)
		code = x->b->download(
				j->stream, j->score, j->io->out[0], 2 * sizeof(*j->score), err);
	return code;
}

static int issue(struct ff_executor *x, uint32_t task, struct ff_error *err)
{
	const struct ff_task *t = &x->s->tasks[task];
	struct ff_job *j = &x->job[task];

	switch (t->kind) {
	case FF_TASK_FORWARD:
	case FF_TASK_BACKWARD:
		return issue_compute(x, j, err);
	case FF_TASK_UPDATE:
		x->s->optimizer->factors(x->opt.setting, x->step, &j->update.factors);
		return x->b->update(j->stream, &j->update, err);
	case FF_TASK_MOVE:
	case FF_TASK_SYNC:
		return ff_transfer_issue(j->transfer, j->stream, err);
	}
	return FF_OK;
}

static int note_time(void *arg, struct ff_error *err)
{
	(void)err;
	*(double *)arg = ff_clock_us();
	return FF_OK;
}

/* Without overlap a device's transfers have their place among what it computes, and the memory
 * plan relies on that; but all of a process run on the first device's stream.  So the others'
 * streams wait for it, or (`before`) it for them. */
static int keep_place(
		struct ff_executor *x, const struct ff_job *j, bool before, struct ff_error *err)
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
		code = x->b->record(first, turn, err);
		if (code == FF_OK)
			code = x->b->wait(before ? x->transfers : h->compute, turn, err);
	}
	return code;
}

static int issue_in_order(struct ff_executor *x, uint32_t task, struct ff_error *err)
{
	bool transfer = x->s->tasks[task].kind == FF_TASK_MOVE ||
			x->s->tasks[task].kind == FF_TASK_SYNC;
	struct ff_job *j = &x->job[task];
	int code = transfer ? keep_place(x, j, true, err) : FF_OK;

	for (uint32_t i = 0; i < j->n_waits && code == FF_OK; i++)
		if (runs(x, j->wait[i]))
			code = x->b->wait(j->stream, x->job[j->wait[i]].done, err);
	if (code == FF_OK && x->tracing)
		code = x->b->call(j->stream, note_time, &j->start_us, err);
	if (code == FF_OK)
		code = issue(x, task, err);
	if (code == FF_OK && x->tracing)
		code = x->b->call(j->stream, note_time, &j->finish_us, err);
	if (code == FF_OK && j->done)
		code = x->b->record(j->stream, j->done, err);
	if (code == FF_OK && transfer)
		code = keep_place(x, j, false, err);
	j->traced = x->tracing;
	return code;
}

/* Waits for every stream, whatever happened, and returns the first failure. */
static int drain(struct ff_executor *x, int code, struct ff_error *err)
{
	struct ff_error later;
	int last;

	for (uint32_t i = 0; i < x->n_hosts; i++) {
		last = x->b->drain(x->host[i].compute, code < 0 ? &later : err);
		code = code < 0 ? code : last;
	}
	if (x->transfers) {
		last = x->b->drain(x->transfers, code < 0 ? &later : err);
		code = code < 0 ? code : last;
	}
	return code;
}

static void collect_spans(struct ff_executor *x)
{
	x->n_spans = 0;
	for (uint32_t i = 0; i < x->s->n_tasks; i++) {
		const struct ff_job *j = &x->job[i];

		for (uint32_t k = 0; j->traced && k < j->n_hosts; k++)
			x->span[x->n_spans++] = (struct ff_span){
					.task = i,
					.device = x->host[j->hosts[k]].device,
					.start_us = j->start_us - x->origin_us,
					.finish_us = j->finish_us - x->origin_us,
			};
	}
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
	code = x->b->record(last, turn, err);
	return code < 0 ? code : x->b->wait(next, turn, err);
}

/* Gives the streams all tasks of a pass, in order. */
static int issue_all(struct ff_executor *x, struct ff_error *err)
{
	/* A buffer may be used again because a task of backward lies between; without
	 * backward only one task at a time is safe. */
	bool alone = !x->training && x->s->n_instances > 2;
	struct ff_stream *last = NULL;
	int code = FF_OK;

	for (uint32_t i = 0; i < x->s->n_tasks && code == FF_OK; i++) {
		struct ff_job *j = &x->job[i];

		j->traced = false;
		if (!runs(x, i))
			continue;
		if (alone)
			code = take_turn(x, last, j->stream, err);
		if (code == FF_OK)
			code = issue_in_order(x, i, err);
		last = j->stream;
	}
	return code;
}

/* One pass over the schedule, maybe the `last` of its kind; `score` gets the hosted loss parts'
 * sums. */
static int walk(struct ff_executor *x, bool last, double score[2], struct ff_error *err)
{
	int code = x->tracing ? x->comm->barrier(x->comm, err) : FF_OK;

	if (code == FF_OK)
		code = ff_load_begin(x, last, err);
	if (code < 0)
		return code;
	x->origin_us = ff_clock_us();
	code = drain(x, issue_all(x, err), err);
	if (code < 0)
		return code;
	score[0] = score[1] = 0;
	for (uint32_t i = 0; i < x->s->n_tasks; i++) {
		const struct ff_job *j = &x->job[i];

		for (int k = 0; j->score && k < 2; k++)
			score[k] += (double)j->score[k];
	}
	if (x->tracing)
		collect_spans(x);
	return FF_OK;
}

static int keep_loss(struct ff_executor *x, double loss, struct ff_error *err)
{
	if (x->n_losses == x->cap_losses) {
		uint32_t cap = x->cap_losses ? 2 * x->cap_losses : 256;
		float *grown = realloc(x->loss, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		x->loss = grown;
		x->cap_losses = cap;
	}
	x->loss[x->n_losses++] = (float)loss;
	return FF_OK;
}

int ff_executor_step(struct ff_executor *x, uint64_t step, struct ff_error *err)
{
	double score[2];
	int code;

	x->training = true;
	x->step = step;
	code = walk(x, false, score, err);
	return code < 0 ? code : keep_loss(x, score[0], err);
}

int ff_executor_test(struct ff_executor *x, double *accuracy, double *loss, struct ff_error *err)
{
	int64_t steps = ff_dataset_steps(x->data, false), valid = 0;
	double score[2], total[2] = {0, 0};
	bool tracing = x->tracing;
	int code = FF_OK;
	float sum[2];

	x->training = false;
	x->tracing = false;
	for (int64_t i = 0; i < steps && code == FF_OK; i++) {
		x->step = (uint64_t)i;
		code = walk(x, i + 1 == steps, score, err);
		if (code < 0)
			break;
		/* a batch's loss is a mean over its labels; the last batch may have fewer */
		total[0] += score[0] * (double)x->valid;
		total[1] += score[1];
		valid += x->valid;
	}
	x->tracing = tracing;
	if (code < 0)
		return code;
	sum[0] = (float)total[0];
	sum[1] = (float)total[1];
	if ((code = x->comm->sum(x->comm, sum, 2, err)) < 0)
		return code;
	*loss = valid ? (double)sum[0] / (double)valid : 0;
	*accuracy = valid ? (double)sum[1] / (double)valid : 0;
	return FF_OK;
}

int ff_executor_losses(struct ff_executor *x, double *loss, uint32_t n, struct ff_error *err)
{
	int code;

	if (n != x->n_losses)
		return ff_fail(err, FF_E_RUN, "%u losses were asked for after %u steps", n,
				x->n_losses);
	if ((code = x->comm->sum(x->comm, x->loss, n, err)) < 0)
		return code;
	for (uint32_t i = 0; i < n; i++)
		loss[i] = (double)x->loss[i];
	x->n_losses = 0;
	return FF_OK;
}

void ff_executor_set_rate(struct ff_executor *x, double rate)
{
	x->opt.setting[FF_SETTING_RATE] = rate;
}

int64_t ff_executor_memory(const struct ff_executor *x, uint32_t device)
{
	uint32_t host = device < x->s->machine->n_devices ? x->host_of[device] : FF_NONE;

	return host == FF_NONE ? 0 : x->host[host].bytes;
}

void ff_executor_trace(struct ff_executor *x, bool on)
{
	x->tracing = on;
}

void ff_executor_spans(const struct ff_executor *x, const struct ff_span **spans, uint32_t *n)
{
	*spans = x->span;
	*n = x->n_spans;
}
