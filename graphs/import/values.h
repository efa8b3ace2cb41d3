/* Values of the model, and attributes of its nodes.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_VALUES_H
#define FF_IMPORT_VALUES_H

#include <string.h>

#include "importing.h"

/* "model.onnx: node X (Conv): " and the sentence, as FF_E_INPUT. */
void ff_import_error(struct ff_import *im, const Onnx__NodeProto *n, const char *fmt, ...)
		__attribute__((format(printf, 3, 4)));
#define ff_import_fail(im, n, ...) (ff_import_error(im, n, __VA_ARGS__), ff_error_code(FF_E_INPUT))

/* The value called `name`, made when it is new; NULL without memory. */
struct ff_onnx_value *ff_onnx_value(struct ff_import *im, const char *name);
/* Input `i` of a node; NULL where it is left out. */
struct ff_onnx_value *ff_onnx_in(struct ff_import *im, const Onnx__NodeProto *n, size_t i);
/* The same as numbers that are known. */
int ff_onnx_in_constant(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant **ret);
/* Attributes; what is absent is `preset`, or nothing. */
const Onnx__AttributeProto *ff_onnx_attr(const Onnx__NodeProto *n, const char *name);
int64_t ff_onnx_int(const Onnx__NodeProto *n, const char *name, int64_t preset);
float ff_onnx_real(const Onnx__NodeProto *n, const char *name, float preset);
/* Whether it is there and is `text`. */
bool ff_onnx_is(const Onnx__NodeProto *n, const char *name, const char *text);
static inline bool ff_onnx_is_recurrent(const Onnx__NodeProto *n)
{
	return !strcmp(n->op_type, "RNN") || !strcmp(n->op_type, "GRU") ||
	       !strcmp(n->op_type, "LSTM");
}
/* Axes may count from the end: 0 <= *ret < rank. */
int ff_onnx_axis(struct ff_import *im, const Onnx__NodeProto *n, int64_t axis, uint32_t rank,
		uint32_t *ret);
/* Output `i` of `n` is this. */
int ff_onnx_set_constant(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_constant *c);
int ff_onnx_set_same(struct ff_import *im, const Onnx__NodeProto *n, size_t i,
		const struct ff_onnx_value *same);
/* How many elements its shape has: false where one is none, or there are more than `most`, zeros
 * counted as ones. */
bool ff_constant_measure(struct ff_constant *c, int64_t most);
/* Room for the elements of a constant. */
int ff_constant_alloc(struct ff_import *im, struct ff_constant *c);
/* Axes are an attribute at first and an input since opset 13 (of some 18); none:
 * *any is false. */
int ff_onnx_axes(struct ff_import *im, const Onnx__NodeProto *n, uint32_t rank,
		bool marked[FF_MAX_RANK + 1], bool *any);

#endif
