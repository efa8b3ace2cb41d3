/* Messages that are counted where they are many.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_BULK_H
#define FF_MOVE_BULK_H

#include "scene.h"

/* Once, when the overlaps are there. */
int ff_bulk_prepare(struct ff_scene *s, struct ff_error *err);
/* Counts the messages of a component whose parts have entered; false: it is none of
 * those that can be counted together, and nothing has been. */
bool ff_bulk_count(
		struct ff_scene *s, const uint32_t *component, uint32_t *n_all, uint32_t *n_home);

#endif
