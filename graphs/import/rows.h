/* What ONNX operators become.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_ROWS_H
#define FF_IMPORT_ROWS_H

#include "importing.h"

int ff_onnx_softmax(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_log_softmax(struct ff_import *im, const Onnx__NodeProto *n);

/* NULL when unknown. */
const struct ff_onnx_row *ff_onnx_row(const char *op);

#endif
