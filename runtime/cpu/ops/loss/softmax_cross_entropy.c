/* Cross-entropy of softmax(logits) and labels, in two kernels: the statistics of each
 * label's logits, of all classes or of some; and, from those of all classes, this part's
 * share of the mean over all labels of the whole batch that are not ignored.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/core/copy.h"
#include "cpu/core/functions.h"
#include "cpu/core/kernel.h"
#include "cpu/core/loops.h"
#include "cpu/core/real.h"
#include "ff/clones.h"

#define SHARES 256 /* more than threads, few enough for the stack */
#define RUN 256    /* neighbours at a time */
#define FEW 16     /* exponentials added in float32 */

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
	bool beside; /* positions of the innermost axis are neighbours */
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

/* ---- neighbours: positions side by side, class by class; or classes of one position ---- */

/* Positions of one row of the innermost axis, which go together: rows of `n` neighbours. */
struct group {
	int64_t positions, first;       /* the first of them */
	int64_t n, steps, stride, last; /* `steps` rows, the last perhaps shorter */
	struct position at[RUN];
};

static int64_t count(const struct group *g, int64_t step)
{
	return step + 1 < g->steps ? g->n : g->last;
}

/* How many groups a row of the innermost axis is, where positions lie side by side. */
static int64_t pieces(const struct loss *l)
{
	int64_t length = l->rank ? l->n[l->rank - 1] : 1;

	return l->beside ? (length + RUN - 1) / RUN : length;
}

static int64_t groups(const struct loss *l)
{
	int64_t length = l->rank ? l->n[l->rank - 1] : 1;

	return l->positions && l->classes ? l->positions / length * pieces(l) : 0;
}

static void find_group(
		const struct loss *l, const struct ff_kernel_io *io, int64_t i, struct group *g)
{
	int64_t length = l->rank ? l->n[l->rank - 1] : 1, all = pieces(l);
	int64_t skip = i % all * (l->beside ? RUN : 1);

	g->first = i / all * length + skip;
	g->positions = !l->beside ? 1 : length - skip < RUN ? length - skip : RUN;
	for (int64_t k = 0; k < g->positions; k++)
		g->at[k] = find(l, io, g->first + k);
	if (l->beside) {
		g->n = g->last = g->positions;
		g->steps = l->classes;
		g->stride = l->step;
		return;
	}
	g->n = l->classes < RUN ? l->classes : RUN;
	g->steps = (l->classes + g->n - 1) / g->n;
	g->stride = g->n * l->step;
	g->last = l->classes - (g->steps - 1) * g->n;
}

/* Logits of a row: as they are, or in `buffer`. */
static const float *take(const struct loss *l, const struct group *g, const void *x, int64_t step,
		float *buffer)
{
	return ff_cpu_take(l->type, x, g->at[0].logit + step * g->stride, l->beside ? 1 : l->step,
			buffer, count(g, step));
}

FF_CLONES static void run_max(const float *restrict x, float *restrict most, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		most[i] = x[i] > most[i] ? x[i] : most[i];
}

/* The largest of what is before each one's own class. */
FF_CLONES static void run_before(const float *restrict x, const int32_t *restrict own,
		int32_t class, float *restrict most, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float larger = x[i] > most[i] ? x[i] : most[i];

		most[i] = class < own[i] ? larger : most[i];
	}
}

/* What is the largest is counted by itself: added to it, little would be lost. */
FF_CLONES static void run_sum(const float *restrict x, const float *restrict most,
		float *restrict sum, float *restrict equal, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		bool is = x[i] == most[i];

		sum[i] += is ? 0 : ff_exp(x[i] - most[i]);
		equal[i] += is ? 1 : 0;
	}
}

FF_CLONES static void run_larger(const float *restrict x, const float *restrict own,
		float *restrict n_larger, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		n_larger[i] += x[i] <= own[i] ? 0 : 1;
}

FF_CLONES static void run_gradient(const float *restrict x, const float *restrict most,
		const float *restrict share, const float *restrict scale, float *restrict dx,
		int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		dx[i] = (ff_exp(x[i] - most[i]) - share[i]) * scale[i];
}

static void fill(float *x, int64_t n, float value)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = value;
}

/* ---- statistics ---- */

struct statistics {
	float most[RUN], before[RUN];
	double sum[RUN];
	int32_t own[RUN]; /* the label's class, counted from the part's first */
};

static float largest(const float *x, int64_t n)
{
	float most = -INFINITY;

	for (int64_t i = 0; i < n; i++)
		most = x[i] > most ? x[i] : most;
	return most;
}

/* The largest of all classes, and of those before the label. */
static void find_largest(
		const struct loss *l, const struct group *g, const void *x, struct statistics *s)
{
	float buffer[RUN];

	fill(s->most, g->n, -INFINITY);
	fill(s->before, g->n, -INFINITY);
	for (int64_t i = 0; i < g->positions; i++)
		s->own[i] = g->at[i].label - l->first;
	for (int64_t i = 0; i < g->steps; i++) {
		const float *from = take(l, g, x, i, buffer);
		int64_t n = count(g, i), before = s->own[0] - i * g->n;

		run_max(from, s->most, n);
		if (l->beside)
			run_before(from, s->own, (int32_t)i, s->before, n);
		else
			run_max(from, s->before, before < 0 ? 0 : before < n ? before : n);
	}
	if (l->beside)
		return;
	fill(s->most, g->n, largest(s->most, g->n));
	s->before[0] = largest(s->before, g->n);
}

/* Of all but one of the largest the exponentials relative to it; a few are added in float32. */
static void find_sums(
		const struct loss *l, const struct group *g, const void *x, struct statistics *s)
{
	float sum[RUN], equal[RUN], buffer[RUN];

	for (int64_t i = 0; i < g->n; i++)
		s->sum[i] = l->beside || i == 0 ? -1 : 0;
	for (int64_t i = 0; i < g->steps; i += FEW) {
		fill(sum, g->n, 0);
		fill(equal, g->n, 0);
		for (int64_t k = i; k < i + FEW && k < g->steps; k++)
			run_sum(take(l, g, x, k, buffer), s->most, sum, equal, count(g, k));
		for (int64_t k = 0; k < g->n; k++)
			s->sum[k] += (double)equal[k] + (double)sum[k];
	}
	for (int64_t i = 1; i < g->n && !l->beside; i++)
		s->sum[0] += s->sum[i];
}

/* The largest and, relative to it, the exponentials of all others; the label's, and the largest
 * before it. */
static void put_statistics(const struct loss *l, const struct ff_kernel_io *io,
		const struct position *p, const struct statistics *s, int64_t i)
{
	const void *x = ff_real_in(l->type, io->in[0], p->logit);
	float *all = (float *)io->out[0] + p->pair, *label = (float *)io->out[1] + p->pair;

	if (!p->valid) {
		all[0] = all[1] = label[0] = label[1] = 0;
		return;
	}
	all[0] = isnan(s->sum[i]) ? NAN : s->most[i];
	all[1] = s->most[i] == -INFINITY ? 0 : (float)s->sum[i];
	label[0] = has(l, p->label) ? ff_real_get(l->type, x, s->own[i] * l->step) : -INFINITY;
	label[1] = s->before[i];
}

static void find_statistics(const struct loss *l, const struct ff_kernel_io *io, int64_t i)
{
	struct statistics s;
	struct group g;

	find_group(l, io, i, &g);
	find_largest(l, &g, io->in[0], &s);
	find_sums(l, &g, io->in[0], &s);
	for (int64_t k = 0; k < g.positions; k++)
		put_statistics(l, io, &g.at[k], &s, k);
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
	for (int64_t i = 0; i < groups(l); i++)
		find_statistics(l, io, i);
	return FF_OK;
}

/* ---- the loss ---- */

/* How many of the part's classes are before each label: what is no number is, and before what is
 * none all are. */
static void find_rank(const struct loss *l, const struct ff_kernel_io *io, int64_t i)
{
	float own[RUN], larger[RUN], buffer[RUN];
	struct group g;

	find_group(l, io, i, &g);
	fill(larger, g.n, 0);
	for (int64_t k = 0; k < g.positions; k++)
		own[k] = ((const float *)io->in[3])[g.at[k].pair];
	if (!l->beside)
		fill(own, g.n, own[0]);
	for (int64_t k = 0; k < g.steps; k++)
		run_larger(take(l, &g, io->in[0], k, buffer), own, larger, count(&g, k));
	for (int64_t k = 1; k < g.n && !l->beside; k++)
		larger[0] += larger[k];
	for (int64_t k = 0; k < g.positions; k++)
		io->rank[g.first + k] = g.at[k].valid ? larger[k] : (float)l->all_classes;
}

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
	if (!io->rank)
		return FF_OK;
#pragma omp parallel for if (is_parallel(l))
	for (int64_t i = 0; i < groups(l); i++)
		find_rank(l, io, i);
	return FF_OK;
}

/* What a row's gradient is made of, for each neighbour. */
struct slopes {
	float most[RUN], share[RUN], scale[RUN];
};

/* weight (softmax - target) / valid; nothing for labels that are ignored. */
static void find_slope(const struct loss *l, const struct ff_kernel_io *io,
		const struct position *p, struct slopes *s, int64_t i)
{
	const float *all = (const float *)io->in[2] + p->pair;

	if (!p->valid) {
		s->most[i] = INFINITY;
		s->share[i] = s->scale[i] = 0;
		return;
	}
	s->most[i] = all[0];
	s->scale[i] = (float)(l->weight / ((1 + (double)all[1]) * (double)io->valid));
	s->share[i] = (float)((1 + (double)all[1]) * l->each);
}

/* softmax - 1 without the rounding of what is nearly 1 */
static void put_target(const struct loss *l, const struct ff_kernel_io *io,
		const struct position *p, float scale)
{
	const void *x = ff_real_in(l->type, io->in[0], p->logit);
	const float *all = (const float *)io->in[2] + p->pair;
	float more = (float)((1 + (double)all[1]) * (l->smooth - l->each));
	int64_t at = (p->label - l->first) * l->step;

	if (p->valid && has(l, p->label))
		ff_real_put(l->type, ff_real_out(l->type, io->din[0], p->logit), at,
				(expf(ff_real_get(l->type, x, at) - all[0]) - 1 - all[1] + more) *
						scale);
}

static void find_gradient(const struct loss *l, const struct ff_kernel_io *io, int64_t i)
{
	float x[RUN], dx[RUN];
	struct slopes s;
	struct group g;

	find_group(l, io, i, &g);
	for (int64_t k = 0; k < g.positions; k++)
		find_slope(l, io, &g.at[k], &s, k);
	for (int64_t k = 1; k < g.n && !l->beside; k++) {
		s.most[k] = s.most[0];
		s.share[k] = s.share[0];
		s.scale[k] = s.scale[0];
	}
	for (int64_t k = 0; k < g.steps; k++) {
		int64_t at = g.at[0].logit + k * g.stride, n = count(&g, k);
		bool close = l->beside || l->step == 1;

		run_gradient(take(l, &g, io->in[0], k, x), s.most, s.share, s.scale, dx, n);
		if (close)
			ff_cpu_put(l->type, io->din[0], at, dx, n);
		for (int64_t j = 0; j < n && !close; j++)
			ff_real_put(l->type, io->din[0], at + j * l->step, dx[j]);
	}
	for (int64_t k = 0; k < g.positions; k++)
		put_target(l, io, &g.at[k], s.scale[k]);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct loss *l = k->state;

	(void)err; /* the statistics have looked at the labels */
#pragma omp parallel for if (is_parallel(l))
	for (int64_t i = 0; i < groups(l); i++)
		find_gradient(l, io, i);
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
	l->beside = l->step != 1 && l->rank && l->logit_stride[l->rank - 1] == 1;
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
