/* Tables of a schedule.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_LOWER_TABLES_H
#define FF_LOWER_TABLES_H

#include "lower/state/lowering.h"

/* Of parts that run in turn, room for their places among a step's tasks; the tables that
 * say which buffer each part has. */
int ff_tables_places(struct ff_lowering *l, struct ff_error *err);
int ff_tables_build(struct ff_lowering *l, struct ff_error *err);

#endif
