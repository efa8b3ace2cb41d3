/* Attention and its prelude: a block of queries at a time against all keys that they look at, so
 * that of the scores there is never more than that block.  Backward they are made anew.  Products
 * are oneDNN's, in float32; a block's result is rounded once.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#include "cpu/core/dnnl.h"
#include "cpu/core/real.h"
#include "cpu/ops/sequence/scores.h"
#include "ff/philox.h"

#define SCORES 65536 /* of a block: they stay in a cache */
#define LEAST 16     /* queries of a block */
#define MOST 128
#define RUN 256 /* numbers drawn at a time */

struct attention {
	struct ff_attention a;
	enum ff_dtype type; /* statistics and their gradient are float32 */
	bool need[3];
	uint32_t pairs;        /* the node: which input its statistics are */
	int64_t block, slots;  /* queries; what goes on at a time */
	int64_t at, slot_size; /* workspace: of a slot's arrays, in float32 */
};

/* Arrays of a slot; those of queries, keys and values where they are bfloat16. */
struct scratch {
	float *scores, *gradients, *query, *out, *key, *value, *dkey, *dvalue;
};

/* Rows of a head as float32, `step` apart. */
struct rows {
	const float *at;
	int64_t step;
};

FF_REAL_LOOP void add_mask(enum ff_dtype t, const void *mask, int64_t step, float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] += ff_real_get(t, mask, i * step);
}

/* ---- blocks ---- */

/* Queries [first, first + rows) of one head of one sample, and the keys that any of them sees. */
struct block {
	int64_t sample, head, first, rows, keys;
};

/* Of the part's keys how many its query `i` sees. */
static int64_t keys_of(const struct ff_attention *a, int64_t i)
{
	int64_t n = a->causal ? a->first_query + i + 1 - a->first_key : a->keys;

	return n < 0 ? 0 : n > a->keys ? a->keys : n;
}

static struct block block_of(const struct attention *k, int64_t sample, int64_t head, int64_t first)
{
	int64_t left = k->a.queries - first;
	struct block b = {sample, head, first, left < k->block ? left : k->block, 0};

	b.keys = keys_of(&k->a, first + b.rows - 1);
	return b;
}

static int64_t key_head(const struct ff_attention *a, int64_t head)
{
	return (a->first_head + head) / a->shared - a->first_key_head;
}

/* Element at which a row of a head begins. */
static int64_t query_at(const struct ff_attention *a, int64_t sample, int64_t row, int64_t head)
{
	return ((sample * a->queries + row) * a->heads + head) * a->size;
}
static int64_t key_at(const struct ff_attention *a, int64_t sample, int64_t head)
{
	return (sample * a->keys * a->key_heads + head) * a->size;
}
static int64_t pair_at(const struct ff_attention *a, const struct block *b, int64_t row)
{
	return 2 * ((b->sample * a->heads + b->head) * a->queries + b->first + row);
}

/* `n` rows, `step` elements apart from `at` on: as they are, or as float32 in `buffer`. */
static struct rows take(const struct attention *k, const void *array, int64_t at, int64_t step,
		int64_t n, float *buffer)
{
	int64_t size = k->a.size;

	if (k->type == FF_F32)
		return (struct rows){(const float *)array + at, step};
	for (int64_t i = 0; i < n; i++)
		for (int64_t d = 0; d < size; d++)
			buffer[i * size + d] = ff_real_get(FF_BF16, array, at + i * step + d);
	return (struct rows){buffer, size};
}

static struct rows take_queries(
		const struct attention *k, const void *array, const struct block *b, float *buffer)
{
	return take(k, array, query_at(&k->a, b->sample, b->first, b->head), k->a.heads * k->a.size,
			b->rows, buffer);
}

static struct rows take_keys(const struct attention *k, const void *array, int64_t sample,
		int64_t head, float *buffer)
{
	return take(k, array, key_at(&k->a, sample, head), k->a.key_heads * k->a.size, k->a.keys,
			buffer);
}

/* Where a block's rows are written: there, or in `buffer`, which put() rounds. */
static float *sink(const struct attention *k, void *array, const struct block *b, float *buffer,
		int64_t *step)
{
	*step = k->type == FF_F32 ? k->a.heads * k->a.size : k->a.size;
	return k->type == FF_F32 ? (float *)array + query_at(&k->a, b->sample, b->first, b->head)
				 : buffer;
}

static void put(const struct attention *k, void *array, const struct block *b, const float *buffer)
{
	for (int64_t i = 0; i < b->rows && k->type != FF_F32; i++) {
		int64_t at = query_at(&k->a, b->sample, b->first + i, b->head);

		for (int64_t d = 0; d < k->a.size; d++)
			ff_real_put(FF_BF16, array, at + d, buffer[i * k->a.size + d]);
	}
}

/* C = factor A B + keep C; n x m, over `inner`. */
struct product {
	int64_t n, m, inner;
	float factor, keep;
};

static dnnl_status_t multiply(struct product p, const char *transposed, struct rows a,
		struct rows b, float *c, int64_t step)
{
	return dnnl_sgemm(transposed[0], transposed[1], p.n, p.m, p.inner, p.factor, a.at, a.step,
			b.at, b.step, p.keep, c, step);
}

/* The scores of a block, b->keys a row, masked but for what lies ahead. */
static dnnl_status_t make_scores(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, struct rows query, struct rows key, float *scores)
{
	const struct ff_attention *a = &k->a;
	const struct product p = {b->rows, b->keys, a->size, a->scale, 0};
	dnnl_status_t s = b->keys ? multiply(p, "NT", query, key, scores, b->keys) : dnnl_success;

	for (int64_t i = 0; i < b->rows && a->masked; i++) {
		int64_t at = b->sample * a->mask_stride[0] + b->head * a->mask_stride[1] +
			     (b->first + i) * a->mask_stride[2];

		FF_REAL_CALL(k->type, add_mask, ff_real_in(k->type, io->in[3], at),
				a->mask_stride[3], scores + i * b->keys, b->keys);
	}
	return s;
}

static bool drops(const struct attention *k, const struct ff_kernel_io *io)
{
	return io->training && k->a.dropped > 0;
}

/* What a row's weights are times, from the part's key `key` on: 0, or what keeps their mean. */
static void draw(const struct attention *k, const struct ff_kernel_io *io, const struct block *b,
		int64_t row, int64_t key, int64_t n, float *factor)
{
	const struct ff_attention *a = &k->a;
	int64_t number = io->micro * a->numbers + a->first_number +
			 b->sample * a->number_stride[0] + b->head * a->number_stride[1] +
			 (b->first + row) * a->number_stride[2] + key;

	ff_philox_uniform(io->seed, ff_philox_stream(a->node, (uint32_t)io->step), (uint64_t)number,
			(size_t)n, factor);
	for (int64_t i = 0; i < n; i++)
		factor[i] = factor[i] < a->dropped ? 0 : a->kept;
}

static void clear(float *x, int64_t n)
{
	memset(x, 0, (size_t)n * sizeof(*x));
}

/* ---- forward ---- */

static dnnl_status_t find_statistics(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, struct rows key, const struct scratch *own)
{
	struct rows query = take_queries(k, io->in[0], b, own->query);
	dnnl_status_t s = make_scores(k, io, b, query, key, own->scores);

	for (int64_t i = 0; i < b->rows; i++)
		ff_scores_reduce(own->scores + i * b->keys, keys_of(&k->a, b->first + i),
				(float *)io->out[0] + pair_at(&k->a, b, i));
	return s;
}

static void drop_row(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, int64_t i, float *x, int64_t n)
{
	float factor[RUN];

	for (int64_t at = 0; at < n; at += RUN) {
		int64_t some = n - at < RUN ? n - at : RUN;

		draw(k, io, b, i, at, some, factor);
		ff_scores_drop(factor, x + at, some);
	}
}

/* Makes a row's scores those by which values are added up, but for the factor that is returned. */
static float weigh_row(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, int64_t i, float *x)
{
	float *pair = (float *)io->out[1] + pair_at(&k->a, b, i);
	int64_t n = keys_of(&k->a, b->first + i);

	if (k->a.all_keys) {
		ff_scores_reduce(x, n, pair);
	} else {
		memcpy(pair, (const float *)io->in[k->pairs] + pair_at(&k->a, b, i),
				2 * sizeof(*pair));
		ff_scores_exponentials(x, pair[0], n);
	}
	if (pair[0] == -INFINITY)
		n = 0;
	if (drops(k, io))
		drop_row(k, io, b, i, x, n);
	clear(x + n, b->keys - n);
	return 1 / (1 + pair[1]);
}

static dnnl_status_t attend(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, struct rows key, struct rows value,
		const struct scratch *own)
{
	struct rows query = take_queries(k, io->in[0], b, own->query);
	dnnl_status_t s = make_scores(k, io, b, query, key, own->scores);
	const struct product p = {b->rows, k->a.size, b->keys, 1, 0};
	const struct rows weights = {own->scores, b->keys};
	float factor[MOST], *out;
	int64_t step;

	for (int64_t i = 0; i < b->rows; i++)
		factor[i] = weigh_row(k, io, b, i, own->scores + i * b->keys);
	out = sink(k, io->out[0], b, own->out, &step);
	if (s == dnnl_success && b->keys)
		s = multiply(p, "NN", weights, value, out, step);
	for (int64_t i = 0; i < b->rows; i++)
		if (b->keys)
			ff_scores_times(out + i * step, factor[i], k->a.size);
		else
			clear(out + i * step, k->a.size);
	put(k, io->out[0], b, out);
	return s;
}

static struct scratch scratch_of(
		const struct attention *k, const struct ff_kernel_io *io, int64_t slot)
{
	float *at = (float *)ff_kernel_at(io, k->at) + slot * k->slot_size;
	int64_t scores = k->block * k->a.keys, rows = k->block * k->a.size,
		keys = k->a.keys * k->a.size;
	struct scratch s = {.scores = at, .query = at + scores, .out = at + scores + rows};

	at += scores + 2 * rows;
	s.key = at;
	s.value = at + keys;
	s.gradients = at + 2 * keys;
	s.dkey = s.gradients + scores;
	s.dvalue = s.dkey + keys;
	return s;
}

/* One head of one sample. */
static dnnl_status_t run_head(const struct attention *k, const struct ff_kernel_io *io,
		int64_t item, const struct scratch *own)
{
	int64_t sample = item / k->a.heads, head = item % k->a.heads, from = key_head(&k->a, head);
	struct rows key = take_keys(k, io->in[1], sample, from, own->key), value = key;
	dnnl_status_t s = dnnl_success;

	if (k->pairs)
		value = take_keys(k, io->in[2], sample, from, own->value);
	for (int64_t at = 0; at < k->a.queries && s == dnnl_success; at += k->block) {
		const struct block b = block_of(k, sample, head, at);

		s = k->pairs ? attend(k, io, &b, key, value, own)
			     : find_statistics(k, io, &b, key, own);
	}
	return s;
}

/* ---- backward ---- */

/* What the gradients of a key head are made of. */
struct gradients {
	struct rows key, value;
	bool key_too, value_too;
};

/* The slopes of a row whose weights are p, and p as values are added up by it. */
static void drop_slopes(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, int64_t i, float sum, float *p, float *dp, int64_t n)
{
	float factor[RUN];

	for (int64_t at = 0; at < n; at += RUN) {
		int64_t some = n - at < RUN ? n - at : RUN;

		draw(k, io, b, i, at, some, factor);
		ff_scores_drop(factor, dp + at, some);
		ff_scores_slopes(p + at, sum, k->a.scale, dp + at, some);
		ff_scores_drop(factor, p + at, some);
	}
}

/* The weights of a block from the logarithms that the node gave, and the slopes of its scores. */
static void make_slopes(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, const struct scratch *own)
{
	for (int64_t i = 0; i < b->rows; i++) {
		const float *pair = (const float *)io->dout[0] + pair_at(&k->a, b, i);
		float *p = own->scores + i * b->keys, *dp = own->gradients + i * b->keys;
		int64_t n = pair[1] != -INFINITY ? keys_of(&k->a, b->first + i) : 0;

		ff_scores_exponentials(p, pair[1], n);
		if (drops(k, io))
			drop_slopes(k, io, b, i, pair[0], p, dp, n);
		else
			ff_scores_slopes(p, pair[0], k->a.scale, dp, n);
		clear(p + n, b->keys - n);
		clear(dp + n, b->keys - n);
	}
}

/* The gradient of the queries takes the place of that of the output. */
static dnnl_status_t go_back(const struct attention *k, const struct ff_kernel_io *io,
		const struct block *b, const struct gradients *g, const struct scratch *own)
{
	struct rows query = take_queries(k, io->in[0], b, own->query);
	struct rows dout = take_queries(k, io->din[0], b, own->out);
	const struct rows weights = {own->scores, b->keys}, slope = {own->gradients, b->keys};
	int64_t rows = b->rows, keys = b->keys, size = k->a.size, step;
	const struct product by_key = {keys, size, rows, 1, 1};
	dnnl_status_t s = make_scores(k, io, b, query, g->key, own->scores);
	float *dquery;

	if (s == dnnl_success && keys)
		s = multiply((struct product){rows, keys, size, 1, 0}, "NT", dout, g->value,
				own->gradients, keys);
	make_slopes(k, io, b, own);
	if (s == dnnl_success && keys && g->value_too)
		s = multiply(by_key, "TN", weights, dout, own->dvalue, size);
	dquery = sink(k, io->din[0], b, own->out, &step);
	if (s == dnnl_success && keys)
		s = multiply((struct product){rows, size, keys, 1, 0}, "NN", slope, g->key, dquery,
				step);
	for (int64_t i = 0; i < rows && !keys; i++)
		clear(dquery + i * step, size);
	put(k, io->din[0], b, dquery);
	if (s == dnnl_success && keys && g->key_too)
		s = multiply(by_key, "TN", slope, query, own->dkey, size);
	return s;
}

static void put_keys(const struct attention *k, int64_t sample, int64_t head, const float *from,
		void *array)
{
	for (int64_t i = 0; i < k->a.keys; i++) {
		int64_t at = key_at(&k->a, sample, head) + i * k->a.key_heads * k->a.size;

		for (int64_t d = 0; d < k->a.size; d++)
			ff_real_put(k->type, array, at + d, from[i * k->a.size + d]);
	}
}

/* One key head of one sample, with all heads that share it, in their order. */
static dnnl_status_t run_key_head(const struct attention *k, const struct ff_kernel_io *io,
		int64_t item, const struct scratch *own)
{
	int64_t sample = item / k->a.key_heads, from = item % k->a.key_heads;
	const struct gradients g = {.key = take_keys(k, io->in[1], sample, from, own->key),
			.value = take_keys(k, io->in[2], sample, from, own->value),
			.key_too = k->need[1],
			.value_too = k->need[2]};
	dnnl_status_t s = dnnl_success;

	clear(own->dkey, k->a.keys * k->a.size);
	clear(own->dvalue, k->a.keys * k->a.size);
	for (int64_t head = 0; head < k->a.heads; head++)
		for (int64_t at = 0; at < k->a.queries && s == dnnl_success; at += k->block) {
			const struct block b = block_of(k, sample, head, at);

			if (key_head(&k->a, head) == from)
				s = go_back(k, io, &b, &g, own);
		}
	if (k->need[1])
		put_keys(k, sample, from, own->dkey, io->din[1]);
	if (k->need[2])
		put_keys(k, sample, from, own->dvalue, io->din[2]);
	return s;
}

/* ---- kernels ---- */

/* A slot's items one after another, each by itself: results do not depend on how many slots
 * there are. */
static int run_items(const struct ff_kernel *kernel, const struct ff_kernel_io *io, int64_t items,
		dnnl_status_t (*fn)(const struct attention *k, const struct ff_kernel_io *io,
				int64_t item, const struct scratch *own),
		struct ff_error *err)
{
	const struct attention *k = kernel->state;
	int worst = dnnl_success;

#pragma omp parallel for schedule(static) reduction(max : worst) if (k->slots > 1)
	for (int64_t slot = 0; slot < k->slots; slot++) {
		const struct scratch own = scratch_of(k, io, slot);
		dnnl_status_t s = dnnl_success;

		for (int64_t i = slot; i < items && s == dnnl_success; i += k->slots)
			s = fn(k, io, i, &own);
		worst = (int)s > worst ? (int)s : worst;
	}
	return ff_dnnl_check((dnnl_status_t)worst, kernel, "multiply matrices", err);
}

static int run_forward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_attention *a = &((const struct attention *)kernel->state)->a;

	return run_items(kernel, io, a->samples * a->heads, run_head, err);
}

static int run_nothing_found(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_attention *a = &((const struct attention *)kernel->state)->a;

	(void)err;
	clear(io->out[0], 2 * a->samples * a->heads * a->queries);
	return FF_OK;
}

static int run_statistics_backward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_attention *a = &((const struct attention *)kernel->state)->a;

	return run_items(kernel, io, a->samples * a->key_heads, run_key_head, err);
}

/* By row what this part adds to the sum of gradient times output, and, of the first of those that
 * have its keys, the logarithm. */
FF_REAL_LOOP void add_up(enum ff_dtype t, const struct attention *k, const struct ff_kernel_io *io,
		int64_t row)
{
	const struct ff_attention *a = &k->a;
	int64_t head = row / a->queries % a->heads, sample = row / a->queries / a->heads;
	int64_t at = query_at(a, sample, row % a->queries, head);
	const float *pair = (const float *)io->out[1] + 2 * row;
	float *to = (float *)io->din[k->pairs] + 2 * row;
	float sum = 0;

	for (int64_t d = 0; d < a->size; d++)
		sum += ff_real_get(t, io->out[0], at + d) * ff_real_get(t, io->dout[0], at + d);
	to[0] = sum;
	to[1] = a->first_key == 0 ? pair[0] + log1pf(pair[1]) : 0;
}

static int run_backward(
		const struct ff_kernel *kernel, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	int64_t rows = k->a.samples * k->a.heads * k->a.queries;

	(void)err;
#pragma omp parallel for if (rows * k->a.size >= FF_CPU_PARALLEL)
	for (int64_t i = 0; i < rows; i++)
		FF_REAL_CALL(k->type, add_up, k, io, i);
	return FF_OK;
}

static int64_t count_threads(void)
{
	int64_t threads = 0;

#pragma omp parallel reduction(+ : threads)
	threads++;
	return threads;
}

/* A slot for each thread, as far as there are items. */
static void reserve(struct ff_kernel *kernel, struct attention *k, int64_t items, bool gradients)
{
	int64_t block = SCORES / k->a.keys / LEAST * LEAST, threads = count_threads();
	int64_t scores, keys = k->a.keys * k->a.size;

	k->block = block < LEAST ? LEAST : block > MOST ? MOST : block;
	if (k->block > k->a.queries)
		k->block = k->a.queries;
	k->slots = items < threads ? items : threads;
	scores = k->block * k->a.keys;
	k->slot_size = scores + 2 * k->block * k->a.size + 2 * keys;
	if (gradients)
		k->slot_size += scores + 2 * keys;
	k->slot_size = (k->slot_size + 15) / 16 * 16;
	k->at = ff_kernel_reserve(kernel, k->slots * k->slot_size * (int64_t)sizeof(float));
}

static struct attention *prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = ff_kernel_state(kernel, sizeof(*k), err);

	if (!k)
		return NULL;
	ff_attention_fill(w, &k->a);
	k->type = w->node->in_map[0].dtype;
	k->pairs = w->node->n_prelude ? w->node->n_data - 1 : 0;
	for (uint32_t i = 0; i < 3; i++)
		k->need[i] = w->need_din[i];
	return k;
}

int ff_cpu_attention_statistics_prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = prepare(kernel, w, err);
	bool back = w->pass == FF_BACKWARD;

	if (!k)
		return FF_E_NOMEM;
	kernel->run = back ? (k->need[0] ? run_statistics_backward : ff_kernel_run_nothing)
		      : k->a.all_keys ? run_nothing_found
				      : run_forward;
	if (back ? k->need[0] : !k->a.all_keys)
		reserve(kernel, k, k->a.samples * (back ? k->a.key_heads : k->a.heads), back);
	return FF_OK;
}

int ff_cpu_attention_prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = prepare(kernel, w, err);

	if (!k)
		return FF_E_NOMEM;
	if (w->pass == FF_FORWARD) {
		kernel->run = run_forward;
		reserve(kernel, k, k->a.samples * k->a.heads, false);
		return FF_OK;
	}
	kernel->run = w->need_din[k->pairs] ? run_backward : ff_kernel_run_nothing;
	return FF_OK;
}
