/* Texts beside the messages of a file.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_METADATA_H
#define FF_IMPORT_METADATA_H

#include "importing.h"

/* The text called `key` beside a message of the file, whose field `tag` has them; *ret
 * is NULL where there is none. */
int ff_onnx_metadata(struct ff_import *im, const ProtobufCMessage *m, uint32_t tag, const char *key,
		const char **ret);
/* The module that PyTorch's exporter says a node is of; NULL where it says none. */
const char *ff_onnx_module(struct ff_import *im, const Onnx__NodeProto *n);
/* The same and what the node was called in it: "layer1.conv.conv2d_3". */
const char *ff_onnx_scoped_name(struct ff_import *im, const Onnx__NodeProto *n);

#endif
