/* Timing with caches as training has them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_STOPWATCH_H
#define FF_PROF_STOPWATCH_H

#include "sweep.h"

#define FF_SAMPLES 25
/* Of one of several rounds that share them. */
static inline uint32_t ff_samples_of(uint32_t samples, uint32_t rounds)
{
	return samples > rounds ? samples / rounds : 1;
}

/* Something to time. */
struct ff_timed {
	int (*run)(void *arg, struct ff_error *err);
	int (*before)(void *arg, struct ff_error *err); /* NULL, or what is given just before it */
	void *arg;
	int64_t reuse_bytes;       /* that go by before each time; 0: those of a step */
	struct ff_hot hot[FF_HOT]; /* what tasks have just written */
	int64_t since_bytes;       /* that go by after that */
	bool slowest;              /* the slowest rank's time, not the ranks' mean */
	bool alone;                /* the first rank's, while the others wait for it */
	uint32_t most;             /* samples; 0: FF_SAMPLES */
};
struct ff_timing {
	double median_us, p10_us, p90_us;
	uint32_t samples, disturbed; /* of the samples: nothing better was to be had */
};
/* Runs it on all ranks at once: to warm up, then between five and `most` times, fewer
 * the longer it takes, each time after a sweep and between two references.  Samples that
 * something else disturbed are repeated, within reason.  Sets p->end when the user or the
 * budget ends it. */
int ff_prof_time(struct ff_prof *p, const struct ff_timed *what, struct ff_timing *ret,
		struct ff_error *err);
#define FF_PROF_TOGETHER 8
/* Likewise n <= FF_PROF_TOGETHER things in turns, all behind one sweep each time, so that it takes
 * less time: as much goes by before each of them, and caches keep nothing then
 * (ff_prof_keeps_nothing); none touches what another one does. */
int ff_prof_time_group(struct ff_prof *p, const struct ff_timed *what, uint32_t n,
		struct ff_timing *ret, struct ff_error *err);
/* Of n rounds' of one thing, and of two more, the one that counts: ff_steady_middle. */
struct ff_timing ff_prof_middle(const struct ff_timing *t, uint32_t n);
/* A time at a size, and how many of its samples something else disturbed. */
struct ff_point {
	double bytes, us;
	uint32_t disturbed;
};
#define FF_POINTS 16
/* Line through n <= FF_POINTS points by least squares of relative errors; through the
 * undisturbed ones alone where they do. */
struct ff_rate ff_prof_fit(const struct ff_point *p, uint32_t n);

/* Saves what is there: if `now`, else when the last time is some seconds ago. */
int ff_prof_save(struct ff_prof *p, bool now, struct ff_error *err);

#endif
