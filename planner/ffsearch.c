/* ffsearch: finds a fast strategy for a graph on a machine, or predicts one.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "ff/cli.h"
#include "summary.h"

#define PRESET_SECONDS 30.0
#define BOUND_SHARE 0.1 /* of the budget, at most for the lower bound */
#define LAST_SHARE 0.05 /* and for what comes after the search */
#define MOST_JOBS 256
#define NOT_GIVEN UINT64_MAX

struct job {
	/* what the command line said */
	const char *graph_path, *machine_name, *costs_path, *simulate, *optimizer_name;
	const char *strategy_path, *report_path, *trace_path;
	struct ff_texts init;
	uint64_t devices, proposals, seed, jobs;
	double seconds, beta;
	int64_t memory;
	const char *space_text;
	uint32_t what; /* FF_SPACE_* */
	/* clock in seconds: start of the command, end of the lower bound's time */
	double from, bound_until;
	double predict_s; /* what lowering data parallelism took */
	/* what was loaded and made */
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_machine machine;
	struct ff_strategy planned; /* --simulate: the file's */
	const struct ff_optimizer *optimizer;
	struct ff_costs *costs;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
	struct ff_pricer *more_pricers[MOST_JOBS];
	struct ff_evaluator *more[MOST_JOBS];
	const char *starts[33];
	struct ff_progress progress;
	struct ff_summary summary;
};

static const struct ff_command command = {
		.name = "ffsearch",
		.usage = "GRAPH --machine M --costs COSTS|analytic -o STRATEGY [options]\n"
			 "GRAPH --machine M --costs COSTS|analytic --simulate STRATEGY|NAME "
			 "[options]",
		.summary = "Searches how to split the training of GRAPH over the devices of a "
			   "machine.",
		.details = "  ffsearch alexnet.json --machine p100x16 --costs analytic -o "
			   "plan.json\n"
			   "  ffsearch lm.json --machine cpu2 --costs costs.json --optimizer adamw "
			   "-o "
			   "plan.json\n"
			   "  ffsearch lm.json --machine cpu2 --costs costs.json --simulate "
			   "plan.json\n"
			   "\n"
			   "Ctrl-C ends a search early and keeps the best plan so far.\n"
			   "Exit status: 0 done, 1 failed, 2 bad usage or input, 3 no strategy "
			   "fits in "
			   "memory.\n",
		.min_args = 1,
		.max_args = 1,
};

static bool is_start(const char *name)
{
	static const char *const names[] = {"elimination", "data-parallel", "single", "expert",
			"random", "pipeline", "frugal"};
	uint32_t stages;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return ff_is_pipeline(name, &stages);
}

#define ALL_SPACE "updates,replicas,micro-batches,recompute"

/* "updates,replicas", "none". */
static int read_space(const char *text, uint32_t *ret, struct ff_error *err)
{
	static const struct {
		const char *name;
		uint32_t what;
	} words[] = {{"updates", FF_SPACE_UPDATES}, {"replicas", FF_SPACE_REPLICAS},
			{"micro-batches", FF_SPACE_MICRO}, {"recompute", FF_SPACE_RECOMPUTE},
			{"none", 0}};
	size_t n_words = sizeof(words) / sizeof(*words);
	uint32_t what = 0;

	for (const char *at = text; *at; at += *at == ',') {
		size_t n = strcspn(at, ","), i = 0;

		while (i < n_words &&
				(strlen(words[i].name) != n || memcmp(words[i].name, at, n) != 0))
			i++;
		if (i == n_words)
			return ff_fail(err, FF_E_INPUT,
					"option --space: expected none, or some of updates, "
					"replicas, micro-batches and recompute with commas "
					"between, not \"%s\"",
					text);
		what |= words[i].what;
		at += n;
	}
	*ret = what;
	return FF_OK;
}

static int check_search(struct job *j, struct ff_error *err)
{
	static const char *const preset[] = {"data-parallel", "expert", "single", "random",
			"elimination", "pipeline", "frugal"};
	uint32_t n_preset = sizeof(preset) / sizeof(*preset);
	uint32_t n = j->init.n;

	if (!j->strategy_path)
		return ff_fail(err, FF_E_INPUT,
				"option -o is missing: expected the file for the strategy found");
	if (j->proposals == 0 || j->seconds == 0)
		return ff_fail(err, FF_E_INPUT, "option %s: expected more than 0",
				j->proposals == 0 ? "--proposals" : "--budget");
	if (!isnan(j->beta) && !(j->beta > 0))
		return ff_fail(err, FF_E_INPUT, "option --beta: expected a number above 0, not %g",
				j->beta);
	for (uint32_t i = 0; i < n; i++)
		if (!is_start(j->init.text[i]))
			return ff_fail(err, FF_E_INPUT,
					"option --init: expected data-parallel, single, expert, "
					"random, elimination, pipeline, pipeline-N or frugal, not "
					"\"%s\"",
					j->init.text[i]);
	for (uint32_t i = 0; i < (n ? n : n_preset); i++)
		j->starts[i] = n ? j->init.text[i] : preset[i];
	j->summary.starts = j->starts;
	if (j->jobs < 1 || j->jobs > MOST_JOBS)
		return ff_fail(err, FF_E_INPUT, "option --jobs: expected 1 to %d", MOST_JOBS);
	if (j->proposals == NOT_GIVEN) {
		j->proposals = 0;
		if (j->seconds < 0)
			j->seconds = PRESET_SECONDS;
	}
	if (j->seconds < 0)
		j->seconds = 0;
	if (isnan(j->beta))
		j->beta = 0;
	return FF_OK;
}

static int check_usage(struct job *j, struct ff_error *err)
{
	struct ff_error inner;

	if (!j->machine_name)
		return ff_fail(err, FF_E_INPUT,
				"option --machine is missing: expected a file or the name of a "
				"machine");
	if (!j->costs_path)
		return ff_fail(err, FF_E_INPUT,
				"option --costs is missing: expected a file that ffprof wrote, or "
				"the "
				"word analytic");
	if (j->devices == 0 || (j->devices > FF_MAX_DEVICES && j->devices != NOT_GIVEN))
		return ff_fail(err, FF_E_INPUT, "option --devices: expected 1 to %d",
				FF_MAX_DEVICES);
	if (j->memory == 0)
		return ff_fail(err, FF_E_INPUT, "option --memory: expected more than 0");
	if (j->memory < 0)
		j->memory = 0;
	if (read_space(j->space_text, &j->what, err) < 0)
		return err->code;
	if (j->optimizer_name && ff_optimizer_find(j->optimizer_name, &j->optimizer, &inner) < 0)
		return ff_fail(err, FF_E_INPUT, "option --optimizer: %s", inner.text);
	if (!j->simulate)
		return check_search(j, err);
	if (j->proposals != NOT_GIVEN || j->seconds >= 0 || j->init.n > 0 || !isnan(j->beta))
		return ff_fail(err, FF_E_INPUT,
				"option --simulate only predicts: expected no --budget, "
				"--proposals, "
				"--init or --beta beside it");
	return FF_OK;
}

static int load_machine(struct job *j, struct ff_error *err)
{
	struct ff_machine whole;
	int code = ff_machine_load(j->machine_name, &j->arena, &whole, err);

	if (code < 0)
		return code;
	if (j->devices == NOT_GIVEN)
		j->machine = whole;
	else
		code = ff_machine_subset(&whole, (uint32_t)j->devices, &j->arena, &j->machine, err);
	return code;
}

/* --simulate: a strategy file, which names its optimizer. */
static int load_planned(struct job *j, struct ff_error *err)
{
	struct ff_strategy_info info;
	int code;

	if (!j->simulate || is_start(j->simulate))
		return FF_OK;
	code = ff_strategy_load(j->simulate, &j->graph, j->machine.n_devices, &j->arena,
			&j->planned, &info, err);
	if (code == FF_OK && !j->optimizer)
		j->optimizer = info.optimizer;
	return code;
}

static int open_pricer(struct job *j, struct ff_pricer **ret, struct ff_error *err)
{
	int code = ff_pricer_create(&j->graph, &j->machine, j->costs,
			j->costs ? j->costs_path : NULL, j->graph_path, ret, err);

	return code == FF_OK ? ff_pricer_set_optimizer(*ret, j->optimizer, err) : code;
}

static int load(struct job *j, struct ff_error *err)
{
	const char *costs_path = strcmp(j->costs_path, "analytic") ? j->costs_path : NULL;
	int code = ff_graph_load(j->graph_path, &j->arena, &j->graph, err);

	if (code == FF_OK)
		code = load_machine(j, err);
	if (code == FF_OK && costs_path)
		code = ff_costs_load(costs_path, &j->costs, err);
	if (code == FF_OK)
		code = load_planned(j, err);
	if (!j->optimizer)
		j->optimizer = ff_optimizer_preset();
	if (code == FF_OK)
		code = open_pricer(j, &j->pricer, err);
	if (code == FF_OK)
		code = ff_space_create(&j->graph, &j->machine, &j->space, err);
	if (code == FF_OK)
		ff_space_allow(j->space, j->what);
	return code;
}

/* Lowers and times `s` afresh. */
static int predict(struct job *j, const struct ff_strategy *s, struct ff_plan *ret,
		struct ff_error *err)
{
	struct ff_lower_options opt = {.optimizer = j->optimizer,
			.workspace = ff_price_workspace,
			.ctx = j->pricer};
	int code;

	ret->strategy = *s;
	code = ff_lower(&j->graph, &j->machine, &ret->strategy, &opt, &j->arena, &ret->schedule,
			err);
	if (code == FF_OK)
		code = ff_simulate(&ret->schedule, j->pricer, &j->arena, &ret->simulation, err);
	if (code < 0)
		return code;
	ret->short_device = FF_NONE;
	for (uint32_t i = j->machine.n_devices; i-- > 0;) {
		int64_t limit = j->memory ? j->memory
					  : ff_device_kind(&j->machine, i)->memory_bytes;

		if (ret->schedule.memory_bytes[i] > limit) {
			ret->short_device = i;
			ret->short_limit = limit;
		}
	}
	return FF_OK;
}

static double now_s(void)
{
	return ff_clock_us() / 1e6;
}

/* While a plan is sought SIGINT is blocked and waits to be asked for. */
static void hold_interrupts(sigset_t *old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, old);
}

/* Whether Ctrl-C was pressed. */
static bool interrupted(struct job *j)
{
	const struct timespec now = {0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	if (sigtimedwait(&set, NULL, &now) == SIGINT)
		j->summary.interrupted = true;
	return j->summary.interrupted;
}

static void release_interrupts(const sigset_t *old)
{
	const struct timespec now = {0};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	while (sigtimedwait(&set, NULL, &now) == SIGINT)
		; /* a second Ctrl-C must not lose what was found */
	sigprocmask(SIG_SETMASK, old, NULL);
}

static bool bound_ends(void *ctx)
{
	struct job *j = ctx;

	return now_s() >= j->bound_until || interrupted(j);
}

/* Before the search, so that a cost that is missing is told at once, and what is
 * left of its time is the search's. */
static int bound(struct job *j, struct ff_error *err)
{
	const uint32_t *micro;
	uint32_t n = ff_space_micro(j->space, &micro);
	double *least = &j->summary.lower_bound_us, us;
	int code;

	j->bound_until = now_s() + BOUND_SHARE * (j->seconds > 0 ? j->seconds : PRESET_SECONDS);
	code = ff_lower_bound(&j->graph, 1, &j->machine, j->pricer, bound_ends, j, least, err);
	for (uint32_t i = n; i-- > 1 && code == FF_OK;) {
		struct ff_error why;
		uint32_t m = micro[i];

		code = ff_lower_bound(
				&j->graph, m, &j->machine, j->pricer, bound_ends, j, &us, &why);
		if (code == FF_E_INPUT && j->costs) {
			ff_space_forbid_micro(j->space, m); /* they were not measured */
			code = FF_OK;
		} else if (code < 0) {
			*err = why;
		} else if (!(us >= *least)) { /* or there was no time */
			*least = us;
		}
	}
	return code;
}

/* What the budget leaves for the search, after what went before it and without
 * what comes after it: lowering the plan takes longer than data parallelism. */
static double search_seconds(const struct job *j)
{
	double after_s = fmin(2 * j->predict_s, LAST_SHARE * j->seconds);

	if (j->seconds <= 0)
		return 0;
	return fmax(j->seconds - (now_s() - j->from) - after_s, 1e-3);
}

/* Progress, and whether to stop. */
static bool watch(void *ctx, uint64_t proposals, double seconds, double best_us)
{
	struct job *j = ctx;
	double done = 0;

	if (j->proposals > 0)
		done = (double)proposals / (double)j->proposals;
	if (j->seconds > 0)
		done = fmax(done, (now_s() - j->from) / j->seconds);
	if (isfinite(best_us))
		ff_progress_show(&j->progress, fmin(done, 1), seconds,
				"best %.3f ms, %.2fx data parallelism, %.0f proposals/s",
				best_us / 1e3,
				j->summary.data_parallel.simulation.step_us / best_us,
				seconds > 0 ? (double)proposals / seconds : 0);
	else
		ff_progress_show(&j->progress, fmin(done, 1), seconds,
				"nothing fits yet, %.0f proposals/s",
				seconds > 0 ? (double)proposals / seconds : 0);
	return interrupted(j);
}

/* A chain that runs beside the first has a pricer and an evaluator of its own. */
static int open_chain(struct job *j, uint32_t i, struct ff_error *err)
{
	int code = open_pricer(j, &j->more_pricers[i], err);

	if (code == FF_OK)
		code = ff_evaluator_create(&j->graph, &j->machine, j->more_pricers[i], j->memory, 0,
				&j->more[i], err);
	return code;
}

static int run_search(struct job *j, struct ff_search_result *ret, struct ff_error *err)
{
	struct ff_search_options opt = {
			.seed = j->seed,
			.proposals = j->proposals,
			.seconds = search_seconds(j),
			.beta = j->beta,
			.starts = j->starts,
			.pricer = j->pricer,
			.more = j->more,
			.n_more = (uint32_t)j->jobs - 1,
			.progress = watch,
			.ctx = j,
	};
	int code;

	ff_progress_start(&j->progress);
	code = ff_search_mcmc(
			j->space, j->evaluator, &j->graph, &j->machine, &opt, &j->arena, ret, err);
	ff_progress_end(&j->progress);
	return code;
}

static int search(struct job *j, struct ff_error *err)
{
	const struct ff_plan *d = &j->summary.data_parallel;
	struct ff_summary *s = &j->summary;
	struct ff_search_result found = {.proposals = 0};
	sigset_t old;
	int code = ff_evaluator_create(
			&j->graph, &j->machine, j->pricer, j->memory, 0, &j->evaluator, err);

	for (uint32_t i = 0; i + 1 < j->jobs && code == FF_OK; i++)
		code = open_chain(j, i, err);
	if (code < 0)
		return code;
	hold_interrupts(&old);
	code = bound(j, err);
	if (code == FF_OK)
		code = run_search(j, &found, err);
	release_interrupts(&old);
	if (code == FF_OK)
		code = predict(j, &found.best, &s->plan, err);
	if (code < 0)
		return code;
	if (s->plan.simulation.step_us != found.evaluation.step_us || !ff_plan_fits(&s->plan))
		return ff_fail(err, FF_E_RUN,
				"internal error: the search took the plan for %.17g us and "
				"fitting, but "
				"simulated afresh it takes %.17g us and %s",
				found.evaluation.step_us, s->plan.simulation.step_us,
				ff_plan_fits(&s->plan) ? "fits" : "does not fit");
	s->title = "plan";
	s->proposals = found.proposals;
	s->accepted = found.accepted;
	s->seconds = found.seconds;
	if (ff_plan_fits(d) && d->simulation.step_us <= s->plan.simulation.step_us) {
		s->plan = *d;
		s->plan.schedule.strategy = &s->plan.strategy;
		s->is_data_parallel = true;
	}
	return FF_OK;
}

static int eliminate(struct job *j, struct ff_strategy *ret, struct ff_error *err)
{
	bool found;
	int code = ff_evaluator_create(
			&j->graph, &j->machine, j->pricer, j->memory, 0, &j->evaluator, err);

	if (code == FF_OK)
		code = ff_search_eliminate(j->space, j->evaluator, &j->graph, &j->machine,
				j->pricer, NULL, NULL, &j->arena, ret, &found, err);
	return code;
}

/* --simulate: a starting point by name, or a strategy file. */
static int simulate(struct job *j, struct ff_error *err)
{
	struct ff_strategy s = j->planned;
	int code = bound(j, err);

	if (code < 0)
		return code;
	if (!strcmp(j->simulate, "elimination"))
		code = eliminate(j, &s, err);
	else if (is_start(j->simulate))
		code = ff_init_strategy(j->simulate, j->space, &j->graph, &j->machine, j->seed,
				&j->arena, &s, err);
	if (code == FF_OK)
		code = predict(j, &s, &j->summary.plan, err);
	j->summary.title = j->simulate;
	j->summary.is_data_parallel = !strcmp(j->simulate, "data-parallel");
	return code;
}

static int save_strategy(struct job *j, struct ff_error *err)
{
	const struct ff_plan *p = &j->summary.plan;
	struct ff_strategy_info info = {
			.machine = j->machine.name,
			.devices = j->machine.n_devices,
			.optimizer = j->optimizer,
			.predicted_us = p->simulation.step_us,
			.disturbed_share = j->costs ? 1 - ff_costs_steady_share(j->costs) : 0,
			.memory_bytes = p->schedule.memory_bytes,
	};
	struct ff_out o;
	int code;

	ff_out_init(&o);
	ff_strategy_write(&j->graph, &p->strategy, &info, &o);
	code = ff_out_save(&o, j->strategy_path, err);
	ff_out_finish(&o);
	return code;
}

static int save_report(struct job *j, struct ff_error *err)
{
	struct ff_out o;
	int code;

	ff_out_init(&o);
	ff_summary_write(&j->summary, &o);
	code = ff_out_save(&o, j->report_path, err);
	ff_out_finish(&o);
	return code;
}

static int save_trace(struct job *j, struct ff_error *err)
{
	const struct ff_plan *p = &j->summary.plan;
	struct ff_span *spans;
	struct ff_out o;
	uint32_t n;
	int code = ff_simulation_spans(&p->schedule, &p->simulation, &j->arena, &spans, &n, err);

	if (code < 0)
		return code;
	ff_out_init(&o);
	ff_trace_write(&p->schedule, "predicted", spans, n, &o);
	code = ff_out_save(&o, j->trace_path, err);
	ff_out_finish(&o);
	return code;
}

static int save(struct job *j, struct ff_error *err)
{
	int code = FF_OK;

	if (j->strategy_path)
		code = save_strategy(j, err);
	if (code == FF_OK && j->report_path)
		code = save_report(j, err);
	if (code == FF_OK && j->trace_path)
		code = save_trace(j, err);
	return code;
}

/* Predictions are as good as the figures they are made of. */
static void warn_if_unsteady(const struct job *j)
{
	double share = j->costs ? ff_costs_steady_share(j->costs) : 1;

	if (share < FF_STEADY)
		fprintf(stderr,
				"%s: %.0f %% of the costs in %s rest on samples that something "
				"else "
				"disturbed, so predictions may be off; ffprof --again measures "
				"them "
				"anew\n",
				command.name, 100 * (1 - share), j->costs_path);
}

static int run(struct job *j, struct ff_error *err)
{
	struct ff_summary *s = &j->summary;
	struct ff_strategy data_parallel;
	bool piped = false;
	int code = check_usage(j, err);

	if (code == FF_OK)
		code = load(j, err);
	if (code == FF_OK)
		code = ff_init_strategy("data-parallel", j->space, &j->graph, &j->machine, j->seed,
				&j->arena, &data_parallel, err);
	if (code < 0)
		return code;
	j->predict_s = now_s();
	code = predict(j, &data_parallel, &s->data_parallel, err);
	j->predict_s = now_s() - j->predict_s;
	if (code < 0)
		return code;
	s->graph = &j->graph;
	s->machine = &j->machine;
	s->costs = j->costs_path;
	s->measured = j->costs;
	s->seed = j->seed;
	s->jobs = j->jobs;
	s->space = j->space_text;
	s->memory_limit = j->memory;
	code = j->simulate ? simulate(j, err) : search(j, err);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < 3; i++) {
		const char *path[] = {j->strategy_path, j->report_path, j->trace_path};

		piped = piped || (path[i] && !strcmp(path[i], "-"));
	}
	ff_summary_print(s, piped ? stderr : stdout);
	warn_if_unsteady(j);
	if (!ff_plan_fits(&s->plan))
		return ff_fail(err, FF_E_NOFIT,
				"strategy %s does not fit: device %u needs %lld bytes and has %lld",
				s->title, s->plan.short_device,
				(long long)s->plan.schedule.memory_bytes[s->plan.short_device],
				(long long)s->plan.short_limit);
	return save(j, err);
}

static void finish(struct job *j)
{
	for (uint32_t i = 0; i < MOST_JOBS; i++) {
		ff_evaluator_destroy(j->more[i]);
		ff_pricer_destroy(j->more_pricers[i]);
	}
	ff_evaluator_destroy(j->evaluator);
	ff_space_destroy(j->space);
	ff_pricer_destroy(j->pricer);
	ff_costs_destroy(j->costs);
	ff_arena_finish(&j->arena);
}

static int parse(struct job *j, int argc, char **argv, bool *done, struct ff_error *err)
{
	char names[FF_OPTIMIZER_TEXT], optimizers[FF_OPTIMIZER_TEXT + 96];
	const struct ff_option options[] = {
			{"--machine", FF_OPTION_TEXT, &j->machine_name, "MACHINE",
					"file, or name of one in graphs/machines/"},
			{"--costs", FF_OPTION_TEXT, &j->costs_path, "COSTS",
					"file that ffprof wrote, or: analytic"},
			{"--devices", FF_OPTION_COUNT, &j->devices, "N",
					"use only the machine's first N devices"},
			{"--optimizer", FF_OPTION_TEXT, &j->optimizer_name, "NAME", optimizers},
			{"--budget", FF_OPTION_SECONDS, &j->seconds, "SECONDS",
					"be done in that time (preset 30s)"},
			{"--proposals", FF_OPTION_COUNT, &j->proposals, "N",
					"search that many proposals; then equal seeds give equal "
					"files"},
			{"--seed", FF_OPTION_COUNT, &j->seed, "N",
					"of all random choices (preset 0)"},
			{"--space", FF_OPTION_TEXT, &j->space_text, "LIST",
					"what else may change: updates (of parameters: sharded, or "
					"on one device), replicas (parts computed several times), "
					"micro-batches (in stages or not), recompute (values for "
					"backward), or none (preset: all)"},
			{"--memory", FF_OPTION_BYTES, &j->memory, "BYTES",
					"limit for each device (preset: what the machine says)"},
			{"--init", FF_OPTION_TEXTS, &j->init, "NAME",
					"start from data-parallel, expert, single, random, "
					"elimination, pipeline, pipeline-N (N stages) or frugal "
					"(of memory); may be repeated (preset: all but "
					"pipeline-N)"},
			{"--jobs", FF_OPTION_COUNT, &j->jobs, "N",
					"walk in so many threads, which share the best (preset 1)"},
			{"--beta", FF_OPTION_REAL, &j->beta, "B",
					"how strictly slower strategies are refused (preset 64 an "
					"operator)"},
			{"--simulate", FF_OPTION_TEXT, &j->simulate, "STRATEGY",
					"only predict a strategy file or one of the names of "
					"--init"},
			{"-o", FF_OPTION_TEXT, &j->strategy_path, "STRATEGY",
					"where the plan goes"},
			{"--report", FF_OPTION_TEXT, &j->report_path, "FILE", "figures as JSON"},
			{"--trace", FF_OPTION_TEXT, &j->trace_path, "FILE",
					"predicted timeline for Perfetto or chrome://tracing"},
	};
	struct ff_command c = command;
	uint32_t n_args;

	ff_optimizer_list(true, names);
	snprintf(optimizers, sizeof(optimizers),
			"what updates the parameters: %s; else what --simulate's file says, else "
			"%s",
			names, ff_optimizer_preset()->name);
	c.options = options;
	c.n_options = sizeof(options) / sizeof(*options);
	return ff_cli_parse(&c, argc, argv, &j->graph_path, &n_args, done, err);
}

int main(int argc, char **argv)
{
	struct job j = {.devices = NOT_GIVEN,
			.space_text = ALL_SPACE,
			.jobs = 1,
			.proposals = NOT_GIVEN,
			.seconds = -1,
			.memory = -1,
			.beta = NAN,
			.from = now_s()};
	struct ff_error err = {0};
	bool done = false;
	int code;

	ff_arena_init(&j.arena);
	code = parse(&j, argc, argv, &done, &err);
	if (code == FF_OK && !done)
		code = run(&j, &err);
	finish(&j);
	return ff_cli_end(&command, code, &err);
}
