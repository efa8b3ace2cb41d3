/* What every way of communicating must do; run with all devices in one process
 * and with one a rank.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_COMM_CASES_H
#define FF_TEST_COMM_CASES_H

#include "ff/comm.h"
#include "ff/philox.h"

/* Calls `test` n times, with streams that have a worker and that have none, of a backend
 * whose memory the host can read and of one that says it cannot. */
void comm_each(struct ff_random *r, int n, void (*test)(void *ctx, const struct ff_channel *on),
		void *ctx);

/* Arrays of the cases are so long. */
#define COMM_ARRAY_BYTES 800

/* Random groups, element types, sizes and contents; all ranks draw the same from `r`. */
typedef void (*comm_case)(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r);
void comm_all_reduce(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r);
void comm_all_gather(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r);
void comm_reduce_scatter(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r);
void comm_exchange(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r);
/* A server and all others, of which each gets long messages, sends them, or both. */
#define COMM_MESSAGE_BYTES 100000
void comm_server(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r);
void comm_posted(struct ff_comm *c, const struct ff_channel *on, struct ff_random *r);
void comm_refused(struct ff_comm *c, const struct ff_channel *on);

/* The case, n times, on a stream of the chosen backend, whose memory the arrays are brought to
 * and back from: what runs there is `c` itself. */
void comm_each_far(struct ff_comm *c, struct ff_random *r, int n, comm_case test);

#endif
