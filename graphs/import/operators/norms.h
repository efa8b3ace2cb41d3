/* Norms.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_NORMS_H
#define FF_IMPORT_NORMS_H

#include "import/importing.h"

int ff_onnx_batch_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_rms_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_group_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_layer_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_local_response_norm(struct ff_import *im, const Onnx__NodeProto *n);
int ff_onnx_instance_norm(struct ff_import *im, const Onnx__NodeProto *n);

#endif
