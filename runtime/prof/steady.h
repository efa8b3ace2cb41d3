/* Whether a machine was quiet while something was timed on it: pure figures, no clock.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_PROF_STEADY_H
#define FF_PROF_STEADY_H

#include <stdbool.h>
#include <stdint.h>

/* Recent times of work that is always the same.  What they are at best is what the
 * machine does when left alone; as it drifts with temperature and clock, only recent
 * ones count. */
#define FF_BASELINE 128
struct ff_baseline {
	double recent_us[FF_BASELINE];
	uint32_t n, next;
};
void ff_baseline_add(struct ff_baseline *b, double us);
/* The best tenth's worst; 0 while there are none. */
double ff_baseline_quiet(const struct ff_baseline *b);

/* Signs that something else ran. */
struct ff_signs {
	double us, wait_us;           /* the sample; of it in a queue for a processor */
	double compute_us, memory_us; /* the slower reference beside it; 0: none */
};
/* 0: left alone; above 1: disturbed, and the more the larger. */
double ff_disturbance(const struct ff_signs *s, double quiet_compute_us, double quiet_memory_us);

struct ff_sample {
	double us, disturbance;
};
struct ff_taken {
	uint32_t samples;   /* kept, at the front */
	uint32_t disturbed; /* of them: there was nothing better */
	uint32_t taken;     /* all together */
	uint32_t met;       /* of those, disturbed ones */
};
/* Samples of one thing, in the making.  `least` are taken first, which are enough where they agree,
 * else `want`, and as many again for those that were disturbed, up to FF_STEADY_ROUNDS * want in
 * all, for which `sample` has room. */
#define FF_STEADY_ROUNDS 3
struct ff_steady {
	struct ff_sample *sample;
	uint32_t want, least;
	uint32_t n, good; /* that are there, and undisturbed ones among them */
	uint32_t more;    /* to take next; 0: no more */
};
/* `sample` stays the caller's. */
void ff_steady_start(struct ff_steady *s, uint32_t want, uint32_t least, struct ff_sample *sample);
/* Once as many `more` stand behind the n that are there. */
void ff_steady_add(struct ff_steady *s);
/* Keeps what was not disturbed; where that is fewer than `least`, the least disturbed in their
 * place. */
struct ff_taken ff_steady_end(struct ff_steady *s);

/* Which of n >= 1 ranks took longest for what all of them did alike; *excess: by how much more than
 * their mean, as a share of that (0 where nothing was done). */
uint32_t ff_steady_slowest(const double *us, uint32_t n, double *excess);

/* Which of `n` >= 1 figures of one thing, measured at other times, counts: of those that were
 * disturbed least the middle one, of an even number the faster of the two.  (The fastest one would
 * be too fast the more figures there are, as what is added to them differs from moment to moment;
 * what a minute's noise has slowed is seldom in the middle.) */
uint32_t ff_steady_middle(const struct ff_sample *figure, uint32_t n);

#endif
