/* Operators whose outputs are no values of the graph, and what makes values of those.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_DEFERRED_H
#define FF_IMPORT_DEFERRED_H

#include "import/importing.h"

/* A node that reads one of them; *done: it was such a one. */
int ff_deferred(struct ff_import *im, const Onnx__NodeProto *n, bool *done);
const struct ff_onnx_row *ff_deferred_row(const char *op);

#endif
