/* What the ranks of a command tell each other beside the schedule.  All ranks
 * of `c` must call together.  Bytes sent here are not counted.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_AGREE_H
#define FF_AGREE_H

#include "ff/comm.h"

/* `bytes` from every rank, in their order: all[n_ranks * bytes]. */
int ff_agree_gather(
		struct ff_comm *c, const void *own, size_t bytes, void *all, struct ff_error *err);
/* Element by element the largest, or the sum, over all ranks. */
int ff_agree_max(struct ff_comm *c, double *v, uint32_t n, struct ff_error *err);
int ff_agree_sum(struct ff_comm *c, int64_t *v, uint32_t n, struct ff_error *err);
/* If any rank comes with a failure, all leave with it; only the first such rank
 * keeps its sentence (the others' err->text is empty). */
int ff_agree_code(struct ff_comm *c, int code, struct ff_error *err);
/* What all ranks are to have alike, by what the user calls it; both texts are cut where they are
 * longer. */
#define FF_SAME_TEXT 96
struct ff_same {
	char name[48], text[FF_SAME_TEXT];
};
/* FF_E_INPUT unless all ranks come with the same `n` of them: the first rank's sentence (the
 * others' err->text is empty) says what differs first, and how in which ranks. */
int ff_agree_same(struct ff_comm *c, const struct ff_same *own, uint32_t n, struct ff_error *err);
/* FF_E_RUN unless all ranks come with the same hash. */
int ff_agree_hash(struct ff_comm *c, uint64_t hash, struct ff_error *err);

#endif
