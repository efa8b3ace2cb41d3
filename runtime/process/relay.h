/* What a child writes, passed on, so that this process knows whether it arrived.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_RELAY_H
#define FF_RELAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ff/error.h"

struct ff_relay {
	struct ff_relay_end {
		int from, to; /* the pipe's ends; -1: closed */
		uint64_t bytes;
		int reason; /* errno of the first that did not arrive; 0: all did */
	} end[2];           /* standard output and standard error */
	pthread_t thread;
	bool runs;
	_Atomic bool is_last; /* the child has ended: what is in the pipes is all */
};

/* Makes the pipes. */
int ff_relay_open(struct ff_relay *r, struct ff_error *err);
/* In the child: its outputs go there. */
void ff_relay_enter(struct ff_relay *r);
/* In the parent, which has blocked its signals: passes on until ff_relay_finish, which waits for
 * what is under way; `bytes` and `reason` are known then. */
int ff_relay_start(struct ff_relay *r, struct ff_error *err);
void ff_relay_finish(struct ff_relay *r);

#endif
