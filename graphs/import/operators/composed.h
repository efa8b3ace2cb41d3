/* Operators that several of the graph's are.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_COMPOSED_H
#define FF_IMPORT_COMPOSED_H

#include "import/importing.h"

int ff_onnx_tile(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_running_sum(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_rotary(struct ff_import *im, const Onnx__NodeProto *n);

#endif
