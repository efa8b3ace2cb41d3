/* Mean cross-entropy of softmax(logits) and labels, over the whole batch.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "copy.h"
#include "kernel.h"

/* Positions are labels; each has a column of `classes` logits, `step` apart. */
struct loss {
	int64_t positions, classes, step;
	double labels; /* of the whole batch */
	/* axes of the labels, outermost first */
	uint32_t rank;
	int64_t n[FF_MAX_RANK], logit_stride[FF_MAX_RANK], label_stride[FF_MAX_RANK];
};

/* Where position `i` has its logits and its label. */
static void locate(const struct loss *l, int64_t i, int64_t *logit, int64_t *label)
{
	*logit = *label = 0;
	for (uint32_t axis = l->rank; axis-- > 0;) {
		*logit += i % l->n[axis] * l->logit_stride[axis];
		*label += i % l->n[axis] * l->label_stride[axis];
		i /= l->n[axis];
	}
}

static int64_t largest(const struct loss *l, const float *x)
{
	int64_t best = 0;

	for (int64_t i = 1; i < l->classes; i++)
		if (x[i * l->step] > x[best * l->step])
			best = i;
	return best;
}

/* sum of exp(x - max) */
static double sum_exp(const struct loss *l, const float *x, float max)
{
	double sum = 0;

	for (int64_t i = 0; i < l->classes; i++)
		sum += expf(x[i * l->step] - max);
	return sum;
}

static int bad_label(const struct ff_kernel *k, int64_t label, struct ff_error *err)
{
	const struct loss *l = k->state;

	return ff_fail(err, FF_E_INPUT, "%s: label %lld is not in -1..%lld", k->name,
			(long long)label, (long long)l->classes - 1);
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;
	const float *logits = io->in[0];
	const int32_t *labels = io->in[1];
	float *out = io->out[0];
	int64_t bad = -1, correct = 0;
	double sum = 0;

#pragma omp parallel for reduction(+ : sum, correct) reduction(max : bad) \
		if (l->positions * l->classes >= FF_CPU_PARALLEL / 8)
	for (int64_t i = 0; i < l->positions; i++) {
		int64_t at, label_at;

		locate(l, i, &at, &label_at);
		const float *x = logits + at;
		int32_t label = labels[label_at];
		if (label < 0)
			continue;
		if (label >= l->classes) {
			bad = bad > label ? bad : label;
			continue;
		}
		int64_t best = largest(l, x);
		float max = x[best * l->step];
		sum += log(sum_exp(l, x, max)) + ((double)max - (double)x[label * l->step]);
		correct += best == label;
	}
	if (bad >= 0)
		return bad_label(k, bad, err);
	out[0] = (float)(sum / l->labels);
	out[1] = (float)correct;
	return FF_OK;
}

/* (softmax - one-hot) / labels; nothing for a label of -1. */
static void gradient(const struct loss *l, const float *x, int32_t label, float *dx)
{
	if (label < 0 || label >= l->classes) {
		for (int64_t i = 0; i < l->classes; i++)
			dx[i * l->step] = 0;
		return;
	}
	float max = x[largest(l, x) * l->step];
	float scale = (float)(1 / (sum_exp(l, x, max) * l->labels));
	for (int64_t i = 0; i < l->classes; i++)
		dx[i * l->step] = expf(x[i * l->step] - max) * scale;
	dx[label * l->step] -= (float)(1 / l->labels);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;
	const float *logits = io->in[0];
	const int32_t *labels = io->in[1];
	float *din = io->din[0];

	(void)err; /* forward has looked at the labels */
#pragma omp parallel for if (l->positions * l->classes >= FF_CPU_PARALLEL / 8)
	for (int64_t i = 0; i < l->positions; i++) {
		int64_t at, label_at;

		locate(l, i, &at, &label_at);
		gradient(l, logits + at, labels[label_at], din + at);
	}
	return FF_OK;
}

int ff_cpu_softmax_cross_entropy_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	const struct ff_operand *labels = &w->node->in_map[1];
	struct loss *l = ff_kernel_state(k, sizeof(*l), err);
	int64_t logit_stride[FF_MAX_RANK];

	if (!l)
		return FF_E_NOMEM;
	ff_region_strides(w->node->in_map[0].order, &w->in[0], logit_stride);
	ff_region_strides(labels->order, &w->in[1], l->label_stride);
	l->positions = ff_region_volume(&w->in[1]);
	l->classes = ff_region_size(&w->in[0], 1);
	l->step = logit_stride[1];
	l->labels = 1;
	l->rank = w->in[1].rank;
	for (uint32_t i = 0; i < l->rank; i++) {
		l->n[i] = ff_region_size(&w->in[1], i);
		l->logit_stride[i] = logit_stride[i ? i + 1 : 0];
		l->labels *= labels->shape[i];
	}
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
