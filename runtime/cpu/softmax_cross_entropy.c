/* Cross-entropy of softmax(logits) and labels, in two kernels: the statistics of each
 * label's logits, of all classes or of some; and, from those of all classes, this part's
 * share of the mean over all labels of the whole batch that are not ignored.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "copy.h"
#include "kernel.h"
#include "real.h"

#define SHARES 256 /* more than threads, few enough for the stack */

/* Positions are labels; each has a column of `classes` logits, `step` apart, of which
 * the first is class `first`. */
struct loss {
	enum ff_dtype type; /* of logits and their gradient; all else is float32 */
	int64_t positions, step;
	int32_t first, classes, all_classes, ignore; /* as PyTorch's ignore_index */
	double weight, smooth, each; /* of the target what all classes share, and one's share */
	/* axes of the labels, outermost first */
	uint32_t rank;
	int64_t n[FF_MAX_RANK], logit_stride[FF_MAX_RANK], label_stride[FF_MAX_RANK];
	int64_t pair_stride[FF_MAX_RANK];
};

/* What both kernels know of a position. */
struct position {
	int64_t logit; /* where its column begins */
	int64_t pair;  /* where its statistics are */
	int32_t label;
	bool valid;
};

static struct position find(const struct loss *l, const struct ff_kernel_io *io, int64_t i)
{
	const int32_t *labels = io->in[1];
	struct position p = {0};
	int64_t label = 0;

	for (uint32_t axis = l->rank; axis-- > 0;) {
		int64_t at = i % l->n[axis];

		p.logit += at * l->logit_stride[axis];
		p.pair += at * l->pair_stride[axis];
		label += at * l->label_stride[axis];
		i /= l->n[axis];
	}
	p.label = labels[label];
	p.valid = p.label != l->ignore && p.label >= 0 && p.label < l->all_classes;
	return p;
}

static bool is_parallel(const struct loss *l)
{
	return l->positions * l->classes >= FF_CPU_PARALLEL / 8;
}

static bool has(const struct loss *l, int32_t class)
{
	return class >= l->first && class < l->first + l->classes;
}

/* ---- statistics ---- */

/* The largest of `n` logits, or -infinity. */
FF_REAL_LOOP float largest(enum ff_dtype type, const struct loss *l, const void *x, int32_t n)
{
	float most = n > 0 ? ff_real_get(type, x, 0) : -INFINITY;

	for (int32_t i = 1; i < n; i++) {
		float logit = ff_real_get(type, x, i * l->step);

		most = logit > most ? logit : most;
	}
	return most;
}

/* The largest and, relative to it, the exponentials of all others. */
FF_REAL_LOOP void log_sum_exp(enum ff_dtype type, const struct loss *l, const void *x, float *pair)
{
	float most = largest(type, l, x, l->classes);
	double sum = 0;

	pair[0] = most;
	pair[1] = 0;
	if (most == -INFINITY)
		return;
	for (int32_t i = 0; i < l->classes; i++)
		sum += expf(ff_real_get(type, x, i * l->step) - most);
	pair[1] = (float)(sum - 1);
}

FF_REAL_LOOP void find_statistics(
		enum ff_dtype type, const struct loss *l, const struct ff_kernel_io *io, int64_t i)
{
	const struct position p = find(l, io, i);
	const void *x = ff_real_in(type, io->in[0], p.logit);
	float *all = (float *)io->out[0] + p.pair, *label = (float *)io->out[1] + p.pair;
	int32_t before = p.label - l->first;

	if (!p.valid) {
		all[0] = all[1] = label[0] = label[1] = 0;
		return;
	}
	log_sum_exp(type, l, x, all);
	label[0] = has(l, p.label) ? ff_real_get(type, x, before * l->step) : -INFINITY;
	label[1] = largest(type, l, x, before < l->classes ? before : l->classes);
}

static int check_labels(const struct ff_kernel *k, const struct ff_kernel_io *io, int64_t n,
		struct ff_error *err)
{
	const struct loss *l = k->state;
	const int32_t *labels = io->in[1];

	for (int64_t i = 0; i < n; i++)
		if (labels[i] != l->ignore && (labels[i] < 0 || labels[i] >= l->all_classes))
			return ff_fail(err, FF_E_INPUT, "%s: label %d is neither %d nor in 0..%d",
					k->name, labels[i], l->ignore, l->all_classes - 1);
	return FF_OK;
}

static int run_statistics(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;
	int code = check_labels(k, io, l->positions, err);

	if (code < 0)
		return code;
#pragma omp parallel for if (is_parallel(l))
	for (int64_t i = 0; i < l->positions; i++)
		FF_REAL_CALL(l->type, find_statistics, l, io, i);
	return FF_OK;
}

/* ---- the loss ---- */

/* What some consecutive positions give. */
struct share {
	double sum;
	int64_t valid, correct;
};

/* Of the classes that the part has, how much less than the largest they are, added up. */
FF_REAL_LOOP double less(enum ff_dtype type, const struct loss *l, const void *x, float most)
{
	double sum = 0;

	for (int32_t i = 0; i < l->classes; i++)
		sum += (double)most - (double)ff_real_get(type, x, i * l->step);
	return sum;
}

static struct share add_up(
		const struct loss *l, const struct ff_kernel_io *io, int64_t first, int64_t end)
{
	struct share s = {0};

	for (int64_t i = first; i < end; i++) {
		const struct position p = find(l, io, i);
		const float *all = (const float *)io->in[2] + p.pair;
		const float *label = (const float *)io->in[3] + p.pair;

		if (!p.valid)
			continue;
		if (l->smooth > 0)
			s.sum += l->each * FF_REAL_CALL(l->type, less, l,
							   ff_real_in(l->type, io->in[0], p.logit),
							   all[0]);
		if (l->first)
			continue;
		s.sum += log1p((double)all[1]) +
			 (1 - l->smooth) * ((double)all[0] - (double)label[0]);
		/* of equally large ones, the first class is the prediction */
		s.correct += label[0] >= all[0] && label[1] < label[0];
		s.valid++;
	}
	return s;
}

/* Positions are added up in shares that do not depend on the number of threads, and the
 * shares in their order, so that the sum does not either.  Of parts that have classes of
 * the same labels, the first counts them, and each adds what its classes have of a smoothed
 * target. */
static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;
	int64_t positions = l->first && l->smooth == 0 ? 0 : l->positions;
	int64_t each = (positions + SHARES - 1) / SHARES;
	struct share share[SHARES], all = {0};
	float *out = io->out[0];

#pragma omp parallel for if (positions >= FF_CPU_PARALLEL / 8)
	for (int64_t i = 0; i < SHARES; i++) {
		int64_t first = i * each, end = first + each;

		share[i] = add_up(l, io, first, end < positions ? end : positions);
	}
	for (int64_t i = 0; i < SHARES; i++) {
		all.sum += share[i].sum;
		all.correct += share[i].correct;
		all.valid += share[i].valid;
	}
	if (all.valid > io->valid)
		return ff_fail(err, FF_E_RUN,
				"%s: has %lld labels that count, but the whole batch %lld", k->name,
				(long long)all.valid, (long long)io->valid);
	out[0] = io->valid ? (float)(all.sum / (double)io->valid) : 0;
	out[1] = (float)all.correct;
	return FF_OK;
}

/* weight (softmax - target) / valid; nothing for labels that are ignored. */
FF_REAL_LOOP void gradient(
		enum ff_dtype type, const struct loss *l, const struct ff_kernel_io *io, int64_t i)
{
	const struct position p = find(l, io, i);
	const void *x = ff_real_in(type, io->in[0], p.logit);
	const float *all = (const float *)io->in[2] + p.pair;
	void *dx = ff_real_out(type, io->din[0], p.logit);
	float most = all[0], scale, share, more;
	int64_t at = (p.label - l->first) * l->step;

	if (!p.valid) {
		for (int32_t k = 0; k < l->classes; k++)
			ff_real_put(type, dx, k * l->step, 0);
		return;
	}
	scale = (float)(l->weight / ((1 + (double)all[1]) * (double)io->valid));
	share = (float)((1 + (double)all[1]) * l->each);
	more = (float)((1 + (double)all[1]) * (l->smooth - l->each));
	for (int32_t k = 0; k < l->classes; k++)
		ff_real_put(type, dx, k * l->step,
				(expf(ff_real_get(type, x, k * l->step) - most) - share) * scale);
	/* softmax - 1 without the rounding of what is nearly 1 */
	if (has(l, p.label))
		ff_real_put(type, dx, at,
				(expf(ff_real_get(type, x, at) - most) - 1 - all[1] + more) *
						scale);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;

	(void)err; /* the statistics have looked at the labels */
#pragma omp parallel for if (is_parallel(l))
	for (int64_t i = 0; i < l->positions; i++)
		FF_REAL_CALL(l->type, gradient, l, io, i);
	return FF_OK;
}

/* `pairs` is an operand with the statistics, `pair_region` its region. */
static int prepare(struct ff_kernel *k, const struct ff_work *w, const struct ff_operand *pairs,
		const struct ff_region *pair_region, struct ff_error *err)
{
	struct loss *l = ff_kernel_state(k, sizeof(*l), err);
	int64_t logit_stride[FF_MAX_RANK];

	if (!l)
		return FF_E_NOMEM;
	ff_region_strides(w->node->in_map[0].order, &w->in[0], logit_stride);
	ff_region_strides(w->node->in_map[1].order, &w->in[1], l->label_stride);
	ff_region_strides(pairs->order, pair_region, l->pair_stride);
	l->type = w->node->in_map[0].dtype;
	l->positions = ff_region_volume(&w->in[1]);
	l->first = w->in[0].lo[1];
	l->classes = ff_region_size(&w->in[0], 1);
	l->all_classes = w->node->in_map[0].shape[1];
	l->step = logit_stride[1];
	l->ignore = w->node->attrs.loss.ignore;
	l->weight = w->node->attrs.loss.weight;
	l->smooth = w->node->op == FF_OP_SOFTMAX_CROSS_ENTROPY ? w->node->attrs.loss.smoothing : 0;
	l->each = l->smooth / l->all_classes;
	l->rank = w->in[1].rank;
	for (uint32_t i = 0; i < l->rank; i++) {
		l->n[i] = ff_region_size(&w->in[1], i);
		l->logit_stride[i] = logit_stride[i ? i + 1 : 0];
	}
	return FF_OK;
}

int ff_cpu_softmax_statistics_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	k->run = run_statistics;
	return prepare(k, w, &w->node->out_map[0], &w->out[0], err);
}

int ff_cpu_softmax_cross_entropy_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	if (w->pass == FF_BACKWARD)
		k->run = w->need_din[0] ? run_backward : ff_kernel_run_nothing;
	else
		k->run = run_forward;
	return prepare(k, w, &w->node->in_map[2], &w->in[2], err);
}
