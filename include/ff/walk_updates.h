/* The last step of the walk (ff/walk.h): the global norm of gradients, if they are clipped, and the
 * updates.  It is included likewise, by a file that has defined
 *   FF_WALK, FF_WALK_TASK, FF_WALK_DONE, FF_WALK_START   as for ff/walk.h
 *   FF_WALK_BUCKET                                       a bucket, as the reader keeps it
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

/* A round over all buckets: the norm's, or the updates', which wait for the norm. */
struct walk_round {
	bool norm;
	FF_WALK_DONE after;
};

static inline bool sink_clips(const FF_WALK *w);
/* Gradients are delayed: the step that updates the weights also reads them. */
static inline bool sink_is_late(const FF_WALK *w);
/* Calls walk_update for every device of every bucket, in their order. */
static void sink_each_bucket(FF_WALK *w, const struct walk_round *r);
static inline FF_WALK_TASK sink_begin_update(
		FF_WALK *w, const struct walk_round *r, const FF_WALK_BUCKET *b, uint32_t position);
static inline void sink_wait(FF_WALK *w, FF_WALK_TASK *t, FF_WALK_DONE done);
/* Whether several devices sum the gradients of the bucket. */
static inline bool sink_is_summed(const FF_WALK *w, const FF_WALK_BUCKET *b);
/* The completion of that; FF_WALK_START: there is none. */
static inline FF_WALK_DONE sink_summed(const FF_WALK *w, const FF_WALK_BUCKET *b);
/* The task waits for the gradients of the bucket's members on its device, and until the members'
 * weights have been moved to their readers. */
static inline void sink_wait_gradients(
		FF_WALK *w, FF_WALK_TASK *t, const FF_WALK_BUCKET *b, uint32_t position);
static inline void sink_end_update(FF_WALK *w, FF_WALK_TASK *t);
/* After all tasks of the round: the all-reduce of the devices' sums of squares. */
static FF_WALK_DONE sink_sum_norms(FF_WALK *w);
/* Local SGD: after the updates, the averaging of parameters. */
static inline void sink_average(FF_WALK *w);

/* On the device at `position` among the bucket's. */
static void walk_update(
		FF_WALK *w, const struct walk_round *r, const FF_WALK_BUCKET *b, uint32_t position)
{
	FF_WALK_TASK t = sink_begin_update(w, r, b, position);

	sink_wait(w, &t, sink_summed(w, b));
	if (!sink_is_summed(w, b) || (!r->norm && sink_is_late(w)))
		sink_wait_gradients(w, &t, b, position);
	sink_wait(w, &t, r->after);
	sink_end_update(w, &t);
}

static void walk_updates(FF_WALK *w)
{
	struct walk_round norm = {.norm = true, .after = FF_WALK_START};
	struct walk_round update = {.norm = false, .after = FF_WALK_START};

	if (sink_clips(w)) {
		sink_each_bucket(w, &norm);
		update.after = sink_sum_norms(w);
	}
	sink_each_bucket(w, &update);
	sink_average(w);
}
