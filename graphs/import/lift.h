/* What is known as a value of the graph, the same for every sample.  SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef FF_IMPORT_LIFT_H
#define FF_IMPORT_LIFT_H

#include "importing.h"

/* Numbers that are not trained, which broadcast to `v`, as a value beside it. */
int ff_emit_constant(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		const struct ff_onnx_value *v, struct ff_onnx_value *ret);
/* Of a constant whose axis 0 are the samples, all alike, one; others as they are. */
int ff_lift_sample(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		struct ff_constant *ret);
/* The elements of `c` for every sample: shape[0] are those, the rest has as many elements.  What is
 * trained stays the parameter that it is, though it was moved. */
int ff_lift(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		uint32_t rank, const int32_t *shape, struct ff_onnx_value *ret);
/* Whether an input that is one may be had so. */
bool ff_lift_can(const struct ff_import *im, const struct ff_constant *c);
/* Input `i`, which it can. */
int ff_lift_in(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant *c, struct ff_onnx_value **ret);

#endif
