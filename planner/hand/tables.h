/* Tables of vectors, cut by column and by row over all devices (ff_init_strategy tells how).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PLANNER_TABLES_H
#define FF_PLANNER_TABLES_H

#include "ff/starts.h"

/* Whether tables that are looked up alone are most of what `g` trains: elsewhere how they are cut
 * decides little. */
bool ff_tables_matter(const struct ff_graph *g);

/* FF_E_INPUT where that many columns do not divide the devices, or no table has as many, or there
 * is nothing to replicate, or devices have no halves.  All memory from `a`. */
int ff_start_tables(const struct ff_graph *g, const struct ff_machine *m, const struct ff_tables *t,
		struct ff_arena *a, struct ff_strategy *ret, struct ff_error *err);

#endif
