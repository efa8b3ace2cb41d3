/* Executor: walks the schedule's tasks in their order and gives each to its
 * stream.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/executor.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"
#include "exec/core/past.h"
#include "exec/core/ranks.h"
#include "exec/core/state.h"
#include "exec/messages/load.h"
#include "ff/cli.h"
#include "gather.h"
#include "issue.h"
#include "kept.h"
#include "process/pulse.h"
#include "replay.h"

static int open_host(struct ff_executor *x, uint32_t device, struct ff_error *err)
{
	const struct ff_machine *m = x->s->machine;
	struct ff_host *h = &x->host[x->n_hosts];
	int code;

	h->device = device;
	x->host_of[device] = x->n_hosts++;
	code = x->b->device.open(ff_machine_ordinal(m, device), &h->dev, err);
	if (code < 0)
		return code;
	if (x->b->device.observe)
		x->b->device.observe(h->dev, x->s);
	if (x->s->memory_bytes[device] > 0) {
		void *memory;

		code = x->b->memory.alloc(h->dev, (size_t)x->s->memory_bytes[device], &memory, err);
		if (code < 0)
			return code;
		h->memory = memory;
		h->bytes = x->s->memory_bytes[device];
	}
	code = x->b->stream.open(h->dev, false, &h->compute, err);
	return code < 0 ? code : x->b->event.open(h->dev, &h->turn, err);
}

/* Whether messages have a stream: its host functions and those of the other one, which wait for
 * other ranks, must not wait for each other.  On one stream messages only wait for more than the
 * schedule says. */
static bool has_messages(const struct ff_executor *x)
{
	return x->s->machine->message_lane && x->comm->takes_messages &&
	       (x->comm->in_stream || x->comm->n_ranks == 1 || x->b->stream.apart);
}

/* A stream of what is moved, beside that one. */
static int open_beside(struct ff_executor *x, struct ff_stream *with, struct ff_stream **ret,
		struct ff_error *err)
{
	const struct ff_stream_slots *s = &x->b->stream;
	struct ff_device *dev = x->host[0].dev;

	return s->beside ? s->beside(dev, x->opt.beside, with, ret, err)
			 : s->open(dev, true, ret, err);
}

static int open_transfers(struct ff_executor *x, struct ff_error *err)
{
	int code;

	if (!x->s->machine->overlap) {
		x->transfers = x->messages = x->host[0].compute;
		return FF_OK;
	}
	code = open_beside(x, NULL, &x->transfers, err);
	if (code < 0)
		return code;
	x->messages = x->transfers;
	if (has_messages(x)) {
		code = open_beside(x, x->transfers, &x->messages, err);
		x->comm->two_streams = true;
	}
	return code < 0 ? code : x->b->event.open(x->host[0].dev, &x->turn, err);
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
	return open_transfers(x, err);
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
			(code = ff_executor_init_weights(x, err)) < 0 ||
			(code = ff_executor_init_kept(x, err)) < 0 ||
			(code = ff_replay_open(x, err)) < 0) {
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
	ff_replay_close(x);
	if (x->messages && x->messages != x->transfers)
		x->b->stream.close(x->messages);
	if (x->transfers && x->transfers != x->host[0].compute)
		x->b->stream.close(x->transfers);
	if (x->turn)
		x->b->event.close(x->turn);
	for (uint32_t i = 0; x->bound && i < x->s->n_tasks; i++) {
		if (x->bound[i].kernel)
			x->b->kernel.close(x->bound[i].kernel);
		if (x->bound[i].done)
			x->b->event.close(x->bound[i].done);
	}
	ff_load_close(x);
	ff_ranks_close(x);
	for (uint32_t i = 0; i < x->n_hosts; i++) {
		struct ff_host *h = &x->host[i];

		if (h->compute)
			x->b->stream.close(h->compute);
		if (h->turn)
			x->b->event.close(h->turn);
		if (h->memory)
			x->b->memory.free(h->dev, h->memory);
		if (h->dev)
			x->b->device.close(h->dev);
	}
	free(x->losses.past);
	ff_arena_finish(&x->arena);
	free(x);
}

/* What is moved may wait for what a stream that has failed does not send any more. */
static int drain_moved(struct ff_executor *x, struct ff_stream *s, int code, struct ff_error *err)
{
	bool guest = ff_executor_has_guest(x);
	struct ff_error later;
	int last;

	if (code < 0 && x->messages != x->transfers && x->comm->give_up)
		x->comm->give_up(x->comm);
	if (guest)
		ff_pulse_wait(x->comm->pulse);
	last = x->b->stream.drain(s, code < 0 ? &later : err);
	if (guest)
		ff_pulse_met(x->comm->pulse);
	return code < 0 ? code : last;
}

/* Waits for every stream, whatever happened, and returns the first failure. */
static int drain(struct ff_executor *x, int code, struct ff_error *err)
{
	struct ff_error later;
	int last;

	for (uint32_t i = 0; i < x->n_hosts; i++) {
		last = x->b->stream.drain(x->host[i].compute, code < 0 ? &later : err);
		code = code < 0 ? code : last;
	}
	if (x->transfers)
		code = drain_moved(x, x->transfers, code, err);
	if (x->messages && x->messages != x->transfers)
		code = drain_moved(x, x->messages, code, err);
	return code;
}

static void collect_spans(struct ff_executor *x)
{
	x->trace.n = 0;
	for (uint32_t i = 0; i < x->s->n_tasks; i++) {
		const struct ff_bound_task *j = &x->bound[i];

		for (uint32_t k = 0; j->traced && k < j->n_hosts; k++)
			x->trace.span[x->trace.n++] = (struct ff_span){
					.task = i,
					.device = x->host[j->hosts[k]].device,
					.start_us = j->start_us - x->trace.origin_us,
					.finish_us = j->finish_us - x->trace.origin_us,
			};
	}
}

/* One pass over the schedule, maybe the `last` of its kind, task by task. */
static int walk(struct ff_executor *x, bool last, struct ff_error *err)
{
	int code = x->trace.on ? x->comm->barrier(x->comm, err) : FF_OK;
	double us;

	if (code == FF_OK)
		code = ff_load_begin(x, last, err);
	if (code < 0)
		return code;
	x->trace.origin_us = ff_clock_us();
	code = drain(x, ff_executor_issue(x, err), err);
	if (code < 0)
		return code;
	us = ff_clock_us() - x->trace.origin_us;
	if (x->trace.on)
		collect_spans(x);
	code = ff_executor_keep(
			x, x->training, (uint32_t)(x->step & 1), NULL, x->losses.valid, us, err);
	return code < 0 ? code : ff_replay_warm(x, err);
}

/* As a whole where that is possible, else task by task when all before it has ended. */
static int post(struct ff_executor *x, bool training, uint64_t step, bool last,
		struct ff_error *err)
{
	int code;

	x->training = training;
	x->step = step;
	x->shown = 0;
	if (x->n_hosts && ff_replay_serves(x, training)) {
		code = ff_replay_post(x, last, err);
		if (code < 0 || ff_replay_serves(x, training))
			return code;
	}
	code = ff_replay_wait(x, err);
	return code < 0 ? code : walk(x, last, err);
}

int ff_executor_post(struct ff_executor *x, uint64_t step, struct ff_error *err)
{
	return post(x, true, step, false, err);
}

int ff_executor_wait(struct ff_executor *x, struct ff_error *err)
{
	return ff_replay_wait(x, err);
}

int ff_executor_step(struct ff_executor *x, uint64_t step, struct ff_error *err)
{
	int code = post(x, true, step, false, err);

	return code < 0 ? code : ff_replay_wait(x, err);
}

bool ff_executor_runs_ahead(const struct ff_executor *x)
{
	return ff_replay_serves(x, true);
}

/* Of all ranks together. */
static int gather_tested(struct ff_executor *x, struct ff_tested *ret, struct ff_error *err)
{
	const struct ff_graph *g = x->s->graph;
	float sum[3 * FF_MAX_LOSSES] = {0};
	int code;

	for (uint32_t i = 0; i < g->n_losses; i++) {
		sum[3 * (size_t)i] = (float)x->losses.tested[i].loss;
		sum[3 * (size_t)i + 1] = (float)x->losses.tested[i].correct;
		sum[3 * (size_t)i + 2] = (float)x->losses.tested[i].top;
	}
	if ((code = x->comm->sum(x->comm, sum, 3 * (int64_t)g->n_losses, err)) < 0)
		return code;
	*ret = (struct ff_tested){0};
	for (uint32_t i = 0; i < g->n_losses; i++) {
		double valid = x->losses.tested[i].valid;

		ret->of[i].loss = valid > 0 ? (double)sum[3 * (size_t)i] / valid : 0;
		ret->of[i].accuracy = valid > 0 ? (double)sum[3 * (size_t)i + 1] / valid : 0;
		ret->of[i].top = !ff_ranks_has(x, i) ? NAN
				 : valid > 0         ? (double)sum[3 * (size_t)i + 2] / valid
						     : 0;
		ret->loss += g->nodes[g->loss[i]].attrs.loss.weight * ret->of[i].loss;
	}
	return FF_OK;
}

int ff_executor_test(struct ff_executor *x, struct ff_tested *ret, struct ff_error *err)
{
	int64_t steps = ff_dataset_steps(x->data, false);
	int code = ff_ranks_open(x, err);
	bool tracing = x->trace.on;

	if (code == FF_OK)
		code = ff_replay_wait(x, err);
	if (code == FF_OK)
		code = ff_executor_settle(x, err);
	x->trace.on = false;
	memset(x->losses.tested, 0, sizeof(x->losses.tested));
	for (int64_t i = 0; i < steps && code == FF_OK; i++)
		code = post(x, false, (uint64_t)i, i + 1 == steps, err);
	if (code == FF_OK)
		code = ff_replay_wait(x, err);
	x->trace.on = tracing;
	if (code < 0)
		return code;
	return gather_tested(x, ret, err);
}

/* What they left is there. */
static int wait_for_past(struct ff_executor *x, uint32_t n, struct ff_error *err)
{
	int code = ff_replay_wait(x, err);

	if (code < 0 || n == x->losses.n_past)
		return code;
	return ff_fail(err, FF_E_RUN, "%u losses were asked for after %u steps", n,
			x->losses.n_past);
}

int ff_executor_times(struct ff_executor *x, double *us, uint32_t n, struct ff_error *err)
{
	int code = wait_for_past(x, n, err);

	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		us[i] = x->losses.past[i].us;
	return code;
}

static float total_of(const struct ff_graph *g, const struct ff_past *past)
{
	double sum = 0;

	for (uint32_t i = 0; i < g->n_losses; i++)
		sum += g->nodes[g->loss[i]].attrs.loss.weight * (double)past->loss[i];
	return (float)sum;
}

/* Of loss number `which`, or of all together. */
static int gather_losses(struct ff_executor *x, uint32_t which, double *loss, uint32_t n,
		struct ff_error *err)
{
	int code = wait_for_past(x, n, err);
	float *own;

	if (code < 0)
		return code;
	own = malloc((n ? n : 1) * sizeof(*own));
	if (!own)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < n; i++)
		own[i] = which == FF_NONE ? total_of(x->s->graph, &x->losses.past[i])
					  : x->losses.past[i].loss[which];
	code = x->comm->sum(x->comm, own, n, err);
	for (uint32_t i = 0; i < n && code == FF_OK; i++)
		loss[i] = (double)own[i];
	free(own);
	return code;
}

int ff_executor_loss(struct ff_executor *x, uint32_t which, double *loss, uint32_t n,
		struct ff_error *err)
{
	return gather_losses(x, which, loss, n, err);
}

int ff_executor_losses(struct ff_executor *x, double *loss, uint32_t n, struct ff_error *err)
{
	int code = gather_losses(x, FF_NONE, loss, n, err);

	if (code == FF_OK)
		x->losses.n_past = 0;
	return code;
}

void ff_executor_set_rate(struct ff_executor *x, uint32_t group, double rate)
{
	x->opt.groups.setting[group][FF_SETTING_RATE] = rate;
}

void ff_executor_end(struct ff_executor *x, uint64_t last)
{
	x->opt.last = last;
}

const char *ff_executor_obstacle(const struct ff_executor *x)
{
	return ff_replay_obstacle(x);
}

int64_t ff_executor_memory(const struct ff_executor *x, uint32_t device)
{
	uint32_t host = device < x->s->machine->n_devices ? x->host_of[device] : FF_NONE;

	return host == FF_NONE ? 0 : x->host[host].bytes;
}

void ff_executor_trace(struct ff_executor *x, bool on)
{
	x->trace.on = on;
}

void ff_executor_spans(const struct ff_executor *x, const struct ff_span **spans, uint32_t *n,
		double *origin_us)
{
	*spans = x->trace.span;
	*n = x->trace.n;
	*origin_us = x->trace.origin_us;
}
