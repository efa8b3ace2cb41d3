/* Prints what steps of frameworks take: of each line of standard input, "tuned STRATEGY", "whole
 * STRATEGY" or "plain STRATEGY" (as ffsearch --simulate has them by name; gradients in the best
 * buckets, all at once, or in those that the strategy has), a line of JSON with the step and the
 * tasks' classes in microseconds, as our runtime would execute it and as each framework given does;
 * or a sentence that says why not.  One process has the graph, the machine and the prices of all.
 * bench/published.py compares them with published steps.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/bucketing.h"
#include "ff/cli.h"
#include "ff/framework.h"
#include "ff/graph_file.h"
#include "ff/schedule.h"
#include "ff/simulate.h"
#include "ff/starts.h"
#include "ff/strategy_file.h"
#include "hand/buckets.h"

#define MOST_FRAMEWORKS 32
#define MEMORY_BYTES ((int64_t)4 << 40) /* no limit: what was measured did fit */
#define WHOLE_BYTES ((int64_t)16 << 30)
#define LINE 256

struct options {
	const char *machine, *costs, *optimizer;
	struct ff_texts frameworks;
	uint64_t devices;
	bool alike;
};

struct steps {
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_machine machine;
	enum ff_estimate estimate;
	const struct ff_optimizer *optimizer;
	struct ff_space *space;
	struct ff_evaluator *evaluator;
	/* the first is of our runtime */
	struct ff_pricer *pricer[1 + MOST_FRAMEWORKS];
	struct ff_framework framework[MOST_FRAMEWORKS];
	bool alike;
	uint32_t n;
};

static int open_pricer(struct steps *x, const char *framework, struct ff_error *err)
{
	struct ff_pricer **p = &x->pricer[x->n];
	int code = ff_pricer_create(&x->graph, &x->machine, x->estimate, NULL, NULL, NULL, p, err);

	if (code == FF_OK)
		code = ff_pricer_set_optimizer(*p, x->optimizer, err);
	if (code == FF_OK && framework) {
		struct ff_framework *f = &x->framework[x->n - 1];

		code = ff_framework_find(framework, f, err);
		f->alike = x->alike;
		ff_pricer_set_framework(*p, f);
	}
	x->n++;
	return code;
}

static int open_steps(
		struct steps *x, const char *graph, const struct options *o, struct ff_error *err)
{
	struct ff_machine whole;
	int code = ff_graph_load(graph, &x->arena, &x->graph, err);

	x->alike = o->alike;
	x->estimate = strcmp(o->costs, "peak") ? FF_ESTIMATE_MODEL : FF_ESTIMATE_PEAK;
	if (code == FF_OK)
		code = ff_optimizer_find(o->optimizer, &x->optimizer, err);
	if (code == FF_OK)
		code = ff_machine_load(o->machine, &x->arena, &whole, err);
	if (code == FF_OK)
		code = ff_machine_subset(&whole,
				o->devices ? (uint32_t)o->devices : whole.n_devices, &x->arena,
				&x->machine, err);
	if (code == FF_OK)
		code = ff_space_create(&x->graph, &x->machine, &x->space, err);
	if (code == FF_OK)
		code = open_pricer(x, NULL, err);
	for (uint32_t i = 0; i < o->frameworks.n && code == FF_OK; i++)
		code = open_pricer(x, o->frameworks.text[i], err);
	return code < 0 ? code
			: ff_evaluator_create(&x->graph, &x->machine, x->pricer[0], MEMORY_BYTES, 0,
					  &x->evaluator, err);
}

static void close_steps(struct steps *x)
{
	ff_evaluator_destroy(x->evaluator);
	for (uint32_t i = 0; i < x->n; i++)
		ff_pricer_destroy(x->pricer[i]);
	ff_space_destroy(x->space);
	ff_arena_finish(&x->arena);
}

static int make(struct steps *x, const char *name, const char *how, struct ff_arena *a,
		struct ff_strategy *ret, struct ff_error *err)
{
	struct ff_evaluation at;
	int code = ff_init_strategy(name, x->space, &x->graph, &x->machine, 0, a, ret, err);

	if (code < 0 || !strcmp(how, "plain"))
		return code;
	if (!strcmp(how, "whole")) {
		ret->bucket_bytes = WHOLE_BYTES;
		return FF_OK;
	}
	code = ff_evaluator_set(x->evaluator, ret, &at, err);
	return code < 0 ? code
			: ff_buckets_tune(x->evaluator, ret,
					  ff_bucket_bytes(&x->graph, &x->machine), &at, err);
}

static int print_step(const struct ff_schedule *s, struct ff_pricer *p, struct ff_arena *a,
		struct ff_error *err)
{
	const struct ff_class_time *class;
	struct ff_simulation sim;
	uint32_t n;
	int code = ff_simulate(s, p, a, &sim, err);

	if (code == FF_OK)
		code = ff_simulation_classes(s, &sim, a, &class, &n, err);
	if (code < 0)
		return code;
	printf("{\"us\": %.17g, \"tasks\": {", sim.step_us);
	for (uint32_t i = 0; i < n; i++)
		printf("%s\"%s\": %.17g", i ? ", " : "", class[i].name, class[i].us);
	printf("}}");
	return FF_OK;
}

static int print_all(struct steps *x, const struct ff_schedule *s, struct ff_arena *a,
		struct ff_error *err)
{
	int code = FF_OK;

	for (uint32_t i = 0; i < x->n && code == FF_OK; i++) {
		printf("%s", i ? ", " : "[");
		code = print_step(s, x->pricer[i], a, err);
	}
	printf("]\n");
	return code;
}

static int print_steps(struct steps *x, const char *name, const char *how, struct ff_error *err)
{
	struct ff_lower_options opt = {.optimizer = x->optimizer,
			.workspace = ff_price_workspace,
			.ctx = x->pricer[0]};
	struct ff_schedule schedule;
	struct ff_strategy s;
	struct ff_arena a;
	int code;

	ff_arena_init(&a);
	code = make(x, name, how, &a, &s, err);
	if (code == FF_OK)
		code = ff_lower(&x->graph, &x->machine, &s, &opt, &a, &schedule, err);
	if (code == FF_E_INPUT) { /* the next line may do */
		printf("%s\n", err->text);
		code = FF_OK;
	} else if (code == FF_OK) {
		code = print_all(x, &schedule, &a, err);
	}
	fflush(stdout);
	ff_arena_finish(&a);
	return code;
}

static int run(const char *graph, const struct options *o, struct ff_error *err)
{
	struct steps x = {0};
	char line[LINE], how[LINE], name[LINE];
	int code;

	ff_arena_init(&x.arena);
	code = open_steps(&x, graph, o, err);
	while (code == FF_OK && fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%255s %255s", how, name) != 2 ||
				(strcmp(how, "whole") != 0 && strcmp(how, "tuned") != 0 &&
						strcmp(how, "plain") != 0))
			code = ff_fail(err, FF_E_INPUT,
					"expected \"tuned STRATEGY\", \"whole STRATEGY\" or "
					"\"plain STRATEGY\", not \"%.60s\"",
					line);
		else
			code = print_steps(&x, name, how, err);
	}
	close_steps(&x);
	return code;
}

int main(int argc, char **argv)
{
	struct options o = {.costs = "analytic", .optimizer = "sgd"};
	const struct ff_option options[] = {
			{"--machine", FF_OPTION_TEXT, &o.machine, "MACHINE", "file or name"},
			{"--devices", FF_OPTION_COUNT, &o.devices, "N",
					"its first N (preset: all)"},
			{"--costs", FF_OPTION_TEXT, &o.costs, "COSTS", "analytic (preset) or peak"},
			{"--optimizer", FF_OPTION_TEXT, &o.optimizer, "NAME", "preset sgd"},
			{"--framework", FF_OPTION_TEXTS, &o.frameworks, "NAME[:NUMBER]",
					"as ffsearch's; may be repeated"},
			{"--alike", FF_OPTION_FLAG, &o.alike, NULL,
					"no device is slower than another"},
	};
	const struct ff_command command = {.name = "bench-frameworks",
			.usage = "GRAPH --machine MACHINE [options] < STRATEGIES",
			.summary = "Prints what steps take as frameworks execute them.",
			.min_args = 1,
			.max_args = 1,
			.options = options,
			.n_options = sizeof(options) / sizeof(*options)};
	struct ff_error err = {0};
	const char *path;
	uint32_t n;
	bool done = false;
	int code = ff_cli_parse(&command, argc, argv, &path, &n, &done, &err);

	if (code == FF_OK && !done && strcmp(o.costs, "analytic") != 0 &&
			strcmp(o.costs, "peak") != 0)
		code = ff_fail(&err, FF_E_INPUT,
				"option --costs: expected analytic or peak, not \"%.60s\"",
				o.costs);
	if (code == FF_OK && !done && !o.machine)
		code = ff_fail(&err, FF_E_INPUT, "option --machine: expected one");
	if (code == FF_OK && !done)
		code = run(path, &o, &err);
	return ff_cli_end(&command, code, &err);
}
