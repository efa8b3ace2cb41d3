/* Constant folding.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_FOLD_H
#define FF_IMPORT_FOLD_H

#include "importing.h"

/* A node whose inputs are known is computed.  *done says whether it was. */
int ff_fold(struct ff_import *im, const Onnx__NodeProto *n, bool *done);
/* Whether it could be, if they were. */
bool ff_fold_has(const char *op);

#endif
