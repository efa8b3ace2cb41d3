/* ffsearch: finds a fast strategy for a graph on a machine, or predicts one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "check/memory.h"
#include "exact/elimination.h"
#include "ff/bucketing.h"
#include "ff/graph_file.h"
#include "ff/paths.h"
#include "ff/process.h"
#include "hand/buckets.h"
#include "job.h"
#include "oracle.h"
#include "space/limits.h"
#include "vary.h"
#include "why.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define GIVE_UP_SHARE 0.5 /* until the reserve is used, where nothing fits that leaves it free */

static int load_machine(struct ff_job *j, struct ff_error *err)
{
	int code = ff_machine_load(j->opt.machine_name, &j->arena, &j->in.whole, err);

	if (code < 0)
		return code;
	if (j->opt.devices == FF_NOT_GIVEN)
		j->in.machine = j->in.whole;
	else
		code = ff_machine_subset(&j->in.whole, (uint32_t)j->opt.devices, &j->arena,
				&j->in.machine, err);
	return code;
}

/* --simulate: a strategy file, which names its optimizer. */
static int load_planned(struct ff_job *j, struct ff_error *err)
{
	int code;

	if (!j->opt.simulate || ff_job_is_start(j->opt.simulate))
		return FF_OK;
	code = ff_strategy_load_rewritten(j->opt.simulate, &j->in.graph, j->in.machine.n_devices,
			&j->arena, &j->in.planned, &j->in.planned_info, err);
	if (code == FF_OK && !j->in.optimizer)
		j->in.optimizer = j->in.planned_info.optimizer;
	j->opt.clip = j->opt.clip || (code == FF_OK && j->in.planned_info.clip);
	if (code == FF_OK)
		j->in.travel = j->in.planned_info.travel;
	return code < 0 ? code : ff_travel_choose(&j->opt.travel, &j->in.travel, err);
}

static int load(struct ff_job *j, struct ff_error *err)
{
	int code = ff_graph_load(j->opt.graph_path, &j->arena, &j->in.graph, err);

	if (code == FF_OK)
		code = load_machine(j, err);
	if (code == FF_OK && !ff_estimate_named(j->opt.costs_path, &j->in.estimate))
		code = ff_costs_load(j->opt.costs_path, &j->in.costs, err);
	if (code == FF_OK)
		code = load_planned(j, err);
	if (!j->in.optimizer)
		j->in.optimizer = ff_optimizer_preset();
	if (code == FF_OK)
		code = ff_job_rewrite(j, err);
	return code == FF_OK ? ff_job_open(j, err) : code;
}

static bool takes_baseline(const struct ff_job *j)
{
	const struct ff_summary *s = &j->summary;

	return ff_job_may_take(j, s->baseline) &&
	       (j->opt.what == FF_SPACE_ALL || s->baseline == &s->data_parallel);
}

/* Progress, and whether to stop. */
static bool watch(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	struct ff_job *j = ctx;
	double done = 0;

	if (j->opt.proposals > 0)
		done = (double)proposals / (double)j->opt.proposals;
	if (j->opt.seconds > 0)
		done = fmax(done, (ff_job_now_s() - j->from) / j->opt.seconds);
	if (isfinite(best_us))
		ff_progress_show(&j->progress, fmin(done, 1), seconds,
				"best %.3f ms, %.2fx the baseline, %.0f proposals/s", best_us / 1e3,
				j->summary.baseline->simulation.step_us / best_us,
				seconds > 0 ? (double)proposals / seconds : 0);
	else
		ff_progress_show(&j->progress, fmin(done, 1), seconds,
				"nothing fits yet, %.0f proposals/s",
				seconds > 0 ? (double)proposals / seconds : 0);
	/* what is left is for a search that may use the reserve; there is none if the baseline fits
	 */
	if (!isfinite(best_us) && j->opt.choice.reserve > 0 && done > GIVE_UP_SHARE &&
			!takes_baseline(j))
		return true;
	return ff_job_interrupted(j);
}

/* What takes the place of data parallelism: the search is no worse, and may go on from it. */
static const struct ff_strategy *known(const struct ff_job *j)
{
	const struct ff_summary *s = &j->summary;
	bool is_new = s->baseline != &s->data_parallel && takes_baseline(j);

	return is_new && !j->opt.init.n ? &s->baseline->strategy : NULL;
}

static int run_search(struct ff_job *j, struct ff_search_result *ret, struct ff_error *err)
{
	double share = j->opt.limits.torch ? 1 - FF_WHOLE_SHARE : 1;
	int64_t bucket_bytes = j->summary.baseline->strategy.bucket_bytes;
	struct ff_search_options opt = {
			.seed = j->opt.seed,
			.proposals = j->opt.proposals,
			.seconds = share * ff_job_search_seconds(j),
			.lower_s = j->predict_s,
			.layout_s = j->price_s,
			.kept_s = ff_job_after_seconds(j) - ff_job_bound_seconds(j),
			.may_find_none = takes_baseline(j) && !j->n_init,
			.beta = j->opt.choice.beta,
			/* a baseline that does not fit has none that were tuned */
			.bucket_bytes = bucket_bytes ? bucket_bytes
						     : ff_bucket_bytes(&j->in.graph,
								       &j->in.machine),
			.starts = j->opt.init.n ? j->named : ff_starts,
			.given = j->init,
			.n_given = j->n_init,
			.known = known(j),
			.top = (uint32_t)j->opt.choice.top,
			.seeds = (uint32_t)j->opt.choice.seeds,
			.pricer = j->tools.pricer,
			.more = j->tools.more,
			.n_more = (uint32_t)j->opt.jobs - 1,
			.progress = watch,
			.ctx = j,
	};
	int code;

	ff_progress_start(&j->progress);
	code = ff_search_mcmc(j->tools.space, j->tools.evaluator, &j->in.graph, &j->in.machine,
			&opt, &j->arena, ret, err);
	ff_progress_end(&j->progress);
	return code;
}

/* What the device lacks that lacks most, and how many lack something. */
static int fail_unfit(const struct ff_job *j, const struct ff_plan *p, const char *what,
		struct ff_error *err)
{
	int64_t most = 0;
	uint32_t device = 0, n = 0;

	for (uint32_t i = 0; i < j->in.machine.n_devices; i++) {
		int64_t over = p->schedule.memory_bytes[i] - ff_job_memory(j, i);

		n += over > 0;
		if (over > most) {
			most = over;
			device = i;
		}
	}
	return ff_fail(err, FF_E_NOFIT,
			"%s: %u of %u devices lack memory, the most device %u, which needs %.1f "
			"MiB and has %.1f MiB",
			what, n, j->in.machine.n_devices, device,
			(double)p->schedule.memory_bytes[device] / (1 << 20),
			(double)ff_job_memory(j, device) / (1 << 20));
}

/* Lowers what was found; it must come to what the search took it for. */
static int confirm(struct ff_job *j, const struct ff_search_result *found, struct ff_error *err)
{
	const struct ff_plan *d = j->summary.baseline;
	struct ff_plan *p = &j->summary.plan;
	double from_s = ff_job_now_s();
	bool takes = ff_job_may_take(j, d) && d->simulation.step_us <= found->evaluation.step_us;
	int code = takes ? ff_job_take(j, d, err)
			 : ff_job_lower(j, &found->best, &found->evaluation, err);

	if (code < 0)
		return code;
	j->predict_s = fmax(j->predict_s, ff_job_now_s() - from_s);
	if (takes)
		return FF_OK;
	if (p->simulation.step_us != found->evaluation.step_us || !ff_plan_fits(p))
		return ff_fail(err, FF_E_RUN,
				"internal error: the search took the plan for %.17g us and "
				"fitting, but "
				"simulated afresh it takes %.17g us and %s",
				found->evaluation.step_us, p->simulation.step_us,
				ff_plan_fits(p) ? "fits" : "does not fit");
	return FF_OK;
}

/* When there was a plan that fits: the baseline, if it is one, or what the search, which began
 * `begun_s` into the command, first kept. */
static void note_first(struct ff_job *j, double begun_s)
{
	double first_s = takes_baseline(j) ? j->baseline_s : begun_s + j->found.first_s;

	if (isfinite(first_s))
		j->summary.found.first_s = first_s;
}

/* What follows a search that had no memory left has the memory that it held. */
static int begin_anew(struct ff_job *j, struct ff_error *err)
{
	fprintf(stderr, "%s: warning: the host's memory ended the search after %llu proposals\n",
			ff_job_command.name, (unsigned long long)j->found.proposals);
	return ff_job_open_evaluators(j, err);
}

/* What the search finds, and what is made of it behind it. */
static int seek(struct ff_job *j, struct ff_error *err)
{
	struct ff_search_result *found = &j->found;
	double begun_s = ff_job_now_s() - j->from;
	int code = run_search(j, found, err);

	if (code == FF_OK || code == FF_E_NOFIT)
		note_first(j, begun_s);
	if (code == FF_OK && found->lacked_memory)
		code = begin_anew(j, err);
	if (code == FF_OK)
		code = ff_buckets_tune(j->tools.evaluator, &found->best,
				ff_bucket_bytes(&j->in.graph, &j->in.machine), &found->evaluation,
				err);
	return code == FF_OK ? ff_job_regularise(j, ff_job_late, err) : code;
}

/* With all memory, where nothing was found that leaves the reserve free. */
static int seek_without_reserve(struct ff_job *j, struct ff_error *err)
{
	int code;

	j->opt.choice.reserve = 0;
	j->summary.found.used_reserve = true;
	ff_job_check_memory(j, &j->summary.data_parallel);
	if (j->summary.baseline != &j->summary.data_parallel)
		ff_job_check_memory(j, &j->baseline);
	code = ff_job_open_evaluators(j, err);
	return code == FF_OK ? seek(j, err) : code;
}

/* On one device there is no search. */
static bool had_no_time(const struct ff_job *j)
{
	return !j->found.proposals && j->opt.seconds > 0 && j->in.machine.n_devices > 1;
}

/* Fewer proposals than one an operator are no search. */
static int fail_unfound(const struct ff_job *j, struct ff_error *err)
{
	struct ff_error inner = *err;

	if (j->opt.seconds <= 0 || j->in.machine.n_devices < 2 ||
			j->found.proposals >= j->in.graph.n_nodes)
		return FF_E_NOFIT;
	return ff_fail(err, FF_E_NOFIT,
			"%s; there was hardly time to search (take a longer --budget)", inner.text);
}

static int find(struct ff_job *j, struct ff_error *err)
{
	bool found;
	int code = ff_job_bound(j, err);

	if (code == FF_OK)
		code = seek(j, err);
	if (code == FF_E_NOFIT && !takes_baseline(j) && j->opt.choice.reserve > 0 &&
			!j->summary.interrupted)
		code = seek_without_reserve(j, err);
	found = code == FF_OK;
	if (code == FF_E_NOFIT && takes_baseline(j))
		code = ff_job_take(j, j->summary.baseline, err);
	if (code == FF_E_NOFIT)
		return fail_unfound(j, err);
	/* on large machines blocks that the search has seen take gigabytes, and so do the bound and
	 * the schedule: they are let go of before */
	if (code == FF_OK && found)
		code = ff_job_open_evaluators(j, err);
	if (code == FF_OK)
		code = ff_job_bound_later(
				j, found ? &j->found.best : &j->summary.plan.strategy, err);
	return code < 0 || !found ? code : confirm(j, &j->found, err);
}

/* Where weights and states alone are more than all devices have, nothing needs to be tried. */
static int check_room(const struct ff_job *j, struct ff_error *err)
{
	int64_t least = ff_least_memory_bytes(&j->in.graph, j->in.optimizer), room = 0;

	for (uint32_t i = 0; i < j->in.machine.n_devices; i++)
		room += ff_job_whole_memory(j, i);
	if (least <= room)
		return FF_OK;
	return ff_fail(err, FF_E_NOFIT,
			"no strategy fits in memory: weights and optimizer states alone take %.1f "
			"MiB, "
			"and all %u devices together have %.1f MiB",
			(double)least / (1 << 20), j->in.machine.n_devices,
			(double)room / (1 << 20));
}

static int search(struct ff_job *j, struct ff_error *err)
{
	const struct ff_plan *d = j->summary.baseline;
	struct ff_summary *s = &j->summary;
	int code = check_room(j, err);

	if (code == FF_OK)
		code = ff_job_limit(j, err);
	if (code == FF_OK)
		code = ff_job_check_starts(j, err);
	if (code == FF_OK)
		code = ff_job_load_plans(j, err);
	for (uint32_t i = 0; i + 1 < j->opt.jobs && code == FF_OK; i++)
		code = ff_job_open_pricer(j, &j->tools.more_pricers[i], err);
	if (code == FF_OK && j->opt.jobs > 1)
		code = ff_job_open_evaluators(j, err);
	s->found.reserve = s->found.used_reserve ? s->found.reserve : j->opt.choice.reserve;
	if (code == FF_OK)
		code = find(j, err);
	if (code == FF_OK && j->opt.limits.torch)
		code = ff_job_search_whole(j, err);
	if (code < 0)
		return code;
	s->title = "plan";
	s->proposals = j->found.proposals;
	s->found.no_time = had_no_time(j);
	s->accepted = j->found.accepted;
	s->seconds = j->found.seconds;
	s->found.seeds = j->found.seeds;
	if (ff_job_may_take(j, d) && d->simulation.step_us < s->plan.simulation.step_us)
		code = ff_job_take(j, d, err);
	ff_job_note_reserve(j);
	return code;
}

static int eliminate(struct ff_job *j, struct ff_strategy *ret, struct ff_error *err)
{
	const struct ff_elimination of = {
			j->tools.space, &j->in.graph, &j->in.machine, j->tools.pricer, NULL, NULL};
	bool found;

	return ff_search_eliminate(&of, j->tools.evaluator, &j->arena, ret, &found, err);
}

/* Whether the plan is data parallelism, whatever its file is called: all configs, in one batch. */
static bool is_data_parallel(const struct ff_job *j)
{
	const struct ff_strategy *a = &j->summary.plan.strategy;
	const struct ff_strategy *b = &j->summary.data_parallel.strategy;

	for (uint32_t i = 0; i < j->in.graph.n_nodes; i++)
		if (!ff_config_equal(&j->in.graph.nodes[i], &a->config[i], &b->config[i]) ||
				a->stage[i] || a->recompute[i])
			return false;
	return a->micro_batches == b->micro_batches &&
	       j->summary.plan.simulation.step_us == j->summary.data_parallel.simulation.step_us;
}

/* --simulate: a starting point by name, or a strategy file. */
static int simulate(struct ff_job *j, struct ff_error *err)
{
	struct ff_strategy s = j->in.planned;
	struct ff_evaluation at;
	int code = ff_job_bound(j, err);

	/* costs of one strategy alone (ffprof --strategy) tell nothing of all others */
	if (code == FF_E_INPUT && j->in.costs) {
		j->summary.lower_bound_us = NAN;
		code = FF_OK;
	}
	if (code < 0)
		return code;
	if (j->opt.limits.torch)
		code = ff_job_limit(j, err);
	if (code < 0)
		return code;
	if (!strcmp(j->opt.simulate, "elimination"))
		code = eliminate(j, &s, err);
	else if (!strcmp(j->opt.simulate, "megatron"))
		code = ff_job_find_by_hand(j, &s, err);
	else if (ff_job_is_start(j->opt.simulate))
		code = ff_init_strategy(j->opt.simulate, j->tools.space, &j->in.graph,
				&j->in.machine, j->opt.seed, &j->arena, &s, err);
	if (code == FF_OK && ff_job_is_start(j->opt.simulate))
		code = ff_job_tune(j, &s, &at, err);
	if (code == FF_OK && j->opt.limits.torch)
		code = ff_job_check_torch(j, &s, err);
	if (code == FF_OK)
		code = ff_job_predict(j, &s, &j->arena, &j->summary.plan, err);
	j->summary.title = j->by_hand[0] ? j->by_hand : j->opt.simulate;
	j->summary.is_data_parallel = code == FF_OK && is_data_parallel(j);
	return code;
}

static int fail_simulated(const struct ff_job *j, struct ff_error *err)
{
	char what[160];

	snprintf(what, sizeof(what), "strategy %.100s does not fit", j->summary.title);
	return fail_unfit(j, &j->summary.plan, what, err);
}

/* What is asked about the plan. */
static int answer(struct ff_job *j, FILE *table, struct ff_error *err)
{
	sigset_t old;
	int code = FF_OK;

	if (!j->opt.explain && !j->opt.vary.n)
		return FF_OK;
	fflush(table);
	ff_job_hold(&old);
	if (j->opt.explain) {
		code = ff_why_find(j, err);
		if (code == FF_OK)
			ff_why_print(&j->summary, table);
	}
	if (code == FF_OK && j->opt.vary.n)
		code = ff_vary_print(j, table, err);
	ff_job_release(&old);
	return code;
}

static int oracle(struct ff_job *j, FILE *table, struct ff_error *err)
{
	sigset_t old;
	int code;

	ff_job_hold(&old);
	code = ff_oracle_tell(j, table, err);
	ff_job_release(&old);
	return code;
}

/* From the first strategy that fits on who interrupts a search gets the best so far. */
static int find_or_simulate(struct ff_job *j, struct ff_error *err)
{
	sigset_t old;
	int code;

	if (!j->opt.simulate)
		ff_job_hold(&old);
	code = ff_job_find_baseline(j, err);
	if (code == FF_OK)
		code = ff_job_find_rivals(j, err);
	if (code == FF_OK)
		code = j->opt.simulate ? simulate(j, err) : search(j, err);
	if (!j->opt.simulate)
		ff_job_release(&old);
	return code;
}

/* Whether what is read and written goes together; *table: where the summary goes. */
static int check_paths(struct ff_job *j, FILE **table, struct ff_error *err)
{
	struct ff_path out[5 + FF_MOST_TOP] = {{.name = "-o", .path = j->opt.strategy_path},
			{.name = "--report", .path = j->opt.report_path},
			{.name = "--trace", .path = j->opt.beside.trace_path},
			{.name = "--html", .path = j->opt.beside.html_path},
			{.name = "--certificate", .path = j->opt.beside.certificate_path}};
	const struct ff_path in[] = {{.name = "GRAPH", .path = j->opt.graph_path},
			{.name = "--machine",
					.path = ff_machine_file(j->opt.machine_name, &j->arena)},
			{.name = "--costs", .path = j->opt.costs_path},
			{.name = "--simulate", .path = j->opt.simulate},
			{.name = "--map", .path = j->opt.limits.map}};
	int code = ff_job_name_others(j, err);

	for (uint32_t i = 0; i < FF_MOST_TOP; i++)
		out[5 + i] = (struct ff_path){.name = "--top", .path = j->other_path[i]};
	if (code == FF_OK)
		code = ff_paths_check(out, COUNT(out), in, COUNT(in), err);
	if (code == FF_OK && j->opt.choice.top > 1 && ff_paths_piped(out, COUNT(out)))
		code = ff_fail(err, FF_E_INPUT,
				"option --top: expected files, as a pipe takes one plan");
	*table = ff_paths_piped(out, COUNT(out)) ? stderr : stdout;
	return code;
}

/* What the summary says of the search, whatever comes of it. */
static void begin_summary(struct ff_job *j)
{
	struct ff_summary *s = &j->summary;

	s->graph = &j->in.graph;
	s->machine = &j->in.machine;
	s->costs = j->opt.costs_path;
	s->framework = ff_price_framework(j->tools.pricer);
	s->measured = j->in.costs;
	s->unmodelled = ff_price_unmodelled(j->tools.pricer);
	s->seed = j->opt.seed;
	s->jobs = j->opt.jobs;
	s->space = j->opt.space_text;
	s->memory_limit = j->opt.memory;
}

/* The plan, what is beside it, and what is said of it. */
static int find_plan(struct ff_job *j, struct ff_error *err)
{
	int code = find_or_simulate(j, err);

	if (code == FF_OK)
		code = ff_job_find_others(j, err);
	if (code == FF_OK)
		code = ff_job_find_facts(j, err);
	if (code == FF_OK)
		code = ff_job_find_nearest(j, err);
	if (code == FF_OK && !j->opt.simulate)
		code = ff_job_take_best(j, err);
	if (code == FF_OK)
		code = ff_job_find_gains(j, err);
	return code;
}

static int tell(struct ff_job *j, FILE *table, struct ff_error *err)
{
	int code = FF_OK;

	ff_job_warn(j);
	if (j->opt.list)
		code = ff_summary_list(&j->summary, j->opt.list, table, err);
	else
		ff_summary_print(&j->summary, table);
	if (code == FF_OK)
		code = answer(j, table, err);
	/* what may go wrong from here on is said behind it, not in it; who has read enough of it
	 * needs no sentence about that */
	if (fflush(table) != 0 && errno == EPIPE)
		clearerr(table);
	return code;
}

static int run(struct ff_job *j, struct ff_error *err)
{
	FILE *table = stdout;
	int code = ff_job_check(j, err);

	if (code == FF_OK)
		code = check_paths(j, &table, err);
	if (code == FF_OK)
		code = load(j, err);
	if (code == FF_OK && j->opt.oracle)
		return oracle(j, table, err);
	if (code < 0)
		return code;
	begin_summary(j);
	code = find_plan(j, err);
	if (code == FF_OK)
		code = tell(j, table, err);
	if (code < 0)
		return code;
	if (!ff_plan_fits(&j->summary.plan))
		return fail_simulated(j, err);
	return ff_job_save(j, err);
}

int main(int argc, char **argv)
{
	struct ff_job j = {.from = ff_job_now_s()};
	struct ff_error err = {0};
	bool done = false;
	int code;

	ff_process_begin(ff_job_command.name);
	ff_arena_init(&j.arena);
	ff_arena_init(&j.compared);
	ff_arena_init(&j.lowered);
	code = ff_job_parse(argc, argv, &j.opt, &done, &err);
	signal(SIGPIPE, SIG_IGN); /* who has read enough of the summary does not cost the plan */
	if (code == FF_OK && !done)
		code = run(&j, &err);
	ff_costs_destroy(j.in.costs);
	ff_job_close(&j);
	return ff_cli_end(&ff_job_command, code, &err);
}
