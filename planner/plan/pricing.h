/* What a plan takes on a machine: its step and its memory.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_PRICE_H
#define FF_PLANNER_PRICE_H

#include "ff/price.h"
#include "ff/strategy_file.h"

/* What to price with; the caller fills the first four. */
struct ff_pricing {
	const char *graph_path, *machine_name;
	const char *costs_path; /* a file, or a word for estimates */
	struct ff_arena *a;
	struct ff_graph graph;
	struct ff_machine machine; /* of as many devices as the plan has */
	struct ff_costs *costs;
	enum ff_estimate estimate;
};

struct ff_priced {
	double step_us;
	int64_t least_bytes, most_bytes; /* a device */
	const int64_t *memory_bytes;     /* by device */
	int64_t sent_bytes;
	bool fits;
};

int ff_pricing_load_graph(struct ff_pricing *p, struct ff_error *err);
/* Machine and costs; of the machine the first `devices`, 0: all. */
int ff_pricing_load_machine(struct ff_pricing *p, uint32_t devices, struct ff_error *err);
/* With what `info` says of the optimizer and of how gradients travel. */
int ff_pricing_do(struct ff_pricing *p, const struct ff_strategy *s,
		const struct ff_strategy_info *info, struct ff_priced *ret, struct ff_error *err);
/* Finds the buckets of `s`, from the preset on. */
int ff_pricing_tune(struct ff_pricing *p, const struct ff_strategy_info *info,
		struct ff_strategy *s, struct ff_error *err);
/* The plan in a file. */
int ff_pricing_file(struct ff_pricing *p, const char *path, struct ff_priced *ret,
		struct ff_error *err);
/* Accepts a zeroed one. */
void ff_pricing_finish(struct ff_pricing *p);

#endif
