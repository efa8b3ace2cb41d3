/* --oracle: pure strategies on more and more devices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_ORACLE_H
#define FF_PLANNER_ORACLE_H

#include "job.h"

/* Tells, for each pure strategy on 1, 2, 4 and so on devices, what of its step is computing and
 * what communication, its memory, and where it stops scaling and why: as a table on
 * `to`, and as the report and the page that were asked for. */
int ff_oracle_tell(struct ff_job *j, FILE *to, struct ff_error *err);

#endif
