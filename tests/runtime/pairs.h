/* Pairs of operators by kernels for both: what is shared by their tests.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_TEST_PAIRS_H
#define FF_TEST_PAIRS_H

#include "chosen.h"
#include "scene.h"

/* By pass: pairs that the backend was asked for, those that it had; kernels that ran. */
extern uint32_t pairs_offered[2], pairs_fused[2], pairs_runs;

/* The backend of chosen.h, counting those. */
struct ff_backend pairs_backend(bool fusing);
/* On the double, which has all that is asked for unless it is told otherwise; of a GPU's libraries
 * that is not known. */
bool pairs_has_all(void);

/* What is behind each layer of a graph. */
enum pairs_follower {
	PAIRS_RELU,
	PAIRS_GELU,     /* by tanh */
	PAIRS_ODD_GELU, /* the same, of a number of features that nothing can be kept of */
	PAIRS_ERF_GELU, /* the exact one, which is none of cuBLASLt's */
};
/* Layers of drawn shapes with what follows each, `n` of them: layer0, next0 and so on; and what
 * trains them: the layer "last" and a loss. */
void pairs_graph(struct ff_random *r, enum ff_dtype type, int32_t batch, uint32_t n,
		enum pairs_follower f, struct ff_arena *a, struct ff_graph *ret);
/* Such with data parallelism over micro-batches, some operators `recomputed`. */
void pairs_scene(struct scene *s, struct ff_random *r, enum pairs_follower f, uint32_t layers,
		uint32_t devices, uint32_t micro_batches, bool recomputed);

/* Nodes that are predicted to be computed by a neighbour's kernel (ff/fusion.h), of a pass. */
uint32_t pairs_predicted(const struct ff_graph *g, enum ff_pass pass);

/* Runs of kernels in one step. */
uint32_t pairs_step_runs(struct scene *s, const struct ff_backend *b);
/* With and without on the same schedule; pairs_fused is what was fused in it. */
void pairs_compare_steps(struct scene *s);

/* Memory for one kernel after the other. */
struct pairs_bench {
	const struct ff_backend *b;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_random r;
	enum ff_dtype type;
};
void pairs_bench_open(struct pairs_bench *t, const struct ff_backend *b);
void pairs_bench_close(struct pairs_bench *t);
/* Numbers of its type from -scale to scale. */
void *pairs_put(struct pairs_bench *t, const struct ff_region *region, double scale);
/* Closes it, too. */
void pairs_run(struct pairs_bench *t, struct ff_kernel *k, struct ff_kernel_io *io);
/* Fails where elements of a type are apart by more than rounding; how many the second one has
 * made zero. */
int64_t pairs_compare(struct pairs_bench *t, enum ff_dtype type, const void *two, const void *one,
		int64_t n);

#endif
