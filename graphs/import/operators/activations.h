/* Softmax, and activations that are several operators of the graph.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_IMPORT_ACTIVATIONS_H
#define FF_IMPORT_ACTIVATIONS_H

#include "import/importing.h"

int ff_onnx_softmax(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_log_softmax(struct ff_import *im, const Onnx__NodeProto *n);
const struct ff_onnx_row *ff_onnx_activation_row(const char *op);

#endif
