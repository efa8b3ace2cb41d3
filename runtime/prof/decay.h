/* What a cache loses while nobody looks.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_DECAY_H
#define FF_PROF_DECAY_H

#include "prof.h"

/* Whether data that is left alone for a while is lost, as where other machines' programs share the
 * last-level cache: then p->caches.decay is how many times as long it takes to read again, the
 * same on all ranks.  Takes half a second.  Needs ff_prof_sweep_open's memory. */
int ff_prof_decay(struct ff_prof *p, struct ff_error *err);
/* How long a step takes to touch so many bytes (0: those of a step), as far as it matters; 0 where
 * caches lose nothing or p->caches.us_per_byte is not known. */
double ff_prof_rest_us(const struct ff_prof *p, int64_t reuse_bytes);
/* Waits that long. */
void ff_prof_rest(const struct ff_prof *p, int64_t reuse_bytes);

#endif
