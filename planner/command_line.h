/* What the command line of ffsearch says.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_COMMAND_LINE_H
#define FF_PLANNER_COMMAND_LINE_H

#include "ff/cli.h"
#include "ff/travel.h"

#define FF_PRESET_SECONDS 30.0
#define FF_PRESET_RESERVE 5.0
#define FF_PRESET_REGULAR 1.0
#define FF_MOST_JOBS 256
#define FF_MOST_SEEDS 1000
#define FF_MOST_KEYS 8 /* of --vary */
#define FF_NOT_GIVEN UINT64_MAX
#define FF_ALL_SPACE "updates,replicas,micro-batches,recompute"

/* What plans have to be like. */
struct ff_job_limits {
	struct ff_texts pin;
	bool no_pipeline, tensor_inside_node, torch;
	uint64_t max_micro; /* FF_NOT_GIVEN: any number */
	const char *map;    /* of the module, where `torch` */
};

/* How plans are chosen. */
struct ff_job_choice {
	uint64_t top, seeds; /* FF_NOT_GIVEN: as many as there is time for */
	double reserve;      /* percent of memory that stays free; */
	bool reserve_given;
	double regular; /* that a step may take longer for equal layers that are alike */
	double beta;    /* of acceptance; 0: chosen */
};

/* Files beside plan and report. */
struct ff_job_beside {
	const char *trace_path, *html_path, *certificate_path;
};

/* What the command line said. */
struct ff_job_options {
	const char *graph_path, *machine_name, *costs_path, *simulate, *optimizer_name,
			*framework_name;
	const char *strategy_path, *report_path, *list;
	struct ff_job_beside beside;
	struct ff_texts init, vary, rewrite;
	uint64_t devices, proposals, seed, jobs;
	struct ff_travel_options travel;
	double seconds;
	int64_t memory; /* 0: what the machine says */
	struct ff_job_limits limits;
	struct ff_job_choice choice;
	bool clip, by_nodes, explain, oracle;
	const char *space_text;
	uint32_t what; /* FF_SPACE_* */
};

/* Reads it, and what holds where it says nothing; *done: it asked for help. */
extern const struct ff_command ff_job_command;
int ff_job_parse(int argc, char **argv, struct ff_job_options *ret, bool *done,
		struct ff_error *err);

#endif
