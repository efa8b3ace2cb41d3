/* Arrays that grow as elements come.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_GROW_H
#define FF_GROW_H

#include <stddef.h>
#include <stdint.h>

#include "ff/arena.h"
#include "ff/error.h"

/* `array` points to a pointer from malloc, or NULL, with room for *cap elements of `size`
 * bytes, `n` of them in use: makes room for one more, at least twice as many where there is none.
 */
int ff_grow(void *array, uint32_t n, uint32_t *cap, size_t size, struct ff_error *err);
/* Likewise for `array` in an arena, which keeps the old room: returns `array`, or where it has
 * moved to; NULL: there is no memory. */
void *ff_grow_in(struct ff_arena *a, void *array, uint32_t n, uint32_t *cap, size_t size);

#endif
