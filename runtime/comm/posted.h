/* What was posted on a stream, until that has passed it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_POSTED_H
#define FF_COMM_POSTED_H

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

/* Backend memory that host memory stands in for: brought down before, up afterwards. */
struct ff_post_span {
	const void *down; /* or NULL */
	void *up;         /* or NULL */
	size_t bytes;
	void **host, **also; /* the pointers that are to point there, or NULL */
	bool joined;         /* right behind the span before */
	char *at;            /* host memory */
};

/* One that a failed stream skips stays in the list of all until the comm goes. */
struct ff_posted {
	struct ff_posted *next, *next_spare;
	struct ff_host_comm *comm;
	struct ff_collective x; /* n_devices 0: an exchange */
	bool messages;          /* on their stream */
	enum ff_dtype type;
	uint32_t n_parcels, n_spans;
	struct ff_parcel *parcel;
	struct ff_post_span *span;
	void **send, **recv; /* the collective's */
	void *memory;        /* what all these point to */
	size_t bytes;
};

/* A record with so many bytes of memory; NULL: there is none, as `err` says. */
struct ff_posted *ff_posted_take(struct ff_host_comm *h, size_t bytes, struct ff_error *err);
/* Posts `p`, which is the stream's then: its spans come down to host memory, unless the backend's
 * memory is that, what it says is carried out, and its spans go up. */
int ff_posted_post(struct ff_posted *p, const struct ff_channel *on, struct ff_error *err);
/* Frees all records and all host memory; nothing is under way. */
void ff_posted_finish(struct ff_host_comm *h);
/* Bytes of the newest host memory that is not messages'. */
size_t ff_posted_bounced(const struct ff_host_comm *h);

#endif
