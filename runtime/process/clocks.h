/* Clocks of several ranks brought onto one: rank 0's.
 *
 * A rank's clock is read against rank 0's by a message there and back, of many the one with the
 * shortest round trip (Cristian, "Probabilistic clock synchronization", Distributed Computing
 * 1989); offset and bound are NTP's (Mills and others, RFC 5905, section 8).  Two readings give a
 * line, offset and drift, that is good between them.  All times are microseconds.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CLOCKS_H
#define FF_CLOCKS_H

#include "ff/comm.h"

/* Microseconds of the caller's own clock; never back. */
typedef double (*ff_clock_read)(void *ctx);

/* A message from rank 0 to another and back: `sent` and `returned` by rank 0's clock, `received`
 * and `answered` by the other's. */
struct ff_ping {
	double sent, received, answered, returned;
};

/* When the rank's clock showed `at_us`, rank 0's showed `offset_us` more, or up to `bound_us` more
 * or less than that. */
struct ff_clock_reading {
	double at_us, offset_us, bound_us;
};

/* A rank's clock from `first` to `last`. */
struct ff_clock_line {
	struct ff_clock_reading first, last;
};

/* offset = ((sent - received) + (returned - answered)) / 2, at the middle of what the other one
 * saw; bound = ((returned - sent) - (answered - received)) / 2, whichever way was the slower. */
struct ff_clock_reading ff_clock_reading_of(const struct ff_ping *p);
/* The reading of the ping, of `n`, with the least bound. */
struct ff_clock_reading ff_clock_reading_best(const struct ff_ping *p, uint32_t n);

/* All ranks call together while nothing else is under way: each gets a reading of its own clock.
 * Rank 0's is 0 and exact, as is that of ranks that are alone. */
int ff_clocks_meet(struct ff_comm *c, ff_clock_read clock, void *ctx, struct ff_clock_reading *ret,
		struct ff_error *err);

/* What rank 0's clock shows when the rank's shows `us`.  Offsets lie on a line through both
 * readings, so the error is at most ff_clock_bound() between them where the drift was even. */
double ff_clock_common(const struct ff_clock_line *l, double us);
double ff_clock_bound(const struct ff_clock_line *l);
/* By how much rank 0's clock is faster: 1e-6 is a microsecond a second.  0: there was no time
 * between the readings. */
double ff_clock_drift(const struct ff_clock_line *l);

#endif
