/* Ways to compute something are timed on the device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_TUNE_H
#define FF_CUDA_TUNE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

struct ff_trial {
	int64_t n;     /* ways, in the order of heuristics */
	int64_t bytes; /* of zeroed memory (a NaN could take longer) for all that is read and
			  written */
	const void *arg;
	/* Gives way `i` to the queue; false: it cannot be. */
	bool (*run)(const void *arg, int64_t i, char *memory, cudaStream_t queue);
};

/* The number of the fastest; the first where there is no memory, or nothing runs. */
int64_t ff_tune(const struct ff_trial *t);
/* Takes `bytes` from the end of such memory; where they begin. */
int64_t ff_trial_take(struct ff_trial *t, int64_t bytes);

#endif
