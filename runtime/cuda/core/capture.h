/* Captured work.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_CAPTURE_H
#define FF_CUDA_CAPTURE_H

#include "stream.h"

extern const struct ff_captures ff_cuda_captures;

/* captured.c */
struct ff_captured {
	struct ff_device *dev;
	cudaGraphExec_t graph;
	struct ff_kernel **suspect;
	uint32_t n_suspects, cap_suspects;
	const struct ff_watcher *watcher; /* or NULL */
};

/* While it is captured: each launch suspects `k`, and sets the watcher. */
int ff_captured_suspect(struct ff_captured *c, struct ff_kernel *k, struct ff_error *err);
void ff_captured_watch(struct ff_captured *c, const struct ff_watcher *w);

#endif
