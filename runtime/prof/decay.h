/* What a cache loses while nobody looks.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_DECAY_H
#define FF_PROF_DECAY_H

#include "prof.h"

/* Whether data that is left alone for a while is lost, as where other machines' programs share the
 * last-level cache: then p->caches.decay is how many times as long it takes to read again, the
 * same on all ranks.  Takes half a second.  Needs ff_prof_sweep_open's memory. */
int ff_prof_decay(struct ff_prof *p, struct ff_error *err);

#endif
