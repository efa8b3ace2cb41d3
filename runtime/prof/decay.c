/* Caches that others share.  On a virtual machine the last-level cache is also that of other
 * machines: what a step touched 30 ms ago may be gone, though few bytes of its own have gone by.
 * SPDX-License-Identifier: Apache-2.0 */
#include "decay.h"

#include <stdlib.h>

#include "process/agree.h"
#include "sweep.h"

#define ROUNDS 9
#define MOST_BYTES ((int64_t)16 << 20) /* copied to as many */
#define LEAST_BYTES ((int64_t)4 << 20) /* more than a core's own caches have */
#define LOSES 1.2                      /* what is slower by less is noise */

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median time of touching what was touched `us` ago. */
static int time_after(
		struct ff_prof *p, int64_t bytes, double us, double *ret, struct ff_error *err)
{
	double sample[ROUNDS];
	int code = FF_OK;

	for (int i = 0; i < ROUNDS && code == FF_OK; i++) {
		code = ff_prof_sweep_bytes(p, bytes, &sample[i], err);
		ff_prof_rest(us);
		if (code == FF_OK)
			code = ff_prof_sweep_bytes(p, bytes, &sample[i], err);
	}
	if (code < 0)
		return code;
	qsort(sample, ROUNDS, sizeof(*sample), by_size);
	*ret = sample[ROUNDS / 2];
	return FF_OK;
}

int ff_prof_decay(struct ff_prof *p, struct ff_error *err)
{
	int64_t bytes = p->caches.sweep_bytes < MOST_BYTES ? p->caches.sweep_bytes : MOST_BYTES;
	double near, late, decay = 1;
	int code = FF_OK;

	if (bytes >= LEAST_BYTES) {
		code = time_after(p, bytes, 0, &near, err);
		if (code == FF_OK)
			code = time_after(p, bytes, FF_PROF_LONG_US, &late, err);
		if (code == FF_OK && near > 0)
			decay = late / near;
	}
	code = ff_agree_code(p->comm, code, err);
	if (code == FF_OK)
		code = ff_agree_max(p->comm, &decay, 1, err);
	p->caches.decay = code == FF_OK && decay > LOSES ? decay : 0;
	return code;
}
