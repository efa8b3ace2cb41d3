/* The command line of ffprof.  SPDX-License-Identifier: Apache-2.0 */
#include "command_line.h"

#include <string.h>

#include "ff/machine.h"
#include "ff/micro.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MOST_OPTIONS 24

static const char details[] =
		"Measures every kernel that a strategy for GRAPH on M's devices may run, and the\n"
		"communication among the devices of one node, all ranks at once.  Under mpirun or\n"
		"srun on several hosts, that between them too, one rank a device.  What COSTS has\n"
		"already is not measured again; what was measured is kept when ffprof is stopped.\n"
		"COSTS is for one machine, and so many ranks and threads on it.  Samples that "
		"other\n"
		"programs disturbed are repeated; what they spoilt all the same is marked in "
		"COSTS.\n"
		"\n"
		"  ffprof lenet.json --machine cpu2 -o costs.json\n"
		"  ffprof lenet.json --machine cpu2 -o costs.json --strategy plan.json\n"
		"  mpirun --hostfile hosts -n 16 ffprof --topology\n"
		"\n"
		"Exit status: 0 done, 1 failed at run time, 2 bad usage or bad input.\n";

const struct ff_command ff_prof_command = {
		.name = "ffprof",
		.usage = "GRAPH --machine M -o COSTS [options]\n--topology [--machine M]",
		.summary = "Measures kernels and communication for ffsearch.",
		.details = details,
		.max_args = 1,
};

/* What goes together. */
static int check(const struct ff_prof_options *o, struct ff_error *err)
{
	if ((o->graph != NULL) == o->topology)
		return ff_fail(err, FF_E_INPUT,
				o->graph ? "--topology measures nothing: expected no GRAPH"
					 : "expected GRAPH, or --topology; see ffprof --help");
	if (o->topology)
		return FF_OK;
	if (!o->machine)
		return ff_fail(err, FF_E_INPUT, "expected --machine FILE or NAME");
	if (o->micro_batches > FF_MAX_MICRO_BATCHES)
		return ff_fail(err, FF_E_INPUT, "option --micro-batches: expected at most %d",
				FF_MAX_MICRO_BATCHES);
	if (o->rounds > FF_PROF_ROUNDS)
		return ff_fail(err, FF_E_INPUT, "option --rounds: expected at most %d",
				FF_PROF_ROUNDS);
	if (o->kernels && o->write_machine)
		return ff_fail(err, FF_E_INPUT,
				"option --kernels: --write-machine needs links, which are not "
				"measured then");
	if (!o->out)
		return ff_fail(err, FF_E_INPUT, "expected -o COSTS");
	return FF_OK;
}

/* What is measured: of which splits, on what, and where figures go. */
static uint32_t list_subject(struct ff_prof_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"--machine", FF_OPTION_TEXT, &o->machine, "M[:NODES]",
					"machine file or name (list: prints those that there are), "
					"and of how many nodes, if not what the file says",
					ff_machine_list},
			{"-o", FF_OPTION_TEXT, &o->out, "COSTS", "cost file, made or completed"},
			{"--write-machine", FF_OPTION_TEXT, &o->write_machine, "FILE",
					"write the machine that the ranks are: nodes as they lie "
					"on hosts, links as measured, devices as M's first"},
			{"--device", FF_OPTION_TEXT, &o->device, "KIND", "cpu or cuda"},
			{"--devices", FF_OPTION_COUNT, &o->devices, "N",
					"splits for up to N of the machine's devices"},
			{"--micro-batches", FF_OPTION_COUNT, &o->micro_batches, "N",
					"also of halves, quarters and so on of the batch, up to N "
					"parts, so that ffsearch may use them (preset 1)"},
			{"--strategy", FF_OPTION_TEXTS, &o->strategies, "FILE",
					"only what this strategy, and data parallelism, need\n(may "
					"be repeated)"},
			{"--rewrite", FF_OPTION_TEXTS, &o->rewrite, "PATTERN",
					"what the graph needs with products merged, as ffsearch "
					"has it: all, or those whose first one's name matches (may "
					"be repeated)"},
			{"--data", FF_OPTION_TEXT, &o->data, "D",
					"data set whose loading is timed (synthetic)"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

/* How much of it, and how well. */
static uint32_t list_effort(struct ff_prof_options *o, struct ff_option *ret)
{
	const struct ff_option list[] = {
			{"--budget", FF_OPTION_SECONDS, &o->budget_s, "TIME",
					"stop after this time, to be continued by another run"},
			{"--largest", FF_OPTION_BYTES, &o->largest, "SIZE",
					"copies, updates and messages of no more than this: "
					"quicker, and enough where values are small (64M)"},
			{"--kernels", FF_OPTION_FLAG, &o->kernels, NULL,
					"measure kernels alone: neither copies and updates nor "
					"communication, which ffsearch needs, too"},
			{"--rounds", FF_OPTION_COUNT, &o->rounds, "N",
					"measure kernels, rates and what is inside a node in so "
					"many rounds, of which the middle one counts: for machines "
					"that others use, too (preset 1)"},
			{"--again", FF_OPTION_FLAG, &o->again, NULL,
					"also measure what something else disturbed when it was "
					"measured"},
			{"--topology", FF_OPTION_FLAG, &o->topology, NULL,
					"only print what the hosts are made of, where ranks lie on "
					"them, and what is doubtful about that; without GRAPH"},
			{"--replace", FF_OPTION_FLAG, &o->replace, NULL,
					"if COSTS was measured on another machine, or with other "
					"ranks, threads or libraries: measure it anew"},
	};

	memcpy(ret, list, sizeof(list));
	return COUNT(list);
}

int ff_prof_parse(int argc, char **argv, struct ff_prof_options *ret, bool *done,
		struct ff_error *err)
{
	struct ff_command c = ff_prof_command;
	struct ff_option options[MOST_OPTIONS];
	const char *args[1];
	uint32_t n;
	int code;

	*ret = (struct ff_prof_options){0};
	c.options = options;
	c.n_options = list_subject(ret, options);
	c.n_options += list_effort(ret, options + c.n_options);
	code = ff_cli_parse(&c, argc, argv, args, &n, done, err);
	if (code < 0 || *done)
		return code;
	ret->graph = n ? args[0] : NULL;
	return check(ret, err);
}
