/* Backward that adds to gradients.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_ADDING_H
#define FF_SIMULATOR_ADDING_H

#include "trial.h"

/* Whether backward of `node` may add to any gradient, of its parameters or of its data.  Buckets
 * are gathered. */
bool ff_adding_may(const struct ff_trial *e, uint32_t node, uint32_t micro);
/* The times of the parts of step `s` of backward become longer by the adding, if it adds. */
int ff_adding_price(struct ff_trial *e, const struct ff_step *s, struct ff_error *err);

#endif
