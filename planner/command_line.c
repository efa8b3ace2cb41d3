/* The command line of ffsearch.  SPDX-License-Identifier: Apache-2.0 */
#include "command_line.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ff/framework.h"
#include "ff/starts.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST_OPTIONS 48

static const char details[] =
		"  ffsearch alexnet.json --machine p100x16 --costs analytic -o plan.json\n"
		"  ffsearch lm.json --machine cpu2 --costs costs.json --optimizer adamw -o "
		"plan.json\n"
		"  ffsearch lm.json --machine cpu2 --costs costs.json --simulate plan.json\n"
		"  ffsearch lm.json --machine dgx-a100-40:8 --costs analytic --explain -o "
		"plan.json\n"
		"  ffsearch lm.json --machine dgx-a100-40:8 --costs analytic -o plan.json \\\n"
		"      --vary batch=512,1024 memory=40,80\n"
		"  ffsearch resnet.json --machine dgx-a100-40:128 --costs analytic --oracle\n"
		"\n"
		"Ctrl-C ends a search early and keeps the best plan so far.\n"
		"Exit status: 0 done, 1 failed, 2 bad usage or input, 3 no strategy fits in "
		"memory.\n";

const struct ff_command ff_job_command = {
		.name = "ffsearch",
		.usage = "GRAPH --machine M --costs COSTS|analytic|peak -o STRATEGY [options]\n"
			 "GRAPH --machine M --costs COSTS|analytic|peak --simulate STRATEGY|NAME "
			 "[options]\n"
			 "GRAPH --machine M --costs COSTS|analytic|peak --oracle [options]",
		.summary = "Searches how to split the training of GRAPH over the devices of a "
			   "machine.",
		.details = details,
		.min_args = 1,
		.max_args = 1 + FF_MOST_KEYS,
};

/* What help says of optimizers, of gradients' travel and of frameworks, for as long as the command
 * line is read. */
struct texts {
	const char *optimizer[FF_OPTIMIZER_COUNT + 1];
	char optimizers[FF_OPTIMIZER_TEXT + 96];
	char travel[FF_WAY_COUNT][FF_TRAVEL_HELP];
	char framework[FF_FRAMEWORK_TEXT + 160];
};

/* What is split over what, and what that takes there. */
static uint32_t list_subject(struct ff_job_options *o, struct ff_option *ret)
{
	static const char *const costs[] = {"analytic", "peak", NULL};
	const struct ff_option list[] = {
			{"--machine", FF_OPTION_TEXT, &o->machine_name, "MACHINE[:NODES]",
					"file or name (list: prints those that there are), and of "
					"how many nodes, if not what the file says",
					ff_machine_list},
			{"--costs", FF_OPTION_TEXT, &o->costs_path, "COSTS",
					"file that ffprof wrote; or analytic: by models of devices "
					"that were fitted to measurements; or peak: by their peak "
					"rates",
					.words = costs},
			{"--by-nodes", FF_OPTION_FLAG, &o->by_nodes, NULL,
					"analytic or peak prices of collectives in stages, as "
					"FF_NCCL_NODES=1 has them"},
			{"--devices", FF_OPTION_COUNT, &o->devices, "N",
					"use only the machine's first N devices"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

static void describe(struct texts *ret)
{
	char optimizers[FF_OPTIMIZER_TEXT], frameworks[FF_FRAMEWORK_TEXT];

	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++)
		ret->optimizer[i] = ff_optimizer((enum ff_optimizer_id)i)->name;
	ret->optimizer[FF_OPTIMIZER_COUNT] = NULL;
	ff_optimizer_list(true, optimizers);
	snprintf(ret->optimizers, sizeof(ret->optimizers),
			"what updates the parameters: %s; else what --simulate's file says, else "
			"%s",
			optimizers, ff_optimizer_preset()->name);
	ff_framework_list(frameworks);
	snprintf(ret->framework, sizeof(ret->framework),
			"with --simulate: as that would execute it, %s, instead of our runtime; "
			"NUMBER: another one than was fitted to its published steps",
			frameworks);
}

/* How it is trained: what updates the parameters, what becomes of gradients, who executes it. */
static uint32_t list_training(struct ff_job_options *o, struct texts *text, struct ff_option *ret)
{
	static const char planned[] = "what --simulate's file says";
	struct ff_travel_options *w = &o->travel;
	const struct ff_option list[] = {
			{"--optimizer", FF_OPTION_TEXT, &o->optimizer_name, "NAME",
					text->optimizers, .words = text->optimizer},
			{"--clip", FF_OPTION_FLAG, &o->clip, NULL,
					"gradients are clipped by their global norm (as ffrun "
					"--clip does), which takes time"},
			ff_travel_option(w, FF_WAY_COMPRESSED, planned, text->travel[0]),
			ff_travel_option(w, FF_WAY_AVERAGED, planned, text->travel[1]),
			ff_travel_option(w, FF_WAY_LATE, planned, text->travel[2]),
			{"--framework", FF_OPTION_TEXT, &o->framework_name, "NAME[:NUMBER]",
					text->framework},
	};

	describe(text);
	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* How long is searched. */
static uint32_t list_effort(struct ff_job_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"--budget", FF_OPTION_SECONDS, &o->seconds, "SECONDS",
					"be done in that time (preset 30s)"},
			{"--proposals", FF_OPTION_COUNT, &o->proposals, "N",
					"search that many proposals; then equal seeds give equal "
					"files"},
			{"--seed", FF_OPTION_COUNT, &o->seed, "N",
					"of all random choices (preset 0)"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* What may change. */
static uint32_t list_space(struct ff_job_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"--space", FF_OPTION_TEXT, &o->space_text, "LIST",
					"what else may change: updates (of parameters: sharded, or "
					"on one device), replicas (parts computed several times), "
					"micro-batches (in stages or not), recompute (values for "
					"backward), or none (preset: all); torch: only what "
					"ffsoap_torch can train as planned"},
			{"--map", FF_OPTION_TEXT, &o->limits.map, "FILE",
					"with --space torch: the module's, beside its graph"},
			{"--memory", FF_OPTION_BYTES, &o->memory, "BYTES",
					"limit for each device (preset: what the machine says)"},
			{"--rewrite", FF_OPTION_TEXTS, &o->rewrite, "PATTERN",
					"merge products that read one value (query, key and value; "
					"branches of convolutions): all; auto: those by which data "
					"parallelism gains; those whose first one's name matches, "
					"may be repeated; or none (preset)"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* Where a search begins, and how it goes on; or what is predicted instead. */
static uint32_t list_walk(struct ff_job_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"--init", FF_OPTION_TEXTS, &o->init, "NAME",
					"start from a plan, also one for another batch, machine or "
					"number of devices, or from data-parallel, expert, single, "
					"random, elimination, pipeline, pipeline-N (N stages), "
					"zero-1, zero-2, zero-3, these with -hybrid (cut over a "
					"node's devices), frugal or megatron (what saves memory), "
					"tables or tables-N (of vectors, in N parts by column); "
					"may be repeated (preset: all but pipeline-N and tables-N)",
					.words = ff_starts},
			{"--jobs", FF_OPTION_COUNT, &o->jobs, "N",
					"walk in so many threads, which share the best (preset 1)"},
			{"--beta", FF_OPTION_REAL, &o->choice.beta, "B",
					"how strictly slower strategies are refused (preset 64 an "
					"operator)"},
			{"--simulate", FF_OPTION_TEXT, &o->simulate, "STRATEGY",
					"only predict a strategy file, one of the names of --init "
					"(megatron: the best by hand), or megatron:T,D,P,M: "
					"degrees of tensor, data and pipeline parallelism and "
					"micro-batches, with any of zero-1, zero-2, zero-3, "
					"recompute, recompute=light, recompute=N, interleave=V, "
					"zb-h1, zb-v, hybrid, sequence, experts, even and "
					"uneven-batch behind them",
					.words = ff_starts},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* What plans have to be like. */
static uint32_t list_limits(struct ff_job_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"--pin", FF_OPTION_TEXTS, &o->limits.pin,
					"PATTERN:DIM=N[,DIM=N][@DEVICES]",
					"operators whose names match (as in a shell) and that have "
					"these dims are split so, on these devices if any are "
					"named (0-7 or 0,2,4); may be repeated"},
			{"--tensor-inside-node", FF_OPTION_FLAG, &o->limits.tensor_inside_node,
					NULL, "no split but of samples crosses a node"},
			{"--no-pipeline", FF_OPTION_FLAG, &o->limits.no_pipeline, NULL,
					"no stages"},
			{"--max-micro-batches", FF_OPTION_COUNT, &o->limits.max_micro, "N",
					"no more micro-batches than that"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* How plans are chosen. */
static uint32_t list_choice(struct ff_job_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"--top", FF_OPTION_COUNT, &o->choice.top, "K",
					"write the best plans of up to K shapes, as STRATEGY, "
					"STRATEGY.2 and so on (preset 1)"},
			{"--seeds", FF_OPTION_COUNT, &o->choice.seeds, "N",
					"begin anew so many times, and go on from the best "
					"(preset: as often as the budget allows 5,000 proposals an "
					"operator each)"},
			{"--regular", FF_OPTION_REAL, &o->choice.regular, "PERCENT",
					"make equal layers alike where the step takes no more than "
					"that longer (preset 1; 0: where it takes no longer)"},
			{"--reserve", FF_OPTION_REAL, &o->choice.reserve, "PERCENT",
					"of each device's memory stay free (preset 5)"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* What is told of the plan, and where it goes. */
static uint32_t list_outputs(struct ff_job_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"-o", FF_OPTION_TEXT, &o->strategy_path, "STRATEGY",
					"where the plan goes"},
			{"--list", FF_OPTION_TEXT, &o->list, "PATTERN",
					"instead of the summary a line for each operator whose "
					"name has that in it, or matches it (\"block0.*\")"},
			{"--explain", FF_OPTION_FLAG, &o->explain, NULL,
					"tell the critical path, what is gained over the baseline, "
					"and what more memory or faster links would bring"},
			{"--vary", FF_OPTION_TEXTS, &o->vary, "KEY=N,..",
					"the plan, carried over and searched again, for other "
					"values of batch, memory (GiB), devices and network "
					"(Gbit/s a node); several KEY=N,.. may follow, each value "
					"with all of the others"},
			{"--oracle", FF_OPTION_FLAG, &o->oracle, NULL,
					"of pure strategies (data, spatial, channels, pipeline, "
					"ZeRO) on 1, 2, 4 and so on up to 1,024 devices tell where "
					"each stops scaling, and why"},
			{"--report", FF_OPTION_TEXT, &o->report_path, "FILE", "figures as JSON"},
			{"--certificate", FF_OPTION_TEXT, &o->beside.certificate_path, "FILE",
					"what the lower bound rests on, for ffcheck"},
			{"--trace", FF_OPTION_TEXT, &o->beside.trace_path, "FILE",
					"predicted timeline for Perfetto or chrome://tracing"},
			{"--html", FF_OPTION_TEXT, &o->beside.html_path, "FILE",
					"a page for people: figures, strategy, timeline, memory, "
					"links"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

static uint32_t list_options(struct ff_job_options *o, struct texts *text, struct ff_option *ret)
{
	uint32_t n = list_subject(o, ret);

	n += list_training(o, text, ret + n);
	n += list_effort(o, ret + n);
	n += list_space(o, ret + n);
	n += list_walk(o, ret + n);
	n += list_limits(o, ret + n);
	n += list_choice(o, ret + n);
	return n + list_outputs(o, ret + n);
}

/* What holds where nothing is asked for, or that nothing was. */
static void set_presets(struct ff_job_options *o)
{
	*o = (struct ff_job_options){
			.devices = FF_NOT_GIVEN,
			.space_text = FF_ALL_SPACE,
			.jobs = 1,
			.proposals = FF_NOT_GIVEN,
			.seconds = -1,
			.memory = -1,
			.limits.max_micro = FF_NOT_GIVEN,
			.choice = {.top = FF_NOT_GIVEN,
					.seeds = FF_NOT_GIVEN,
					.reserve = NAN,
					.regular = NAN,
					.beta = NAN},
	};
	ff_travel_options_init(&o->travel);
}

/* Behind GRAPH stand keys of --vary alone. */
static int take_operands(
		struct ff_job_options *o, const char *const *args, uint32_t n, struct ff_error *err)
{
	o->graph_path = args[0];
	for (uint32_t i = 1; i < n; i++) {
		if (!o->vary.n || o->vary.n == COUNT(o->vary.text) || !strchr(args[i], '='))
			return ff_fail(err, FF_E_INPUT,
					"expected one operand, GRAPH, not \"%.100s\" behind it",
					args[i]);
		o->vary.text[o->vary.n++] = args[i];
	}
	return FF_OK;
}

int ff_job_parse(
		int argc, char **argv, struct ff_job_options *ret, bool *done, struct ff_error *err)
{
	struct ff_command c = ff_job_command;
	struct ff_option options[MOST_OPTIONS];
	const char *args[1 + FF_MOST_KEYS];
	struct texts text;
	uint32_t n;
	int code;

	set_presets(ret);
	c.options = options;
	c.n_options = list_options(ret, &text, options);
	code = ff_cli_parse(&c, argc, argv, args, &n, done, err);
	if (code < 0 || *done)
		return code;
	return take_operands(ret, args, n, err);
}
