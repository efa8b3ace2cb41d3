/* Attention: a block has a tile of queries, or backward of keys, and goes through the others tile
 * by tile; scores are there only for the two at hand.  Heads of more than WIDTH elements are
 * written by several blocks, each of which makes the scores anew.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"
#include "cuda/core/functions.cuh"
#include "cuda/core/philox.cuh"
#include "tiles.cuh"

template <class T>
FF_DEVICE struct rows_of<T> queries_at(
		const struct ff_attention &a, const T *x, int64_t sample, int64_t head) {
	return {x + (sample * a.queries * a.heads + head) * a.size, a.heads *a.size, a.queries};
} template <class T>
FF_DEVICE struct rows_of<T> keys_at(
		const struct ff_attention &a, const T *x, int64_t sample, int64_t head) {
	return {x + (sample * a.keys * a.key_heads + head) * a.size, a.key_heads *a.size, a.keys};
}

FF_DEVICE int64_t
key_head(const struct ff_attention &a, int64_t head)
{
	return (a.first_head + head) / a.shared - a.first_key_head;
}

FF_DEVICE int64_t least(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

/* What lies ahead, or beyond the last, is -infinity. */
template <class T>
FF_DEVICE float score(const struct ff_attention &a, const T *mask, int64_t query, int64_t key,
		float product)
{
	if (query >= a.queries || key >= a.keys ||
			(a.causal && a.first_key + key > a.first_query + query))
		return -INFINITY;
	product *= a.scale;
	return mask ? product + real_get(mask[query * a.mask_stride[2] + key * a.mask_stride[3]])
		    : product;
}

template <class T>
FF_DEVICE const T *mask_at(
		const struct ff_attention &a, const T *mask, int64_t sample, int64_t head)
{
	return mask ? mask + sample * a.mask_stride[0] + head * a.mask_stride[1] : nullptr;
}

/* A thread's scores of a tile. */
template <class T>
FF_DEVICE void make_scores(const struct ff_attention &a, const struct rows_of<T> &query, int64_t q0,
		const struct rows_of<T> &key, int64_t k0, const T *mask, quad *stage,
		float scores[OWN][OWN])
{
	multiply(query, q0, key, k0, a.size, stage, scores);
	FF_UNROLL
	for (uint32_t i = 0; i < OWN; i++) {
		FF_UNROLL
		for (uint32_t j = 0; j < OWN; j++)
			scores[i][j] = score(a, mask, q0 + threadIdx.y * OWN + i,
					k0 + threadIdx.x * OWN + j, scores[i][j]);
	}
}

/* Where weights are dropped: the numbers of one head of one sample. */
struct numbers {
	uint64_t seed, stream;
	int64_t first;
};

FF_DEVICE struct numbers numbers_of(const struct ff_attention &a,
		const struct ff_attention_values &v, int64_t sample, int64_t head)
{
	return {v.seed, a.dropped > 0 ? philox_stream(a.node, v.step, v.figures) : 0,
			a.first_number + sample * a.number_stride[0] + head * a.number_stride[1]};
}

/* What a weight is times. */
FF_DEVICE float factor_of(
		const struct ff_attention &a, const struct numbers &n, int64_t query, int64_t key)
{
	int64_t number = n.first + query * a.number_stride[2] + key;

	if (a.dropped == 0)
		return 1;
	return philox_uniform(n.seed, n.stream, (uint64_t)number) < a.dropped ? 0 : a.kept;
}

/* A block's tile, of one head of one sample.  Blocks begin in their order; under a causal mask
 * those that have most to go through come first, of all heads, so that at the end few are left to
 * wait for (Graham, "Bounds on Multiprocessing Timing Anomalies", 1969). */
struct task {
	int64_t item, first; /* its first row */
};

FF_DEVICE struct task task_of(int64_t rows, bool last_first)
{
	int64_t tiles = (rows + TILE - 1) / TILE, items = gridDim.x / tiles;
	int64_t turn = blockIdx.x / items;

	return {blockIdx.x - turn * items, (last_first ? tiles - 1 - turn : turn) * TILE};
}

/* Up to which key the tile's queries look. */
FF_DEVICE int64_t keys_before(const struct ff_attention &a, int64_t q0)
{
	int64_t queries = least(q0 + TILE, a.queries);

	return a.causal ? least(a.keys, a.first_query + queries - a.first_key) : a.keys;
}

/* ---- forward ---- */

/* A row's largest score and its sum so far, which all threads of the row know. */
struct running {
	float most, sum, fix; /* fix: what was summed before is to be scaled by */
};

/* Makes a row's scores weights by what is known so far, or by what is given. */
FF_DEVICE void weigh(float score[OWN], struct running *r, bool given)
{
	float most = r->most, sum = 0;

	for (uint32_t k = 0; k < OWN && !given; k++)
		most = ff_larger(score[k], most);
	for (int lanes = SIDE / 2; lanes > 0 && !given; lanes /= 2)
		most = ff_larger(__shfl_xor_sync(0xffffffff, most, lanes, SIDE), most);
	for (uint32_t k = 0; k < OWN; k++) {
		score[k] = score[k] != -INFINITY && most != -INFINITY ? expf(score[k] - most) : 0;
		sum += score[k];
	}
	for (int lanes = SIDE / 2; lanes > 0; lanes /= 2)
		sum += __shfl_xor_sync(0xffffffff, sum, lanes, SIDE);
	r->fix = given ? 1 : r->most != -INFINITY ? expf(r->most - most) : 0;
	r->sum = given ? r->sum : r->sum * r->fix + sum;
	r->most = most;
}

/* Before any key: nothing, or what is given of the block's queries. */
FF_DEVICE void begin_rows(const struct ff_attention &a, const float *given, int64_t pair,
		int64_t q0, struct running rows[OWN])
{
	FF_UNROLL
	for (uint32_t i = 0; i < OWN; i++) {
		bool has = given && q0 + threadIdx.y * OWN + i < a.queries;

		rows[i].most = has ? given[pair + 2 * i] : -INFINITY;
		rows[i].sum = has ? 1 + given[pair + 2 * i + 1] : 0;
		rows[i].fix = 1;
	}
}

/* The weights of a row's tile as values are added up by them. */
template <int EACH>
FF_DEVICE void weigh_tile(const struct ff_attention &a, const struct numbers &n, int64_t q0,
		int64_t k0, bool given, float scores[OWN][OWN], struct running rows[OWN],
		float sum[OWN][EACH])
{
	FF_UNROLL
	for (uint32_t i = 0; i < OWN; i++) {
		weigh(scores[i], &rows[i], given);
		for (uint32_t j = 0; j < EACH; j++)
			sum[i][j] *= rows[i].fix;
		if (a.dropped == 0)
			continue;
		FF_UNROLL
		for (uint32_t j = 0; j < OWN; j++)
			scores[i][j] *= factor_of(a, n, q0 + threadIdx.y * OWN + i,
					k0 + threadIdx.x * OWN + j);
	}
}

template <class T, int EACH>
FF_KERNEL_BESIDE(2)
void forward(struct ff_attention a, struct ff_attention_values values, T *out)
{
	FF_SHARED quad stage[TILE * QUADS], weights[TILE * QUADS];
	struct task task = task_of(a.queries, true);
	int64_t item = task.item, q0 = task.first, end = keys_before(a, q0);
	int64_t sample = item / a.heads, head = item % a.heads, from = blockIdx.y * WIDTH;
	struct rows_of<T> q = queries_at(a, (const T *)values.query, sample, head);
	struct rows_of<T> k = keys_at(a, (const T *)values.key, sample, key_head(a, head));
	struct rows_of<T> v = keys_at(a, (const T *)values.value, sample, key_head(a, head));
	const T *mask = mask_at(a, (const T *)values.mask, sample, head);
	struct numbers numbers = numbers_of(a, values, sample, head);
	int64_t pair = 2 * (item * a.queries + q0 + threadIdx.y * OWN);
	struct running rows[OWN];
	float sum[OWN][EACH] = {}, scores[OWN][OWN];

	begin_rows(a, values.given, pair, q0, rows);
	for (int64_t k0 = 0; k0 < end; k0 += TILE) {
		make_scores(a, q, q0, k, k0, mask, stage, scores);
		weigh_tile<EACH>(a, numbers, q0, k0, values.given != nullptr, scores, rows, sum);
		if (!out)
			continue;
		put_tile(scores, true, weights);
		add_rows<T, EACH>(weights, v, k0, from, a.size, stage, sum);
	}
	FF_UNROLL
	for (uint32_t i = 0; i < OWN; i++) {
		bool any = rows[i].most != -INFINITY;

		for (uint32_t j = 0; j < EACH; j++)
			sum[i][j] *= any ? 1 / rows[i].sum : 0;
		if (threadIdx.x > 0 || blockIdx.y > 0 || q0 + threadIdx.y * OWN + i >= a.queries)
			continue;
		values.pairs[pair + 2 * i] = rows[i].most;
		values.pairs[pair + 2 * i + 1] = any ? rows[i].sum - 1 : 0;
	}
	if (out)
		put_rows<T, EACH>(out + (sample * a.queries * a.heads + head) * a.size + from,
				a.heads * a.size, q0, a.queries, a.size - from, sum);
}

/* ---- backward ---- */

#define LANES 32

/* LANES threads have a row. */
template <class T>
FF_KERNEL void sum_rows(struct ff_attention a, const float *pairs, const T *out, const T *dout,
		float *pair_slopes)
{
	FF_SHARED float part[BLOCK / LANES][LANES];
	int64_t row = (int64_t)blockIdx.x * (BLOCK / LANES) + threadIdx.y;
	int64_t all = a.samples * a.heads * a.queries;
	int64_t sample = row / a.queries / a.heads, head = row / a.queries % a.heads;
	int64_t at = ((sample * a.queries + row % a.queries) * a.heads + head) * a.size;
	float sum = 0;

	for (int64_t d = threadIdx.x; row < all && d < a.size; d += LANES)
		sum += real_get(out[at + d]) * real_get(dout[at + d]);
	part[threadIdx.y][threadIdx.x] = sum;
	for (uint32_t step = LANES / 2; step > 0; step /= 2) {
		__syncthreads();
		if (threadIdx.x < step)
			part[threadIdx.y][threadIdx.x] += part[threadIdx.y][threadIdx.x + step];
	}
	if (threadIdx.x > 0 || row >= all)
		return;
	pair_slopes[2 * row] = part[threadIdx.y][0];
	pair_slopes[2 * row + 1] =
			a.first_key == 0 ? pairs[2 * row] + log1pf(pairs[2 * row + 1]) : 0;
}

/* What backward reads of one head, and where a block has it. */
template <class T> struct head_of {
	struct rows_of<T> query, key, value, dout;
	const T *mask;
	const float *pair_slopes; /* of its rows */
	struct numbers numbers;
};

template <class T>
FF_DEVICE struct head_of<T> head_at(const struct ff_attention &a,
		const struct ff_attention_values &v, const T *dout, int64_t sample, int64_t head) {
	int64_t from = key_head(a, head);

	return {queries_at(a, (const T *)v.query, sample, head),
			keys_at(a, (const T *)v.key, sample, from),
			keys_at(a, (const T *)v.value, sample, from),
			queries_at(a, dout, sample, head),
			mask_at(a, (const T *)v.mask, sample, head),
			v.pair_slopes + 2 * (sample * a.heads + head) * a.queries,
			numbers_of(a, v, sample, head)};
}

/* Weights of a tile as values are added up by them, where they are wanted, and the slopes of its
 * scores, in shared memory: a query a row, or a key. */
template <class T>
FF_DEVICE void make_slopes(const struct ff_attention &a, const struct head_of<T> &h, int64_t q0,
		int64_t k0, bool turned, quad *stage, quad *weights, quad *slopes)
{
	float s[OWN][OWN], slope[OWN][OWN];

	make_scores(a, h.query, q0, h.key, k0, h.mask, stage, s);
	put_tile(s, turned, slopes); /* for want of registers */
	multiply(h.dout, q0, h.value, k0, a.size, stage, slope);
	take_tile(slopes, turned, s);
	FF_UNROLL
	for (uint32_t i = 0; i < OWN; i++) {
		FF_UNROLL
		for (uint32_t j = 0; j < OWN; j++) {
			int64_t y = q0 + threadIdx.y * OWN + i, x = k0 + threadIdx.x * OWN + j;
			float w = 0, factor = 1, product = slope[i][j];

			slope[i][j] = 0;
			if (s[i][j] != -INFINITY && h.pair_slopes[2 * y + 1] != -INFINITY) {
				factor = factor_of(a, h.numbers, y, x);
				w = expf(s[i][j] - h.pair_slopes[2 * y + 1]);
				slope[i][j] = w * (factor * product - h.pair_slopes[2 * y]) *
					      a.scale;
			}
			s[i][j] = factor * w;
		}
	}
	if (weights)
		put_tile(s, turned, weights);
	put_tile(slope, turned, slopes);
}

/* A block has a tile of keys of one key head, and goes through the queries of all heads that
 * share it. */
template <class T, int EACH>
FF_DEVICE void gather_gradients(const struct ff_attention &a,
		const struct ff_attention_values &values, const T *dout, T *dkey, T *dvalue)
{
	FF_SHARED quad stage[TILE * QUADS], weights[TILE * QUADS], slopes[TILE * QUADS];
	struct task task = task_of(a.keys, false);
	int64_t sample = task.item / a.key_heads, from = task.item % a.key_heads, at;
	int64_t k0 = task.first, col = EACH * SIDE < WIDTH ? 0 : blockIdx.y * WIDTH;
	float of_key[OWN][EACH] = {}, of_value[OWN][EACH] = {};

	for (int64_t head = 0; head < a.heads; head++) {
		int64_t ahead = a.first_key + k0 - a.first_query;
		struct head_of<T> h;

		if (key_head(a, head) != from)
			continue;
		h = head_at(a, values, dout, sample, head);
		for (int64_t q0 = a.causal && ahead > 0 ? ahead / TILE * TILE : 0; q0 < a.queries;
				q0 += TILE) {
			make_slopes(a, h, q0, k0, false, stage, weights, slopes);
			add_rows<T, EACH>(slopes, h.query, q0, col, a.size, stage, of_key);
			add_rows<T, EACH>(weights, h.dout, q0, col, a.size, stage, of_value);
		}
	}
	at = (sample * a.keys * a.key_heads + from) * a.size + col;
	if (dkey)
		put_rows<T, EACH>(
				dkey + at, a.key_heads * a.size, k0, a.keys, a.size - col, of_key);
	if (dvalue)
		put_rows<T, EACH>(dvalue + at, a.key_heads * a.size, k0, a.keys, a.size - col,
				of_value);
}

/* What a thread has of wide heads takes the registers of two blocks. */
template <class T>
FF_KERNEL_BESIDE(1)
void key_gradients(struct ff_attention a, struct ff_attention_values values, const T *dout, T *dkey,
		T *dvalue)
{
	gather_gradients<T, 8>(a, values, dout, dkey, dvalue);
}

template <class T>
FF_KERNEL_BESIDE(2)
void narrow_key_gradients(struct ff_attention a, struct ff_attention_values values, const T *dout,
		T *dkey, T *dvalue)
{
	gather_gradients<T, 4>(a, values, dout, dkey, dvalue);
}

/* A block has a tile of queries.  Where it writes all of their elements, `dquery` may be `dout`:
 * nobody else reads those. */
template <class T, int EACH>
FF_KERNEL_BESIDE(2)
void query_gradients(
		struct ff_attention a, struct ff_attention_values values, const T *dout, T *dquery)
{
	FF_SHARED quad stage[TILE * QUADS], slopes[TILE * QUADS];
	struct task task = task_of(a.queries, true);
	int64_t sample = task.item / a.heads, head = task.item % a.heads;
	int64_t q0 = task.first, end = keys_before(a, q0), col = blockIdx.y * WIDTH;
	int64_t at = (sample * a.queries * a.heads + head) * a.size + col;
	struct head_of<T> h = head_at(a, values, dout, sample, head);
	float sum[OWN][EACH] = {};

	for (int64_t k0 = 0; k0 < end; k0 += TILE) {
		make_slopes(a, h, q0, k0, true, stage, (quad *)nullptr, slopes);
		add_rows<T, EACH>(slopes, h.key, k0, col, a.size, stage, sum);
	}
	put_rows<T, EACH>(dquery + at, a.heads * a.size, q0, a.queries, a.size - col, sum);
}

/* ---- launches ---- */

static unsigned tiles_of(int64_t rows)
{
	return (unsigned)((rows + TILE - 1) / TILE);
}

/* Narrow heads take as many elements a thread as there are rows. */
static bool is_narrow(const struct ff_attention *a)
{
	return a->size <= TILE;
}

static unsigned columns_of(const struct ff_attention *a)
{
	return (unsigned)((a->size + WIDTH - 1) / WIDTH);
}

template <class T>
static cudaError_t launch_forward(const struct ff_attention *a, const struct ff_attention_values *v,
		void *out, cudaStream_t s)
{
	dim3 grid((unsigned)(a->samples * a->heads) * tiles_of(a->queries),
			out ? columns_of(a) : 1);

	return ff_launch(is_narrow(a) ? forward<T, 4> : forward<T, 8>, grid, dim3(SIDE, SIDE), s,
			*a, *v, (T *)out);
}

cudaError_t ff_launch_attention(enum ff_dtype type, const struct ff_attention *a,
		const struct ff_attention_values *v, void *out, cudaStream_t s)
{
	return type == FF_BF16 ? launch_forward<uint16_t>(a, v, out, s)
			       : launch_forward<float>(a, v, out, s);
}

template <class T>
static cudaError_t launch_rows(const struct ff_attention *a, const float *pairs, const void *out,
		const void *dout, float *pair_slopes, cudaStream_t s)
{
	int64_t rows = a->samples * a->heads * a->queries, each = BLOCK / LANES;

	return ff_launch(sum_rows<T>, dim3((unsigned)((rows + each - 1) / each)),
			dim3(LANES, BLOCK / LANES), s, *a, pairs, (const T *)out, (const T *)dout,
			pair_slopes);
}

cudaError_t ff_launch_attention_rows(enum ff_dtype type, const struct ff_attention *a,
		const float *pairs, const void *out, const void *dout, float *pair_slopes,
		cudaStream_t s)
{
	return type == FF_BF16 ? launch_rows<uint16_t>(a, pairs, out, dout, pair_slopes, s)
			       : launch_rows<float>(a, pairs, out, dout, pair_slopes, s);
}

template <class T>
static cudaError_t launch_keys(const struct ff_attention *a, const struct ff_attention_values *v,
		const void *dout, void *dkey, void *dvalue, cudaStream_t s)
{
	dim3 grid((unsigned)(a->samples * a->key_heads) * tiles_of(a->keys), columns_of(a));

	return ff_launch(is_narrow(a) ? narrow_key_gradients<T> : key_gradients<T>, grid,
			dim3(SIDE, SIDE), s, *a, *v, (const T *)dout, (T *)dkey, (T *)dvalue);
}

cudaError_t ff_launch_attention_keys(enum ff_dtype type, const struct ff_attention *a,
		const struct ff_attention_values *v, const void *dout, void *dkey, void *dvalue,
		cudaStream_t s)
{
	return type == FF_BF16 ? launch_keys<uint16_t>(a, v, dout, dkey, dvalue, s)
			       : launch_keys<float>(a, v, dout, dkey, dvalue, s);
}

static int64_t bytes_of(enum ff_dtype type, const struct ff_attention *a)
{
	return a->samples * a->queries * a->heads * a->size * ff_dtype_bytes(type);
}

int64_t ff_attention_scratch(enum ff_dtype type, const struct ff_attention *a)
{
	return columns_of(a) > 1 ? bytes_of(type, a) : 0;
}

template <class T>
static cudaError_t launch_queries(const struct ff_attention *a, const struct ff_attention_values *v,
		void *gradient, void *scratch, cudaStream_t s)
{
	dim3 grid((unsigned)(a->samples * a->heads) * tiles_of(a->queries), columns_of(a));
	T *sink = (T *)(columns_of(a) > 1 ? scratch : gradient);

	return ff_launch(is_narrow(a) ? query_gradients<T, 4> : query_gradients<T, 8>, grid,
			dim3(SIDE, SIDE), s, *a, *v, (const T *)gradient, sink);
}

cudaError_t ff_launch_attention_queries(enum ff_dtype type, const struct ff_attention *a,
		const struct ff_attention_values *v, void *gradient, void *scratch, cudaStream_t s)
{
	cudaError_t code = type == FF_BF16 ? launch_queries<uint16_t>(a, v, gradient, scratch, s)
					   : launch_queries<float>(a, v, gradient, scratch, s);

	if (code != cudaSuccess || columns_of(a) == 1)
		return code;
	return cudaMemcpyAsync(
			gradient, scratch, (size_t)bytes_of(type, a), cudaMemcpyDeviceToDevice, s);
}
