/* What strategies by name come to: each line of standard input is one, as ffsearch --simulate takes
 * it, and is answered by its step in microseconds and whether it fits (1 or 0), or by "-" where
 * there is none.  Behind "!" it has the buckets that are best, and is laid out in memory.  One
 * process prices thousands, so that a program can go through more of them than a search does
 * (bench/unseen_plans.py).  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "ff/bucketing.h"
#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/starts.h"
#include "hand/buckets.h"

#define LONGEST 256
#define RESERVE 0.05 /* of memory, as a search leaves free */

struct tool {
	const char *graph_path, *machine_name, *optimizer_name;
	bool by_nodes;
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_machine machine;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
};

static int leave_free(struct tool *t, struct ff_error *err)
{
	struct ff_device_kind *kinds = ff_arena_copy(
			&t->arena, t->machine.kinds, t->machine.n_kinds, sizeof(*t->machine.kinds));

	if (!kinds)
		return ff_fail_memory(err);
	for (uint32_t i = 0; i < t->machine.n_kinds; i++)
		kinds[i].memory_bytes = (int64_t)((1 - RESERVE) * (double)kinds[i].memory_bytes);
	t->machine.kinds = kinds;
	return FF_OK;
}

static int open_tool(struct tool *t, struct ff_error *err)
{
	const struct ff_optimizer *o = ff_optimizer_preset();
	int code = ff_graph_load(t->graph_path, &t->arena, &t->graph, err);

	if (code == FF_OK && t->optimizer_name)
		code = ff_optimizer_find(t->optimizer_name, &o, err);
	if (code == FF_OK)
		code = ff_machine_load(t->machine_name, &t->arena, &t->machine, err);
	if (code == FF_OK)
		code = leave_free(t, err);
	if (code == FF_OK)
		code = ff_pricer_create(&t->graph, &t->machine, FF_ESTIMATE_MODEL, NULL, NULL,
				t->graph_path, &t->pricer, err);
	if (code == FF_OK)
		code = ff_pricer_set_optimizer(t->pricer, o, err);
	if (code < 0)
		return code;
	ff_pricer_set_by_nodes(t->pricer, t->by_nodes);
	code = ff_space_create(&t->graph, &t->machine, &t->space, err);
	if (code < 0)
		return code;
	ff_space_allow(t->space, FF_SPACE_ALL);
	return ff_evaluator_create(&t->graph, &t->machine, t->pricer, 0, 0, &t->evaluator, err);
}

static int price(struct tool *t, const char *name, struct ff_arena *a, struct ff_evaluation *at,
		struct ff_error *err)
{
	bool lays_out = *name == '!';
	struct ff_strategy s;
	int code = ff_init_strategy(
			name + lays_out, t->space, &t->graph, &t->machine, 0, a, &s, err);

	if (code == FF_OK)
		code = ff_evaluator_set(t->evaluator, &s, at, err);
	if (code < 0 || !lays_out)
		return code;
	code = ff_buckets_tune(t->evaluator, &s, ff_bucket_bytes(&t->graph, &t->machine), at, err);
	if (code == FF_OK)
		code = ff_evaluator_set(t->evaluator, &s, at, err);
	return code == FF_OK && at->fits && at->tight
			       ? ff_evaluator_lays_out(t->evaluator, &at->fits, err)
			       : code;
}

static int answer(struct tool *t, struct ff_error *err)
{
	char line[LONGEST];
	int code = FF_OK;

	while (code == FF_OK && fgets(line, sizeof(line), stdin)) {
		struct ff_evaluation at;
		struct ff_arena a;

		line[strcspn(line, "\n")] = 0;
		ff_arena_init(&a);
		code = price(t, line, &a, &at, err);
		ff_arena_finish(&a);
		if (code == FF_OK)
			printf("%.17g %d\n", at.step_us, at.fits);
		else if (code == FF_E_INPUT) /* not for this network */
			printf("-\n");
		code = code == FF_E_INPUT ? FF_OK : code;
		fflush(stdout);
	}
	return code;
}

int main(int argc, char **argv)
{
	struct tool t = {.graph_path = NULL};
	const struct ff_option options[] = {
			{"--machine", FF_OPTION_TEXT, &t.machine_name, "MACHINE", "as ffsearch's"},
			{"--optimizer", FF_OPTION_TEXT, &t.optimizer_name, "NAME", "as ffsearch's"},
			{"--by-nodes", FF_OPTION_FLAG, &t.by_nodes, NULL, "as ffsearch's"},
	};
	const struct ff_command command = {
			.name = "bench-by-hand",
			.usage = "GRAPH --machine MACHINE [options]",
			.summary = "Prices strategies whose names it reads.",
			.details = "Costs are by models of devices.\n",
			.options = options,
			.n_options = sizeof(options) / sizeof(*options),
			.min_args = 1,
			.max_args = 1,
	};
	struct ff_error err = {0};
	uint32_t n_args;
	bool done = false;
	int code = ff_cli_parse(&command, argc, argv, &t.graph_path, &n_args, &done, &err);

	ff_arena_init(&t.arena);
	if (code == FF_OK && !done && !t.machine_name)
		code = ff_fail(&err, FF_E_INPUT, "option --machine: expected a machine");
	if (code == FF_OK && !done)
		code = open_tool(&t, &err);
	if (code == FF_OK && !done)
		code = answer(&t, &err);
	ff_evaluator_destroy(t.evaluator);
	ff_space_destroy(t.space);
	ff_pricer_destroy(t.pricer);
	ff_arena_finish(&t.arena);
	return ff_cli_end(&command, code, &err);
}
