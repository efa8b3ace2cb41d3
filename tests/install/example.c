/* A C program outside of the tree: loads a network and a machine and tells what a step takes under
 * data parallelism.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include <ff/graph_file.h>
#include <ff/machine.h>
#include <ff/simulate.h>
#include <ff/strategy.h>

static int predict(const char *graph, const char *machine, struct ff_arena *a, double *us,
		struct ff_error *err)
{
	struct ff_lower_options opt = {.workspace = ff_price_workspace};
	struct ff_pricer *pricer = NULL;
	struct ff_simulation simulation;
	struct ff_schedule schedule;
	struct ff_strategy strategy;
	struct ff_machine m;
	struct ff_graph g;
	int code = ff_graph_load(graph, a, &g, err);

	if (code == FF_OK)
		code = ff_machine_load(machine, a, &m, err);
	if (code == FF_OK)
		code = ff_strategy_data_parallel(&g, m.n_devices, a, &strategy, err);
	if (code == FF_OK)
		code = ff_pricer_create(&g, &m, FF_ESTIMATE_MODEL, NULL, NULL, graph, &pricer, err);
	opt.ctx = pricer;
	if (code == FF_OK)
		code = ff_lower(&g, &m, &strategy, &opt, a, &schedule, err);
	if (code == FF_OK)
		code = ff_simulate(&schedule, pricer, a, &simulation, err);
	if (code == FF_OK)
		*us = simulation.step_us;
	ff_pricer_destroy(pricer);
	return code;
}

int main(int argc, char **argv)
{
	struct ff_error err = {0};
	struct ff_arena a;
	double us = 0;
	int code;

	if (argc != 3) {
		fprintf(stderr, "usage: example GRAPH MACHINE\n");
		return 2;
	}
	ff_arena_init(&a);
	code = predict(argv[1], argv[2], &a, &us, &err);
	if (code == FF_OK)
		printf("%.17g\n", us);
	else
		fprintf(stderr, "example: %s\n", err.text);
	ff_arena_finish(&a);
	return ff_exit_status(code);
}
