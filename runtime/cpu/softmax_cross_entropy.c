/* Cross-entropy of softmax(logits) and labels: this part's share of the mean over all
 * labels of the whole batch that are not ignored.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "copy.h"
#include "kernel.h"

#define IGNORED (-1) /* as PyTorch's ignore_index=-1 */
#define SHARES 256   /* more than threads, few enough for the stack */

/* Positions are labels; each has a column of `classes` logits, `step` apart. */
struct loss {
	int64_t positions, classes, step;
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

/* What some consecutive positions give. */
struct share {
	double sum;
	int64_t valid, correct;
	bool bad; /* a label that is none, and which */
	int32_t label;
};

static struct share add_up(
		const struct loss *l, const struct ff_kernel_io *io, int64_t first, int64_t end)
{
	const float *logits = io->in[0];
	const int32_t *labels = io->in[1];
	struct share s = {0};

	for (int64_t i = first; i < end && !s.bad; i++) {
		int64_t at, label_at, best;
		const float *x;

		locate(l, i, &at, &label_at);
		x = logits + at;
		s.label = labels[label_at];
		if (s.label == IGNORED)
			continue;
		s.bad = s.label < 0 || s.label >= l->classes;
		if (s.bad)
			break;
		best = largest(l, x);
		s.sum += log(sum_exp(l, x, x[best * l->step])) +
			 ((double)x[best * l->step] - (double)x[s.label * l->step]);
		s.correct += best == s.label;
		s.valid++;
	}
	return s;
}

/* Positions are added up in shares that do not depend on the number of threads, and the
 * shares in their order, so that the sum does not either. */
static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;
	int64_t each = (l->positions + SHARES - 1) / SHARES;
	struct share share[SHARES], all = {0};
	float *out = io->out[0];

#pragma omp parallel for if (l->positions * l->classes >= FF_CPU_PARALLEL / 8)
	for (int64_t i = 0; i < SHARES; i++) {
		int64_t first = i * each, end = first + each;

		share[i] = add_up(l, io, first, end < l->positions ? end : l->positions);
	}
	for (int64_t i = 0; i < SHARES; i++) {
		if (share[i].bad)
			return ff_fail(err, FF_E_INPUT, "%s: label %d is not in -1..%lld", k->name,
					share[i].label, (long long)l->classes - 1);
		all.sum += share[i].sum;
		all.correct += share[i].correct;
		all.valid += share[i].valid;
	}
	if (all.valid > io->valid)
		return ff_fail(err, FF_E_RUN,
				"%s: has %lld labels that count, but the whole batch %lld", k->name,
				(long long)all.valid, (long long)io->valid);
	out[0] = all.valid ? (float)(all.sum / (double)io->valid) : 0;
	out[1] = (float)all.correct;
	return FF_OK;
}

/* (softmax - one-hot) / valid; nothing for labels that are ignored. */
static void gradient(const struct loss *l, const float *x, int32_t label, double valid, float *dx)
{
	float max, scale;

	if (label < 0 || label >= l->classes) {
		for (int64_t i = 0; i < l->classes; i++)
			dx[i * l->step] = 0;
		return;
	}
	max = x[largest(l, x) * l->step];
	scale = (float)(1 / (sum_exp(l, x, max) * valid));
	for (int64_t i = 0; i < l->classes; i++)
		dx[i * l->step] = expf(x[i * l->step] - max) * scale;
	dx[label * l->step] -= (float)(1 / valid);
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
		gradient(l, logits + at, labels[label_at], (double)io->valid, din + at);
	}
	return FF_OK;
}

int ff_cpu_softmax_cross_entropy_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct loss *l = ff_kernel_state(k, sizeof(*l), err);
	int64_t logit_stride[FF_MAX_RANK];

	if (!l)
		return FF_E_NOMEM;
	ff_region_strides(w->node->in_map[0].order, &w->in[0], logit_stride);
	ff_region_strides(w->node->in_map[1].order, &w->in[1], l->label_stride);
	l->positions = ff_region_volume(&w->in[1]);
	l->classes = ff_region_size(&w->in[0], 1);
	l->step = logit_stride[1];
	l->rank = w->in[1].rank;
	for (uint32_t i = 0; i < l->rank; i++) {
		l->n[i] = ff_region_size(&w->in[1], i);
		l->logit_stride[i] = logit_stride[i ? i + 1 : 0];
	}
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return FF_OK;
}
