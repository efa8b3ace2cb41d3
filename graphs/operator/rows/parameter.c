/* Parameter: a trained tensor.  Forward its elements are there; backward it takes
 * their gradients and updates them.  The nodes that read it make it and say its
 * shape (ff_derive_param).  SPDX-License-Identifier: Apache-2.0 */
#include "operator/derive.h"

static int derive(struct ff_derive *d, struct ff_error *err)
{
	(void)d, (void)err;
	return FF_OK;
}

const struct ff_op_row ff_op_parameter = {
		.name = "parameter",
		.summary = "a trained tensor and its update",
		.flags = FF_OP_UPDATE,
		.derive = derive,
};
