/* Loads from the data set, and the memory they pass through.  SPDX-License-Identifier: Apache-2.0
 */
#ifndef FF_EXEC_LOAD_H
#define FF_EXEC_LOAD_H

#include "data/prefetch.h"
#include "exec/core/state.h"

/* What a pass over the schedule loads: pinned memory where the backend has that. */
struct ff_samples {
	char *memory;
	int64_t valid[FF_MAX_LOSSES]; /* by loss: what counts of its global batch */
};

/* Load tasks of step k copy from slot ff_batch_slot(k), always the same bytes of it, and that is
 * all they do; meanwhile a thread fills the other slot for step k + 1.  It begins with that when
 * all of step k - 1 has ended, so that nobody reads what is overwritten. */
struct ff_prefetched {
	struct ff_prefetch *prefetch;
	struct ff_samples slot[FF_SLOTS];
};

/* Of a transfer that is a load. */
int ff_load_build(struct ff_transfer *t, struct ff_error *err);
/* Host memory and the thread that fills it, once all transfers are built. */
int ff_load_open(struct ff_executor *x, struct ff_error *err);
void ff_load_close(struct ff_executor *x);
/* Before the pass of x->step, x->training is issued: its samples are there, x->valid is known
 * and, unless it is the `last`, those of the next are on their way. */
int ff_load_begin(struct ff_executor *x, bool last, struct ff_error *err);
int ff_load_issue(struct ff_transfer *t, struct ff_stream *stream, struct ff_error *err);

#endif
