/* Folding: rows whose names differ in numbers alone, and that say the same, are one row.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_NAME_FOLD_H
#define FF_NAME_FOLD_H

#include <stddef.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/error.h"

struct ff_fold_row {
	const char *name; /* "block3.mlp.up" */
	const char *says; /* rows are one only where this is equal */
};
struct ff_folded {
	const char *name; /* "block0-47.mlp.up", "layer1,3.0-2.conv1" */
	uint32_t first;   /* the row that it begins with */
	uint32_t n;       /* rows */
};

/* Numbers are what stands before a dot.  Folded rows stand where the first of each stood.  Memory
 * from `a`. */
int ff_fold(const struct ff_fold_row *row, uint32_t n, struct ff_arena *a, struct ff_folded **ret,
		uint32_t *n_ret, struct ff_error *err);

/* Numbers as people list them: "0-7", "0-12 step 4", "0-3,8-11", cut after some with three dots.
 * `number` is sorted and has no number twice; `size` is at least 32. */
void ff_fold_numbers(const uint32_t *number, uint32_t n, char *buf, size_t size);

#endif
