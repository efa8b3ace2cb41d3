/* Element types.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/dtype.h"

const char *ff_dtype_name(enum ff_dtype t)
{
	static const char *const names[] = {
			[FF_F32] = "float32",
			[FF_I32] = "int32",
			[FF_U8] = "uint8",
			[FF_BF16] = "bfloat16",
	};

	return names[t];
}

bool ff_dtype_find(const char *name, enum ff_dtype *ret)
{
	for (int t = 0; t < FF_DTYPE_COUNT; t++)
		if (!strcmp(ff_dtype_name((enum ff_dtype)t), name)) {
			*ret = (enum ff_dtype)t;
			return true;
		}
	return false;
}
