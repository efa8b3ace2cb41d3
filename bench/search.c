/* How many proposals a second the search evaluates on one core, how good the
 * plans are that it then has, how far apart those of several seeds lie, and what
 * else a user waits for.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ff/cli.h"
#include "ff/schedule.h"
#include "ff/search.h"
#include "ff/simulate.h"
#include "ff/starts.h"
#include "ff/zoo.h"

#define MAX_JOBS 64
#define MAX_SEEDS 100
#define MAX_BATCH (1 << 24)
#define SCARCE 0.9 /* --memory-binds: of what data parallelism needs */

struct options {
	struct ff_texts nets, devices, init, set;
	uint64_t seeds, batch, proposals, jobs;
	double beta;
	double seconds;
	bool memory_binds, waits, unfolded;
};

/* One network on one machine, and what its searches came to. */
struct bench_case {
	const char *net, *machine;
	uint32_t n_devices, batch;
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_machine m;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
	struct ff_pricer *more_pricers[MAX_JOBS];
	struct ff_evaluator *more[MAX_JOBS];
	int64_t memory_limit;
	double data_parallel_us, bound_us;
	uint32_t n_found;
	/* ascending, when all are there; `per_cpu_s`: a second of processor time, all threads' */
	double found_us[MAX_SEEDS], per_s[MAX_SEEDS], per_cpu_s[MAX_SEEDS];
	/* what a user waits for, in seconds; the longest of all seeds */
	double prepare_s, bound_s, over_s, lower_s;
};

static double now_s(void)
{
	return ff_clock_us() / 1e6;
}

/* Of this process so far: what other programs take of the processor is not in it. */
static double cpu_s(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

/* The smallest machine that comes with ffsoap and has so many devices. */
static const char *machine_for(uint32_t n_devices)
{
	if (n_devices <= 16)
		return "p100x16";
	if (n_devices <= 64)
		return "k80x64";
	return n_devices <= 256 ? "a100x256" : "a100x1024";
}

/* Lowers and times `s` afresh, as ffsearch does with what it found. */
static int lower(struct bench_case *b, const struct ff_strategy *s, double *us, int64_t *largest,
		struct ff_error *err)
{
	struct ff_lower_options opt = {.workspace = ff_price_workspace, .ctx = b->pricer};
	struct ff_simulation simulation;
	struct ff_schedule schedule;
	struct ff_arena scratch;
	int code;

	ff_arena_init(&scratch);
	code = ff_lower(&b->graph, &b->m, s, &opt, &scratch, &schedule, err);
	if (code == FF_OK)
		code = ff_simulate(&schedule, b->pricer, &scratch, &simulation, err);
	if (code == FF_OK) {
		*us = simulation.step_us;
		*largest = 0;
		for (uint32_t i = 0; i < b->m.n_devices; i++)
			if (schedule.memory_bytes[i] > *largest)
				*largest = schedule.memory_bytes[i];
	}
	ff_arena_finish(&scratch);
	return code;
}

/* Networks are those that the figures in docs/ are of, without norms, unless settings are given. */
static int build_net(struct bench_case *b, const struct ff_texts *given, struct ff_error *err)
{
	static const char *const set[] = {"norm=none"};
	bool normed = false;

	if (given->n)
		return ff_zoo_build(
				b->net, b->batch, given->text, given->n, &b->arena, &b->graph, err);

	for (uint32_t i = 0; ff_zoo_row(i); i++) {
		const struct ff_zoo_row *r = ff_zoo_row(i);

		for (uint32_t k = 0; !strcmp(r->name, b->net) && k < r->n_params; k++)
			normed = normed || !strcmp(r->params[k].name, "norm");
	}
	return ff_zoo_build(b->net, b->batch, set, normed, &b->arena, &b->graph, err);
}

static int open_case(struct bench_case *b, const struct options *o, struct ff_error *err)
{
	double from = now_s();
	struct ff_machine whole;
	struct ff_strategy s;
	int64_t largest;
	int code = build_net(b, &o->set, err);

	if (code == FF_OK)
		code = ff_machine_load(b->machine, &b->arena, &whole, err);
	if (code == FF_OK)
		code = ff_machine_subset(&whole, b->n_devices, &b->arena, &b->m, err);
	if (code == FF_OK)
		code = ff_pricer_create(&b->graph, &b->m, FF_ESTIMATE_PEAK, NULL, NULL, b->net,
				&b->pricer, err);
	for (uint32_t i = 0; i + 1 < o->jobs && code == FF_OK; i++)
		code = ff_pricer_create(&b->graph, &b->m, FF_ESTIMATE_PEAK, NULL, NULL, b->net,
				&b->more_pricers[i], err);
	if (code == FF_OK)
		code = ff_space_create(&b->graph, &b->m, &b->space, err);
	if (code == FF_OK)
		ff_space_allow(b->space, FF_SPACE_UPDATES | FF_SPACE_REPLICAS | FF_SPACE_MICRO |
							 FF_SPACE_RECOMPUTE);
	if (code == FF_OK)
		code = ff_init_strategy(
				"data-parallel", b->space, &b->graph, &b->m, 0, &b->arena, &s, err);
	if (code == FF_OK)
		code = lower(b, &s, &b->data_parallel_us, &largest, err);
	if (code < 0)
		return code;
	if (o->memory_binds)
		b->memory_limit = (int64_t)(SCARCE * (double)largest);
	b->prepare_s = now_s() - from;
	return FF_OK;
}

static void close_case(struct bench_case *b)
{
	for (uint32_t i = 0; i < MAX_JOBS; i++) {
		ff_evaluator_destroy(b->more[i]);
		ff_pricer_destroy(b->more_pricers[i]);
	}
	ff_evaluator_destroy(b->evaluator);
	ff_space_destroy(b->space);
	ff_pricer_destroy(b->pricer);
	ff_arena_finish(&b->arena);
}

/* One search from all its starts, with an evaluator that remembers nothing. */
static int search(
		struct bench_case *b, const struct options *o, uint64_t seed, struct ff_error *err)
{
	const char *starts[33] = {NULL};
	struct ff_search_options opt = {.seed = seed,
			.seconds = o->proposals ? 0 : o->seconds,
			.proposals = o->proposals,
			.beta = o->beta,
			.starts = o->init.n ? starts : NULL,
			.pricer = b->pricer,
			.more = b->more,
			.n_more = (uint32_t)o->jobs - 1};
	struct ff_search_result found;
	struct ff_arena scratch;
	double from, us, cpu;
	int64_t largest;
	int code = ff_evaluator_create(
			&b->graph, &b->m, b->pricer, b->memory_limit, 0, &b->evaluator, err);

	for (uint32_t i = 0; i + 1 < o->jobs && code == FF_OK; i++)
		code = ff_evaluator_create(&b->graph, &b->m, b->more_pricers[i], b->memory_limit, 0,
				&b->more[i], err);
	if (code < 0)
		return code;
	ff_evaluator_fold(b->evaluator, !o->unfolded);
	for (uint32_t i = 0; i + 1 < o->jobs; i++)
		ff_evaluator_fold(b->more[i], !o->unfolded);
	for (uint32_t i = 0; i < o->init.n; i++)
		starts[i] = o->init.text[i];
	ff_arena_init(&scratch);
	from = now_s();
	cpu = cpu_s();
	code = ff_search_mcmc(
			b->space, b->evaluator, &b->graph, &b->m, &opt, &scratch, &found, err);
	cpu = cpu_s() - cpu;
	if (now_s() - from - o->seconds > b->over_s)
		b->over_s = now_s() - from - o->seconds;
	if (code == FF_OK) {
		from = now_s();
		code = lower(b, &found.best, &us, &largest, err);
		if (now_s() - from > b->lower_s)
			b->lower_s = now_s() - from;
	}
	if (code == FF_OK) {
		b->found_us[b->n_found] = found.evaluation.step_us;
		b->per_cpu_s[b->n_found] = (double)found.proposals / cpu;
		b->per_s[b->n_found++] = (double)found.proposals / found.seconds;
	}
	ff_arena_finish(&scratch);
	ff_evaluator_destroy(b->evaluator);
	b->evaluator = NULL;
	for (uint32_t i = 0; i < MAX_JOBS; i++) {
		ff_evaluator_destroy(b->more[i]);
		b->more[i] = NULL;
	}
	return code == FF_E_NOFIT ? FF_OK : code; /* that this seed found none is a figure */
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_head(const struct options *o)
{
	printf("Search with peak costs, ");
	if (o->proposals)
		printf("%llu proposals each", (unsigned long long)o->proposals);
	else
		printf("%g s each", o->seconds);
	for (uint32_t i = 0; i < o->init.n; i++)
		printf("%s%s", i ? " and " : ", from ", o->init.text[i]);
	printf("%s, %llu thread%s", o->init.n ? "" : ", from all starts",
			(unsigned long long)o->jobs, o->jobs > 1 ? "s" : "");
	if (o->memory_binds)
		printf(", memory limited to %g %% of what data parallelism needs", SCARCE * 100);
	printf("\n\n%-13s %-9s %7s %6s %5s %11s %9s %11s %10s %10s %10s %7s %8s", "graph",
			"machine", "devices", "batch", "found", "proposals/s", "/cpu s",
			"data-par ms", "least ms", "median ms", "most ms", "spread", "speedup");
	if (o->waits)
		printf(" %9s %8s %8s %8s", "prepare s", "bound s", "over s", "lower s");
	printf("\n");
}

static void print_case(struct bench_case *b, const struct options *o)
{
	uint32_t n = b->n_found;
	const double *us = b->found_us;
	char found[16];

	snprintf(found, sizeof(found), "%u/%u", n, (uint32_t)o->seeds);
	printf("%-13s %-9s %7u %6u %5s ", b->net, b->machine, b->n_devices, b->batch, found);
	qsort(b->found_us, n, sizeof(*us), by_size);
	qsort(b->per_s, n, sizeof(*us), by_size);
	qsort(b->per_cpu_s, n, sizeof(*us), by_size);
	if (n > 0)
		printf("%11.0f %9.0f %11.3f %10.3f %10.3f %10.3f %6.1f%% %7.2fx", b->per_s[n / 2],
				b->per_cpu_s[n / 2], b->data_parallel_us / 1e3, us[0] / 1e3,
				us[n / 2] / 1e3, us[n - 1] / 1e3, (us[n - 1] / us[0] - 1) * 100,
				b->data_parallel_us / us[0]);
	else
		printf("%11s %9s %11.3f %10s %10s %10s %7s %8s", "-", "-",
				b->data_parallel_us / 1e3, "-", "-", "-", "-", "-");
	if (o->waits)
		printf(" %9.2f %8.2f %8.2f %8.2f", b->prepare_s, b->bound_s, b->over_s, b->lower_s);
	printf("\n");
	fflush(stdout);
}

static int run_case(struct bench_case *b, const struct options *o, struct ff_error *err)
{
	double from;
	int code = open_case(b, o, err);

	if (code == FF_OK && o->waits) {
		from = now_s();
		code = ff_lower_bound(
				&b->graph, 1, &b->m, b->pricer, NULL, NULL, &b->bound_us, err);
		b->bound_s = now_s() - from;
	}
	for (uint64_t seed = 1; code == FF_OK && seed <= o->seeds; seed++)
		code = search(b, o, seed, err);
	if (code == FF_OK)
		print_case(b, o);
	return code;
}

static int read_devices(const char *text, uint32_t *ret, struct ff_error *err)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (end == text || *end || v < 1 || v > 1024)
		return ff_fail(err, FF_E_INPUT,
				"option --devices: expected a whole number from 1 to 1024, not "
				"\"%.60s\"",
				text);
	*ret = (uint32_t)v;
	return FF_OK;
}

static int check(const struct options *o, uint32_t *n_devices, struct ff_error *err)
{
	if (!(o->seconds > 0))
		return ff_fail(err, FF_E_INPUT, "option --seconds: expected more than 0");
	if (o->seeds < 1 || o->seeds > MAX_SEEDS)
		return ff_fail(err, FF_E_INPUT, "option --seeds: expected 1 to %d", MAX_SEEDS);
	if (o->jobs < 1 || o->jobs > MAX_JOBS)
		return ff_fail(err, FF_E_INPUT, "option --jobs: expected 1 to %d", MAX_JOBS);
	if (o->batch > MAX_BATCH)
		return ff_fail(err, FF_E_INPUT, "option --batch: expected 1 to %d", MAX_BATCH);
	for (uint32_t k = 0; k < o->devices.n; k++) {
		int code = read_devices(o->devices.text[k], &n_devices[k], err);

		if (code < 0)
			return code;
	}
	return FF_OK;
}

static int run(const struct options *o, struct ff_error *err)
{
	uint32_t n_devices[32];
	int code = check(o, n_devices, err);

	if (code < 0)
		return code;
	print_head(o);
	for (uint32_t i = 0; i < o->nets.n; i++)
		for (uint32_t k = 0; k < o->devices.n && code == FF_OK; k++) {
			struct bench_case b = {.net = o->nets.text[i], .n_devices = n_devices[k]};

			b.machine = machine_for(b.n_devices);
			b.batch = (uint32_t)o->batch;
			if (!b.batch)
				b.batch = b.n_devices > 16 ? 32 * b.n_devices : 256;
			ff_arena_init(&b.arena);
			code = run_case(&b, o, err);
			close_case(&b);
		}
	return code;
}

static const struct ff_texts preset_nets = {
		{"inception_v3", "resnet101", "densenet121", "vgg16", "alexnet", "branchnet"}, 6};
static const struct ff_texts preset_devices = {{"4", "16", "64"}, 3};

int main(int argc, char **argv)
{
	struct options o = {.jobs = 1, .seeds = 1, .seconds = 20};
	const struct ff_option options[] = {
			{"--net", FF_OPTION_TEXTS, &o.nets, "NAME",
					"network of the zoo; may be repeated (preset: six of "
					"them)"},
			{"--devices", FF_OPTION_TEXTS, &o.devices, "N",
					"how many; may be repeated (preset: 4, 16 and 64)"},
			{"--set", FF_OPTION_TEXTS, &o.set, "KEY=VALUE",
					"setting of the network; may be repeated"},
			{"--batch", FF_OPTION_COUNT, &o.batch, "N",
					"samples (preset: 256; above 16 devices 32 a device)"},
			{"--seconds", FF_OPTION_SECONDS, &o.seconds, "SECONDS",
					"of each search (preset 20)"},
			{"--seeds", FF_OPTION_COUNT, &o.seeds, "N",
					"searches, each with another seed (preset 1)"},
			{"--proposals", FF_OPTION_COUNT, &o.proposals, "N",
					"of each search, instead of seconds"},
			{"--jobs", FF_OPTION_COUNT, &o.jobs, "N", "threads of a search (preset 1)"},
			{"--init", FF_OPTION_TEXTS, &o.init, "NAME",
					"start; may be repeated (preset: all)"},
			{"--beta", FF_OPTION_REAL, &o.beta, "B", "as ffsearch's"},
			{"--memory-binds", FF_OPTION_FLAG, &o.memory_binds, NULL,
					"give devices 90 % of what data parallelism needs"},
			{"--unfolded", FF_OPTION_FLAG, &o.unfolded, NULL,
					"time equal micro-batches and layers one by one"},
			{"--waits", FF_OPTION_FLAG, &o.waits, NULL,
					"show what else takes time: loading, the lower bound, "
					"seconds over the budget, lowering the plan"},
	};
	const struct ff_command command = {
			.name = "bench-search",
			.usage = "[options]",
			.summary = "Prints how fast the search is and how good its plans are.",
			.details = "Up to 16 devices are p100x16's, up to 64 k80x64's, then "
				   "a100x256's and a100x1024's.\n"
				   "Of several seeds: the least, median and greatest step time,\n"
				   "and by how much the greatest exceeds the least.\n",
			.options = options,
			.n_options = sizeof(options) / sizeof(*options),
	};
	struct ff_error err = {0};
	uint32_t n_args;
	bool done = false;
	int code = ff_cli_parse(&command, argc, argv, NULL, &n_args, &done, &err);

	if (!o.nets.n)
		o.nets = preset_nets;
	if (!o.devices.n)
		o.devices = preset_devices;
	if (code == FF_OK && !done)
		code = run(&o, &err);
	return ff_cli_end(&command, code, &err);
}
