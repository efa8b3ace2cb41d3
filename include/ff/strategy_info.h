/* What a strategy file says beside the strategy.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_STRATEGY_INFO_H
#define FF_STRATEGY_INFO_H

#include "ff/strategy.h"

struct ff_optimizer;

/* What the tasks of a class (ff/task_class.h) take in a step, all devices together; and how long
 * devices that were ready for them waited: for other devices, or for a link that others held. */
struct ff_class_time {
	const char *name;
	double us, waited_us; /* of waits, NAN: unknown */
};

/* For which machine and settings it is, and what is predicted of it. */
struct ff_strategy_info {
	const char *machine;
	uint32_t devices;
	double predicted_us;                 /* 0: unknown */
	const struct ff_class_time *classes; /* n_classes, what that is made of; 0: unknown */
	uint32_t n_classes;
	double disturbed_share;      /* of the costs behind it; 0: none, or unknown */
	const int64_t *memory_bytes; /* by device; NULL: unknown */
	/* What predicted_us and memory_bytes hold for. */
	const struct ff_optimizer *optimizer; /* NULL: the preset; never after ff_strategy_load */
	bool clip;                            /* gradients are clipped by their global norm */
	struct ff_travel travel;              /* of gradients */
	const char *costs;                    /* "analytic", "peak"; NULL: measured, or unknown */
	const char *framework;                /* NULL: our runtime */
	const char *communication;            /* that costs were measured with; NULL: unknown */
	/* Buckets of the data parallelism that it was compared with; 0: the preset. */
	int64_t data_parallel_bucket_bytes;
};

#endif
