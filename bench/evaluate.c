/* How long one evaluation takes, by the number of micro-batches, with equal ones folded and
 * without.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ff/cli.h"
#include "ff/evaluate.h"
#include "ff/micro.h"
#include "ff/starts.h"
#include "ff/zoo.h"

#define ROUNDS 7
#define ROUND_US 5e4 /* at least */

struct options {
	struct ff_texts micro_batches;
	const char *net, *machine;
	uint64_t batch, devices;
	bool gpipe;
};

struct bench {
	struct ff_arena arena;
	struct ff_graph g;
	struct ff_machine m;
	struct ff_pricer *p;
	struct ff_space *space;
	struct ff_strategy s;
	struct ff_evaluator *e;
};

/* What evaluations take, of a strategy and of a proposal, and say. */
struct figures {
	double set_us, propose_us, step_us;
};

static int open_bench(struct bench *b, const struct options *o, struct ff_error *err)
{
	struct ff_machine whole;
	int code = ff_zoo_build(o->net, (uint32_t)o->batch, NULL, 0, &b->arena, &b->g, err);

	if (code == FF_OK)
		code = ff_machine_load(o->machine, &b->arena, &whole, err);
	if (code == FF_OK)
		code = ff_machine_subset(&whole, (uint32_t)o->devices, &b->arena, &b->m, err);
	if (code == FF_OK)
		code = ff_pricer_create(
				&b->g, &b->m, FF_ESTIMATE_PEAK, NULL, NULL, o->net, &b->p, err);
	if (code == FF_OK)
		code = ff_space_create(&b->g, &b->m, &b->space, err);
	if (code == FF_OK)
		code = ff_init_strategy(
				"data-parallel", b->space, &b->g, &b->m, 0, &b->arena, &b->s, err);
	if (o->gpipe)
		b->s.rule = FF_ORDER_GPIPE;
	return code;
}

static void close_bench(struct bench *b)
{
	ff_space_destroy(b->space);
	ff_pricer_destroy(b->p);
	ff_arena_finish(&b->arena);
}

/* The operator's samples on half as many devices. */
static struct ff_change halve(const struct bench *b, uint32_t node)
{
	struct ff_change c = {node, b->s.config[node]};

	for (uint32_t i = 0; i < FF_MAX_DIMS; i++)
		if (c.config.degree[i] == c.config.n_parts)
			c.config.degree[i] /= 2;
	c.config.n_parts /= 2;
	return c;
}

/* Every operator in turn is proposed elsewhere, and dropped. */
static int propose_all(struct bench *b, uint32_t *n, struct ff_error *err)
{
	struct ff_evaluation v;
	int code = FF_OK;

	for (uint32_t i = 0; i < b->g.n_nodes && code == FF_OK; i++) {
		struct ff_change c = halve(b, i);

		if (!ff_node_needs_config(&b->g, i) || c.config.n_parts == 0)
			continue;
		code = ff_evaluator_propose(b->e, &c, 1, &v, err);
		ff_evaluator_drop(b->e);
		++*n;
	}
	return code;
}

/* Microseconds a time: the least of some rounds, as others may use the machine. */
static int measure(struct bench *b, struct figures *ret, struct ff_error *err)
{
	struct ff_evaluation v = {0};
	int code = FF_OK;

	*ret = (struct figures){1e30, 1e30, 0};
	for (int round = 0; round < ROUNDS && code == FF_OK; round++) {
		uint32_t sets = 0, proposals = 0;
		double from = ff_clock_us(), us;

		for (us = 0; us < ROUND_US && code == FF_OK; us = ff_clock_us() - from, sets++)
			code = ff_evaluator_set(b->e, &b->s, &v, err);
		if (us / sets < ret->set_us)
			ret->set_us = us / sets;
		from = ff_clock_us();
		for (us = 0; us < ROUND_US && code == FF_OK; us = ff_clock_us() - from)
			code = propose_all(b, &proposals, err);
		if (us / proposals < ret->propose_us)
			ret->propose_us = us / proposals;
	}
	ret->step_us = v.step_us;
	return code;
}

static int run_one(struct bench *b, uint32_t micro_batches, struct ff_error *err)
{
	struct figures f[2];
	int code = FF_OK;

	b->s.micro_batches = micro_batches;
	for (int folds = 0; folds < 2 && code == FF_OK; folds++) {
		code = ff_evaluator_create(&b->g, &b->m, b->p, 0, 0, &b->e, err);
		if (code < 0)
			return code;
		ff_evaluator_fold(b->e, folds);
		code = measure(b, &f[folds], err);
		ff_evaluator_destroy(b->e);
	}
	if (code < 0)
		return code;
	if (f[0].step_us != f[1].step_us)
		return ff_fail(err, FF_E_RUN, "folding changed the step time of %u micro-batches",
				micro_batches);
	printf("%13u %11.3f %13.0f %13.0f %13.0f %13.0f\n", micro_batches, f[0].step_us / 1e3,
			f[0].set_us, f[1].set_us, f[0].propose_us, f[1].propose_us);
	fflush(stdout);
	return FF_OK;
}

static int read_count(const char *text, uint32_t *ret, struct ff_error *err)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (end == text || *end || v < 1 || v > FF_MAX_MICRO_BATCHES)
		return ff_fail(err, FF_E_INPUT,
				"option --micro-batches: expected a whole number from 1 to %d, not "
				"\"%.60s\"",
				FF_MAX_MICRO_BATCHES, text);
	*ret = (uint32_t)v;
	return FF_OK;
}

static int run(const struct options *o, struct ff_error *err)
{
	struct bench b = {.g = {0}};
	int code;

	ff_arena_init(&b.arena);
	code = open_bench(&b, o, err);
	if (code == FF_OK)
		printf("%s, batch %llu, data parallelism on %llu devices of %s, %s, costs by peak "
		       "rates; microseconds\nof one core for a whole strategy and for a proposal "
		       "of one operator\n\n"
		       "micro-batches     step ms     set, plain   set, folded proposal, "
		       "plain   folded\n",
				o->net, (unsigned long long)o->batch,
				(unsigned long long)o->devices, o->machine,
				o->gpipe ? "gpipe" : "1f1b");
	for (uint32_t i = 0; i < o->micro_batches.n && code == FF_OK; i++) {
		uint32_t n;

		code = read_count(o->micro_batches.text[i], &n, err);
		if (code == FF_OK)
			code = run_one(&b, n, err);
	}
	close_bench(&b);
	return code;
}

static const struct ff_texts preset_counts = {{"1", "4", "16", "64"}, 4};

int main(int argc, char **argv)
{
	struct options o = {
			.net = "inception_v3", .machine = "p100x16", .batch = 1024, .devices = 16};
	const struct ff_option options[] = {
			{"--net", FF_OPTION_TEXT, &o.net, "NAME",
					"network of the zoo (preset: inception_v3)"},
			{"--machine", FF_OPTION_TEXT, &o.machine, "MACHINE", "(preset: p100x16)"},
			{"--devices", FF_OPTION_COUNT, &o.devices, "N", "of it (preset: 16)"},
			{"--batch", FF_OPTION_COUNT, &o.batch, "N", "samples (preset: 1024)"},
			{"--micro-batches", FF_OPTION_TEXTS, &o.micro_batches, "N",
					"how many; may be repeated (preset: 1, 4, 16 and 64)"},
			{"--gpipe", FF_OPTION_FLAG, &o.gpipe, NULL, "that order, not 1f1b"},
	};
	const struct ff_command command = {
			.name = "bench-evaluate",
			.usage = "[options]",
			.summary = "Prints how long one evaluation takes, by micro-batches, folded "
				   "and "
				   "not.",
			.options = options,
			.n_options = sizeof(options) / sizeof(*options),
	};
	struct ff_error err = {0};
	uint32_t n_args;
	bool done = false;
	int code = ff_cli_parse(&command, argc, argv, NULL, &n_args, &done, &err);

	if (!o.micro_batches.n)
		o.micro_batches = preset_counts;
	if (code == FF_OK && !done)
		code = run(&o, &err);
	return ff_cli_end(&command, code, &err);
}
