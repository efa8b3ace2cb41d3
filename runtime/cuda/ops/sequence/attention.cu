/* Attention: a block has a tile of queries, or backward of keys, and goes through the others tile
 * by tile; scores are there only for the two at hand.  Heads of more than WIDTH elements are
 * written by several blocks, each of which makes the scores anew.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"
#include "cuda/core/functions.cuh"
#include "cuda/core/philox.cuh"
#include "cuda/core/real.cuh"

#define TILE 32
#define SIDE 16 /* threads each way, of two rows and two columns of scores */
#define WIDTH 128
#define EACH (WIDTH / SIDE) /* elements of a row that a thread writes, twice */

typedef float elements_of[WIDTH + 1];
typedef float scores_of[TILE + 1];

/* Rows of a head: the first of all, from one to the next, how many. */
template <class T> struct rows_of {
	const T *x;
	int64_t step, n;
};

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

/* Elements [from, from + n) of rows first, first + 1, ...; zeros where there is none. */
template <class T>
FF_DEVICE void load(
		const struct rows_of<T> &r, int64_t first, int64_t from, int64_t n, elements_of *to)
{
	for (int64_t row = threadIdx.y; row < TILE; row += SIDE)
		for (int64_t d = threadIdx.x; d < n; d += SIDE)
			to[row]
			  [d] = first + row < r.n ? real_get(r.x[(first + row) * r.step + from + d])
						  : 0;
}

/* Products of rows of two tiles: thread (x, y) has rows y and y + SIDE of `a` with rows x and
 * x + SIDE of `b`. */
template <class T>
FF_DEVICE void multiply(const struct rows_of<T> &a, int64_t a0, const struct rows_of<T> &b,
		int64_t b0, int64_t size, elements_of *of_a, elements_of *of_b, float sum[2][2])
{
	uint32_t x = threadIdx.x, y = threadIdx.y;

	sum[0][0] = sum[0][1] = sum[1][0] = sum[1][1] = 0;
	for (int64_t from = 0; from < size; from += WIDTH) {
		int64_t n = least(size - from, WIDTH);

		__syncthreads(); /* who reads the last tiles is done */
		load(a, a0, from, n, of_a);
		load(b, b0, from, n, of_b);
		__syncthreads();
		for (int64_t d = 0; d < n; d++) {
			float p = of_a[y][d], q = of_a[y + SIDE][d];
			float s = of_b[x][d], t = of_b[x + SIDE][d];

			sum[0][0] += p * s;
			sum[0][1] += p * t;
			sum[1][0] += q * s;
			sum[1][1] += q * t;
		}
	}
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

/* The scores of a tile, in shared memory. */
template <class T>
FF_DEVICE void make_scores(const struct ff_attention &a, const struct rows_of<T> &query, int64_t q0,
		const struct rows_of<T> &key, int64_t k0, const T *mask, elements_of *of_q,
		elements_of *of_k, scores_of *scores)
{
	float sum[2][2];

	multiply(query, q0, key, k0, a.size, of_q, of_k, sum);
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t j = 0; j < 2; j++) {
			uint32_t y = threadIdx.y + i * SIDE, x = threadIdx.x + j * SIDE;

			scores[y][x] = score(a, mask, q0 + y, k0 + x, sum[i][j]);
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

/* The weights of a tile, in shared memory. */
FF_DEVICE void drop(const struct ff_attention &a, const struct numbers &n, int64_t q0, int64_t k0,
		scores_of *weights)
{
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t j = 0; j < 2; j++) {
			uint32_t y = threadIdx.y + i * SIDE, x = threadIdx.x + j * SIDE;

			weights[y][x] *= factor_of(a, n, q0 + y, k0 + x);
		}
}

/* Adds rows of `b` by the weights of a row, or of a column, to two rows of a thread's. */
FF_DEVICE void add_rows(const scores_of *weight, bool column, const elements_of *b, int64_t n,
		float sum[2][EACH])
{
	for (uint32_t i = 0; i < 2; i++) {
		uint32_t y = threadIdx.y + i * SIDE;

		for (uint32_t k = 0; k < TILE; k++) {
			float w = column ? weight[k][y] : weight[y][k];

			for (uint32_t j = 0; j < EACH; j++)
				if (threadIdx.x + j * SIDE < n)
					sum[i][j] += w * b[k][threadIdx.x + j * SIDE];
		}
	}
}

/* Up to which key the tile's queries look. */
FF_DEVICE int64_t keys_before(const struct ff_attention &a, int64_t q0)
{
	int64_t queries = least(q0 + TILE, a.queries);

	return a.causal ? least(a.keys, a.first_query + queries - a.first_key) : a.keys;
}

/* ---- forward ---- */

/* A row's largest score and its sum so far. */
struct running {
	float most, sum, fix; /* fix: what was summed before is to be scaled by */
};

/* Makes a row's scores weights by what is known so far, or by what is given. */
FF_DEVICE void weigh(float *score, struct running *r, bool given)
{
	float most = r->most, sum = 0;

	for (uint32_t k = 0; k < TILE && !given; k++)
		most = ff_larger(score[k], most);
	for (uint32_t k = 0; k < TILE; k++) {
		score[k] = score[k] != -INFINITY && most != -INFINITY ? expf(score[k] - most) : 0;
		sum += score[k];
	}
	r->fix = given ? 1 : r->most != -INFINITY ? expf(r->most - most) : 0;
	r->sum = given ? r->sum : r->sum * r->fix + sum;
	r->most = most;
}

template <class T>
FF_KERNEL_BESIDE(3) void forward(struct ff_attention a, struct ff_attention_values values, T *out)
{
	FF_SHARED elements_of of_q[TILE], of_k[TILE];
	FF_SHARED scores_of scores[TILE];
	FF_SHARED struct running rows[TILE];
	int64_t tiles = (a.queries + TILE - 1) / TILE, item = blockIdx.x / tiles;
	int64_t sample = item / a.heads, head = item % a.heads, from = blockIdx.y * WIDTH;
	int64_t q0 = blockIdx.x % tiles * TILE, end = keys_before(a, q0);
	int64_t n = least(a.size - from, WIDTH);
	uint32_t own = threadIdx.y * SIDE + threadIdx.x;
	struct rows_of<T> q = queries_at(a, (const T *)values.query, sample, head);
	struct rows_of<T> k = keys_at(a, (const T *)values.key, sample, key_head(a, head));
	struct rows_of<T> v = keys_at(a, (const T *)values.value, sample, key_head(a, head));
	const T *mask = mask_at(a, (const T *)values.mask, sample, head);
	const float *given = values.given;
	struct numbers numbers = numbers_of(a, values, sample, head);
	int64_t pair = 2 * (item * a.queries + q0 + own);
	float sum[2][EACH] = {};

	if (own < TILE) {
		bool has = given && q0 + own < a.queries;

		rows[own].most = has ? given[pair] : -INFINITY;
		rows[own].sum = has ? 1 + given[pair + 1] : 0;
		rows[own].fix = 1;
	}
	for (int64_t k0 = 0; k0 < end; k0 += TILE) {
		make_scores(a, q, q0, k, k0, mask, of_q, of_k, scores);
		__syncthreads();
		if (own < TILE)
			weigh(scores[own], &rows[own], given != nullptr);
		if (out)
			load(v, k0, from, n, of_k);
		__syncthreads();
		if (out && a.dropped > 0) {
			drop(a, numbers, q0, k0, scores);
			__syncthreads();
		}
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t j = 0; j < EACH; j++)
				sum[i][j] *= rows[threadIdx.y + i * SIDE].fix;
		if (out)
			add_rows(scores, false, of_k, n, sum);
	}
	__syncthreads();
	for (uint32_t i = 0; i < 2 && out; i++) {
		int64_t y = threadIdx.y + i * SIDE;
		int64_t at = ((sample * a.queries + q0 + y) * a.heads + head) * a.size + from;
		float factor = rows[y].most != -INFINITY ? 1 / rows[y].sum : 0;

		for (uint32_t j = 0; j < EACH; j++)
			if (q0 + y < a.queries && threadIdx.x + j * SIDE < n)
				real_put(&out[at + threadIdx.x + j * SIDE], sum[i][j] * factor);
	}
	if (own >= TILE || q0 + own >= a.queries || blockIdx.y > 0)
		return;
	values.pairs[pair] = rows[own].most;
	values.pairs[pair + 1] = rows[own].most != -INFINITY ? rows[own].sum - 1 : 0;
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

/* Weights of a tile as values are added up by them, and the slopes of its scores. */
template <class T>
FF_DEVICE void make_slopes(const struct ff_attention &a, const struct head_of<T> &h, int64_t q0,
		int64_t k0, elements_of *one, elements_of *other, scores_of *weights,
		scores_of *slopes)
{
	float sum[2][2];

	make_scores(a, h.query, q0, h.key, k0, h.mask, one, other, weights);
	multiply(h.dout, q0, h.value, k0, a.size, one, other, sum);
	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t j = 0; j < 2; j++) {
			uint32_t y = threadIdx.y + i * SIDE, x = threadIdx.x + j * SIDE;
			float s = weights[y][x], w = 0, slope = 0, factor = 1;

			if (s != -INFINITY && h.pair_slopes[2 * (q0 + y) + 1] != -INFINITY) {
				factor = factor_of(a, h.numbers, q0 + y, k0 + x);
				w = expf(s - h.pair_slopes[2 * (q0 + y) + 1]);
				slope = w * (factor * sum[i][j] - h.pair_slopes[2 * (q0 + y)]) *
					a.scale;
			}
			weights[y][x] = factor * w;
			slopes[y][x] = slope;
		}
}

template <class T>
FF_DEVICE void put_rows(T *x, int64_t step, int64_t first, int64_t rows, int64_t n,
		const float sum[2][EACH])
{
	for (uint32_t i = 0; i < 2; i++) {
		int64_t y = first + threadIdx.y + i * SIDE;

		for (uint32_t j = 0; j < EACH; j++)
			if (y < rows && threadIdx.x + j * SIDE < n)
				real_put(&x[y * step + threadIdx.x + j * SIDE], sum[i][j]);
	}
}

/* A block has a tile of keys of one key head, and goes through the queries of all heads that
 * share it. */
template <class T>
FF_KERNEL_BESIDE(2) void key_gradients(struct ff_attention a, struct ff_attention_values values,
		const T *dout, T *dkey, T *dvalue)
{
	FF_SHARED elements_of one[TILE], other[TILE];
	FF_SHARED scores_of weights[TILE], slopes[TILE];
	int64_t tiles = (a.keys + TILE - 1) / TILE, item = blockIdx.x / tiles;
	int64_t sample = item / a.key_heads, from = item % a.key_heads;
	int64_t k0 = blockIdx.x % tiles * TILE, col = blockIdx.y * WIDTH;
	int64_t n = least(a.size - col, WIDTH), ahead = a.first_key + k0 - a.first_query;
	int64_t start = a.causal && ahead > 0 ? ahead / TILE * TILE : 0;
	int64_t at = (sample * a.keys * a.key_heads + from) * a.size + col;
	float of_key[2][EACH] = {}, of_value[2][EACH] = {};

	for (int64_t head = 0; head < a.heads; head++) {
		struct head_of<T> h;

		if (key_head(a, head) != from)
			continue;
		h = head_at(a, values, dout, sample, head);
		for (int64_t q0 = start; q0 < a.queries; q0 += TILE) {
			make_slopes(a, h, q0, k0, one, other, weights, slopes);
			__syncthreads();
			load(h.query, q0, col, n, one);
			load(h.dout, q0, col, n, other);
			__syncthreads();
			add_rows(slopes, true, one, n, of_key);
			add_rows(weights, true, other, n, of_value);
		}
	}
	if (dkey)
		put_rows(dkey + at, a.key_heads * a.size, k0, a.keys, n, of_key);
	if (dvalue)
		put_rows(dvalue + at, a.key_heads * a.size, k0, a.keys, n, of_value);
}

/* A block has a tile of queries.  Where it writes all of their elements, `dquery` may be `dout`:
 * nobody else reads those. */
template <class T>
FF_KERNEL void query_gradients(
		struct ff_attention a, struct ff_attention_values values, const T *dout, T *dquery)
{
	FF_SHARED elements_of one[TILE], other[TILE];
	FF_SHARED scores_of weights[TILE], slopes[TILE];
	int64_t tiles = (a.queries + TILE - 1) / TILE, item = blockIdx.x / tiles;
	int64_t sample = item / a.heads, head = item % a.heads, col = blockIdx.y * WIDTH;
	int64_t q0 = blockIdx.x % tiles * TILE, end = keys_before(a, q0);
	int64_t n = least(a.size - col, WIDTH);
	int64_t at = (sample * a.queries * a.heads + head) * a.size + col;
	struct head_of<T> h = head_at(a, values, dout, sample, head);
	float sum[2][EACH] = {};

	for (int64_t k0 = 0; k0 < end; k0 += TILE) {
		make_slopes(a, h, q0, k0, one, other, weights, slopes);
		__syncthreads();
		load(h.key, k0, col, n, one);
		__syncthreads();
		add_rows(slopes, false, one, n, sum);
	}
	put_rows(dquery + at, a.heads * a.size, q0, a.queries, n, sum);
}

/* ---- launches ---- */

static unsigned tiles_of(int64_t rows)
{
	return (unsigned)((rows + TILE - 1) / TILE);
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

	return ff_launch(forward<T>, grid, dim3(SIDE, SIDE), s, *a, *v, (T *)out);
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

	return ff_launch(key_gradients<T>, grid, dim3(SIDE, SIDE), s, *a, *v, (const T *)dout,
			(T *)dkey, (T *)dvalue);
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

	return ff_launch(query_gradients<T>, grid, dim3(SIDE, SIDE), s, *a, *v, (const T *)gradient,
			sink);
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
