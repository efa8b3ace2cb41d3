/* ONNX' Attention and Einsum.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_ATTENTION_H
#define FF_IMPORT_ATTENTION_H

#include "import/importing.h"

int ff_onnx_attention(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_einsum(struct ff_import *im, const Onnx__NodeProto *n);

#endif
