/* Functions of one element and of two.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_POINTWISE_H
#define FF_IMPORT_POINTWISE_H

#include "import/importing.h"

/* Functions of one element and of two; NULL when unknown. */
const struct ff_onnx_row *ff_onnx_pointwise_row(const char *op);
/* `v` times a constant or a weight.  Output 0 of `n` may have become it: set it anew. */
int ff_onnx_times(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		const struct ff_constant *c, struct ff_onnx_value *ret);

#endif
