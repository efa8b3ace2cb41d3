/* ffzoo: writes the graph of a network of the zoo.  SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/process.h"
#include "ff/zoo.h"
#include "operator/attrs.h"
#include "operators.h"

struct options {
	bool list, operators, json, hash;
	uint64_t batch;
	struct ff_texts sets;
	const char *output;
};

static void list_param(const struct ff_zoo_param *p)
{
	const char *word = NULL;
	size_t len;

	if (p->choices)
		word = ff_choice_word(p->choices, p->preset, &len);
	if (word)
		printf("  %-11s%s: %s (%.*s)\n", p->name, p->help, p->choices, (int)len, word);
	else
		printf("  %-11s%s: %d to %d (%d)\n", p->name, p->help, p->min, p->max, p->preset);
}

static void list_networks(void)
{
	const struct ff_zoo_row *row;

	for (uint32_t i = 0; (row = ff_zoo_row(i)); i++) {
		printf("%s: %s; batch %d\n", row->name, row->summary, row->batch);
		for (uint32_t k = 0; k < row->n_params; k++)
			list_param(&row->params[k]);
		list_param(&ff_zoo_dtype);
	}
}

static int save_operators(const struct options *o, struct ff_error *err)
{
	struct ff_out out;
	int code;

	ff_out_init(&out);
	code = ff_operators_write(o->json, &out, err);
	if (code == FF_OK)
		code = ff_out_save(&out, o->output, err);
	ff_out_finish(&out);
	return code;
}

static int run(const struct options *o, const char *const *args, uint32_t n_args,
		struct ff_error *err)
{
	struct ff_arena a;
	struct ff_graph g;
	struct ff_out out;
	int code;

	if (o->json && !o->operators)
		return ff_fail(err, FF_E_INPUT, "option --json: only with --operators");
	if (o->hash && (o->list || o->operators || strcmp(o->output, "-") != 0))
		return ff_fail(err, FF_E_INPUT,
				"option --hash: expected the name of a network, and no --list, "
				"--operators or -o beside it");
	if (o->operators)
		return save_operators(o, err);
	if (o->list) {
		list_networks();
		return FF_OK;
	}
	if (!n_args)
		return ff_fail(err, FF_E_INPUT,
				"expected the name of a network; --list shows them");
	if (!o->batch)
		return ff_fail(err, FF_E_INPUT, "option --batch: expected at least 1 sample");
	ff_arena_init(&a);
	code = ff_zoo_build(args[0], o->batch == UINT64_MAX ? 0 : o->batch, o->sets.text, o->sets.n,
			&a, &g, err);
	if (code == FF_OK && o->hash) {
		printf("%016" PRIx64 "\n", g.hash);
	} else if (code == FF_OK) {
		ff_out_init(&out);
		ff_graph_write(&g, &out);
		code = ff_out_save(&out, o->output, err);
		ff_out_finish(&out);
	}
	ff_arena_finish(&a);
	return code;
}

#define MOST_NAMES 64 /* that completion knows */

int main(int argc, char **argv)
{
	struct options o = {.batch = UINT64_MAX, .output = "-"};
	const struct ff_option options[] = {
			{"--list", FF_OPTION_FLAG, &o.list, NULL,
					"show the networks and their parameters with presets"},
			{"--operators", FF_OPTION_FLAG, &o.operators, NULL,
					"write what every operator can be cut along"},
			{"--json", FF_OPTION_FLAG, &o.json, NULL, "that as JSON"},
			{"--batch", FF_OPTION_COUNT, &o.batch, "N",
					"samples of the global batch (preset: the network's)"},
			{"--set", FF_OPTION_TEXTS, &o.sets, "KEY=VALUE",
					"change a parameter; may be repeated"},
			{"--hash", FF_OPTION_FLAG, &o.hash, NULL,
					"instead of the graph print its hash, which strategies for "
					"it carry (\"graph_hash\")"},
			{"-o", FF_OPTION_TEXT, &o.output, "GRAPH",
					"the file to write (preset: standard output)"},
	};
	const char *names[MOST_NAMES + 1] = {NULL};
	const struct ff_command command = {
			.words = names,
			.name = "ffzoo",
			.usage = "--list\n--operators [--json]\nNAME [--batch N] [--set "
				 "KEY=VALUE]... [--hash | -o GRAPH]",
			.summary = "Writes the operator graph of a known network.",
			.details = "Example: ffzoo alexnet --set image=28 --batch 128 -o "
				   "alexnet.json\n"
				   "Exit status: 0 done, 1 failed, 2 bad usage.",
			.options = options,
			.n_options = sizeof(options) / sizeof(options[0]),
			.max_args = 1,
	};
	const char *args[1];
	uint32_t n_args;
	bool done = false;
	struct ff_error err = {0};
	int code;

	for (uint32_t i = 0; i < MOST_NAMES && ff_zoo_row(i); i++)
		names[i] = ff_zoo_row(i)->name;
	ff_process_begin(command.name);
	code = ff_cli_parse(&command, argc, argv, args, &n_args, &done, &err);
	if (code == FF_OK && !done)
		code = run(&o, args, n_args, &err);
	return ff_cli_end(&command, code, &err);
}
