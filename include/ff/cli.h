/* Command lines: options, progress lines, exit.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CLI_H
#define FF_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ff/clock.h"
#include "ff/command.h"
#include "ff/error.h"

/* Parses argv.  --help, -h, --version and what lists print and give *done = true; so does
 * --help=man, a page in roff, and --help=bash, zsh and fish, what those shells complete by. Options
 * may stand anywhere; "--name=value" works; "--" ends them.  Operands go to `args` (room for
 * max_args).  A bad option is FF_E_INPUT in one sentence. */
int ff_cli_parse(const struct ff_command *c, int argc, char **argv, const char **args,
		uint32_t *n_args, bool *done, struct ff_error *err);
/* Prints "name: sentence" on stderr when `code` < 0; returns the exit status.  Where all
 * went well but standard output did not take what was printed, that is a failure, too. */
int ff_cli_end(const struct ff_command *c, int code, const struct ff_error *err);

/* The environment's word on something that is on or off: 0 or 1; without one *value stays. */
int ff_cli_switch(const char *name, bool *value, struct ff_error *err);

/* The environment's word on a whole number; FF_E_INPUT where it is not within bounds.  Without one
 * *value stays. */
int ff_cli_count(const char *name, int64_t least, int64_t most, int64_t *value,
		struct ff_error *err);

/* A line that rewrites itself on stderr, only when that is a terminal. */
struct ff_progress {
	bool on, shown;
	double last; /* seconds, monotonic */
};
void ff_progress_start(struct ff_progress *p);
/* At most ten times a second; `done` in [0, 1] gives the ETA. */
void ff_progress_show(struct ff_progress *p, double done, double seconds, const char *fmt, ...)
		__attribute__((format(printf, 4, 5)));
void ff_progress_end(struct ff_progress *p);

#endif
