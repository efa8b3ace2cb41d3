/* Texts beside the messages of a file.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_METADATA_H
#define FF_IMPORT_METADATA_H

#include "importing.h"

/* The text called `key` beside a message of the file, whose field `tag` has them; *ret
 * is NULL where there is none. */
int ff_onnx_metadata(struct ff_import *im, const ProtobufCMessage *m, uint32_t tag, const char *key,
		const char **ret);

#endif
