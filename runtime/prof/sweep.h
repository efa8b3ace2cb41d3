/* What goes by between two measurements.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_SWEEP_H
#define FF_PROF_SWEEP_H

#include "prof.h"

/* Beyond as many bytes more make nothing colder, so that what was measured at one such
 * figure holds at another. */
bool ff_prof_is_same(const struct ff_prof *p, int64_t reuse_bytes, int64_t other_bytes);
/* Whether more than caches hold goes by, so that they keep nothing. */
bool ff_prof_keeps_nothing(const struct ff_prof *p, int64_t reuse_bytes);
/* Memory for it, once dev and stream are there. */
int ff_prof_sweep_open(struct ff_prof *p, struct ff_error *err);
void ff_prof_sweep_close(struct ff_prof *p);
/* Device memory that was just written: it stays as it is. */
struct ff_hot {
	void *at; /* NULL: nothing */
	int64_t bytes;
};
#define FF_HOT 8
/* Lets so much time go by. */
void ff_prof_rest(double us);
/* How long a step takes to touch so many bytes (0: those of a step), as far as it matters; 0 where
 * caches lose nothing by themselves or p->caches.us_per_byte is not known. */
double ff_prof_rest_us(const struct ff_prof *p, int64_t reuse_bytes);
#define FF_PROF_LONG_US 30000 /* after which little more is lost */
/* Copies so many, at most caches.sweep_bytes, to as many others. */
int ff_prof_sweep_bytes(struct ff_prof *p, int64_t bytes, double *us, struct ff_error *err);
/* Leaves the caches as they are when `reuse_bytes` (0: those of a step), and as much time, have
 * gone by.  Always the
 * same for as many: what it took, *us, is a reference too. */
int ff_prof_sweep(struct ff_prof *p, int64_t reuse_bytes, double *us, struct ff_error *err);
/* And then as when what is `hot` was written, the last one last, and `since_bytes` have gone by
 * since (0: none). */
int ff_prof_rewrite(struct ff_prof *p, const struct ff_hot hot[FF_HOT], int64_t since_bytes,
		struct ff_error *err);

#endif
