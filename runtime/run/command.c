/* The command line of ffrun.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST_OPTIONS (48 + FF_SETTING_COUNT)

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

/* What help says of optimizers and of gradients' travel, for as long as the command line is read.
 */
struct texts {
	char optimizers[FF_OPTIMIZER_TEXT + 96];
	char name[FF_SETTING_COUNT][32], help[FF_SETTING_COUNT][FF_OPTIMIZER_TEXT];
	char travel[FF_WAY_COUNT][FF_TRAVEL_HELP];
};

/* What is trained, and on what. */
static uint32_t list_subject(struct ff_run_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
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
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

static uint32_t list_optimizer(struct ff_run_options *o, struct texts *text, struct ff_option *ret)
{
	char known[FF_OPTIMIZER_TEXT];

	ff_optimizer_list(true, known);
	snprintf(text->optimizers, sizeof(text->optimizers), "%s; else the strategy's, else %s",
			known, ff_optimizer_preset()->name);
	ret[0] = (struct ff_option){"--optimizer", FF_OPTION_TEXT, &o->train.optimizer, "NAME",
			text->optimizers};
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++) {
		enum ff_setting_id id = (enum ff_setting_id)i;

		snprintf(text->name[i], sizeof(text->name[i]), "--%s", ff_setting(id)->name);
		ff_setting_help(id, text->help[i]);
		ret[1 + i] = (struct ff_option){text->name[i], FF_OPTION_REAL, &o->train.setting[i],
				"X", text->help[i]};
	}
	return 1 + FF_SETTING_COUNT;
}

/* Rules for some parameters, and what becomes of gradients. */
static uint32_t list_gradients(struct ff_run_options *o, struct texts *text, struct ff_option *ret)
{
	static const char planned[] = "what the strategy says";
	struct ff_travel_options *w = &o->train.travel;
	const struct ff_option list[] = {
			{"--group", FF_OPTION_TEXTS, &o->train.groups, "SELECT:NAME=VALUE",
					"other settings for the parameters that SELECT names: "
					"bias, norm (parameters of normalisations), patterns of "
					"names; NAME is a setting or factor (of the rate); lists "
					"by commas, later rules before earlier ones"},
			{"--clip", FF_OPTION_REAL, &o->train.clip, "NORM",
					"scale all gradients down where their global norm is "
					"larger"},
			ff_travel_option(w, FF_WAY_COMPRESSED, planned, text->travel[0]),
			ff_travel_option(w, FF_WAY_AVERAGED, planned, text->travel[1]),
			ff_travel_option(w, FF_WAY_LATE, planned, text->travel[2]),
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* The learning rate over the steps. */
static uint32_t list_rates(struct ff_run_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
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
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* What a run draws, which steps count, what it is compared with and tested on. */
static uint32_t list_checks(struct ff_run_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
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
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* Weights to begin with, and what is kept of a run. */
static uint32_t list_stores(struct ff_run_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
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
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* When it ends for want of a sign of life, and what is told of it. */
static uint32_t list_outputs(struct ff_run_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
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

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

static uint32_t list_options(struct ff_run_options *o, struct texts *text, struct ff_option *ret)
{
	uint32_t n = list_subject(o, ret);

	n += list_optimizer(o, text, ret + n);
	n += list_gradients(o, text, ret + n);
	n += list_rates(o, ret + n);
	n += list_checks(o, ret + n);
	n += list_stores(o, ret + n);
	return n + list_outputs(o, ret + n);
}

/* What holds where nothing is asked for. */
static void set_presets(struct ff_run_options *o)
{
	*o = (struct ff_run_options){
			.train.rates = {.schedule = "constant",
					.ramp_from = NAN,
					.gamma = NAN,
					.floor = NAN},
			.train.seed = 1,
			.train.clip = NAN,
			.check.top = 5,
			.check.tolerance = NAN,
			.tell.warmup = UINT64_MAX,
			.timeout = NAN,
	};
	ff_travel_options_init(&o->train.travel);
	for (uint32_t i = 0; i < FF_SETTING_COUNT; i++)
		o->train.setting[i] = NAN;
}

int ff_run_parse(
		int argc, char **argv, struct ff_run_options *ret, bool *done, struct ff_error *err)
{
	struct texts text;
	struct ff_option options[MOST_OPTIONS];
	struct ff_command c = {
			.name = "ffrun",
			.usage = "GRAPH STRATEGY|data-parallel|single --data D --steps N|--epochs "
				 "N [options]",
			.summary = "Trains a network on several devices, split as a strategy says.",
			.details = details,
			.options = options,
			.min_args = 2,
			.max_args = 2,
	};
	const char *args[2];
	uint32_t n;
	int code;

	set_presets(ret);
	c.n_options = list_options(ret, &text, options);
	code = ff_cli_parse(&c, argc, argv, args, &n, done, err);
	if (code < 0 || *done)
		return code;
	ret->what.graph = args[0];
	ret->what.strategy = args[1];
	return FF_OK;
}
