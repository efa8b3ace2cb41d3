/* ONNX operators that have files of their own.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_ROWS_H
#define FF_IMPORT_ROWS_H

#include <string.h>

#include "import.h"

/* layers.c: those with weights or windows. */
int ff_onnx_conv(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_conv_transpose(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_gemm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_matmul(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_pad(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_max_pool(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_average_pool(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_global_average_pool(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_global_max_pool(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_reduce_mean(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_softmax(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_log_softmax(struct ff_import *im, const Onnx__NodeProto *n);

int ff_onnx_reduce_sum(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_reduce_max(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_batch_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_layer_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_local_response_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_instance_norm(struct ff_import *im, const Onnx__NodeProto *n);

/* resize.c */
int ff_onnx_resize(struct ff_import *im, const Onnx__NodeProto *n);

/* constants.c: those that go with constants or to a shape. */
int ff_onnx_expand(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_where(struct ff_import *im, const Onnx__NodeProto *n);
/* Numbers that are not trained, which broadcast to `v`, as a value beside it. */
int ff_emit_constant(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_constant *c,
		const struct ff_onnx_value *v, struct ff_onnx_value *ret);
/* Numbers around a tensor or, by an enum ff_pad_mode, elements of its own; or less of it. */
int ff_emit_pad(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		const struct ff_constant *pads, int32_t mode, double value);
/* recurrent.c */
int ff_onnx_recurrent(struct ff_import *im, const Onnx__NodeProto *n);
static inline bool ff_onnx_is_recurrent(const Onnx__NodeProto *n)
{
	return !strcmp(n->op_type, "RNN") || !strcmp(n->op_type, "GRU") ||
	       !strcmp(n->op_type, "LSTM");
}

/* pointwise.c: functions of one element and of two; NULL when unknown. */
const struct ff_onnx_row *ff_onnx_pointwise_row(const char *op);

#endif
