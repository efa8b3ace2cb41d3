/* The loss: its two kernels under cuts of the classes, with what the parts know of them
 * reduced as a schedule would, against its definition in double precision.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
#define omp_get_max_threads() 1
#define omp_set_num_threads(n) ((void)(n))
#endif

#include "chosen.h"
#include "cpu/core/copy.h"
#include "ff/builder.h"
#include "ff/philox.h"

#define MOST_PARTS 5
#define TOP 3       /* a label is among the first */
#define LEAST 1e-12 /* what is smaller may be zero */
#define OK(call) ck_assert_msg((call) == FF_OK, "%s", err.text)

static const struct ff_backend *backend;
static uint64_t seed;

/* One loss over whole logits and labels. */
struct loss {
	struct ff_arena arena;
	struct ff_graph g;
	uint32_t node, prelude;
	struct ff_device *dev;
	struct ff_stream *stream;
	const struct ff_value *logits, *labels;
	int64_t positions, classes;
	float *logit; /* as the value lies in memory */
	int32_t *label;
	int64_t valid;
	double smooth;
	void *put[64]; /* device memory */
	uint32_t n_put;
};

/* Logits of `shape`, of which axis 1 are the classes; all zero, labels too. */
static void loss_open(struct loss *l, uint32_t rank, const int32_t *shape, double smooth)
{
	union ff_attrs loss = ff_attrs_preset(FF_OP_SOFTMAX_CROSS_ENTROPY);
	union ff_attrs x = {.input = {.rank = (int32_t)rank}}, y = x;
	union ff_attrs fc = ff_attrs_preset(FF_OP_LINEAR);
	struct ff_builder *b;
	struct ff_error err;
	uint32_t in[2];

	memset(l, 0, sizeof(*l));
	l->smooth = loss.loss.smoothing = smooth;
	ff_arena_init(&l->arena);
	memcpy(x.input.shape, shape, rank * sizeof(*shape));
	y.input = (struct ff_input_attrs){
			.rank = (int32_t)rank - 1, .dtype = FF_I32, .classes = shape[1]};
	for (uint32_t i = 0; i < rank; i++)
		if (i != 1)
			y.input.shape[i ? i - 1 : 0] = shape[i];
	fc.linear.out_features = shape[rank - 1];
	OK(ff_builder_create("loss", &l->arena, &b, &err));
	in[0] = ff_builder_add(b, FF_OP_INPUT, "x", &x, NULL, 0);
	in[0] = ff_builder_add(b, FF_OP_LINEAR, "fc", &fc, in, 1);
	in[1] = ff_builder_add(b, FF_OP_INPUT, "y", &y, NULL, 0);
	ff_builder_add(b, FF_OP_SOFTMAX_CROSS_ENTROPY, "loss", &loss, in, 2);
	OK(ff_builder_finish(b, &l->g, &err));
	l->node = l->g.loss[0];
	l->prelude = ff_node_prelude(&l->g, l->node);
	l->logits = &l->g.values[l->g.edges[l->g.nodes[l->node].in].value];
	l->labels = &l->g.values[l->g.edges[l->g.nodes[l->node].in + 1].value];
	l->classes = shape[1];
	l->positions = 1;
	for (uint32_t i = 0; i < l->labels->rank; i++)
		l->positions *= l->labels->shape[i];
	l->logit = ff_arena_array(
			&l->arena, (size_t)(l->positions * l->classes), sizeof(*l->logit));
	l->label = ff_arena_array(&l->arena, (size_t)l->positions, sizeof(*l->label));
	OK(backend->device.open(0, &l->dev, &err));
	OK(backend->stream.open(l->dev, false, &l->stream, &err));
}

static void loss_close(struct loss *l)
{
	backend->stream.close(l->stream);
	backend->device.close(l->dev);
	ff_arena_finish(&l->arena);
}

static struct ff_region whole_of(const struct ff_value *v)
{
	struct ff_region r = {.rank = v->rank};

	memcpy(r.hi, v->shape, sizeof(v->shape));
	return r;
}

/* Element of the logits at position `i` (as the labels lie) and class `c`. */
static int64_t logit_at(const struct loss *l, int64_t i, int64_t c)
{
	struct ff_region r = whole_of(l->logits);
	int32_t at[FF_MAX_RANK] = {0};

	for (uint32_t k = l->labels->rank; k-- > 0; i /= l->labels->shape[k])
		at[k ? k + 1 : 0] = (int32_t)(i % l->labels->shape[k]);
	at[1] = (int32_t)c;
	return ff_region_offset(l->logits->order, &r, at);
}

/* ---- parts ---- */

/* A part has the classes from cut[p] on. */
struct cut {
	uint32_t n;
	int32_t at[MOST_PARTS + 1];
};

static struct ff_region box_of(const struct loss *l, const struct cut *cut, uint32_t p)
{
	const struct ff_node *n = &l->g.nodes[l->node];
	struct ff_region box = {.rank = n->n_dims};

	for (uint32_t d = 0; d < n->n_dims; d++)
		box.hi[d] = n->dim[d].extent;
	box.lo[n->n_dims - 1] = cut->at[p];
	box.hi[n->n_dims - 1] = cut->at[p + 1];
	return box;
}

/* `n` words of device memory, until the parts are through. */
static void *put(struct loss *l, const void *host, int64_t n)
{
	void *v = chosen_put(l->dev, l->stream, host, (size_t)n * sizeof(float));

	ck_assert_uint_lt(l->n_put, sizeof(l->put) / sizeof(l->put[0]));
	l->put[l->n_put++] = v;
	return v;
}

static int run(struct loss *l, uint32_t node, const struct ff_region *box, enum ff_pass pass,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	struct ff_kernel_io with = *io;
	struct ff_kernel *k;
	struct ff_work w;
	int code;

	ff_work_fill(&l->g, node, box, pass, &w);
	ck_assert_int_eq(backend->kernel.open(l->dev, &w, &k, err), FF_OK);
	if (backend->kernel.workspace(k))
		with.workspace =
				put(l, NULL, backend->kernel.workspace(k) / (int64_t)sizeof(float));
	code = backend->kernel.run(l->stream, k, &with, err);
	if (code == FF_OK)
		code = backend->stream.drain(l->stream, err);
	backend->kernel.close(k);
	return code;
}

/* A part's shard of the logits, or that back into its place; all in the host's memory. */
static void copy_logits(struct loss *l, const struct cut *cut, uint32_t p, float *shard,
		float *whole, bool back)
{
	struct ff_region all = whole_of(l->logits), part = all;

	part.lo[1] = cut->at[p];
	part.hi[1] = cut->at[p + 1];
	ff_region_copy(&(struct ff_copy){.source = back ? shard : whole,
			.sink = back ? whole : shard,
			.order = l->logits->order,
			.source_region = back ? part : all,
			.sink_region = back ? all : part,
			.region = part});
}

static void *array(struct loss *l, int64_t n)
{
	float *v = ff_arena_array(&l->arena, (size_t)n, sizeof(*v));

	for (int64_t i = 0; i < n; i++)
		v[i] = NAN; /* what is not written shows */
	return v;
}

static void get(struct loss *l, void *host, const void *device, int64_t n)
{
	chosen_get(l->stream, host, device, (size_t)n * sizeof(float));
}

static int64_t volume_of(const struct loss *l, const struct cut *cut, uint32_t p)
{
	return l->positions * (cut->at[p + 1] - cut->at[p]);
}

/* The statistics of all parts together, in *all; the parts' logits in `shard`. */
static int run_preludes(struct loss *l, const struct cut *cut, uint32_t turn, const int32_t *label,
		void **shard, float **all, struct ff_error *err)
{
	static const enum ff_reduce ops[2] = {FF_REDUCE_LOG_SUM_EXP, FF_REDUCE_MAX};
	int code = FF_OK;

	for (uint32_t i = 0; i < cut->n && code == FF_OK; i++) {
		uint32_t p = (turn + i) % cut->n;
		struct ff_region box = box_of(l, cut, p);
		float *part = array(l, volume_of(l, cut, p));
		struct ff_kernel_io io = {.valid = l->valid};

		copy_logits(l, cut, p, part, l->logit, false);
		io.in[0] = shard[p] = put(l, part, volume_of(l, cut, p));
		io.in[1] = label;
		for (int k = 0; k < 2; k++)
			io.out[k] = put(l, NULL, 2 * l->positions);
		code = run(l, l->prelude, &box, FF_FORWARD, &io, err);
		for (int k = 0; k < 2; k++) {
			float *own = array(l, 2 * l->positions);

			get(l, own, io.out[k], 2 * l->positions);
			if (i)
				ff_reduce(ops[k], FF_F32, 2 * l->positions, own, all[k]);
			else
				all[k] = own;
		}
	}
	return code;
}

/* Loss, correct predictions, labels that are among the first (or NAN) and (`grad` not NULL)
 * gradients of all logits. */
static int run_cut(struct loss *l, const struct cut *cut, struct ff_random *r, double score[3],
		float *grad, struct ff_error *err)
{
	const int32_t *label = put(l, l->label, l->positions);
	float *all[2] = {NULL};
	double *before = ff_arena_array(&l->arena, (size_t)l->positions, sizeof(*before));
	bool ranked = ff_random_below(r, 4) > 0;
	void *shard[MOST_PARTS];
	int code = run_preludes(l, cut, ff_random_below(r, cut->n), label, shard, all, err);

	score[0] = score[1] = score[2] = 0;
	for (uint32_t p = 0; p < cut->n && code == FF_OK; p++) {
		struct ff_region box = box_of(l, cut, p);
		float *part = array(l, volume_of(l, cut, p)), out[2];
		float *rank = array(l, l->positions);
		struct ff_kernel_io io = {.valid = l->valid};

		io.in[1] = label;
		for (int k = 0; k < 2; k++)
			io.in[2 + k] = put(l, all[k], 2 * l->positions);
		if (l->smooth > 0 || ranked) /* else forward has no need of the logits */
			io.in[0] = shard[p];
		io.rank = ranked ? put(l, NULL, l->positions) : NULL;
		io.out[0] = put(l, NULL, 2);
		code = run(l, l->node, &box, FF_FORWARD, &io, err);
		get(l, out, io.out[0], 2);
		score[0] += (double)out[0];
		score[1] += (double)out[1];
		if (ranked && code == FF_OK)
			get(l, rank, io.rank, l->positions);
		for (int64_t i = 0; i < l->positions && ranked; i++)
			before[i] += (double)rank[i];
		if (!grad || code < 0)
			continue;
		io.in[0] = shard[p];
		io.out[0] = NULL;
		io.rank = NULL;
		io.din[0] = put(l, NULL, volume_of(l, cut, p));
		code = run(l, l->node, &box, FF_BACKWARD, &io, err);
		get(l, part, io.din[0], volume_of(l, cut, p));
		copy_logits(l, cut, p, part, grad, true);
	}
	for (int64_t i = 0; i < l->positions; i++)
		score[2] += before[i] < TOP && (l->classes > TOP || l->label[i] >= 0);
	score[2] = ranked ? score[2] : NAN;
	while (l->n_put)
		backend->memory.free(l->dev, l->put[--l->n_put]);
	return code;
}

/* ---- against the definition ---- */

/* The same from the definition; the gradient of position `i` and class `c`. */
static void define(const struct loss *l, double score[3], double *grad)
{
	double each = l->smooth / (double)l->classes;

	score[0] = score[1] = score[2] = 0;
	for (int64_t i = 0; i < l->positions; i++) {
		double most = -INFINITY, sum = 0;
		int64_t best = 0, larger = 0;

		for (int64_t c = 0; c < l->classes; c++)
			if ((double)l->logit[logit_at(l, i, c)] > most) {
				most = (double)l->logit[logit_at(l, i, c)];
				best = c;
			}
		for (int64_t c = 0; c < l->classes; c++)
			sum += c == best ? 0 : exp((double)l->logit[logit_at(l, i, c)] - most);
		for (int64_t c = 0; c < l->classes; c++) {
			double *g = &grad[i * l->classes + c];
			double x = (double)l->logit[logit_at(l, i, c)], e = exp(x - most);

			*g = 0;
			if (l->label[i] < 0)
				continue;
			*g = ((c == l->label[i] ? e - 1 - sum : e) / (1 + sum) +
					     (c == l->label[i]) * l->smooth - each) /
			     (double)l->valid;
			score[0] += each > 0 ? each * (most - x) : 0;
		}
		if (l->label[i] < 0)
			continue;
		score[0] += log1p(sum) +
			    (1 - l->smooth) *
					    (most - (double)l->logit[logit_at(l, i, l->label[i])]);
		score[1] += best == l->label[i];
		for (int64_t c = 0; c < l->classes; c++)
			larger += l->logit[logit_at(l, i, c)] >
				  l->logit[logit_at(l, i, l->label[i])];
		score[2] += larger < TOP;
	}
	score[0] /= l->valid ? (double)l->valid : 1;
}

static struct cut draw_cut(struct ff_random *r, const struct loss *l)
{
	struct cut c = {.n = 1 + ff_random_below(r, MOST_PARTS)};

	c.n = c.n > (uint32_t)l->classes ? (uint32_t)l->classes : c.n;
	for (uint32_t p = 0; p <= c.n; p++)
		c.at[p] = ff_part_start((int32_t)l->classes, c.n, p);
	return c;
}

static void compare(struct loss *l, struct ff_random *r, double tolerance)
{
	double want[3], have[3], largest = 0;
	double *define_grad = ff_arena_array(
			&l->arena, (size_t)(l->positions * l->classes), sizeof(double));
	float *grad = array(l, l->positions * l->classes);
	struct cut cut = draw_cut(r, l);
	struct ff_error err;

	define(l, want, define_grad);
	OK(run_cut(l, &cut, r, have, grad, &err));
	ck_assert_msg(fabs(want[0] - have[0]) <= tolerance * fabs(want[0]) + LEAST,
			"%u parts: the loss is %g, expected %g", cut.n, have[0], want[0]);
	ck_assert_double_eq(have[1], want[1]);
	ck_assert(isnan(have[2]) || have[2] == want[2]);
	for (int64_t i = 0; i < l->positions * l->classes; i++)
		largest = fmax(largest, fabs(define_grad[i]));
	for (int64_t i = 0; i < l->positions; i++)
		for (int64_t c = 0; c < l->classes; c++) {
			double g = define_grad[i * l->classes + c];
			double d = (double)grad[logit_at(l, i, c)] - g;

			ck_assert_msg(fabs(d) <= tolerance * largest + LEAST,
					"%u parts: a gradient is %g off, of %g", cut.n, d, g);
		}
}

static void draw_labels(struct loss *l, struct ff_random *r)
{
	bool ignores = ff_random_below(r, 2);

	l->valid = 0;
	for (int64_t i = 0; i < l->positions; i++) {
		l->label[i] = (int32_t)ff_random_below(r, (uint32_t)l->classes);
		if (ignores && ff_random_below(r, 3) == 0)
			l->label[i] = -1;
		l->valid += l->label[i] >= 0;
	}
}

/* Logits of all kinds: any numbers; whole ones, so that many are equally large; some of
 * -infinity; far from zero; predictions that are all but certain. */
enum kind { ANY, TIES, MASKED, FAR, CERTAIN, KINDS };

static void draw_logits(struct loss *l, struct ff_random *r, enum kind kind)
{
	for (int64_t i = 0; i < l->positions; i++)
		for (int64_t c = 0; c < l->classes; c++) {
			float *x = &l->logit[logit_at(l, i, c)];
			double u = ff_random_unit(r) * 6 - 3;

			if (kind == TIES)
				u = floor(u);
			if (kind == MASKED && c != l->label[i] && ff_random_below(r, 2))
				u = -INFINITY;
			if (kind == FAR)
				u = 300 * u;
			if (kind == CERTAIN)
				u += c == l->label[i] ? 70 : 57;
			*x = (float)u;
		}
}

START_TEST(any_cut_gives_the_same)
{
	struct ff_random r = {.seed = seed, .stream = 1};

	for (int round = 0; round < (int)ff_test_rounds(60) * KINDS; round++) {
		int32_t rank = 2 + (int32_t)ff_random_below(&r, 3), shape[FF_MAX_RANK];
		struct loss l;

		for (int32_t i = 0; i < rank; i++)
			shape[i] = 1 + (int32_t)ff_random_below(&r, 4);
		shape[1] = 1 + (int32_t)ff_random_below(&r, round % 7 ? 12 : 3000);
		/* what is masked is infinitely far from a target that has all classes */
		loss_open(&l, (uint32_t)rank, shape,
				round % KINDS == MASKED || round % 2 ? 0 : 0.3);
		draw_labels(&l, &r);
		draw_logits(&l, &r, (enum kind)(round % KINDS));
		/* relative to the loss and the largest gradient, even if those are 1e-5 */
		compare(&l, &r, 3e-6);
		loss_close(&l);
	}
}
END_TEST

/* Positions side by side, so many that a thread of a GPU has two of them. */
START_TEST(many_positions)
{
	static const int32_t shapes[][3] = {{2, 37, 4096}, {9, 5, 999}};
	struct ff_random r = {.seed = seed, .stream = 2};

	for (int i = 0; i < 4; i++) {
		struct loss l;

		loss_open(&l, 3, shapes[i / 2], i % 2 ? 0.3 : 0);
		draw_labels(&l, &r);
		draw_logits(&l, &r, ANY);
		compare(&l, &r, 3e-6);
		loss_close(&l);
	}
}
END_TEST

/* ---- labels ---- */

/* A loss over `labels`, a class or -1 for each of `n` samples of 3 classes, cut into
 * `parts`. */
static int run_labels(int32_t n, const int32_t *labels, int64_t valid, uint32_t parts,
		double score[3], struct ff_error *err)
{
	struct ff_random r = {.seed = seed, .stream = 77};
	struct cut cut = {.n = parts};
	struct loss l;
	int code;

	loss_open(&l, 2, (const int32_t[]){n, 3}, 0);
	memcpy(l.label, labels, (size_t)n * sizeof(*labels));
	for (int32_t i = 0; i < n * 3; i++)
		l.logit[i] = (float)(ff_random_unit(&r) * 8 - 4);
	l.valid = valid;
	for (uint32_t p = 0; p <= parts; p++)
		cut.at[p] = ff_part_start(3, parts, p);
	code = run_cut(&l, &cut, &r, score, NULL, err);
	loss_close(&l);
	return code;
}

START_TEST(labels_that_do_not_count)
{
	static const int32_t good[] = {0, 2, -1, 1}, large[] = {0, 3, 1, 1},
			     small[] = {0, 1, -2, 1};
	static const int32_t none[] = {-1, -1, -1, -1};
	struct ff_error err;

	for (uint32_t parts = 1; parts <= 3; parts++) {
		double out[3], half[3];

		OK(run_labels(4, good, 3, parts, out, &err));
		/* of a batch with more labels elsewhere */
		OK(run_labels(4, good, 6, parts, half, &err));
		ck_assert_double_eq_tol(half[0], out[0] / 2, 1e-6);
		OK(run_labels(4, none, 0, parts, out, &err));
		ck_assert_double_eq(out[0], 0);
		ck_assert_int_eq(run_labels(4, large, 4, parts, out, &err), FF_E_INPUT);
		ck_assert_ptr_nonnull(strstr(err.text, "label 3 is neither -1 nor in 0..2"));
		ck_assert_int_eq(run_labels(4, small, 4, parts, out, &err), FF_E_INPUT);
		ck_assert_ptr_nonnull(strstr(err.text, "label -2 is neither -1 nor in 0..2"));
		/* valid is not the batch's */
		ck_assert_int_eq(run_labels(4, good, 2, parts, out, &err), FF_E_RUN);
	}
}
END_TEST

/* Floating-point sums have no order of their own: the loss gives them one. */
START_TEST(threads_do_not_show)
{
	enum { N = 20011 };
	static int32_t labels[N];
	struct ff_random r = {.seed = seed, .stream = 78};
	int before = omp_get_max_threads();
	double one[3], many[3];
	struct ff_error err;
	int64_t valid = 0;

	for (int i = 0; i < N; i++) {
		labels[i] = (int32_t)ff_random_below(&r, 4) - 1;
		valid += labels[i] >= 0;
	}
	omp_set_num_threads(1);
	OK(run_labels(N, labels, valid, 2, one, &err));
	for (int threads = 2; threads <= 7; threads++) {
		omp_set_num_threads(threads);
		OK(run_labels(N, labels, valid, 2, many, &err));
		ck_assert_mem_eq(one, many, sizeof(one));
	}
	omp_set_num_threads(before);
}
END_TEST

/* ---- reductions ---- */

START_TEST(nothing_changes_nothing)
{
	struct ff_random r = {.seed = seed, .stream = 3};

	for (int op = FF_REDUCE_SUM; op <= FF_REDUCE_LOG_SUM_EXP; op++)
		for (int k = 0; k < 100; k++) {
			float x[2], y[2], none[2];

			for (int i = 0; i < 2; i++) {
				uint32_t bits = ff_reduce_identity((enum ff_reduce)op, FF_F32);

				x[i] = y[i] = (float)(ff_random_unit(&r) * 8 - (i ? 0 : 4));
				memcpy(&none[i], &bits, sizeof(bits));
			}
			ff_reduce((enum ff_reduce)op, FF_F32, 2, none, y);
			ck_assert_mem_eq(x, y, sizeof(x));
			ff_reduce((enum ff_reduce)op, FF_F32, 2, x, none);
			ck_assert_mem_eq(x, none, sizeof(x));
		}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("loss");
	TCase *t = tcase_create("loss");

	backend = chosen_backend();
	seed = ff_test_seed(20240602);
	tcase_set_timeout(t, 0);
	tcase_add_test(t, any_cut_gives_the_same);
	tcase_add_test(t, many_positions);
	tcase_add_test(t, labels_that_do_not_count);
	if (chosen_is_cpu())
		tcase_add_test(t, threads_do_not_show);
	tcase_add_test(t, nothing_changes_nothing);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
