/* What one proposal takes, from a strategy by name: a search's proposals are drawn, those that are
 * faster are kept, as a search does that is cold.  Run it under valgrind --tool=callgrind to count
 * instructions of ff_evaluator_propose_within.  What all came to is told as one number: it may not
 * depend on what makes them fast.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/micro.h"
#include "ff/starts.h"
#include "propose/propose.h"

#define RESERVE 0.05 /* of memory, as a search leaves free */

struct tool {
	const char *graph_path, *machine_name, *optimizer_name, *init;
	bool by_nodes, peak, unfolded;
	uint64_t proposals, seed;
	struct ff_arena arena;
	struct ff_graph graph, micro; /* of the batch, of a micro-batch */
	struct ff_machine machine;
	struct ff_pricer *pricer;
	struct ff_space *space, *micro_space;
	struct ff_evaluator *evaluator;
	struct ff_proposer proposer;
	struct ff_transaction drawn;
	struct ff_evaluation at;
	uint64_t kept;
	uint64_t sum; /* of the bits of all that was evaluated to its end */
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

static int open_pricer(struct tool *t, struct ff_error *err)
{
	const struct ff_optimizer *o = ff_optimizer_preset();
	int code = FF_OK;

	if (t->optimizer_name)
		code = ff_optimizer_find(t->optimizer_name, &o, err);
	if (code == FF_OK)
		code = ff_pricer_create(&t->graph, &t->machine,
				t->peak ? FF_ESTIMATE_PEAK : FF_ESTIMATE_MODEL, NULL, NULL,
				t->graph_path, &t->pricer, err);
	if (code == FF_OK)
		code = ff_pricer_set_optimizer(t->pricer, o, err);
	if (code == FF_OK)
		ff_pricer_set_by_nodes(t->pricer, t->by_nodes);
	return code;
}

static int open_tool(struct tool *t, struct ff_error *err)
{
	struct ff_strategy s;
	int code = ff_graph_load(t->graph_path, &t->arena, &t->graph, err);

	if (code == FF_OK)
		code = ff_machine_load(t->machine_name, &t->arena, &t->machine, err);
	if (code == FF_OK)
		code = leave_free(t, err);
	if (code == FF_OK)
		code = open_pricer(t, err);
	if (code == FF_OK)
		code = ff_space_create(&t->graph, &t->machine, &t->space, err);
	if (code < 0)
		return code;
	ff_space_allow(t->space, FF_SPACE_ALL);
	code = ff_init_strategy(
			t->init, t->space, &t->graph, &t->machine, t->seed, &t->arena, &s, err);
	if (code == FF_OK)
		code = ff_evaluator_create(
				&t->graph, &t->machine, t->pricer, 0, 0, &t->evaluator, err);
	if (code < 0)
		return code;
	ff_evaluator_fold(t->evaluator, !t->unfolded);
	code = ff_graph_micro(&t->graph, s.micro_batches, &t->arena, &t->micro, err);
	if (code == FF_OK)
		code = ff_space_create(&t->micro, &t->machine, &t->micro_space, err);
	if (code < 0)
		return code;
	ff_space_allow(t->micro_space, FF_SPACE_ALL);
	code = ff_proposer_init(
			t->micro_space, &t->micro, t->seed, 0, &t->arena, &t->proposer, err);
	if (code == FF_OK)
		code = ff_transaction_init(&t->graph, &t->arena, &t->drawn, err);
	return code == FF_OK ? ff_evaluator_set(t->evaluator, &s, &t->at, err) : code;
}

static void add_up(struct tool *t, const struct ff_evaluation *found)
{
	uint64_t bits;

	memcpy(&bits, &found->step_us, sizeof(bits));
	t->sum = (t->sum ^ bits) * 0x100000001b3u;
	t->sum = (t->sum ^ (uint64_t)found->over_bytes) * 0x100000001b3u;
	t->sum = (t->sum ^ (uint64_t)found->spare_bytes) * 0x100000001b3u;
}

static int propose(struct tool *t, struct ff_error *err)
{
	struct ff_most most = {t->at.fits ? t->at.step_us : INFINITY, t->at.over_bytes};
	struct ff_evaluation found;
	bool worse;
	int code;

	ff_proposer_next(&t->proposer, ff_evaluator_strategy(t->evaluator), &t->drawn);
	if (!t->drawn.n)
		return FF_OK;
	code = ff_evaluator_propose_within(
			t->evaluator, t->drawn.change, t->drawn.n, most, &worse, &found, err);
	if (code < 0)
		return code;
	ff_proposer_learn(&t->proposer, !worse);
	if (worse)
		return FF_OK;
	add_up(t, &found);
	ff_evaluator_keep(t->evaluator);
	t->at = found;
	t->kept++;
	return FF_OK;
}

static int run(struct tool *t, struct ff_error *err)
{
	double from;
	int code = open_tool(t, err);

	if (code < 0)
		return code;
	ff_evaluator_reject_early(t->evaluator, true);
	printf("%s on %u devices from %s, %.3f ms%s: ", t->graph.name, t->machine.n_devices,
			t->init, t->at.step_us / 1e3, t->at.fits ? "" : " (does not fit)");
	fflush(stdout);
	from = (double)clock();
	for (uint64_t i = 0; i < t->proposals && code == FF_OK; i++)
		code = propose(t, err);
	if (code == FF_OK)
		printf("%.1f us of processor time a proposal, %llu kept, %.3f ms, all: %016llx\n",
				((double)clock() - from) / CLOCKS_PER_SEC * 1e6 /
						(double)t->proposals,
				(unsigned long long)t->kept, t->at.step_us / 1e3,
				(unsigned long long)t->sum);
	return code;
}

int main(int argc, char **argv)
{
	struct tool t = {.proposals = 2000, .init = "data-parallel"};
	const struct ff_option options[] = {
			{"--machine", FF_OPTION_TEXT, &t.machine_name, "MACHINE", "as ffsearch's"},
			{"--optimizer", FF_OPTION_TEXT, &t.optimizer_name, "NAME", "as ffsearch's"},
			{"--by-nodes", FF_OPTION_FLAG, &t.by_nodes, NULL, "as ffsearch's"},
			{"--peak", FF_OPTION_FLAG, &t.peak, NULL,
					"costs by peak rates (preset: by models of devices)"},
			{"--init", FF_OPTION_TEXT, &t.init, "NAME",
					"start (preset: data-parallel)"},
			{"--proposals", FF_OPTION_COUNT, &t.proposals, "N", "(preset: 2000)"},
			{"--seed", FF_OPTION_COUNT, &t.seed, "N", "(preset: 0)"},
			{"--unfolded", FF_OPTION_FLAG, &t.unfolded, NULL,
					"time equal micro-batches and layers one by one"},
	};
	const struct ff_command command = {
			.name = "bench-proposals",
			.usage = "GRAPH --machine MACHINE [options]",
			.summary = "Prints what one proposal takes.",
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
		code = run(&t, &err);
	ff_evaluator_destroy(t.evaluator);
	ff_space_destroy(t.micro_space);
	ff_space_destroy(t.space);
	ff_pricer_destroy(t.pricer);
	ff_arena_finish(&t.arena);
	return ff_cli_end(&command, code, &err);
}
