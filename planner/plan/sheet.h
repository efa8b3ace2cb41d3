/* A strategy file as it stands, read without its graph: what ffplan shows and compares.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_SHEET_H
#define FF_PLANNER_SHEET_H

#include "ff/hash.h"
#include "ff/json.h"

struct ff_sheet_row {
	const char *name;
	const char *split;   /* "sample 8, out_feature 2, stage 1, again", "flat" */
	const char *devices; /* "0-15"; "": wherever its readers are */
	const struct ff_json *at;
};

struct ff_sheet {
	const char *path, *graph, *hash, *machine, *optimizer, *costs;
	uint32_t devices, micro_batches, chunks, stages;
	const char *order; /* of micro-batches */
	double predicted_us;
	int64_t least_bytes, most_bytes; /* a device; 0: the file does not say */
	uint32_t recomputed;             /* operators computed again */
	uint32_t flat, dropped;          /* parameters */
	bool scatter;                    /* gradients of these are scattered */
	uint32_t shards;                 /* these are cut in; 0: over all who read them */
	struct ff_sheet_row *row;
	uint32_t n;
	struct ff_table names; /* of rows */
	const struct ff_json *root;
};

/* FF_E_INPUT where the file is no strategy.  Memory from `a`. */
int ff_sheet_load(const char *path, struct ff_arena *a, struct ff_sheet *ret, struct ff_error *err);
/* The row called `name`, or NULL. */
const struct ff_sheet_row *ff_sheet_find(const struct ff_sheet *s, const char *name);

#endif
