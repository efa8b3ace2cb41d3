/* Attributes of operators with windows, drawn.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_DRAW_WINDOWS_H
#define FF_TEST_DRAW_WINDOWS_H

#include "ff/op.h"
#include "ff/philox.h"

/* Attributes and the shape of the input that they fit, if `op` is one of those. */
bool draw_windows(struct ff_random *r, enum ff_op op, union ff_attrs *attrs, int32_t *shape,
		uint32_t *rank);

#endif
