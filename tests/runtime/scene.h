/* A random graph with a random strategy on a random machine, run and compared
 * with one device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_SCENE_H
#define FF_TEST_SCENE_H

#include "random_graph.h"
#include "rig.h"

#define SCENE_STEPS 2
#define SCENE_TOLERANCE 2e-5
#define SCENE_ROUGH 2e-3 /* with FF_CUDA_TF32=1, on a GPU: TF32 rounds to 11 bits */

struct scene {
	struct ff_arena arena;
	struct ff_graph graph, micro; /* of the batch, of one micro-batch */
	struct ff_machine machine, one;
	struct ff_strategy strategy, single;
	struct ff_dataset *data;
	const struct ff_optimizer *optimizer;
	struct ff_executor_options opt;
};

/* What a run leaves behind. */
struct result {
	const float *initial, *weights;
	const float *gradients[SCENE_STEPS];
	double loss[SCENE_STEPS], accuracy, top, test_loss;
};

/* Its settings go to s->opt: such that each of them shows, and rounding does not. */
void scene_optimizer(struct scene *s, enum ff_optimizer_id id);
/* On 1 to `max_devices` devices, computing in `type`. */
void scene_open(struct scene *s, enum ff_dtype type, uint32_t max_devices, struct ff_random *r);
/* Instead of its machine and strategy: data parallelism on two nodes of `each` devices, updated
 * flat in each node, so that sums among nodes are beside those in them. */
void scene_group(struct scene *s, uint32_t each, bool scattered);
void scene_close(struct scene *s);
/* Its strategy on its machine; all of it on one device. */
struct rig_setup scene_setup(struct scene *s, const struct ff_backend *b);
struct rig_setup scene_single(struct scene *s, const struct ff_backend *b);
/* Trains some steps; checks on the way that the memory allocated and the bytes
 * sent are the schedule's.  `comm` as struct rig_setup has it. */
void scene_run(struct scene *s, const struct ff_machine *m, const struct ff_strategy *strategy,
		const struct ff_backend *b, struct ff_comm *comm, int64_t bucket_bytes,
		struct result *ret);
/* What sums in other orders may be apart by. */
double scene_tolerance(void);
/* How far apart all gradients of a step are: the length of their difference as a share of
 * their own. */
double scene_apart(const struct scene *s, const float *a, const float *b);
/* Fails unless both computed the same, up to the order of float32 sums. */
void scene_compare(const struct scene *s, const struct result *split, const struct result *whole);

#endif
