/* The file and what it has.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_MODEL_H
#define FF_IMPORT_MODEL_H

#include "importing.h"

int ff_onnx_load(struct ff_import *im, Onnx__ModelProto **ret);
void ff_onnx_free(Onnx__ModelProto *m);
/* FF_E_INPUT where an output would be written over a file in which the model keeps tensors. */
int ff_onnx_spare(struct ff_import *im);
/* Elements of a tensor of the file, which may lie in another one. */
int ff_onnx_tensor(struct ff_import *im, const Onnx__TensorProto *t, struct ff_constant *ret);

#endif
