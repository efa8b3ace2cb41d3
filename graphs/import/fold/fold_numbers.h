/* What numbers that are known come to.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_FOLD_NUMBERS_H
#define FF_IMPORT_FOLD_NUMBERS_H

#include "import/importing.h"

/* What `n` makes of constants. */
typedef int (*ff_fold_function)(struct ff_import *im, const Onnx__NodeProto *n,
		const struct ff_constant *const *in, struct ff_constant *ret);

#define FF_FOLD_MOST (1 << 24) /* elements of what is computed or repeated, in one constant */
#define FF_FOLD_ALL (1 << 27)  /* in all of them */

/* One axis more. */
void ff_fold_axis(struct ff_constant *c, int64_t size);
/* Room for the elements of what is computed or repeated, if they are not too many. */
int ff_fold_alloc(struct ff_import *im, const Onnx__NodeProto *n, struct ff_constant *c);
/* The same where elements are as many as there are in the file. */
int ff_fold_alloc_moved(struct ff_import *im, struct ff_constant *c);
/* Whole as real, and the other way. */
int ff_fold_convert(struct ff_import *im, const struct ff_constant *in, bool whole, bool logical,
		struct ff_constant *ret);
static inline double ff_fold_element(const struct ff_constant *c, int64_t i)
{
	return c->whole ? (double)c->i[i] : (double)c->f[i];
}
static inline void ff_fold_copy(
		const struct ff_constant *in, int64_t from, struct ff_constant *ret, int64_t to)
{
	if (ret->whole)
		ret->i[to] = in->i[from];
	else
		ret->f[to] = in->f[from];
}

#define FF_FOLD(name)                                                                              \
	int ff_fold_##name(struct ff_import *im, const Onnx__NodeProto *n,                         \
			const struct ff_constant *const *in, struct ff_constant *ret)
FF_FOLD(unary);
FF_FOLD(binary);
FF_FOLD(compare);
FF_FOLD(not );
FF_FOLD(where);
FF_FOLD(clip);
FF_FOLD(range);
FF_FOLD(scatter);
FF_FOLD(reduce);
FF_FOLD(cumulate);
FF_FOLD(product);

#endif
