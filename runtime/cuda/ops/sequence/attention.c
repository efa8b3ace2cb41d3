/* Attention and its prelude: by cuDNN, slice by slice, where it has a plan; else by kernels of our
 * own.  It has none for float32.  Forward it is asked for parts that have all keys, backward for
 * any whose keys and queries lie so to each other that it knows the mask; and never where weights
 * are dropped, by numbers that are not its own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/plan.h"
#include "sdpa.h"

#define SCORES (FF_PLAN_WORKSPACE / 2) /* bytes of slopes that a slice may have backward */
#define BF16_BYTES ((int64_t)sizeof(uint16_t))

struct attention {
	struct ff_attention a;
	enum ff_dtype type;             /* statistics and their gradient are float32 */
	uint32_t pairs;                 /* the node: which input its statistics are */
	const struct ff_dnn_plan *plan; /* NULL: kernels of our own */
	struct ff_sdpa_shape slice;
	/* workspace, -1: none; the others as struct ff_sdpa_values has them */
	int64_t mask, stats, out, sums, dquery, dkey, dvalue;
};

/* ---- slices ---- */

/* What one of them has: bytes of slopes, rows, elements of the mask. */
struct each {
	int64_t slopes, rows, masks;
};

/* Where slices begin there are numbers by row and elements of the mask, aligned as cuDNN is told.
 */
static bool is_aligned(const struct each *e, int64_t share)
{
	return share * e->rows * FF_F32_BYTES % FF_SDPA_ALIGN == 0 &&
	       share * e->masks * BF16_BYTES % FF_SDPA_ALIGN == 0;
}

/* The largest divisor of n of which there are no more than SCORES bytes of slopes, or 1; 0: slices
 * would not be aligned. */
static int64_t share_of(int64_t n, const struct each *e)
{
	int64_t share = n;

	while (share > 1 && (n % share || share * e->slopes > SCORES ||
					    (share < n && !is_aligned(e, share))))
		share--;
	return share == n || is_aligned(e, share) ? share : 0;
}

/* Whether as many heads share each of the part's key heads. */
static bool is_even(const struct ff_attention *a)
{
	return a->key_heads == 1 || (a->first_head % a->shared == 0 && a->heads % a->shared == 0);
}

/* How the part's mask is told; false: it cannot be.  A mask that is added has what lies ahead in
 * it. */
static bool tell_mask(const struct ff_attention *a, struct ff_sdpa_shape *s)
{
	int64_t ahead = a->first_query - a->first_key;

	s->keys = a->keys;
	if (a->masked)
		s->mask_heads = a->mask_stride[1] ? a->heads : 1;
	if (a->masked || !a->causal || ahead >= a->keys - 1)
		return true; /* the first query looks at all */
	s->causal = ahead ? FF_SDPA_TO_LAST : FF_SDPA_FROM_FIRST;
	if (ahead > 0)
		s->keys = a->queries + ahead; /* nobody looks at the others */
	return ahead >= 0 && s->keys <= a->keys;
}

/* Backward there is a slope for each score in memory, for cuDNN's tiles.  False: it cannot be cut.
 */
static bool cut(const struct ff_attention *a, struct ff_sdpa_shape *s)
{
	int64_t group = a->heads / a->key_heads, mask = s->queries * s->keys;
	int64_t head = (s->queries + 127) / 128 * 128 * ((s->keys + 127) / 128 * 128) * BF16_BYTES;
	const struct each sample = {head * a->heads, a->heads * s->queries, s->mask_heads * mask};
	const struct each key_head = {
			head * group, group * s->queries, s->mask_heads > 1 ? group * mask : 0};

	s->samples = share_of(a->samples, &sample);
	s->key_heads = s->samples > 1 ? a->key_heads : share_of(a->key_heads, &key_head);
	s->heads = s->key_heads * group;
	if (s->mask_heads > 1)
		s->mask_heads = s->heads;
	return s->samples && s->heads;
}

static int find_plan(
		struct ff_kernel *kernel, struct attention *k, bool backward, struct ff_error *err)
{
	const struct ff_attention *a = &k->a;
	struct ff_sdpa_shape *s = &k->slice;

	*s = (struct ff_sdpa_shape){.samples = a->samples,
			.heads = a->heads,
			.key_heads = a->key_heads,
			.queries = a->queries,
			.size = a->size,
			.all_heads = a->heads,
			.all_key_heads = a->key_heads,
			.all_keys = a->keys,
			.backward = backward};
	if (!kernel->dev->sdpa || k->type != FF_BF16 || a->size % 8 || a->dropped > 0 ||
			!is_even(a) || !tell_mask(a, s))
		return FF_OK;
	if (backward && !cut(a, s))
		return FF_OK;
	return ff_sdpa_find(kernel, s, &k->plan, err);
}

static int64_t queries_bytes(const struct ff_attention *a)
{
	return a->samples * a->queries * a->heads * a->size * BF16_BYTES;
}

static int64_t keys_bytes(const struct ff_attention *a)
{
	return a->samples * a->keys * a->key_heads * a->size * BF16_BYTES;
}

static int64_t mask_heads(const struct ff_attention *a)
{
	return a->mask_stride[1] ? a->heads : 1;
}

/* What a plan needs beside its own workspace. */
static void reserve(struct ff_kernel *kernel, struct attention *k, const bool *need_din)
{
	const struct ff_attention *a = &k->a;
	int64_t rows = a->heads * a->queries * FF_F32_BYTES;

	k->stats = ff_kernel_reserve(kernel, a->samples * rows);
	k->mask = a->masked ? ff_kernel_reserve(kernel, a->samples * mask_heads(a) * a->queries *
									a->keys * BF16_BYTES)
			    : -1;
	if (!k->slice.backward)
		return;
	k->sums = ff_kernel_reserve(kernel, a->samples * rows);
	k->out = ff_kernel_reserve(kernel, queries_bytes(a));
	k->dquery = ff_kernel_reserve(kernel, queries_bytes(a));
	k->dkey = need_din[1] ? -1 : ff_kernel_reserve(kernel, keys_bytes(a));
	k->dvalue = need_din[2] ? -1 : ff_kernel_reserve(kernel, keys_bytes(a));
}

static const void *from(const void *array, int64_t i)
{
	return array ? (const char *)array + i * BF16_BYTES : NULL;
}

static void *to(void *array, int64_t i)
{
	return array ? (char *)array + i * BF16_BYTES : NULL;
}

/* Of the part's, those of a slice. */
static struct ff_sdpa_values slice_at(const struct attention *k, const struct ff_sdpa_values *v,
		int64_t sample, int64_t key_head)
{
	const struct ff_attention *a = &k->a;
	int64_t head = key_head * (a->heads / a->key_heads);
	int64_t query = (sample * a->queries * a->heads + head) * a->size;
	int64_t key = (sample * a->keys * a->key_heads + key_head) * a->size;
	int64_t row = (sample * a->heads + head) * a->queries;
	int64_t masks = mask_heads(a) == 1 ? sample : sample * a->heads + head;

	return (struct ff_sdpa_values){.query = from(v->query, query),
			.key = from(v->key, key),
			.value = from(v->value, key),
			.mask = from(v->mask, masks * a->queries * a->keys),
			.out = to(v->out, query),
			.stats = v->stats + row,
			.scale = a->scale,
			.dout = from(v->dout, query),
			.sums = v->sums ? v->sums + row : NULL,
			.dquery = to(v->dquery, query),
			.dkey = to(v->dkey, key),
			.dvalue = to(v->dvalue, key)};
}

/* The mask, if there is one, and every slice. */
static int run_slices(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_sdpa_values *v, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	void *mask = ff_kernel_at(io, k->mask);
	int code = FF_OK;

	v->mask = mask;
	if (mask)
		code = ff_kernel_launched(ff_launch_sdpa_mask(&k->a, io->in[3], mask_heads(&k->a),
							  k->a.keys, mask, ff_stream_queue(s)),
				kernel, err);
	for (int64_t n = 0; n < k->a.samples && code == FF_OK; n += k->slice.samples)
		for (int64_t h = 0; h < k->a.key_heads && code == FF_OK; h += k->slice.key_heads) {
			struct ff_sdpa_values part = slice_at(k, v, n, h);

			code = ff_sdpa_run(kernel, k->plan, &k->slice, &part,
					ff_kernel_scratch(kernel, io), ff_stream_queue(s), err);
		}
	return code;
}

static int run_planned(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	struct ff_sdpa_values v = {.query = io->in[0],
			.key = io->in[1],
			.value = io->in[2],
			.out = io->out[0],
			.stats = ff_kernel_at(io, k->stats)};
	int code = run_slices(kernel, s, io, &v, err);

	return code < 0 ? code
			: ff_kernel_launched(ff_launch_sdpa_pairs(&k->a, v.stats, io->out[1], v.out,
							     ff_stream_queue(s)),
					  kernel, err);
}

/* Zeros where nobody looks, and cuDNN is not asked. */
static cudaError_t clear_keys(const struct attention *k, void *gradient, cudaStream_t queue)
{
	return k->slice.keys < k->a.keys
			       ? cudaMemsetAsync(gradient, 0, (size_t)keys_bytes(&k->a), queue)
			       : cudaSuccess;
}

static int run_planned_backward(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	cudaStream_t queue = ff_stream_queue(s);
	struct ff_sdpa_values v = {.query = io->in[0],
			.key = io->in[1],
			.value = io->in[2],
			.out = ff_kernel_at(io, k->out),
			.stats = ff_kernel_at(io, k->stats),
			.dout = io->din[0],
			.sums = ff_kernel_at(io, k->sums),
			.dquery = ff_kernel_at(io, k->dquery),
			.dkey = io->din[1] ? io->din[1] : ff_kernel_at(io, k->dkey),
			.dvalue = io->din[2] ? io->din[2] : ff_kernel_at(io, k->dvalue)};
	cudaError_t status = ff_launch_sdpa_rows(&k->a, io->dout[0], v.dout, v.stats, v.out, queue);
	int code;

	if (status == cudaSuccess)
		status = clear_keys(k, v.dkey, queue);
	if (status == cudaSuccess)
		status = clear_keys(k, v.dvalue, queue);
	code = ff_kernel_launched(status, kernel, err);
	if (code == FF_OK)
		code = run_slices(kernel, s, io, &v, err);
	return code < 0 ? code
			: ff_kernel_launched(cudaMemcpyAsync(io->din[0], v.dquery,
							     (size_t)queries_bytes(&k->a),
							     cudaMemcpyDeviceToDevice, queue),
					  kernel, err);
}

/* ---- kernels of our own ---- */

static struct ff_attention_values values_of(
		const struct attention *k, const struct ff_kernel_io *io)
{
	return (struct ff_attention_values){.query = io->in[0],
			.key = io->in[1],
			.value = io->in[2],
			.mask = k->a.masked ? io->in[3] : NULL,
			.seed = io->seed,
			.step = io->step,
			.figures = io->figures};
}

/* Of this micro-batch; without training nothing is dropped. */
static struct ff_attention at_hand(const struct attention *k, const struct ff_kernel_io *io)
{
	struct ff_attention a = k->a;

	a.first_number += io->micro * a.numbers;
	if (!io->training)
		a.dropped = 0;
	return a;
}

static int run_statistics(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	struct ff_attention_values v = values_of(k, io);

	v.pairs = io->out[0];
	return ff_kernel_launched(ff_launch_attention(k->type, &k->a, &v, NULL, ff_stream_queue(s)),
			kernel, err);
}

static int run_nothing_found(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct ff_attention *a = &((const struct attention *)kernel->state)->a;
	int64_t n = 2 * a->samples * a->heads * a->queries;

	return ff_kernel_launched(
			ff_launch_fill(io->out[0], FF_F32_BYTES, n, 0, ff_stream_queue(s)), kernel,
			err);
}

static int run_statistics_backward(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	struct ff_attention_values v = values_of(k, io);
	struct ff_attention a = at_hand(k, io);
	int code = FF_OK;

	v.pair_slopes = io->dout[0];
	if (io->din[1] || io->din[2])
		code = ff_kernel_launched(
				ff_launch_attention_keys(k->type, &a, &v, io->din[0], io->din[1],
						io->din[2], ff_stream_queue(s)),
				kernel, err);
	return code < 0 ? code
			: ff_kernel_launched(
					  ff_launch_attention_queries(k->type, &a, &v, io->din[0],
							  ff_kernel_scratch(kernel, io),
							  ff_stream_queue(s)),
					  kernel, err);
}

static int run_forward(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;
	struct ff_attention_values v = values_of(k, io);
	struct ff_attention a = at_hand(k, io);

	v.given = k->a.all_keys ? NULL : io->in[k->pairs];
	v.pairs = io->out[1];
	return ff_kernel_launched(
			ff_launch_attention(k->type, &a, &v, io->out[0], ff_stream_queue(s)),
			kernel, err);
}

static int run_backward(const struct ff_kernel *kernel, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct attention *k = kernel->state;

	return ff_kernel_launched(
			ff_launch_attention_rows(k->type, &k->a, io->out[1], io->out[0],
					io->dout[0], io->din[k->pairs], ff_stream_queue(s)),
			kernel, err);
}

/* ---- preparing them ---- */

static struct attention *prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = ff_kernel_state(kernel, sizeof(*k), err);

	if (!k)
		return NULL;
	ff_attention_fill(w, &k->a);
	k->type = w->node->in_map[0].dtype;
	k->pairs = w->node->n_prelude ? w->node->n_data - 1 : 0;
	return k;
}

int ff_cuda_attention_statistics_prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = prepare(kernel, w, err);
	int code = FF_OK;

	if (!k)
		return FF_E_NOMEM;
	if (w->pass == FF_FORWARD) {
		kernel->run = k->a.all_keys ? run_nothing_found : run_statistics;
		return FF_OK;
	}
	kernel->run = w->need_din[0] ? run_statistics_backward : ff_kernel_run_nothing;
	if (w->need_din[0])
		code = find_plan(kernel, k, true, err);
	if (code < 0 || !k->plan) {
		ff_kernel_need(kernel, ff_attention_scratch(k->type, &k->a));
		return code;
	}
	kernel->run = run_planned_backward;
	reserve(kernel, k, w->need_din);
	return FF_OK;
}

int ff_cuda_attention_prepare(
		struct ff_kernel *kernel, const struct ff_work *w, struct ff_error *err)
{
	struct attention *k = prepare(kernel, w, err);
	int code = FF_OK;

	if (!k)
		return FF_E_NOMEM;
	if (w->pass == FF_BACKWARD) {
		kernel->run = w->need_din[k->pairs] ? run_backward : ff_kernel_run_nothing;
		return FF_OK;
	}
	kernel->run = run_forward;
	if (k->a.all_keys)
		code = find_plan(kernel, k, false, err);
	if (code < 0 || !k->plan)
		return code;
	kernel->run = run_planned;
	reserve(kernel, k, w->need_din);
	return FF_OK;
}
