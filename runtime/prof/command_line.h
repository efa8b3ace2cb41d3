/* What the command line of ffprof says.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_COMMAND_LINE_H
#define FF_PROF_COMMAND_LINE_H

#include "ff/cli.h"

#define FF_PROF_ROUNDS 100 /* at most */
struct ff_prof_options {
	const char *graph, *machine, *device, *data, *out;
	const char *write_machine; /* NULL: not asked for */
	struct ff_texts strategies, rewrite;
	uint64_t devices, micro_batches; /* the most of both */
	uint64_t rounds;                 /* at most FF_PROF_ROUNDS; 0: one */
	double budget_s;                 /* 0: none */
	int64_t largest;                 /* message, copy or update, bytes; 0: as presets have it */
	bool replace, again, topology, kernels;
};

/* Reads and checks it; *done: it asked for help. */
extern const struct ff_command ff_prof_command;
int ff_prof_parse(int argc, char **argv, struct ff_prof_options *ret, bool *done,
		struct ff_error *err);

#endif
