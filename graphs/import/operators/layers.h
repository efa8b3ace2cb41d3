/* Operators with weights or windows.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_LAYERS_H
#define FF_IMPORT_LAYERS_H

#include "import/importing.h"

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
int ff_onnx_reduce_sum(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_reduce_l2(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_reduce_max(struct ff_import *im, const Onnx__NodeProto *n);

#endif
