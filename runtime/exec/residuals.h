/* What was not sent yet of gradients that are compressed.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXEC_RESIDUALS_H
#define FF_EXEC_RESIDUALS_H

#include "exec/core/state.h"

/* Adds to `whole` what hosted devices have not sent of the gradient of `node`, a parameter. */
int ff_residuals_add(struct ff_executor *x, uint32_t node, float *whole, struct ff_error *err);
/* The other way round: of all places where some of an element is kept the first one gets it, the
 * others none.  What no device of this schedule sends has no such place. */
int ff_residuals_put(
		struct ff_executor *x, uint32_t node, const float *whole, struct ff_error *err);

#endif
