/* Communication that the host carries out: posted as a host function of the stream,
 * by way of host memory where the host cannot read the backend's.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_POST_H
#define FF_COMM_POST_H

#include <pthread.h>
#include <stdatomic.h>

#include "ff/comm.h"

struct ff_posted;
struct ff_bounce;

/* A comm that has these two to carry out what was posted, in host memory, when the
 * stream gets there; `messages` as ff_channel has it: both may run at a time, one of each. */
struct ff_host_comm {
	struct ff_comm base;
	int (*run_collective)(struct ff_comm *c, bool messages, const struct ff_collective *x,
			struct ff_error *err);
	int (*run_exchange)(struct ff_comm *c, bool messages, enum ff_dtype type,
			const struct ff_parcel *parcel, uint32_t n, struct ff_error *err);
	pthread_mutex_t lock;
	_Atomic bool given_up;
	struct ff_posted *all, *spare; /* what was posted; what of it may be used again */
	struct ff_bounce *bounce[2];   /* by ff_channel.messages; the newest serves, the others may
					* be under way */
	int64_t most_bytes;            /* in it at once: what is longer goes in rounds */
};

/* Fills what is posted in base, and all below run_exchange. */
void ff_host_comm_init(struct ff_host_comm *h);
void ff_host_comm_finish(struct ff_host_comm *h);
/* Less than the preset, for tests; and what came of it.  An element of each array goes at once in
 * any case, and begins on 64 bytes. */
void ff_host_comm_limit(struct ff_comm *c, int64_t most_bytes);
size_t ff_host_comm_bounced(const struct ff_comm *c);

#endif
