/* What a strategy file holds besides the strategy.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRATEGY_INFO_H
#define FF_STRATEGY_INFO_H

#include "ff/strategy.h"

struct ff_optimizer;

/* Time in tasks of a class (ff/task_class.h) in a step, summed over devices, and the time that
 * ready devices waited for them: for other devices, or for a busy link. */
struct ff_class_time {
	const char *name;
	double us, waited_us; /* waited_us NAN: unknown */
};

/* The machine and settings of a strategy, and its predicted figures. */
struct ff_strategy_info {
	const char *machine;
	uint32_t devices;
	double predicted_us;                 /* 0: unknown */
	const struct ff_class_time *classes; /* n_classes: its parts by class; 0: unknown */
	uint32_t n_classes;
	double disturbed_share;      /* of the samples of its costs; 0: none, or unknown */
	const int64_t *memory_bytes; /* by device; NULL: unknown */
	/* The settings that predicted_us and memory_bytes hold for. */
	const struct ff_optimizer *optimizer; /* NULL: the preset; never after ff_strategy_load */
	bool clip;                            /* gradients are clipped by their global norm */
	struct ff_travel travel;              /* of gradients */
	const char *costs;                    /* "analytic", "peak"; NULL: measured, or unknown */
	const char *framework;                /* NULL: our runtime */
	const char *communication; /* library that costs were measured with; NULL: unknown */
	/* Bucket size of the data parallelism that it was compared with; 0: the preset. */
	int64_t data_parallel_bucket_bytes;
};

#endif
