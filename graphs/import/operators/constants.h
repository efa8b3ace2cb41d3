/* What goes with constants or to a shape.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_CONSTANTS_H
#define FF_IMPORT_CONSTANTS_H

#include "import/importing.h"

int ff_onnx_expand(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_scatter_nd(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_where(struct ff_import *im, const Onnx__NodeProto *n);
/* Numbers around a tensor or, by an enum ff_pad_mode, elements of its own; or less of it. */
int ff_emit_pad(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_constant *pads, int32_t mode, double value);

#endif
