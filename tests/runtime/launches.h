/* Training whose steps are captured beside the same without.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_LAUNCHES_H
#define FF_TEST_LAUNCHES_H

#include "scene.h"

#define LAUNCH_STEPS 9

/* What a run leaves behind. */
struct launched {
	const float *weights[2]; /* after some steps, at the end */
	double loss[LAUNCH_STEPS], us[LAUNCH_STEPS], accuracy[2], top[2], test_loss[2];
	bool captured;
	uint32_t captures, launches; /* on this rank */
};

/* Trains with rates that change, over gaps in the order of steps, with tests of batches that are
 * not full in between, as FF_CUDA_GRAPH=`word` (NULL: unset) has it.  `b` is counted and may be
 * spoiled; `comm` as for rig_open. */
void launch_train(struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy,
		const struct ff_backend *b, struct ff_comm *comm, const char *word,
		struct launched *ret);
/* The same without checks; the code of the first call that failed. */
int launch_try(struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy,
		const struct ff_backend *b, struct ff_comm *comm, const char *word,
		struct launched *ret, struct ff_error *err);
/* Whether both are equal to the bit. */
bool launch_same(const struct scene *s, const struct launched *a, const struct launched *b);
/* Random scenes on `c` (NULL: on one device): captured and not, the same bits. */
void launch_compare(uint32_t cases, uint64_t seed,
		struct ff_comm *(*world)(const struct ff_machine *m), uint32_t n_ranks);

#endif
