/* Work that is always the same.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_REFERENCE_H
#define FF_PROF_REFERENCE_H

#include "prof.h"

/* Work that is always the same, on all threads that kernels use, or on the device
 * where that is not the host. */
int ff_prof_reference_open(struct ff_prof *p, struct ff_error *err);
void ff_prof_reference_close(struct ff_prof *p);
int ff_prof_reference(struct ff_prof *p, double *us, struct ff_error *err);
/* The slower tenth of all its times against the faster. */
double ff_prof_reference_spread(struct ff_prof *p);
/* The longest that a thread waited for a processor since ff_prof_wait_start. */
void ff_prof_wait_start(struct ff_prof *p);
double ff_prof_wait_us(const struct ff_prof *p);

#endif
