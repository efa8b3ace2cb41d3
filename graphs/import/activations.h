/* Activations that are several operators of the graph.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_ACTIVATIONS_H
#define FF_IMPORT_ACTIVATIONS_H

#include "importing.h"

const struct ff_onnx_row *ff_onnx_activation_row(const char *op);

#endif
