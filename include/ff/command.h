/* What a command takes: one table for parsing, help, manual pages and completion.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMMAND_H
#define FF_COMMAND_H

#include <stdint.h>
#include <stdio.h>

#include "ff/error.h"

enum ff_option_type {
	FF_OPTION_FLAG,    /* bool * */
	FF_OPTION_TEXT,    /* const char ** */
	FF_OPTION_TEXTS,   /* struct ff_texts *: may be repeated */
	FF_OPTION_COUNT,   /* uint64_t *: decimal */
	FF_OPTION_REAL,    /* double * */
	FF_OPTION_BYTES,   /* int64_t *: 1000000, 512M = 512MiB (1024s), 16GB (1000s) */
	FF_OPTION_SECONDS, /* double *: 30s, 5m, 1h, 30 */
};
struct ff_texts {
	const char *text[32];
	uint32_t n;
};
struct ff_option {
	const char *name; /* "--budget" or "-o" */
	enum ff_option_type type;
	void *value;
	const char *argument; /* word for the help text, e.g. "SECONDS" */
	const char *help;
	/* writes what there is to `to` when the value is "list" */
	int (*list)(FILE *to, struct ff_error *err);
	/* for completion: what may stand there beside a file; NULL-terminated, or NULL */
	const char *const *words;
};
struct ff_command {
	const char *name;
	const char *usage;   /* what follows the name, one form a line */
	const char *summary; /* one or two sentences */
	const char *details; /* examples, exit status: printed by --help */
	const struct ff_option *options;
	uint32_t n_options;
	uint32_t min_args, max_args;
	const char *const *words; /* for completion: of operands, as ff_option.words */
};

#endif
