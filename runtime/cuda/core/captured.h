/* What a captured pass is to ask about once it has run.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CAPTURED_H
#define FF_CUDA_CAPTURED_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "ff/error.h"

struct ff_device;
struct ff_kernel;
struct ff_watcher;

struct ff_captured {
	struct ff_device *dev;
	cudaGraphExec_t graph;
	struct ff_kernel **unchecked;
	uint32_t n_unchecked, cap_unchecked;
	const struct ff_watcher *watcher; /* or NULL */
};

/* While it is captured: what each launch has checked later, and who watches it. */
int ff_captured_check_later(struct ff_captured *c, struct ff_kernel *k, struct ff_error *err);
void ff_captured_watch(struct ff_captured *c, const struct ff_watcher *w);

#endif
