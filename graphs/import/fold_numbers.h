/* What numbers that are known come to.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_FOLD_NUMBERS_H
#define FF_IMPORT_FOLD_NUMBERS_H

#include "importing.h"

/* What `n` makes of constants. */
typedef int (*ff_fold_function)(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret);

#define FF_FOLD_MOST 65536 /* elements of what is computed, not moved */

/* One axis more. */
void ff_fold_axis(struct ff_constant *c, int64_t size);

#define FF_FOLD(name)                                                                              \
	int ff_fold_##name(struct ff_import *im, const Onnx__NodeProto *n,                         \
			const struct ff_constant *const *in, struct ff_constant *ret)
FF_FOLD(add);
FF_FOLD(sub);
FF_FOLD(mul);
FF_FOLD(quotient);
FF_FOLD(compare);
FF_FOLD(not );
FF_FOLD(where);
FF_FOLD(reduce_prod);
FF_FOLD(modulo);
FF_FOLD(real); /* Add, Sub, Mul, Div, Pow where a number is none of a weight and real */
FF_FOLD(range);
FF_FOLD(scatter);
#undef FF_FOLD

#endif
