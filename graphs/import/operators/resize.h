/* Images made larger or smaller.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_RESIZE_H
#define FF_IMPORT_RESIZE_H

#include "import/importing.h"

int ff_onnx_resize(struct ff_import *im, const Onnx__NodeProto *n);

#endif
