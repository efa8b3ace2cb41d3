/* Functions of one element and of two.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_POINTWISE_H
#define FF_IMPORT_POINTWISE_H

#include "importing.h"

/* Functions of one element and of two; NULL when unknown. */
const struct ff_onnx_row *ff_onnx_pointwise_row(const char *op);

#endif
