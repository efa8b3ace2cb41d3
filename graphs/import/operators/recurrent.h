/* Recurrent layers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_RECURRENT_H
#define FF_IMPORT_RECURRENT_H

#include "import/importing.h"

int ff_onnx_recurrent(struct ff_import *im, const Onnx__NodeProto *n);

#endif
