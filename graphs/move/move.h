/* A move of what parts share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_MOVE_MOVE_H
#define FF_MOVE_MOVE_H

#include "scene.h"

/* Adds a pair to what its devices do; `piece`, or NULL, is where it goes. */
void ff_move_count(struct ff_scene *s, const struct ff_pair *p, struct ff_piece *piece);
/* The parts at hand as messages, or as the collective `kind`.  `pair`
 * are all of the component; without pieces they have been counted. */
int ff_move_messages(struct ff_scene *s, uint32_t n, struct ff_pair *pair, struct ff_move *ret,
		struct ff_error *err);
int ff_move_collective(struct ff_scene *s, enum ff_move_kind kind, const struct ff_region *whole,
		struct ff_move *ret, struct ff_error *err);

#endif
