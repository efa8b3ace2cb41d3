/* ffsearch's command line.  SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ff/nearest.h"
#include "hand/megatron.h"
#include "job.h"
#include "vary.h"

#define TORCH 256u /* --space torch, beside FF_SPACE_* */

const struct ff_command ff_job_command = {
		.name = "ffsearch",
		.usage = "GRAPH --machine M --costs COSTS|analytic|peak -o STRATEGY [options]\n"
			 "GRAPH --machine M --costs COSTS|analytic|peak --simulate STRATEGY|NAME "
			 "[options]\n"
			 "GRAPH --machine M --costs COSTS|analytic|peak --oracle [options]",
		.summary = "Searches how to split the training of GRAPH over the devices of a "
			   "machine.",
		.details = "  ffsearch alexnet.json --machine p100x16 --costs analytic -o "
			   "plan.json\n"
			   "  ffsearch lm.json --machine cpu2 --costs costs.json --optimizer adamw "
			   "-o "
			   "plan.json\n"
			   "  ffsearch lm.json --machine cpu2 --costs costs.json --simulate "
			   "plan.json\n"
			   "  ffsearch lm.json --machine dgx-a100-40:8 --costs analytic "
			   "--explain -o plan.json\n"
			   "  ffsearch lm.json --machine dgx-a100-40:8 --costs analytic -o "
			   "plan.json \\\n"
			   "      --vary batch=512,1024 memory=40,80\n"
			   "  ffsearch resnet.json --machine dgx-a100-40:128 --costs analytic "
			   "--oracle\n"
			   "\n"
			   "Ctrl-C ends a search early and keeps the best plan so far.\n"
			   "Exit status: 0 done, 1 failed, 2 bad usage or input, 3 no strategy "
			   "fits in "
			   "memory.\n",
		.min_args = 1,
		.max_args = 1 + FF_MOST_KEYS,
};

bool ff_job_is_start(const char *name)
{
	struct ff_tables tables;
	uint32_t n;

	for (uint32_t i = 0; ff_starts[i]; i++)
		if (!strcmp(name, ff_starts[i]))
			return true;
	return ff_is_pipeline(name, &n) || ff_is_tables(name, &tables) || ff_is_megatron(name);
}

static const char *near_start(struct ff_nearest *near, const char *name)
{
	ff_nearest_init(near, name);
	for (uint32_t i = 0; ff_starts[i]; i++)
		ff_nearest_try(near, ff_starts[i]);
	return ff_nearest_hint(near);
}

/* A word was meant, but is read as a file's name, and there is no such file. */
static int check_word(const char *path, const char *hint, struct ff_error *err)
{
	if (!*hint || !access(path, F_OK))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "%.200s: cannot be read: %s%s", path, strerror(errno),
			hint);
}

static int check_words(struct ff_job_options *o, struct ff_error *err)
{
	enum ff_estimate estimate;
	struct ff_nearest near;

	ff_nearest_init(&near, o->costs_path);
	ff_nearest_try_choices(&near, FF_ESTIMATES);
	if (!ff_estimate_named(o->costs_path, &estimate) &&
			check_word(o->costs_path, ff_nearest_hint(&near), err) < 0)
		return err->code;
	if (o->simulate && !ff_job_is_start(o->simulate))
		return check_word(o->simulate, near_start(&near, o->simulate), err);
	return FF_OK;
}

/* "updates,replicas", "none", "torch". */
static int read_space(const char *text, uint32_t *ret, bool *torch, struct ff_error *err)
{
	static const struct {
		const char *name;
		uint32_t what;
	} words[] = {{"updates", FF_SPACE_UPDATES}, {"replicas", FF_SPACE_REPLICAS},
			{"micro-batches", FF_SPACE_MICRO}, {"recompute", FF_SPACE_RECOMPUTE},
			{"none", 0}, {"torch", TORCH}};
	size_t n_words = sizeof(words) / sizeof(*words);
	char word[FF_NEAREST_LENGTH];
	struct ff_nearest near;
	uint32_t what = 0;

	for (const char *at = text; *at; at += *at == ',') {
		size_t n = strcspn(at, ","), i = 0;

		while (i < n_words &&
				(strlen(words[i].name) != n || memcmp(words[i].name, at, n) != 0))
			i++;
		if (i == n_words) {
			snprintf(word, sizeof(word), "%.*s", (int)n, at);
			ff_nearest_init(&near, word);
			for (i = 0; i < n_words; i++)
				ff_nearest_try(&near, words[i].name);
			return ff_fail(err, FF_E_INPUT,
					"option --space: expected none, or some of updates, "
					"replicas, micro-batches, recompute and torch with "
					"commas between, not \"%.100s\"%s",
					text, ff_nearest_hint(&near));
		}
		what |= words[i].what;
		at += n;
	}
	*torch = what & TORCH;
	*ret = what == TORCH ? FF_SPACE_ALL : what & ~TORCH;
	return FF_OK;
}

/* Plans that are trained in PyTorch. */
static int check_torch(const struct ff_job_options *o, struct ff_error *err)
{
	if (o->limits.torch != (o->limits.map != NULL))
		return ff_fail(err, FF_E_INPUT, "option %s: expected %s beside it%s",
				o->limits.torch ? "--space torch" : "--map",
				o->limits.torch ? "--map FILE" : "--space torch",
				o->limits.torch ? ", which ffsoap_torch export writes" : "");
	for (enum ff_way_id id = 0; o->limits.torch && id < FF_WAY_COUNT; id++)
		if (ff_travel_asked(&o->travel, id))
			return ff_fail(err, FF_E_INPUT,
					"option --space torch: expected no %s, which PyTorch has "
					"nothing for",
					ff_way(id)->option);
	return FF_OK;
}

/* Whether anything is said that only a search can keep to. */
static bool is_choosy(const struct ff_job_options *o)
{
	const struct ff_job_limits *l = &o->limits;
	const struct ff_job_choice *c = &o->choice;

	return l->pin.n || l->no_pipeline || l->tensor_inside_node ||
	       l->max_micro != FF_NOT_GIVEN || c->top != FF_NOT_GIVEN || c->seeds != FF_NOT_GIVEN ||
	       !isnan(c->reserve) || !isnan(c->regular);
}

static int check_choice(struct ff_job_options *o, struct ff_error *err)
{
	struct ff_job_choice *c = &o->choice;

	if (o->limits.max_micro == 0)
		return ff_fail(err, FF_E_INPUT, "option --max-micro-batches: expected more than 0");
	if (c->top != FF_NOT_GIVEN && (c->top < 1 || c->top > FF_MOST_TOP))
		return ff_fail(err, FF_E_INPUT, "option --top: expected 1 to %d", FF_MOST_TOP);
	if (c->seeds != FF_NOT_GIVEN && (c->seeds < 1 || c->seeds > FF_MOST_SEEDS))
		return ff_fail(err, FF_E_INPUT, "option --seeds: expected 1 to %d", FF_MOST_SEEDS);
	if (c->seeds != FF_NOT_GIVEN && o->jobs > 1)
		return ff_fail(err, FF_E_INPUT,
				"option --seeds: expected no --jobs beside it, as each of those is "
				"a "
				"seed");
	if (!isnan(c->reserve) && !(c->reserve >= 0 && c->reserve < 100))
		return ff_fail(err, FF_E_INPUT,
				"option --reserve: expected 0 or more and less than 100, not %g",
				c->reserve);
	if (!isnan(c->regular) && !(c->regular >= 0 && c->regular <= 100))
		return ff_fail(err, FF_E_INPUT, "option --regular: expected 0 to 100, not %g",
				c->regular);
	c->regular = isnan(c->regular) ? FF_PRESET_REGULAR : c->regular;
	c->top = c->top == FF_NOT_GIVEN ? 1 : c->top;
	c->seeds = c->seeds == FF_NOT_GIVEN ? 0 : c->seeds;
	c->reserve_given = !isnan(c->reserve);
	c->reserve = c->reserve_given ? c->reserve : FF_PRESET_RESERVE;
	return FF_OK;
}

static int check_search(struct ff_job *j, struct ff_error *err)
{
	struct ff_nearest near;
	uint32_t n = j->opt.init.n, n_named = 0;

	if (!j->opt.strategy_path)
		return ff_fail(err, FF_E_INPUT,
				"option -o is missing: expected the file for the strategy found");
	if (j->opt.proposals == 0 || j->opt.seconds == 0)
		return ff_fail(err, FF_E_INPUT, "option %s: expected more than 0",
				j->opt.proposals == 0 ? "--proposals" : "--budget");
	if (!isnan(j->opt.choice.beta) && !(j->opt.choice.beta > 0))
		return ff_fail(err, FF_E_INPUT, "option --beta: expected a number above 0, not %g",
				j->opt.choice.beta);
	for (uint32_t i = 0; i < n; i++) {
		j->starts[i] = j->opt.init.text[i];
		if (ff_job_is_start(j->starts[i]))
			j->named[n_named++] = j->starts[i];
		else if (!access(j->starts[i], F_OK))
			j->init_path[j->n_init++] = j->starts[i];
		else
			return ff_fail(err, FF_E_INPUT,
					"option --init: expected data-parallel, single, expert, "
					"random, elimination, pipeline, pipeline-N, zero-1, "
					"zero-2, zero-3, these with -hybrid, frugal, megatron, "
					"tables, tables-N or the file of a plan, "
					"not "
					"\"%.100s\"%s",
					j->starts[i], near_start(&near, j->starts[i]));
	}
	j->summary.starts = n ? j->starts : ff_starts;
	if (check_choice(&j->opt, err) < 0)
		return err->code;
	if (j->opt.jobs < 1 || j->opt.jobs > FF_MOST_JOBS)
		return ff_fail(err, FF_E_INPUT, "option --jobs: expected 1 to %d", FF_MOST_JOBS);
	if (j->opt.proposals == FF_NOT_GIVEN) {
		j->opt.proposals = 0;
		if (j->opt.seconds < 0)
			j->opt.seconds = FF_PRESET_SECONDS;
	}
	if (j->opt.seconds < 0)
		j->opt.seconds = 0;
	if (isnan(j->opt.choice.beta))
		j->opt.choice.beta = 0;
	return FF_OK;
}

static int check_framework(struct ff_job *j, struct ff_error *err)
{
	const char *name = j->opt.framework_name;
	enum ff_estimate estimate;
	struct ff_error inner;

	if (name && ff_framework_find(name, &j->in.framework, &inner) < 0)
		return ff_fail(err, FF_E_INPUT, "option --framework: %s", inner.text);
	if (name && (!j->opt.simulate || !ff_estimate_named(j->opt.costs_path, &estimate) ||
				    estimate != FF_ESTIMATE_MODEL))
		return ff_fail(err, FF_E_INPUT,
				"option --framework: expected --simulate and --costs analytic "
				"beside it, as plans that are searched and costs that were "
				"measured are for our runtime");
	return FF_OK;
}

static int check_oracle(struct ff_job *j, struct ff_error *err)
{
	struct ff_job_options *o = &j->opt;

	if (o->simulate || o->strategy_path || o->beside.trace_path || o->list ||
			o->beside.certificate_path || o->explain || o->vary.n || o->init.n ||
			o->seconds >= 0 || o->proposals != FF_NOT_GIVEN || is_choosy(o))
		return ff_fail(err, FF_E_INPUT,
				"option --oracle prints a table of its own: expected no plan, and "
				"nothing that is asked about one, beside it");
	o->choice = (struct ff_job_choice){.top = 1};
	return FF_OK;
}

static int check_rewrite(const struct ff_job_options *o, struct ff_error *err)
{
	if (!o->rewrite.n)
		return FF_OK;
	if (o->simulate && !ff_job_is_start(o->simulate))
		return ff_fail(err, FF_E_INPUT,
				"option --rewrite: a strategy file of --simulate says what is "
				"rewritten");
	if (o->limits.torch)
		return ff_fail(err, FF_E_INPUT,
				"option --rewrite: not with --space torch, as ffsoap_torch trains "
				"no rewritten graph");
	for (uint32_t i = 0; i < o->rewrite.n && o->rewrite.n > 1; i++)
		if (!strcmp(o->rewrite.text[i], "auto") || !strcmp(o->rewrite.text[i], "none"))
			return ff_fail(err, FF_E_INPUT, "option --rewrite: %s stands alone",
					o->rewrite.text[i]);
	return FF_OK;
}

int ff_job_check(struct ff_job *j, struct ff_error *err)
{
	struct ff_variation v[FF_MOST_VARIATIONS];
	const struct ff_way *alone;
	struct ff_error inner;
	uint32_t n;

	if (!j->opt.machine_name)
		return ff_fail(err, FF_E_INPUT,
				"option --machine is missing: expected a file or the name of a "
				"machine");
	if (!j->opt.costs_path)
		return ff_fail(err, FF_E_INPUT,
				"option --costs is missing: expected a file that ffprof wrote, or "
				"one of the "
				"words analytic and peak");
	if (j->opt.by_nodes && !ff_estimate_named(j->opt.costs_path, &j->in.estimate))
		return ff_fail(err, FF_E_INPUT,
				"option --by-nodes: expected --costs analytic or peak beside it, "
				"as a file "
				"of costs says how it was measured");
	if (j->opt.devices == 0 ||
			(j->opt.devices > FF_MAX_DEVICES && j->opt.devices != FF_NOT_GIVEN))
		return ff_fail(err, FF_E_INPUT, "option --devices: expected 1 to %d",
				FF_MAX_DEVICES);
	if (j->opt.memory == 0)
		return ff_fail(err, FF_E_INPUT, "option --memory: expected more than 0");
	if (j->opt.memory < 0)
		j->opt.memory = 0;
	if (read_space(j->opt.space_text, &j->opt.what, &j->opt.limits.torch, err) < 0 ||
			check_torch(&j->opt, err) < 0)
		return err->code;
	if (j->opt.optimizer_name &&
			ff_optimizer_find(j->opt.optimizer_name, &j->in.optimizer, &inner) < 0)
		return ff_fail(err, FF_E_INPUT, "option --optimizer: %s", inner.text);
	if (ff_travel_choose(&j->opt.travel, &j->in.travel, err) < 0)
		return err->code;
	alone = ff_travel_unsearched(&j->in.travel);
	if (alone && !j->opt.simulate)
		return ff_fail(err, FF_E_INPUT, "option %s: expected %s", alone->option,
				alone->beside);
	if (check_framework(j, err) < 0)
		return err->code;
	if (j->opt.beside.certificate_path && j->opt.framework_name)
		return ff_fail(err, FF_E_INPUT,
				"option --certificate: expected no --framework beside it, as plans "
				"that are searched are for our runtime");
	if (check_words(&j->opt, err) < 0 || check_rewrite(&j->opt, err) < 0 ||
			ff_variations_parse(&j->opt.vary, v, &n, err) < 0)
		return err->code;
	if (j->opt.oracle)
		return check_oracle(j, err);
	if (!j->opt.simulate)
		return check_search(j, err);
	if (j->opt.proposals != FF_NOT_GIVEN || j->opt.seconds >= 0 || j->opt.init.n > 0 ||
			!isnan(j->opt.choice.beta) || is_choosy(&j->opt))
		return ff_fail(err, FF_E_INPUT,
				"option --simulate only predicts: expected nothing beside it that "
				"a search is told, such as --budget, --init, --pin or --reserve");
	j->opt.choice = (struct ff_job_choice){.top = 1};
	return FF_OK;
}

int ff_job_parse(struct ff_job_options *o, int argc, char **argv, bool *done, struct ff_error *err)
{
	static const char *const costs[] = {"analytic", "peak", NULL};
	const char *optimizer_names[FF_OPTIMIZER_COUNT + 1] = {NULL};
	char names[FF_OPTIMIZER_TEXT], optimizers[FF_OPTIMIZER_TEXT + 96];
	static const char planned[] = "what --simulate's file says";
	char travel[FF_WAY_COUNT][FF_TRAVEL_HELP];
	char frameworks[FF_FRAMEWORK_TEXT], framework[FF_FRAMEWORK_TEXT + 160];
	const struct ff_option options[] = {
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
					"FF_NCCL_NODES=1 "
					"has them"},
			{"--devices", FF_OPTION_COUNT, &o->devices, "N",
					"use only the machine's first N devices"},
			{"--optimizer", FF_OPTION_TEXT, &o->optimizer_name, "NAME", optimizers,
					.words = optimizer_names},
			{"--clip", FF_OPTION_FLAG, &o->clip, NULL,
					"gradients are clipped by their global norm (as ffrun "
					"--clip does), which takes time"},
			ff_travel_option(&o->travel, FF_WAY_COMPRESSED, planned, travel[0]),
			ff_travel_option(&o->travel, FF_WAY_AVERAGED, planned, travel[1]),
			ff_travel_option(&o->travel, FF_WAY_LATE, planned, travel[2]),
			{"--framework", FF_OPTION_TEXT, &o->framework_name, "NAME[:NUMBER]",
					framework},
			{"--budget", FF_OPTION_SECONDS, &o->seconds, "SECONDS",
					"be done in that time (preset 30s)"},
			{"--proposals", FF_OPTION_COUNT, &o->proposals, "N",
					"search that many proposals; then equal seeds give equal "
					"files"},
			{"--seed", FF_OPTION_COUNT, &o->seed, "N",
					"of all random choices (preset 0)"},
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
			{"--init", FF_OPTION_TEXTS, &o->init, "NAME",
					"start from a plan, also one for another batch, machine or "
					"number of devices, or from data-parallel, expert, single, "
					"random, "
					"elimination, pipeline, pipeline-N (N stages), zero-1, "
					"zero-2, zero-3, these with -hybrid (cut over a node's "
					"devices), frugal or megatron (what saves memory), tables "
					"or tables-N (of vectors, in N parts by column); "
					"may be "
					"repeated "
					"(preset: all but pipeline-N and tables-N)",
					.words = ff_starts},
			{"--jobs", FF_OPTION_COUNT, &o->jobs, "N",
					"walk in so many threads, which share the best (preset 1)"},
			{"--beta", FF_OPTION_REAL, &o->choice.beta, "B",
					"how strictly slower strategies are refused (preset 64 an "
					"operator)"},
			{"--simulate", FF_OPTION_TEXT, &o->simulate, "STRATEGY",
					"only predict a strategy file, one of the names of "
					"--init (megatron: the best by hand), or megatron:T,D,P,M: "
					"degrees of tensor, data and "
					"pipeline parallelism and micro-batches, with any of "
					"zero-1, zero-2, zero-3, recompute, recompute=light, "
					"recompute=N, interleave=V, zb-h1, zb-v, hybrid, sequence, "
					"experts "
					"and "
					"even behind them",
					.words = ff_starts},
			{"--pin", FF_OPTION_TEXTS, &o->limits.pin,
					"PATTERN:DIM=N[,DIM=N][@DEVICES]",
					"operators whose names match (as in a shell) and that have "
					"these dims are split so, on these devices if any are "
					"named "
					"(0-7 or 0,2,4); may be repeated"},
			{"--tensor-inside-node", FF_OPTION_FLAG, &o->limits.tensor_inside_node,
					NULL, "no split but of samples crosses a node"},
			{"--no-pipeline", FF_OPTION_FLAG, &o->limits.no_pipeline, NULL,
					"no stages"},
			{"--max-micro-batches", FF_OPTION_COUNT, &o->limits.max_micro, "N",
					"no more micro-batches than that"},
			{"--top", FF_OPTION_COUNT, &o->choice.top, "K",
					"write the best plans of up to K shapes, as STRATEGY, "
					"STRATEGY.2 and so on (preset 1)"},
			{"--seeds", FF_OPTION_COUNT, &o->choice.seeds, "N",
					"begin anew so many times, and go on from the best "
					"(preset: "
					"as often as the budget allows 5,000 proposals an operator "
					"each)"},
			{"--regular", FF_OPTION_REAL, &o->choice.regular, "PERCENT",
					"make equal layers alike where the step takes no more than "
					"that longer (preset 1; 0: where it takes no longer)"},
			{"--reserve", FF_OPTION_REAL, &o->choice.reserve, "PERCENT",
					"of each device's memory stay free (preset 5)"},
			{"-o", FF_OPTION_TEXT, &o->strategy_path, "STRATEGY",
					"where the plan goes"},
			{"--list", FF_OPTION_TEXT, &o->list, "PATTERN",
					"instead of the summary a line for each operator whose "
					"name has that in it, or matches it (\"block0.*\")"},
			{"--explain", FF_OPTION_FLAG, &o->explain, NULL,
					"tell the critical path, what is gained over the "
					"baseline, and what more memory or faster links would "
					"bring"},
			{"--vary", FF_OPTION_TEXTS, &o->vary, "KEY=N,..",
					"the plan, carried over and searched again, for other "
					"values of batch, memory (GiB), devices and network "
					"(Gbit/s a node); several KEY=N,.. may follow, each "
					"value with all of the others"},
			{"--oracle", FF_OPTION_FLAG, &o->oracle, NULL,
					"of pure strategies (data, spatial, channels, pipeline, "
					"ZeRO) on 1, 2, 4 and so on up to 1,024 devices tell "
					"where each stops scaling, and why"},
			{"--report", FF_OPTION_TEXT, &o->report_path, "FILE", "figures as JSON"},
			{"--certificate", FF_OPTION_TEXT, &o->beside.certificate_path, "FILE",
					"what the lower bound rests on, for ffcheck"},
			{"--trace", FF_OPTION_TEXT, &o->beside.trace_path, "FILE",
					"predicted timeline for Perfetto or chrome://tracing"},
			{"--html", FF_OPTION_TEXT, &o->beside.html_path, "FILE",
					"a page for people: figures, strategy, timeline, memory, "
					"links"},
	};
	struct ff_command c = ff_job_command;
	const char *args[1 + FF_MOST_KEYS];
	uint32_t n_args;
	int code;

	for (uint32_t i = 0; i < FF_OPTIMIZER_COUNT; i++)
		optimizer_names[i] = ff_optimizer((enum ff_optimizer_id)i)->name;
	ff_optimizer_list(true, names);
	snprintf(optimizers, sizeof(optimizers),
			"what updates the parameters: %s; else what --simulate's file says, else "
			"%s",
			names, ff_optimizer_preset()->name);
	ff_framework_list(frameworks);
	snprintf(framework, sizeof(framework),
			"with --simulate: as that would execute it, %s, instead of our runtime; "
			"NUMBER: another one than was fitted to its published steps",
			frameworks);
	c.options = options;
	c.n_options = sizeof(options) / sizeof(*options);
	code = ff_cli_parse(&c, argc, argv, args, &n_args, done, err);
	if (code < 0 || *done)
		return code;
	o->graph_path = args[0];
	for (uint32_t i = 1; i < n_args; i++) {
		if (!o->vary.n || o->vary.n == 32 || !strchr(args[i], '='))
			return ff_fail(err, FF_E_INPUT,
					"expected one operand, GRAPH, not \"%.100s\" behind it",
					args[i]);
		o->vary.text[o->vary.n++] = args[i];
	}
	return FF_OK;
}
