/* What ONNX operators become.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_ROWS_H
#define FF_IMPORT_ROWS_H

#include "import/importing.h"

/* NULL when unknown. */
const struct ff_onnx_row *ff_onnx_row(const char *op);

#endif
