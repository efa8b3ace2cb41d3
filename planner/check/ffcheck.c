/* ffcheck: works out again what a certificate of ffsearch claims.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "certificate.h"
#include "ff/cli.h"
#include "ff/graph_file.h"
#include "ff/optimizer.h"
#include "ff/process.h"
#include "ff/simulate.h"
#include "ff/strategy_file.h"

static const struct ff_command about = {
		.name = "ffcheck",
		.usage = "GRAPH MACHINE COSTS|analytic|peak PLAN CERTIFICATE [--by-nodes]",
		.summary = "Verifies that no strategy of GRAPH on MACHINE is faster than "
			   "CERTIFICATE says, by these costs, and says how far PLAN is from that.",
		.details = "  ffsearch net.json --machine dgx-a100-40:2 --costs analytic \\\n"
			   "      -o plan.json --certificate proof.json\n"
			   "  ffcheck net.json dgx-a100-40:2 analytic plan.json proof.json\n"
			   "\n"
			   "Exit status: 0 verified, 1 not verified, 2 bad usage or input.\n",
		.min_args = 5,
		.max_args = 5,
};

struct check {
	const char *graph_path, *machine_name, *costs_path, *plan_path, *certificate_path;
	bool by_nodes;
	struct ff_arena arena;
	struct ff_graph graph;
	struct ff_machine machine;
	enum ff_estimate estimate;
	struct ff_costs *costs;
	struct ff_pricer *pricer;
	struct ff_strategy plan;
	struct ff_strategy_info info;
	struct ff_certificate certificate;
};

static int load_machine(struct check *c, struct ff_error *err)
{
	struct ff_machine whole;
	int code = ff_machine_load(c->machine_name, &c->arena, &whole, err);

	if (code == FF_OK && c->certificate.devices > whole.n_devices)
		code = ff_fail(err, FF_E_INPUT, "%s is for %u devices, but machine %s has %u",
				c->certificate_path, c->certificate.devices, whole.name,
				whole.n_devices);
	if (code == FF_OK)
		code = ff_machine_subset(
				&whole, c->certificate.devices, &c->arena, &c->machine, err);
	return code;
}

static int load(struct check *c, struct ff_error *err)
{
	int code = ff_graph_load(c->graph_path, &c->arena, &c->graph, err);

	/* first: the certificate is about the graph as the plan rewrites it */
	if (code == FF_OK)
		code = ff_strategy_load_rewritten(c->plan_path, &c->graph, FF_MAX_DEVICES,
				&c->arena, &c->plan, &c->info, err);
	if (code == FF_OK)
		code = ff_certificate_load(
				c->certificate_path, &c->graph, &c->arena, &c->certificate, err);
	if (code == FF_OK)
		code = load_machine(c, err);
	if (code == FF_OK && !ff_estimate_named(c->costs_path, &c->estimate))
		code = ff_costs_load(c->costs_path, &c->costs, err);
	if (code == FF_OK && c->info.devices > c->machine.n_devices)
		code = ff_fail(err, FF_E_INPUT,
				"%s: the strategy is for %u devices but there are %u", c->plan_path,
				c->info.devices, c->machine.n_devices);
	return code;
}

/* That plan, certificate and command line mean the same. */
static int check_same(const struct check *c, struct ff_error *err)
{
	const struct ff_certificate *p = &c->certificate;
	const char *costs = c->costs ? FF_CERTIFIED_MEASURED : c->costs_path;

	if (strcmp(p->machine, c->machine.name) != 0)
		return ff_fail(err, FF_E_INPUT, "%s is for machine %.60s, not %.60s",
				c->certificate_path, p->machine, c->machine.name);
	if (strcmp(p->costs, costs) != 0)
		return ff_fail(err, FF_E_INPUT, "%s is by costs that are %.20s, not %s",
				c->certificate_path, p->costs, costs);
	if (strcmp(p->optimizer, c->info.optimizer->name) != 0)
		return ff_fail(err, FF_E_INPUT, "%s is for optimizer %.20s, %s for %s",
				c->certificate_path, p->optimizer, c->plan_path,
				c->info.optimizer->name);
	if (c->info.framework)
		return ff_fail(err, FF_E_INPUT, "%s is as another framework executes it",
				c->plan_path);
	return FF_OK;
}

static int open_pricer(struct check *c, struct ff_error *err)
{
	int code = ff_pricer_create(&c->graph, &c->machine, c->estimate, c->costs,
			c->costs ? c->costs_path : NULL, c->graph_path, &c->pricer, err);

	if (code < 0)
		return code;
	ff_pricer_set_clip(c->pricer, c->info.clip);
	ff_pricer_set_travel(c->pricer, &c->info.travel);
	if (c->by_nodes)
		ff_pricer_set_by_nodes(c->pricer, true);
	return ff_pricer_set_optimizer(c->pricer, c->info.optimizer, err);
}

static int price_plan(struct check *c, double *us, struct ff_error *err)
{
	const struct ff_lower_options opt = {.optimizer = c->info.optimizer,
			.clip = c->info.clip,
			.travel = c->info.travel,
			.workspace = ff_price_workspace,
			.ctx = c->pricer};
	struct ff_schedule schedule;
	struct ff_simulation sim;
	int code = ff_lower(&c->graph, &c->machine, &c->plan, &opt, &c->arena, &schedule, err);

	if (code == FF_OK)
		code = ff_simulate(&schedule, c->pricer, &c->arena, &sim, err);
	if (code == FF_OK)
		*us = sim.step_us;
	return code;
}

/* That the plan is of the space, and no proof of the opposite. */
static int check_plan(const struct check *c, double us, struct ff_error *err)
{
	const struct ff_certificate *p = &c->certificate;
	bool known = false;

	for (uint32_t i = 0; i < p->n_parts; i++)
		known = known || p->part[i].micro_batches == c->plan.micro_batches;
	if (!known)
		return ff_fail(err, FF_E_RUN,
				"%s has %u micro-batch%s, of which the certificate says nothing",
				c->plan_path, c->plan.micro_batches,
				c->plan.micro_batches == 1 ? "" : "es");
	if (us < p->us)
		return ff_fail(err, FF_E_RUN,
				"%s takes %.9g us, less than the %.9g us that the certificate says",
				c->plan_path, us, p->us);
	return FF_OK;
}

/* The least number of micro-batches above `last`. */
static uint32_t next_micro(const struct ff_certificate *p, uint32_t last)
{
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < p->n_parts; i++)
		if (p->part[i].micro_batches > last && p->part[i].micro_batches < least)
			least = p->part[i].micro_batches;
	return least;
}

static void print(const struct check *c, double us)
{
	const struct ff_certificate *p = &c->certificate;
	uint32_t micro = 0;

	printf("verified: no strategy of %s on %u device%s of %s, in", c->graph.name, p->devices,
			p->devices == 1 ? "" : "s", p->machine);
	for (uint32_t i = 0; i < p->n_parts; i++) {
		micro = next_micro(p, micro);
		printf("%s %u", !i ? "" : i + 1 == p->n_parts ? " or" : ",", micro);
	}
	printf(" micro-batch%s, is faster than %.3f ms\n",
			p->n_parts == 1 && p->part[0].micro_batches == 1 ? "" : "es", p->us / 1e3);
	printf("%s takes %.3f ms: %.1f %% more at most than the best\n", c->plan_path, us / 1e3,
			(us / p->us - 1) * 100);
}

static int verify(struct check *c, struct ff_error *err)
{
	struct ff_error why;
	int code = ff_certificate_verify(&c->certificate, &c->graph, &c->machine, c->pricer, &why);

	if (code == FF_E_RUN)
		return ff_fail(err, code, "%s: %s", c->certificate_path, why.text);
	if (code < 0)
		*err = why;
	return code;
}

static int run(struct check *c, struct ff_error *err)
{
	double us;
	int code = load(c, err);

	if (code == FF_OK)
		code = check_same(c, err);
	if (code == FF_OK)
		code = open_pricer(c, err);
	if (code == FF_OK)
		code = verify(c, err);
	if (code == FF_OK)
		code = price_plan(c, &us, err);
	if (code == FF_OK)
		code = check_plan(c, us, err);
	if (code == FF_OK)
		print(c, us);
	return code;
}

int main(int argc, char **argv)
{
	struct check c = {.by_nodes = false};
	const struct ff_option options[] = {
			{"--by-nodes", FF_OPTION_FLAG, &c.by_nodes, NULL,
					"PLAN's collectives go in stages, within nodes and between "
					"them"},
	};
	struct ff_command command = about;
	struct ff_error err = {0};
	const char *args[5];
	bool done = false;
	uint32_t n = 0;
	int code;

	command.options = options;
	command.n_options = sizeof(options) / sizeof(options[0]);
	ff_process_begin(command.name);
	ff_arena_init(&c.arena);
	code = ff_cli_parse(&command, argc, argv, args, &n, &done, &err);
	if (code == FF_OK && !done) {
		c.graph_path = args[0];
		c.machine_name = args[1];
		c.costs_path = args[2];
		c.plan_path = args[3];
		c.certificate_path = args[4];
		code = run(&c, &err);
	}
	ff_pricer_destroy(c.pricer);
	ff_costs_destroy(c.costs);
	ff_arena_finish(&c.arena);
	return ff_cli_end(&command, code, &err);
}
