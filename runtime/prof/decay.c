/* Caches that others share.  On a virtual machine the last-level cache is also that of other
 * machines: what a step touched 30 ms ago may be gone, though few bytes of its own have gone by.
 * SPDX-License-Identifier: Apache-2.0 */
#include "decay.h"

#include <stdlib.h>

#include "ff/clock.h"
#include "process/agree.h"
#include "sweep.h"

#define ROUNDS 9
#define LONG_US 30000                  /* after which little more is lost */
#define MOST_BYTES ((int64_t)16 << 20) /* copied to as many */
#define LEAST_BYTES ((int64_t)4 << 20) /* more than a core's own caches have */
#define LOSES 1.2                      /* what is slower by less is noise */

static void wait_us(double us)
{
	double end = ff_clock_us() + us;

	while (ff_clock_us() < end)
		;
}

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
		wait_us(us);
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
			code = time_after(p, bytes, LONG_US, &late, err);
		if (code == FF_OK && near > 0)
			decay = late / near;
	}
	code = ff_agree_code(p->comm, code, err);
	if (code == FF_OK)
		code = ff_agree_max(p->comm, &decay, 1, err);
	p->caches.decay = code == FF_OK && decay > LOSES ? decay : 0;
	return code;
}

double ff_prof_rest_us(const struct ff_prof *p, int64_t reuse_bytes)
{
	int64_t bytes = reuse_bytes ? reuse_bytes : p->states.reuse_bytes[0];
	double us = p->caches.decay > 0 ? p->caches.us_per_byte * (double)bytes : 0;

	return us < LONG_US ? us : LONG_US;
}

void ff_prof_rest(const struct ff_prof *p, int64_t reuse_bytes)
{
	wait_us(ff_prof_rest_us(p, reuse_bytes));
}
