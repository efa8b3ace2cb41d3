/* The operator table: its rows by enumerator and by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "derive.h"

const struct ff_op_row *const ff_op_rows[FF_OP_COUNT] = {
#define FF_OP_ROW(e, row) [e] = &ff_op_##row,
		FF_OPS(FF_OP_ROW)
#undef FF_OP_ROW
};

const struct ff_op_row *ff_op_find(const char *name, enum ff_op *ret)
{
	for (uint32_t i = 0; i < FF_OP_COUNT; i++)
		if (!strcmp(ff_op_rows[i]->name, name) &&
				!(ff_op_rows[i]->flags & (FF_OP_UPDATE | FF_OP_PRELUDE))) {
			*ret = (enum ff_op)i;
			return ff_op_rows[i];
		}
	return NULL;
}
