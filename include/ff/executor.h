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

/* One training step on batch number `step`.  `step` minus the schedule's staleness updates precede
 * it. */
int ff_executor_step(struct ff_executor *x, uint64_t step, struct ff_error *err);
/* Begins a step.  If steps are captured it may return before the step ends; a later call then
 * reports its failure. */
int ff_executor_post(struct ff_executor *x, uint64_t step, struct ff_error *err);
int ff_executor_wait(struct ff_executor *x, struct ff_error *err);
/* Whether the next ff_executor_post will not block: steps are captured, and the first one is done.
 */
bool ff_executor_runs_ahead(const struct ff_executor *x);
/* Why steps are not captured and launched as a whole; NULL: they are.  The first step and traced
 * steps never are. FF_CUDA_GRAPH=0 in the environment refuses it; with FF_CUDA_GRAPH=1 any obstacle
 * is an error of ff_executor_create. */
const char *ff_executor_obstacle(const struct ff_executor *x);
/* Results of evaluation on the whole test set: the weighted sum of the losses, and each loss by
 * number. accuracy: the share of right predictions; 0 for a loss that has none
 * (ff_op_row.predicts).  top: the share of labels with fewer than opt.top classes of larger logit;
 * NAN for a loss without so many classes. */
struct ff_tested {
	double loss;
	struct {
		double loss, accuracy, top;
	} of[FF_MAX_LOSSES];
};
int ff_executor_test(struct ff_executor *x, struct ff_tested *ret, struct ff_error *err);
/* us[i]: durations on this rank of the `n` steps since the last call of ff_executor_losses.  A step
 * that was posted while another ran counts from the end of that one. */
int ff_executor_times(struct ff_executor *x, double *us, uint32_t n, struct ff_error *err);
/* loss[i]: loss number `which` of the `n` steps since the last call of ff_executor_losses; equal on
 * all ranks. */
int ff_executor_loss(struct ff_executor *x, uint32_t which, double *loss, uint32_t n,
		struct ff_error *err);
/* loss[i]: the weighted sum of all losses in these steps, which are then forgotten. */
int ff_executor_losses(struct ff_executor *x, double *loss, uint32_t n, struct ff_error *err);
/* Learning rate of a group of parameters from the next step on. */
void ff_executor_set_rate(struct ff_executor *x, uint32_t group, double rate);
/* Sets opt.last: the next step is the run's last. */
void ff_executor_end(struct ff_executor *x, uint64_t last);

/* Bytes allocated for `device` if hosted here, else 0. */
int64_t ff_executor_memory(const struct ff_executor *x, uint32_t device);

/* Tracing: with `on` the next steps keep spans.  ff_executor_spans: those of hosted devices in the
 * last traced step, relative to `origin_us` of ff_clock_us(); valid until the executor is
 * destroyed. */
void ff_executor_trace(struct ff_executor *x, bool on);
void ff_executor_spans(const struct ff_executor *x, const struct ff_span **spans, uint32_t *n,
		double *origin_us);

#endif
