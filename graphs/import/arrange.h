/* Values whose samples are somewhere else than at first.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_ARRANGE_H
#define FF_IMPORT_ARRANGE_H

#include "importing.h"

/* All samples share it: its node has them first, the model not at all. */
bool ff_onnx_is_shared(const struct ff_onnx_value *v);
/* The shape that the model knows. */
uint32_t ff_onnx_shape(const struct ff_onnx_value *v, int64_t shape[FF_IMPORT_RANK]);
bool ff_onnx_same_arrangement(const struct ff_onnx_value *a, const struct ff_onnx_value *b);
/* The node's axis that is ONNX axis `axis` of `v`. */
int ff_onnx_axis_of(struct ff_import *im, const Onnx__NodeProto *n, int64_t axis,
		const struct ff_onnx_value *v, uint32_t *ret);
/* Axis i of the output is axis perm[i] of `v`; the same elements under another shape. */
int ff_onnx_turn(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		const uint32_t *perm, struct ff_onnx_value *ret);
int ff_onnx_regroup(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		uint32_t rank, const int64_t *shape, struct ff_onnx_value *ret);
/* Output 0 of `n` is `v` under another shape; without an axis of one element. */
int ff_onnx_reshape(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		uint32_t rank, const int32_t *shape);
int ff_onnx_without(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		uint32_t axis);
/* Every `step`-th of the elements start .. stop - 1 of one axis of the node. */
int ff_onnx_cut(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		uint32_t axis, int64_t start, int64_t stop, int64_t step,
		struct ff_onnx_value *ret);
/* The shape of a constant that broadcasts to `v`, by the node's axes, that of the samples 1. */
int ff_onnx_fit(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		const struct ff_onnx_value *v, struct ff_constant *ret);

#endif
