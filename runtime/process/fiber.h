/* A stack of its own, on which a thread goes on with something until that has to wait.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_FIBER_H
#define FF_FIBER_H

#include <stdbool.h>

#include "ff/error.h"

struct ff_fiber;

/* `run` begins at the first ff_fiber_resume; once it returns, resuming does nothing. */
int ff_fiber_create(void (*run)(void *arg), void *arg, struct ff_fiber **ret, struct ff_error *err);
/* Wherever it is; accepts NULL. */
void ff_fiber_destroy(struct ff_fiber *f);
/* Goes on with it until it yields.  One thread at a time; a fiber may resume another. */
void ff_fiber_resume(struct ff_fiber *f);
/* Back to who resumed the fiber at hand; returns when it is resumed again. */
void ff_fiber_yield(void);
/* Whether the caller is in one. */
bool ff_fiber_is_here(void);

#endif
