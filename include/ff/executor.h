/* Executor: walks a schedule and runs it.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_EXECUTOR_H
#define FF_EXECUTOR_H

#include "ff/arrays.h"
#include "ff/backend.h"
#include "ff/comm.h"
#include "ff/dataset.h"
#include "ff/executor_options.h"
#include "ff/schedule.h"
#include "ff/trace.h"

struct ff_executor;

/* Allocates each hosted device's memory (exactly s->memory_bytes), prepares its
 * kernels and initialises its weights: uniform in +-sqrt(3 / fan_in) (LeCun et al.,
 * "Efficient BackProp", 1998), zero for biases, by global element index.  `s`, `backend`,
 * `comm` and `data` must outlive it. */
int ff_executor_create(const struct ff_schedule *s, const struct ff_backend *backend,
		struct ff_comm *comm, const struct ff_dataset *data,
		const struct ff_executor_options *opt, struct ff_executor **ret,
		struct ff_error *err);
void ff_executor_destroy(struct ff_executor *x);

/* One training step on batch `step`, which so many updates have gone before, less the schedule's
 * staleness. */
int ff_executor_step(struct ff_executor *x, uint64_t step, struct ff_error *err);
/* Begins one: where steps are captured it may return before it has ended, and what goes wrong in
 * it is told by a later call. */
int ff_executor_post(struct ff_executor *x, uint64_t step, struct ff_error *err);
int ff_executor_wait(struct ff_executor *x, struct ff_error *err);
/* Whether the next post will not wait: after a first step, where steps are captured. */
bool ff_executor_runs_ahead(const struct ff_executor *x);
/* Why steps are not captured and launched as a whole; NULL where they are.  The first one never
 * is, nor one that is traced.  FF_CUDA_GRAPH=0 in the environment refuses it, FF_CUDA_GRAPH=1
 * insists: what is in the way is an error of ff_executor_create then. */
const char *ff_executor_obstacle(const struct ff_executor *x);
/* What forward passes over the whole test set found: of each of the graph's losses by number, and
 * what they add up to, each by its weight.  The share that is predicted right is of losses that
 * have such (ff_op_row.predicts), else 0; of labels that have less than opt.top classes with a
 * larger logit, of losses of more classes than that, else NAN. */
struct ff_tested {
	double loss;
	struct {
		double loss, accuracy, top;
	} of[FF_MAX_LOSSES];
};
int ff_executor_test(struct ff_executor *x, struct ff_tested *ret, struct ff_error *err);
/* What each of the `n` steps since losses were last asked for took here: from its beginning, or
 * from the end of the one that was under way then. */
int ff_executor_times(struct ff_executor *x, double *us, uint32_t n, struct ff_error *err);
/* Mean of loss number `which` in each of the `n` steps since the last call of ff_executor_losses,
 * the same on all ranks. */
int ff_executor_loss(struct ff_executor *x, uint32_t which, double *loss, uint32_t n,
		struct ff_error *err);
/* Mean of all losses together, each by its weight, in each of those steps; then forgets them. */
int ff_executor_losses(struct ff_executor *x, double *loss, uint32_t n, struct ff_error *err);
/* Learning rate of a group of parameters from the next step on. */
void ff_executor_set_rate(struct ff_executor *x, uint32_t group, double rate);
/* The step to come is the run's last one: opt.last. */
void ff_executor_end(struct ff_executor *x, uint64_t last);

/* Bytes allocated for `device` if hosted here, else 0. */
int64_t ff_executor_memory(const struct ff_executor *x, uint32_t device);

/* Spans of the next step are kept; `spans` of hosted devices after it, valid
 * until the executor goes, from when ff_clock_us() showed `origin_us`. */
void ff_executor_trace(struct ff_executor *x, bool on);
void ff_executor_spans(const struct ff_executor *x, const struct ff_span **spans, uint32_t *n,
		double *origin_us);

#endif
