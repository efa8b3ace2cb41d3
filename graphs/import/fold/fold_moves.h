/* Constants whose elements are moved, not computed with.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_FOLD_MOVES_H
#define FF_IMPORT_FOLD_MOVES_H

#include "fold_numbers.h"

/* Elements before and behind an axis. */
void ff_fold_around(const struct ff_constant *c, uint32_t axis, int64_t *before, int64_t *behind);
/* Elements from `from` to before `to`, `step` apart, of an axis. */
int ff_fold_cut(struct ff_import *im, const struct ff_constant *in, uint32_t axis, int64_t from,
		int64_t to, int64_t step, struct ff_constant *ret);
/* Where a row of indices points to among the elements of `c`, or -1. */
int64_t ff_fold_place(const struct ff_constant *c, const int64_t *index, int64_t depth);

FF_FOLD(constant_of_shape);
FF_FOLD(unsqueeze);
FF_FOLD(squeeze);
FF_FOLD(reshape);
FF_FOLD(flatten);
FF_FOLD(concat);
FF_FOLD(gather);
FF_FOLD(gather_nd);
FF_FOLD(slice);
FF_FOLD(transpose);
FF_FOLD(expand);
FF_FOLD(tile);
FF_FOLD(triangle);
#undef FF_FOLD

#endif
