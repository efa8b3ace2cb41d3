/* ffplan: shows, compares, carries over and translates plans.  SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "ff/cli.h"
#include "ff/machine.h"
#include "ff/nearest.h"
#include "ff/paths.h"
#include "ff/process.h"
#include "plan/ask.h"

#define PRESET_COSTS "analytic"

/* Options, a bit each, that a verb takes or needs. */
enum { GRAPH = 1, MACHINE = 2, COSTS = 4, LIST = 8, OUTPUT = 16 };

static const struct verb {
	const char *name;
	uint32_t operands; /* behind it */
	uint32_t takes, needs;
	int (*answer)(const struct ff_ask *ask, struct ff_error *err);
} verbs[] = {
		{"show", 1, GRAPH | MACHINE | COSTS | LIST, 0, ff_ask_show},
		{"diff", 2, GRAPH | MACHINE | COSTS, 0, ff_ask_diff},
		{"rebase", 1, GRAPH | MACHINE | COSTS | OUTPUT, GRAPH | OUTPUT, ff_ask_rebase},
		{"as", 2, GRAPH | MACHINE | COSTS, GRAPH | MACHINE, ff_ask_as},
};
#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

static const struct ff_command about = {
		.name = "ffplan",
		.usage = "show PLAN [--graph G [--machine M]] [--list PATTERN]\n"
			 "diff PLAN PLAN [--graph G --machine M]\n"
			 "rebase PLAN --graph G [--machine M] -o PLAN\n"
			 "as megatron|fsdp|deepspeed|torchtitan PLAN --graph G --machine M",
		.summary = "Shows a plan, compares two, carries one to another network or machine, "
			   "or says which flags of another tool come nearest to it, and what they "
			   "lose.",
		.details = "Examples:\n"
			   "  ffplan show plan.json\n"
			   "  ffplan show plan.json --list 'block0.*'\n"
			   "  ffplan diff old.json new.json --graph gpt2.json --machine "
			   "dgx-a100-40:8\n"
			   "  ffplan rebase plan.json --graph larger.json --machine "
			   "dgx-a100-40:16 -o larger-plan.json\n"
			   "  ffplan as megatron plan.json --graph gpt2.json --machine "
			   "dgx-a100-40:8\n"
			   "\n"
			   "Exit status: 0 done, 1 failed, 2 bad usage or input.\n",
		.min_args = 2,
		.max_args = 3,
};

static int find_verb(const char *name, const struct verb **ret, struct ff_error *err)
{
	struct ff_nearest near;

	ff_nearest_init(&near, name);
	for (size_t i = 0; i < N_VERBS; i++) {
		ff_nearest_try(&near, verbs[i].name);
		if (strcmp(verbs[i].name, name) != 0)
			continue;
		*ret = &verbs[i];
		return FF_OK;
	}
	return ff_fail(err, FF_E_INPUT, "unknown verb \"%.60s\"%s", name, ff_nearest_known(&near));
}

/* That every option is given that the verb needs, and none that it does not take. */
static int check(const struct verb *v, const struct ff_ask *ask, struct ff_error *err)
{
	const struct {
		uint32_t what;
		const char *name, *value;
	} given[] = {{GRAPH, "--graph", ask->graph}, {MACHINE, "--machine", ask->machine},
			{COSTS, "--costs", ask->costs}, {LIST, "--list", ask->list},
			{OUTPUT, "-o", ask->output}};

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		if (given[i].value && !(v->takes & given[i].what))
			return ff_fail(err, FF_E_INPUT, "option %s is not for ffplan %s",
					given[i].name, v->name);
		if (!given[i].value && (v->needs & given[i].what))
			return ff_fail(err, FF_E_INPUT, "option %s is missing: ffplan %s needs it",
					given[i].name, v->name);
	}
	if (ask->machine && !ask->graph)
		return ff_fail(err, FF_E_INPUT,
				"option --machine: expected --graph beside it, to price the plan");
	if (ask->costs && !ask->machine)
		return ff_fail(err, FF_E_INPUT,
				"option --costs: expected --machine beside it, to price the plan");
	return FF_OK;
}

/* An answer appears whole, or a refusal alone: plans are refused where they are priced, behind much
 * that could be said about them. */
static int answer(const struct verb *v, struct ff_ask *ask, FILE *to, struct ff_error *err)
{
	char *text = NULL;
	size_t length = 0;
	int code;

	ask->to = open_memstream(&text, &length);
	if (!ask->to)
		return ff_fail_memory(err);
	code = v->answer(ask, err);
	if (fclose(ask->to) != 0 && code == FF_OK)
		code = ff_fail_memory(err);
	if (code == FF_OK)
		fwrite(text, 1, length, to);
	free(text);
	return code;
}

static int run(struct ff_ask *ask, const char *const *args, uint32_t n, struct ff_error *err)
{
	const struct ff_path out[] = {{.name = "-o", .path = ask->output}};
	const struct ff_path in[] = {{.name = "PLAN", .path = args[1]},
			{.name = "PLAN", .path = n > 2 ? args[2] : NULL},
			{.name = "--graph", .path = ask->graph}};
	const struct verb *v;
	int code = find_verb(args[0], &v, err);

	if (code == FF_OK && n - 1 != v->operands)
		code = ff_fail(err, FF_E_INPUT,
				"%s: expected %u operand%s, not %u; see ffplan --help", v->name,
				v->operands, v->operands == 1 ? "" : "s", n - 1);
	if (code == FF_OK)
		code = check(v, ask, err);
	if (code == FF_OK && ask->output)
		code = ff_paths_check(out, 1, in, sizeof(in) / sizeof(in[0]), err);
	if (code < 0)
		return code;
	for (uint32_t i = 1; i < n; i++)
		ask->operand[i - 1] = args[i];
	if (!ask->costs)
		ask->costs = PRESET_COSTS;
	return answer(v, ask, ff_paths_piped(out, 1) ? stderr : stdout, err);
}

int main(int argc, char **argv)
{
	static const char *const costs[] = {"analytic", "peak", NULL};
	struct ff_arena arena;
	struct ff_ask ask = {.a = &arena};
	const struct ff_option options[] = {
			{"--graph", FF_OPTION_TEXT, &ask.graph, "GRAPH", "the plan's network"},
			{"--machine", FF_OPTION_TEXT, &ask.machine, "MACHINE[:NODES]",
					"file or name (list: prints those that there are): plans "
					"are priced on it",
					ff_machine_list},
			{"--costs", FF_OPTION_TEXT, &ask.costs, "COSTS",
					"by a file that ffprof wrote, or by one of the words "
					"analytic and peak (preset: analytic)",
					.words = costs},
			{"--list", FF_OPTION_TEXT, &ask.list, "PATTERN",
					"show: one line for each operator so called, * and ? "
					"stand for letters"},
			{"-o", FF_OPTION_TEXT, &ask.output, "PLAN", "rebase: the file to write"},
	};
	const char *tools[FF_MOST_TOOLS + 1] = {NULL};
	struct ff_command command = about;
	struct ff_error err = {0};
	const char *args[3];
	bool done = false;
	uint32_t n = 0;
	int code;

	ff_as_tools(tools);
	command.words = tools;
	command.options = options;
	command.n_options = sizeof(options) / sizeof(options[0]);
	ff_process_begin(command.name);
	ff_arena_init(&arena);
	code = ff_cli_parse(&command, argc, argv, args, &n, &done, &err);
	if (code == FF_OK && !done)
		code = run(&ask, args, n, &err);
	ff_arena_finish(&arena);
	return ff_cli_end(&command, code, &err);
}
