/* cuDNN's engines and how their knobs are set, as text and back.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_ENGINE_H
#define FF_CUDA_ENGINE_H

#include <cudnn.h>
#include <stdbool.h>

#include "plans.h"

/* A configuration and what it was made of. */
struct ff_engine {
	cudnnBackendDescriptor_t config, engine;
	cudnnBackendDescriptor_t knob[CUDNN_KNOB_TYPE_COUNTS];
	int64_t n;
};

/* Writes down the engine of a configuration and its knobs; false where cuDNN does not tell. */
bool ff_engine_print(cudnnBackendDescriptor_t config, char text[FF_PLANS_TEXT]);
/* That engine, for a graph of operations; false where this cuDNN has none such.  To be finished
 * in either case, and not before a plan was made of it. */
bool ff_engine_init(struct ff_engine *e, cudnnBackendDescriptor_t graph,
		const char text[FF_PLANS_TEXT]);
void ff_engine_finish(struct ff_engine *e);

#endif
