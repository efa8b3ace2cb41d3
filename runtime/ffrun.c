/* ffrun: trains a graph with a strategy, on ranks that it starts itself.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "comm/limit.h"
#include "comm/mpi_job.h"
#include "ff/backends.h"
#include "ff/beside.h"
#include "ff/cli.h"
#include "ff/process.h"
#include "process/agree.h"
#include "process/launch.h"
#include "process/pulse.h"
#include "process/stop.h"
#include "run/report.h"

static const struct ff_command names = {.name = "ffrun"};

/* Schedules of all candidates, the same on all ranks. */
static int lower(const struct ff_run_options *o, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_error *err)
{
	int code = FF_OK;

	p->ordinal = ff_machine_ordinal(&p->machine, comm->rank);
	for (uint32_t i = 0; i < p->n_candidates && code == FF_OK; i++) {
		struct ff_candidate *c = &p->candidate[i];

		code = ff_run_plan_lower(p, &p->machine, &c->strategy, &c->schedule, err);
		if (code == FF_OK)
			code = ff_run_plan_fits(c->name, &c->schedule, NULL, err);
	}
	if (code == FF_OK && p->n_candidates > 1) /* they take turns: both stay in memory */
		code = ff_run_plan_fits(p->candidate[1].name, &p->candidate[1].schedule,
				&p->candidate[0].schedule, err);
	if (code == FF_OK && comm->rank == 0)
		code = ff_report_beside(&o->tell, p, err);
	code = ff_agree_code(comm, code, err);
	for (uint32_t i = 0; i < p->n_candidates && code == FF_OK; i++)
		code = ff_agree_hash(comm, ff_schedule_hash(&p->candidate[i].schedule), err);
	return code;
}

/* Where a file goes to standard output, what people read goes beside it. */
static void part_outputs(const struct ff_run_options *o)
{
	fflush(stdout);
	if (ff_run_piped(o))
		dup2(STDERR_FILENO, STDOUT_FILENO);
}

static int report(const struct ff_run_options *o, const struct ff_run_plan *p,
		const struct ff_outcome *outcome, const struct ff_verdict *verdict,
		struct ff_error *err)
{
	int code = ff_report_save(o, p, outcome, verdict, err);

	if (code == FF_OK)
		code = ff_report_trace(&o->tell, p, outcome, err);
	if (code == FF_OK)
		code = ff_report_html(o, p, outcome, verdict, err);
	part_outputs(o);
	return code < 0 ? code : ff_report_print(o, p, outcome, verdict, err);
}

/* What the user should know before it runs; said once in a job, and not before a
 * refusal. */
static void tell(const struct ff_run_plan *p)
{
	for (int i = 0; i < FF_RUN_PLAN_NOTES; i++)
		if (p->note[i].text[0])
			fprintf(stderr, "%s: %s\n", names.name, p->note[i].text);
}

/* A failure that not all ranks know of must end the job: they may be waiting
 * for this one in the middle of a step. */
static int run(const struct ff_run_options *o, struct ff_run_plan *p, struct ff_comm *comm,
		struct ff_error *err)
{
	struct ff_outcome outcome[FF_MAX_CANDIDATES] = {0};
	struct ff_verdict verdict = {0};
	int code = lower(o, p, comm, err);

	if (code == FF_OK && comm->rank == 0)
		tell(p);
	if (code == FF_OK && (o->check.verify || o->check.dump))
		code = ff_verify(o, p, comm, &verdict, err);
	if (code == FF_OK && (p->steps || (p->finished && (o->store.save || o->check.test))))
		code = ff_train(o, p, comm, outcome, err);
	if (code < 0)
		return code;
	if (comm->rank == 0)
		code = report(o, p, outcome, &verdict, err);
	return ff_agree_code(comm, code, err);
}

/* Prints the sentence, if this rank has one. */
static int end(int code, const struct ff_error *err)
{
	if (code < 0 && !err->text[0])
		return ff_exit_status(code);
	return ff_cli_end(&names, code, err);
}

static void tell_failure(void *ctx)
{
	const struct ff_error *err = ctx;

	end(err->code, err);
}

/* One rank of several.  The one that tells what failed takes the others along. */
static int main_rank(void *ctx)
{
	const struct ff_run_options *o = ctx;
	struct ff_error err = {0};
	struct ff_comm *comm = NULL;
	struct ff_run_plan plan = {0};
	uint32_t here, own;
	int status, code = ff_mpi_start(&err);

	if (code < 0)
		return end(code, &err);
	code = ff_comm_mpi(&comm, &err);
	if (code == FF_OK)
		comm->pulse = o->pulse;
	if (code == FF_OK)
		code = ff_mpi_neighbours(&here, &own, &err);
	if (code == FF_OK)
		code = ff_agree_code(comm,
				ff_run_plan_load(o, comm->n_ranks, here, comm->rank == 0, &plan,
						&err),
				&err);
	if (code == FF_OK)
		code = ff_checkpoint_agree(&plan, comm, &err);
	if (code == FF_OK)
		code = ff_run_plan_same(o, &plan, comm, &err);
	if (code == FF_OK)
		code = ff_comm_prefer(plan.backend, &plan.machine, &comm, &err);
	if (code == FF_OK) {
		comm->pulse = o->pulse; /* it may be another one */
		ff_run_plan_communicate(&plan, comm->name);
		code = ff_beside_choose(plan.backend, comm, &plan.progress, &err);
	}
	if (code == FF_OK)
		code = run(o, &plan, comm, &err);
	status = code < 0 ? ff_exit_status(code) : end(code, &err);
	ff_pulse_wait(o->pulse);
	ff_mpi_meet(status, err.text[0] ? tell_failure : NULL, &err);
	ff_run_plan_finish(&plan);
	if (comm)
		comm->destroy(comm);
	ff_mpi_finish();
	return status;
}

/* A rank that others wait for is named by who watches it, before they give up. */
static int let_wait_longer(double limit_s, struct ff_error *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%.0f", limit_s > 0 ? 2 * limit_s + 60 : 0);
	return setenv("FF_COMM_TIMEOUT", text, 1) ? ff_fail_memory(err) : FF_OK;
}

static int watch_rank(struct ff_run_options *o)
{
	struct ff_error err = {0};
	double limit_s = o->timeout;
	int status = 0,
	    code = isnan(limit_s) ? ff_comm_limit(&limit_s, &err) : let_wait_longer(limit_s, &err);

	if (code < 0)
		return end(code, &err);
	o->pulse = ff_pulse_create(limit_s, &err);
	if (!o->pulse)
		return end(FF_E_NOMEM, &err);
	code = ff_launch_watch(main_rank, o, o->pulse, &status, &err);
	ff_pulse_destroy(o->pulse);
	return code < 0 ? end(code, &err) : status;
}

/* Finds what is wrong with the input, then starts the ranks or is the only one. */
static int main_alone(const struct ff_run_options *o, char **argv)
{
	struct ff_error err = {0};
	struct ff_comm *comm = NULL;
	struct ff_run_plan plan;
	uint32_t devices;
	double limit_s = o->timeout;
	int status = 0, code = ff_backends_tune(&err);

	if (code == FF_OK)
		code = ff_run_plan_load(o, 0, 0, true, &plan, &err);
	if (code < 0)
		return end(code, &err);
	devices = plan.machine.n_devices;
	if (devices > 1) {
		ff_run_plan_finish(&plan);
		if (isnan(limit_s))
			code = ff_comm_limit(&limit_s, &err);
		if (code == FF_OK)
			code = ff_launch(devices, argv, limit_s, &status, &err);
		return code < 0 ? end(code, &err) : status;
	}
	ff_stop_defer();
	code = ff_comm_local(1, &comm, &err);
	if (code == FF_OK) {
		plan.communication = comm->name;
		code = run(o, &plan, comm, &err);
	}
	if (comm)
		comm->destroy(comm);
	ff_run_plan_finish(&plan);
	return end(code, &err);
}

/* From a signal's handler. */
static void leave(void)
{
	_exit(1);
}

int main(int argc, char **argv)
{
	struct ff_run_options o;
	struct ff_error err = {0};
	bool done = false;
	int code;

	ff_process_begin(names.name);
	ff_launch_listen(names.name, leave);
	code = ff_run_parse(argc, argv, &o, &done, &err);
	if (code < 0 || done)
		return end(code, &err);
	return ff_launch_is_rank() ? watch_rank(&o) : main_alone(&o, argv);
}
