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
#include "run/run.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char details[] =
		"GRAPH is a graph file; STRATEGY a strategy file, or data-parallel, or single.\n"
		"Started alone, ffrun starts one rank a device with mpirun; started by mpirun or\n"
		"srun it is one of the ranks.\n"
		"\n"
		"  ffrun lenet.json plan.json --data fashion-mnist --epochs 5 --test\n"
		"  ffrun lenet.json plan.json --data synthetic --steps 100 --compare\n"
		"  ffrun lenet.json data-parallel --devices 4 --data synthetic --verify\n"
		"  ffrun lm.json plan.json --data synthetic --steps 500 --optimizer adamw --rate "
		"3e-4\n"
		"  ffrun bert.json plan.json --data tokens --steps 9999 --optimizer adamw --rate "
		"1e-4 \\\n"
		"    --group norm,bias:decay=0 --group 'head.*:factor=10' --ramp 500 --schedule "
		"cosine\n"
		"  ffrun lm.json plan.json --data synthetic --epochs 9 --checkpoint out --resume "
		"--save lm.safetensors\n"
		"  mpirun --hostfile hosts -n 16 ffrun big.json plan.json --data /data --epochs 1\n"
		"\n"
		"Formats of data (docs/formats.md):\n"
		"  synthetic[:SAMPLES]          random classes that can be learned (4096)\n"
		"  idx:FOLDER                   MNIST's files, train-images-idx3-ubyte[.gz] and so "
		"on\n"
		"  cifar10:FOLDER               CIFAR-10's binary files, data_batch_1.bin and so "
		"on\n"
		"  numpy:FILE.npz|FOLDER        an array for each input, by its name; a folder "
		"has\n"
		"                               train.npz and test.npz, or train/NAME.npy and "
		"test/NAME.npy\n"
		"  tokens[,type=T][,stride=N][,test=PERCENT]:FILE|FOLDER\n"
		"                               whole numbers (uint16; uint8, uint32), predicted "
		"from\n"
		"                               those before them; a folder has train.bin and "
		"test.bin\n"
		"\n"
		"  ffrun cnn.json plan.json --data cifar10:cifar-10-batches-bin --epochs 10 "
		"--test\n"
		"  ffrun gpt.json plan.json --data tokens,type=uint8,test=5:book.txt --epochs 1 "
		"--test\n"
		"\n"
		"Exit status: 0 done, 1 failed at run time, 2 bad usage or bad input, 3 a "
		"strategy\n"
		"does not fit in the devices' memory.\n";

static const struct ff_command names = {.name = "ffrun"};

/* Where the optimizers' settings stand among the options. */
#define FIRST_SETTING 7

/* What help says of optimizers, for as long as the command line is read. */
struct optimizer_texts {
	char all[FF_OPTIMIZER_TEXT + 96], name[FF_SETTING_COUNT][32];
	char help[FF_SETTING_COUNT][FF_OPTIMIZER_TEXT];
};

static void list_settings(
		struct ff_run_options *o, struct optimizer_texts *text, struct ff_option *ret)
{
	char known[FF_OPTIMIZER_TEXT];

	ff_optimizer_list(true, known);
	snprintf(text->all, sizeof(text->all), "%s; else the strategy's, else %s", known,
			ff_optimizer_preset()->name);
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++) {
		enum ff_setting_id id = (enum ff_setting_id)i;

		snprintf(text->name[i], sizeof(text->name[i]), "--%s", ff_setting(id)->name);
		ff_setting_help(id, text->help[i]);
		ret[i] = (struct ff_option){text->name[i], FF_OPTION_REAL, &o->train.setting[i],
				"X", text->help[i]};
	}
}

static int parse(int argc, char **argv, struct ff_run_options *o, bool *done, struct ff_error *err)
{
	static const char planned[] = "what the strategy says";
	struct ff_travel_options *w = &o->train.travel;
	char travel[FF_WAY_COUNT][FF_TRAVEL_HELP];
	struct optimizer_texts text;
	struct ff_option options[] = {
			{"--data", FF_OPTION_TEXT, &o->train.data, "D",
					"what to train on: FORMAT:PATH, or a path or a name in "
					"/usr/share/datasets that tells its format"},
			{"--steps", FF_OPTION_COUNT, &o->train.steps, "N", "training steps"},
			{"--epochs", FF_OPTION_COUNT, &o->train.epochs, "N",
					"passes over the data set"},
			{"--devices", FF_OPTION_COUNT, &o->what.devices, "N",
					"devices to run on; else as many as the strategy, the "
					"machine or the cores"},
			{"--machine", FF_OPTION_TEXT, &o->what.machine, "M[:NODES]",
					"machine file or name (list: prints those that there "
					"are), and of how many nodes, if not what the file says; "
					"else the strategy's if it is known here, else this "
					"computer",
					ff_machine_list},
			{"--device", FF_OPTION_TEXT, &o->what.device, "KIND",
					"cpu, cuda or null (checks messages, computes nothing)"},
			{"--optimizer", FF_OPTION_TEXT, &o->train.optimizer, "NAME", text.all},
			[FIRST_SETTING + FF_SETTING_COUNT] = {"--group", FF_OPTION_TEXTS,
					&o->train.groups, "SELECT:NAME=VALUE",
					"other settings for the parameters that SELECT names: "
					"bias, norm (parameters of normalisations), patterns of "
					"names; NAME is a setting or factor (of the rate); lists "
					"by commas, later rules before earlier ones"},
			{"--clip", FF_OPTION_REAL, &o->train.clip, "NORM",
					"scale all gradients down where their global norm is "
					"larger"},
			ff_travel_option(w, FF_WAY_COMPRESSED, planned, travel[0]),
			ff_travel_option(w, FF_WAY_AVERAGED, planned, travel[1]),
			ff_travel_option(w, FF_WAY_LATE, planned, travel[2]),
			{"--schedule", FF_OPTION_TEXT, &o->train.rates.schedule, "S",
					"learning rate over the steps: constant, step or cosine"},
			{"--step-size", FF_OPTION_COUNT, &o->train.rates.step_size, "N",
					"with --schedule step: steps between two falls"},
			{"--gamma", FF_OPTION_REAL, &o->train.rates.gamma, "X",
					"with --schedule step: what the rate is multiplied by "
					"then (0.1)"},
			{"--floor", FF_OPTION_REAL, &o->train.rates.floor, "X",
					"with --schedule cosine: the rate at the end (0)"},
			{"--ramp", FF_OPTION_COUNT, &o->train.rates.ramp, "N",
					"before the schedule, let the rate rise for N steps"},
			{"--ramp-from", FF_OPTION_REAL, &o->train.rates.ramp_from, "X",
					"with --ramp: from this share of it (1/3)"},
			{"--seed", FF_OPTION_COUNT, &o->train.seed, "N",
					"weights, dropout and order of samples (1)"},
			{"--warmup", FF_OPTION_COUNT, &o->tell.warmup, "N",
					"first steps whose times are not counted (3)"},
			{"--compare", FF_OPTION_FLAG, &o->what.compare, NULL,
					"run data parallelism in turns with the plan"},
			{"--against", FF_OPTION_TEXT, &o->what.against, "STRATEGY",
					"with --compare: what else to run in turns"},
			{"--verify", FF_OPTION_FLAG, &o->check.verify, NULL,
					"first compare one step with a single device's"},
			{"--tolerance", FF_OPTION_REAL, &o->check.tolerance, "T",
					"largest relative difference that --verify accepts (1e-4; "
					"in "
					"bfloat16 what rounding explains)"},
			{"--test", FF_OPTION_FLAG, &o->check.test, NULL,
					"accuracy, top-5 accuracy, loss and perplexity of the test "
					"set at the end"},
			{"--test-every", FF_OPTION_COUNT, &o->check.test_every, "N",
					"and after every N steps"},
			{"--top", FF_OPTION_COUNT, &o->check.top, "K",
					"tests count labels among the K classes of largest logits "
					"(5; 0: they do not)"},
			{"--weights", FF_OPTION_TEXT, &o->train.weights, "FILE",
					"begin with these weights (safetensors, by parameter), "
					"not with drawn ones"},
			{"--save", FF_OPTION_TEXT, &o->store.save, "FILE",
					"write the weights that come of it (safetensors)"},
			{"--checkpoint", FF_OPTION_TEXT, &o->store.checkpoint, "DIR",
					"keep weights, the optimizer's states and the step there"},
			{"--every", FF_OPTION_COUNT, &o->store.every, "N",
					"steps between two checkpoints (an epoch); the last step "
					"makes one, too"},
			{"--interval", FF_OPTION_SECONDS, &o->store.interval, "TIME",
					"time between two checkpoints, at most: 90s, 30m, 2h"},
			{"--keep", FF_OPTION_COUNT, &o->store.keep, "N",
					"checkpoints that stay, the newest among them (1)"},
			{"--resume", FF_OPTION_FLAG, &o->store.resume, NULL,
					"go on from the newest checkpoint that is whole, if there "
					"is one"},
			{"--timeout", FF_OPTION_SECONDS, &o->timeout, "TIME",
					"end where a rank comes no further for so long (10m; 0: "
					"never)"},
			{"--report", FF_OPTION_TEXT, &o->tell.report, "FILE",
					"write a JSON report"},
			{"--metrics", FF_OPTION_TEXT, &o->tell.metrics, "FILE",
					"write loss, rate and time of every step while it runs, "
					"a line of JSON each"},
			{"--trace", FF_OPTION_TEXT, &o->tell.trace, "FILE",
					"write a timeline of the last step (Chrome, Perfetto)"},
			{"--beside", FF_OPTION_TEXT, &o->tell.beside, "FILE",
					"with --trace or --html: put this timeline of the plan "
					"beside it, as "
					"ffsearch --trace predicted it"},
			{"--html", FF_OPTION_TEXT, &o->tell.html, "FILE",
					"write a page for people: figures, timeline, memory, "
					"links, predicted beside measured"},
			{"--profile", FF_OPTION_COUNT, &o->tell.profile, "N",
					"time the tasks of the last N steps and set them, by "
					"class, beside what was predicted; what devices wait for "
					"each other apart from what they do"},
			{"--dump", FF_OPTION_TEXT, &o->check.dump, "FILE",
					"write weights, gradients and inputs of the first step "
					"(safetensors)"},
	};
	const struct ff_command c = {
			.name = names.name,
			.usage = "GRAPH STRATEGY|data-parallel|single --data D --steps N|--epochs "
				 "N [options]",
			.summary = "Trains a network on several devices, split as a strategy says.",
			.details = details,
			.options = options,
			.n_options = COUNT(options),
			.min_args = 2,
			.max_args = 2,
	};
	const char *args[2];
	uint32_t n;
	int code;

	list_settings(o, &text, options + FIRST_SETTING);
	code = ff_cli_parse(&c, argc, argv, args, &n, done, err);

	if (code < 0 || *done)
		return code;
	o->what.graph = args[0];
	o->what.strategy = args[1];
	return FF_OK;
}

/* Schedules of all candidates, the same on all ranks. */
static int lower(const struct ff_run_options *o, struct ff_plan *p, struct ff_comm *comm,
		struct ff_error *err)
{
	int code = FF_OK;

	p->ordinal = ff_machine_ordinal(&p->machine, comm->rank);
	for (uint32_t i = 0; i < p->n_candidates && code == FF_OK; i++) {
		struct ff_candidate *c = &p->candidate[i];

		code = ff_plan_lower(p, &p->machine, &c->strategy, &c->schedule, err);
		if (code == FF_OK)
			code = ff_plan_fits(c->name, &c->schedule, NULL, err);
	}
	if (code == FF_OK && p->n_candidates > 1) /* they take turns: both stay in memory */
		code = ff_plan_fits(p->candidate[1].name, &p->candidate[1].schedule,
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

static int report(const struct ff_run_options *o, const struct ff_plan *p,
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

/* A failure that not all ranks know of must end the job: they may be waiting
 * for this one in the middle of a step. */
static int run(const struct ff_run_options *o, struct ff_plan *p, struct ff_comm *comm,
		struct ff_error *err)
{
	struct ff_outcome outcome[FF_MAX_CANDIDATES] = {0};
	struct ff_verdict verdict = {0};
	int code = lower(o, p, comm, err);

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

/* What the user should know before it runs; said once in a job. */
static void tell(const struct ff_plan *p)
{
	for (int i = 0; i < FF_PLAN_NOTES; i++)
		if (p->note[i].text[0])
			fprintf(stderr, "%s: %s\n", names.name, p->note[i].text);
}

/* One rank of several.  The one that tells what failed takes the others along. */
static int main_rank(void *ctx)
{
	const struct ff_run_options *o = ctx;
	struct ff_error err = {0};
	struct ff_comm *comm = NULL;
	struct ff_plan plan = {0};
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
				ff_plan_load(o, comm->n_ranks, here, comm->rank == 0, &plan, &err),
				&err);
	if (code == FF_OK)
		code = ff_checkpoint_agree(&plan, comm, &err);
	if (code == FF_OK)
		code = ff_plan_same(o, &plan, comm, &err);
	if (code == FF_OK)
		code = ff_comm_prefer(plan.backend, &plan.machine, &comm, &err);
	if (code == FF_OK) {
		comm->pulse = o->pulse; /* it may be another one */
		ff_plan_communicate(&plan, comm->name);
		code = ff_beside_choose(plan.backend, comm, &plan.progress, &err);
	}
	if (code == FF_OK && comm->rank == 0)
		tell(&plan);
	if (code == FF_OK)
		code = run(o, &plan, comm, &err);
	status = code < 0 ? ff_exit_status(code) : end(code, &err);
	ff_pulse_wait(o->pulse);
	ff_mpi_meet(status, err.text[0] ? tell_failure : NULL, &err);
	ff_plan_finish(&plan);
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
	struct ff_plan plan;
	uint32_t devices;
	double limit_s = o->timeout;
	int status = 0, code = ff_backends_tune(&err);

	if (code == FF_OK)
		code = ff_plan_load(o, 0, 0, true, &plan, &err);
	if (code < 0)
		return end(code, &err);
	devices = plan.machine.n_devices;
	if (devices > 1) {
		ff_plan_finish(&plan);
		if (isnan(limit_s))
			code = ff_comm_limit(&limit_s, &err);
		if (code == FF_OK)
			code = ff_launch(devices, argv, limit_s, &status, &err);
		return code < 0 ? end(code, &err) : status;
	}
	ff_stop_defer();
	tell(&plan);
	code = ff_comm_local(1, &comm, &err);
	if (code == FF_OK) {
		plan.communication = comm->name;
		code = run(o, &plan, comm, &err);
	}
	if (comm)
		comm->destroy(comm);
	ff_plan_finish(&plan);
	return end(code, &err);
}

/* From a signal's handler. */
static void leave(void)
{
	_exit(1);
}

int main(int argc, char **argv)
{
	struct ff_run_options o = {
			.train.rates = {.schedule = "constant",
					.ramp_from = NAN,
					.gamma = NAN,
					.floor = NAN},
			.train.seed = 1,
			.check.top = 5,
			.tell.warmup = UINT64_MAX,
			.check.tolerance = NAN,
			.timeout = NAN,
			.train.clip = NAN,
	};
	struct ff_error err = {0};
	bool done = false;
	int code;

	ff_travel_options_init(&o.train.travel);
	ff_process_begin(names.name);
	ff_launch_listen(names.name, leave);
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		o.train.setting[i] = NAN;
	code = parse(argc, argv, &o, &done, &err);
	if (code < 0 || done)
		return end(code, &err);
	return ff_launch_is_rank() ? watch_rank(&o) : main_alone(&o, argv);
}
