/* A schedule on its executor.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_RIG_H
#define FF_TEST_RIG_H

#include <check.h>

#include "ff/executor.h"

#define RIG_OK(call) ck_assert_msg((call) == FF_OK, "%s", err.text)

/* The backend of chosen.h, counting the bytes allocated and the kernels prepared; `bounce`: it
 * claims that the host cannot read its memory. */
extern int64_t rig_allocated;
extern uint32_t rig_kernels;
const struct ff_backend *rig_backend(bool bounce);

struct rig {
	struct ff_schedule schedule;
	struct ff_comm *comm;
	bool own_comm;
	struct ff_executor *x;
};

/* What is lowered and executed. */
struct rig_setup {
	const struct ff_graph *graph;
	const struct ff_machine *machine;
	const struct ff_strategy *strategy;
	const struct ff_backend *backend;
	struct ff_comm *comm; /* NULL: one of its own, with all devices in this process */
	const struct ff_dataset *data;
	const struct ff_optimizer *optimizer;
	const struct ff_executor_options *opt;
	int64_t bucket_bytes; /* 0: the preset */
	struct ff_arena *arena;
};
void rig_open(struct rig *r, struct rig_setup of);
void rig_close(struct rig *r);

/* All parameters, or their gradients, one after another; the code of the first call that failed. */
int rig_read(struct rig *r, bool gradients, struct ff_arena *a, const float **ret,
		struct ff_error *err);
/* The same where none fails; their number in *n. */
const float *rig_weights(struct rig *r, bool gradients, struct ff_arena *a, int64_t *n);
/* For each parameter max |a - b| / max |b|: the worst, its node in *name.
 * One whose gradient nearly cancels (its largest element is less than a
 * tenth of the largest of all) is measured by that tenth: what is left
 * of such a sum is mostly the rounding of terms as large as anywhere else. */
double rig_distance(const struct ff_graph *g, const float *a, const float *b, const char **name);
int64_t rig_volume(const struct ff_value *v);

#endif
