/* Graphs and weights of ONNX models (https://onnx.ai): what torch.onnx.export writes, in
 * training and in evaluation mode, opsets 11 and later.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_H
#define FF_IMPORT_H

#include "ff/graph.h"
#include "ff/import_options.h"

/* Reads the model, builds its graph with a loss behind the output, and
 * writes the weights.  FF_E_INPUT names all operators that are not supported at once. */
int ff_import_onnx(const struct ff_import_options *opt, struct ff_arena *a, struct ff_graph *ret,
		struct ff_error *err);

#endif
