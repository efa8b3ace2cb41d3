/* What is linear along every axis: by tables of which elements go into which, with which weight.
 * Gradients go the same way, by the tables of who reads what.
 * SPDX-License-Identifier: Apache-2.0 */
#include "resample.h"

#include "cpu/core/real.h"
#include "ff/clones.h"

#define RUN 512 /* channels at a time */

/* Along one axis, of every element that is written: the first that is read, how many, and from
 * where on their weights are. */
struct table {
	int64_t n, read, most;
	const int64_t *first, *count;
	const float *weight;
};

struct resample {
	enum ff_dtype type;
	int64_t n, c;
	struct table axis[3];
};

/* Elements `first` to before `*end` of the part's other side meet `at`, of the side that is
 * written; backward that is the input. */
static int64_t meet(const struct ff_resample_axis *a, bool backward, int64_t at, int64_t *end)
{
	int64_t lo = backward ? a->out_lo : a->in_lo, n = backward ? a->out_n : a->in_n;
	int64_t first = backward ? ff_resample_reader(a, at) : ff_resample_begin(a, at);

	*end = backward ? ff_resample_last(a, at) : ff_resample_end(a, at);
	first = first < lo ? lo : first;
	*end = *end > lo + n ? lo + n : *end;
	*end = *end < first ? first : *end;
	return first;
}

/* Of outputs that may read an input some do not. */
static float weight_of(const struct ff_resample_axis *a, int64_t o, int64_t i)
{
	bool reads = i >= ff_resample_begin(a, o) && i < ff_resample_end(a, o);

	return reads ? ff_resample_weight(a, o, i) : 0;
}

static int64_t most_of(const struct ff_resample_axis *a, bool backward)
{
	int64_t lo = backward ? a->in_lo : a->out_lo, n = backward ? a->in_n : a->out_n;
	int64_t most = 1;

	for (int64_t i = 0; i < n; i++) {
		int64_t end, first = meet(a, backward, lo + i, &end);

		most = end - first > most ? end - first : most;
	}
	return most;
}

/* Where the numbers of a table lie: `at` in the kernel's state, which they are moved on. */
static void fill_table(
		const struct ff_resample_axis *a, bool backward, char **at, struct table *ret)
{
	int64_t lo = backward ? a->in_lo : a->out_lo, *first, *count;
	int64_t from = backward ? a->out_lo : a->in_lo;
	float *weight;

	first = (int64_t *)(void *)*at;
	count = first + ret->n;
	weight = (float *)(void *)(count + ret->n);
	*at = (char *)(weight + (ret->n * ret->most + 1) / 2 * 2);
	for (int64_t i = 0; i < ret->n; i++) {
		int64_t end, begin = meet(a, backward, lo + i, &end);

		first[i] = begin - from;
		count[i] = end - begin;
		for (int64_t k = begin; k < end; k++)
			weight[i * ret->most + k - begin] = backward ? weight_of(a, k, lo + i)
								     : weight_of(a, lo + i, k);
	}
	ret->first = first;
	ret->count = count;
	ret->weight = weight;
}

FF_CLONES static void add_floats(float *restrict sum, const float *restrict x, float w, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += w * x[i];
}

FF_CLONES static void add_rounded(
		float *restrict sum, const uint16_t *restrict x, float w, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		sum[i] += w * ff_bf16_to_f32(x[i]);
}

static void add(const struct resample *r, float *sum, const void *x, int64_t at, float w, int64_t n)
{
	if (r->type == FF_BF16)
		add_rounded(sum, (const uint16_t *)x + at, w, n);
	else
		add_floats(sum, (const float *)x + at, w, n);
}

/* `n` channels from `c` on of the element at[] of image `image`. */
static void gather(const struct resample *r, const void *from, int64_t image, const int64_t *at,
		int64_t c, int64_t n, float *sum)
{
	const struct table *t = r->axis;
	const float *weight[3];

	for (int i = 0; i < 3; i++)
		weight[i] = t[i].weight + at[i] * t[i].most;
	memset(sum, 0, (size_t)n * sizeof(*sum));
	for (int64_t z = 0; z < t[0].count[at[0]]; z++)
		for (int64_t y = 0; y < t[1].count[at[1]]; y++) {
			int64_t line = (image * t[0].read + t[0].first[at[0]] + z) * t[1].read +
				       t[1].first[at[1]] + y;
			float w = weight[0][z] * weight[1][y];

			for (int64_t x = 0; x < t[2].count[at[2]]; x++) {
				int64_t pixel = line * t[2].read + t[2].first[at[2]] + x;

				add(r, sum, from, pixel * r->c + c, w * weight[2][x], n);
			}
		}
}

static void run(const struct resample *r, const void *from, void *to)
{
	const struct table *t = r->axis;
	int64_t pixels = r->n * t[0].n * t[1].n * t[2].n;

#pragma omp parallel for if (pixels * r->c >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < pixels; i++) {
		int64_t rest = i / t[2].n;
		int64_t at[3] = {rest / t[1].n % t[0].n, rest % t[1].n, i % t[2].n};

		for (int64_t c = 0; c < r->c; c += RUN) {
			int64_t n = r->c - c < RUN ? r->c - c : RUN;
			float sum[RUN];

			gather(r, from, rest / t[1].n / t[0].n, at, c, n, sum);
			for (int64_t k = 0; k < n; k++)
				ff_real_put(r->type, to, i * r->c + c + k, sum[k]);
		}
	}
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	run(k->state, io->in[0], io->out[0]);
	return FF_OK;
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	(void)err;
	run(k->state, io->dout[0], io->din[0]);
	return FF_OK;
}

int ff_cpu_resample(struct ff_kernel *k, const struct ff_work *w, const struct ff_resample *r,
		struct ff_error *err)
{
	bool backward = w->pass == FF_BACKWARD;
	struct resample plan = {.type = ff_work_type(w), .n = r->n, .c = r->c}, *state;
	int64_t bytes = (int64_t)sizeof(plan);
	char *at;

	for (int i = 0; i < 3; i++) {
		const struct ff_resample_axis *a = &r->axis[i];
		struct table *t = &plan.axis[i];

		t->n = backward ? a->in_n : a->out_n;
		t->read = backward ? a->out_n : a->in_n;
		t->most = most_of(a, backward);
		bytes += t->n * 2 * (int64_t)sizeof(int64_t) +
			 (t->n * t->most + 1) * (int64_t)sizeof(float);
	}
	state = ff_kernel_state(k, (size_t)bytes, err);
	if (!state)
		return FF_E_NOMEM;
	*state = plan;
	at = (char *)(state + 1);
	for (int i = 0; i < 3; i++)
		fill_table(&r->axis[i], backward, &at, &state->axis[i]);
	k->run = backward ? run_backward : run_forward;
	return FF_OK;
}
