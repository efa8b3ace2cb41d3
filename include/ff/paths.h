/* Paths on a command line, looked at before it works for hours.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PATHS_H
#define FF_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"

/* A file as the user named it. */
struct ff_path {
	const char *name; /* the option or the operand: "--report", "GRAPH" */
	const char *path; /* NULL: not given; "-": standard output, or input */
};

/* Where a file lies, behind links; it need not be there yet, its folder must, else false and errno.
 * `ret` has room for 2 * PATH_MAX. */
bool ff_path_locate(const char *path, char *ret);
/* FF_E_INPUT where two of `out` are one file (or both standard output), or one would replace one of
 * `in`, however the paths are spelt and linked. */
int ff_paths_apart(const struct ff_path *out, uint32_t n_out, const struct ff_path *in,
		uint32_t n_in, struct ff_error *err);
/* The same, and FF_E_IO where one of `out` cannot be written. */
int ff_paths_check(const struct ff_path *out, uint32_t n_out, const struct ff_path *in,
		uint32_t n_in, struct ff_error *err);
/* FF_E_INPUT where one of `in` cannot be read by each of several ranks: a pipe gives what it has
 * but once. */
int ff_paths_check_shared(
		const struct ff_path *in, uint32_t n_in, uint32_t ranks, struct ff_error *err);
/* Whether one of `out` is standard output, where nothing else should be then. */
bool ff_paths_piped(const struct ff_path *out, uint32_t n_out);

#endif
