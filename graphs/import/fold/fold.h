/* Constant folding.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_FOLD_H
#define FF_IMPORT_FOLD_H

#include "import/importing.h"

/* A node whose inputs are known is computed.  *done says whether it was. */
int ff_fold(struct ff_import *im, const Onnx__NodeProto *n, bool *done);
/* Whether it could be, if they were. */
bool ff_fold_has(const char *op);
/* Of an enum of ONNX. */
bool ff_fold_is_real(int64_t type);
/* By element of `c` which of its initializer's it is, as whole numbers of its shape. */
int ff_fold_places(struct ff_import *im, const struct ff_constant *c, struct ff_constant *ret);
/* The elements of `c` are those of `root` at `places`. */
void ff_fold_set_places(
		const struct ff_constant *root, const int64_t *places, struct ff_constant *c);
/* Elements `from` to before `to` of an axis. */
int ff_fold_part(struct ff_import *im, const struct ff_constant *c, uint32_t axis, int64_t from,
		int64_t to, struct ff_constant *ret);

#endif
