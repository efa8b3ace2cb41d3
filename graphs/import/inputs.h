/* Inputs of a node as values of the graph.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_INPUTS_H
#define FF_IMPORT_INPUTS_H

#include "importing.h"

/* Input `i` as a value of the graph that is built, or a sentence that says that it is none. */
int ff_onnx_in_node(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		struct ff_onnx_value **ret);
/* All inputs in one node. */
int ff_onnx_many(struct ff_import *im, const Onnx__NodeProto *n, enum ff_op op,
		const union ff_attrs *attrs);

#endif
