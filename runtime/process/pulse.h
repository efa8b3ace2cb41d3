/* Signs of life that a rank gives who watches it, in memory that both have.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PULSE_H
#define FF_PULSE_H

#include <stdatomic.h>
#include <stdint.h>

#include "ff/error.h"

struct ff_pulse {
	double limit_s;         /* so long may pass between two beats; 0: for ever */
	_Atomic uint64_t beats; /* tasks that were issued, messages that came, and the like */
	_Atomic uint64_t step;  /* that is under way, counted from 1; 0: none yet */
	_Atomic int waiting;    /* threads that wait for other ranks */
};

/* Memory that children share; NULL: there is none, `err` says so. */
struct ff_pulse *ff_pulse_create(double limit_s, struct ff_error *err);
void ff_pulse_destroy(struct ff_pulse *p);

/* Calls accept NULL: nobody watches. */
static inline void ff_pulse_beat(struct ff_pulse *p)
{
	if (p)
		atomic_fetch_add_explicit(&p->beats, 1, memory_order_relaxed);
}

static inline void ff_pulse_step(struct ff_pulse *p, uint64_t step)
{
	if (p)
		atomic_store_explicit(&p->step, step, memory_order_relaxed);
}

/* This thread begins to wait for other ranks; it has come to its end. */
static inline void ff_pulse_wait(struct ff_pulse *p)
{
	if (p)
		atomic_fetch_add_explicit(&p->waiting, 1, memory_order_relaxed);
}

static inline void ff_pulse_met(struct ff_pulse *p)
{
	if (p)
		atomic_fetch_sub_explicit(&p->waiting, 1, memory_order_relaxed);
	ff_pulse_beat(p);
}

#endif
