/* How many proposals a second the search evaluates on one core, and how good
 * the plan is that it then has.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "ff/search.h"
#include "ff/zoo.h"

struct bench_case {
	const char *net, *machine;
	uint32_t devices;
};

static const struct bench_case cases[] = {
		{"alexnet", "p100x16", 2},
		{"alexnet", "p100x16", 16},
		{"alexnet", "k80x64", 64},
		{"branchnet", "p100x16", 2},
		{"branchnet", "p100x16", 16},
		{"branchnet", "k80x64", 64},
};

struct rig {
	struct ff_graph g;
	struct ff_machine m;
	struct ff_pricer *pricer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
};

static int rig_open(
		const struct bench_case *b, struct ff_arena *a, struct rig *r, struct ff_error *err)
{
	struct ff_machine whole;
	int code = ff_zoo_build(b->net, 256, NULL, 0, a, &r->g, err);

	if (code == FF_OK)
		code = ff_machine_load(b->machine, a, &whole, err);
	if (code == FF_OK)
		code = ff_machine_subset(&whole, b->devices, a, &r->m, err);
	if (code == FF_OK)
		code = ff_pricer_create(&r->g, &r->m, NULL, NULL, b->net, &r->pricer, err);
	if (code == FF_OK)
		code = ff_space_create(&r->g, &r->m, &r->space, err);
	if (code == FF_OK)
		code = ff_evaluator_create(&r->g, &r->m, r->pricer, 0, 0, &r->evaluator, err);
	return code;
}

static void rig_close(struct rig *r)
{
	ff_evaluator_destroy(r->evaluator);
	ff_space_destroy(r->space);
	ff_pricer_destroy(r->pricer);
}

static int run(const struct bench_case *b, double seconds, struct ff_arena *a, struct rig *r,
		struct ff_error *err)
{
	struct ff_search_options opt = {.seed = 1, .seconds = seconds};
	struct ff_search_result found = {.proposals = 0};
	struct ff_evaluation e = {.step_us = 0};
	struct ff_strategy s;
	int code = rig_open(b, a, r, err);

	if (code == FF_OK)
		code = ff_init_strategy("data-parallel", r->space, &r->g, &r->m, 0, a, &s, err);
	if (code == FF_OK)
		code = ff_evaluator_set(r->evaluator, &s, &e, err);
	if (code == FF_OK)
		code = ff_search_mcmc(r->space, r->evaluator, &r->g, &r->m, &opt, a, &found, err);
	if (code < 0)
		return code;
	printf("%-10s %-8s %7u %12.0f %12.1f %12.1f %7.2fx\n", b->net, b->machine, b->devices,
			(double)found.proposals / found.seconds, e.step_us / 1e3,
			found.evaluation.step_us / 1e3, e.step_us / found.evaluation.step_us);
	fflush(stdout);
	return FF_OK;
}

/* bench-search [SECONDS a case] */
int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 10;
	struct ff_error err = {0};

	if (!(seconds > 0)) {
		fprintf(stderr, "usage: bench-search [SECONDS]\n");
		return 2;
	}
	printf("Search with analytic costs, batch 256, %g s a case, one core\n\n", seconds);
	printf("%-10s %-8s %7s %12s %12s %12s %8s\n", "graph", "machine", "devices", "proposals/s",
			"data-par ms", "plan ms", "speedup");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rig r = {.pricer = NULL};
		struct ff_arena a;
		int code;

		ff_arena_init(&a);
		code = run(&cases[i], seconds, &a, &r, &err);
		rig_close(&r);
		ff_arena_finish(&a);
		if (code < 0) {
			fprintf(stderr, "bench-search: %s\n", err.text);
			return ff_exit_status(code);
		}
	}
	return 0;
}
