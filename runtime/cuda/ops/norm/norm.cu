/* Layer, RMS and group norm.  Rows of packs are held in registers by a team of threads each; of
 * others, which lie in pieces or are too long, each has a block, which reads them again.  Gradients
 * of weights are sums of columns (strips.cuh).  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/places.cuh"
#include "cuda/core/strips.cuh"
#include "norm.h"
#include "ticket.cuh"

#define HELD 4    /* packs of a row that a thread has */
#define AT_ONCE 2 /* rows of which a thread reads elements for the gradient of weights */

/* Of all threads of the block, in each of them. */
FF_DEVICE struct sums add_up(struct sums *shared, float a, float b)
{
	struct sums all;

	__syncthreads(); /* who reads the last ones is done */
	shared[threadIdx.x].a = a;
	shared[threadIdx.x].b = b;
	for (uint32_t step = blockDim.x / 2; step > 0; step /= 2) {
		__syncthreads();
		if (threadIdx.x < step) {
			shared[threadIdx.x].a += shared[threadIdx.x + step].a;
			shared[threadIdx.x].b += shared[threadIdx.x + step].b;
		}
	}
	__syncthreads();
	all = shared[0];
	return all;
}

template <class T>
FF_KERNEL void forward(struct ff_norm n, struct places feature, struct ff_norm_values values)
{
	FF_SHARED struct sums shared[BLOCK];
	const T *x = (const T *)values.x, *weight = (const T *)values.weight;
	const T *bias = (const T *)values.bias;
	float sum = 0, mean = 0, rate;
	T *y = (T *)values.y;
	int64_t x0, p0, at, p;

	loops_at(n.row, blockIdx.x, &p0, &x0);
	p0 += n.first;
	for (int64_t i = threadIdx.x; n.centred && i < n.features; i += blockDim.x) {
		places_at(feature, i, &p, &at);
		sum += real_get(x[x0 + at]);
	}
	mean = add_up(shared, sum, 0).a / (float)n.features;
	sum = 0;
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float d;

		places_at(feature, i, &p, &at);
		d = real_get(x[x0 + at]) - mean;
		sum += d * d;
	}
	rate = 1 / sqrtf(add_up(shared, sum, 0).a / (float)n.features + n.epsilon);
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float v;

		places_at(feature, i, &p, &at);
		v = (real_get(x[x0 + at]) - mean) * rate;
		if (n.weight)
			v *= real_get(weight[p0 + p]);
		if (n.bias)
			v += real_get(bias[p0 + p]);
		real_put(&y[x0 + at], v);
	}
	if (threadIdx.x > 0)
		return;
	values.saved[2 * blockIdx.x] = mean;
	values.saved[2 * blockIdx.x + 1] = rate;
}

template <class T>
FF_KERNEL void gradient(struct ff_norm n, struct places feature, struct ff_norm_values v)
{
	FF_SHARED struct sums shared[BLOCK];
	const T *x = (const T *)v.x, *dy = (const T *)v.dy, *weight = (const T *)v.weight;
	float mean = v.saved[2 * blockIdx.x], rate = v.saved[2 * blockIdx.x + 1], g = 0, gx = 0;
	T *dx = (T *)v.dx;
	struct sums all;
	int64_t x0, p0, at, p;

	loops_at(n.row, blockIdx.x, &p0, &x0);
	p0 += n.first;
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float d;

		places_at(feature, i, &p, &at);
		d = real_get(dy[x0 + at]) * (n.weight ? real_get(weight[p0 + p]) : 1);
		g += d;
		gx += d * (real_get(x[x0 + at]) - mean) * rate;
	}
	all = add_up(shared, g, gx);
	g = n.centred ? all.a / (float)n.features : 0;
	gx = all.b / (float)n.features;
	for (int64_t i = threadIdx.x; i < n.features; i += blockDim.x) {
		float d;

		places_at(feature, i, &p, &at);
		d = real_get(dy[x0 + at]) * (n.weight ? real_get(weight[p0 + p]) : 1);
		d = rate * (d - g - (real_get(x[x0 + at]) - mean) * rate * gx);
		real_put(&dx[x0 + at], v.adds_x ? d + real_get(dx[x0 + at]) : d);
	}
}

/* Of all threads of a row's team, in each of them.  They are blockDim.x, whole warps; all threads
 * of the block come here. */
FF_DEVICE struct sums add_team(struct sums *shared, struct sums sum)
{
	int warps = (int)blockDim.x / 32, first = (int)threadIdx.y * warps;

	for (int lanes = 16; lanes > 0; lanes /= 2) {
		sum.a += __shfl_xor_sync(0xffffffff, sum.a, lanes);
		sum.b += __shfl_xor_sync(0xffffffff, sum.b, lanes);
	}
	if (warps == 1)
		return sum;
	__syncthreads(); /* who reads the last ones is done */
	if (threadIdx.x % 32 == 0)
		shared[first + threadIdx.x / 32] = sum;
	__syncthreads();
	sum = shared[first];
	for (int i = 1; i < warps; i++)
		join(sum, shared[first + i]);
	return sum;
}

/* A thread's packs of a row: of one behind the last row there are none. */
FF_DEVICE int64_t row_of()
{
	return (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
}
template <class T> FF_DEVICE int64_t held_at(int k)
{
	return ((int64_t)k * blockDim.x + threadIdx.x) * pack<T>::n;
}
template <class T> FF_DEVICE bool is_held(const struct ff_norm &n, int k)
{
	return row_of() < n.rows && held_at<T>(k) < n.features;
}

template <class T> FF_DEVICE void hold(const struct ff_norm &n, const T *x, pack<T> (&ret)[HELD])
{
	FF_UNROLL_ALL
	for (int k = 0; k < HELD; k++) /* all in flight at once, as read_rows() has it */
		read_pack(x + (is_held<T>(n, k) ? row_of() * n.features + held_at<T>(k) : 0),
				&ret[k]);
	FF_UNROLL_ALL
	for (int k = 0; k < HELD; k++)
		if (!is_held<T>(n, k))
			ret[k] = {};
}

/* Parameters, which need not lie as packs do. */
template <class T> FF_DEVICE pack<T> parameters(const T *x, int64_t at)
{
	pack<T> p;

	if ((uintptr_t)x % sizeof(p) == 0)
		return *(const pack<T> *)(x + at);
	for (int i = 0; i < pack<T>::n; i++)
		p.x[i] = x[at + i];
	return p;
}

template <class T>
FF_DEVICE float find_mean(const struct ff_norm &n, struct sums *shared, const pack<T> (&x)[HELD])
{
	struct sums sum = {0, 0};

	FF_UNROLL_ALL
	for (int k = 0; k < HELD; k++) {
		float one[pack<T>::n];

		get_pack(x[k], one);
		for (int i = 0; i < pack<T>::n; i++)
			sum.a += one[i];
	}
	return add_team(shared, sum).a / (float)n.features;
}

template <class T>
FF_DEVICE float find_rate(
		const struct ff_norm &n, struct sums *shared, const pack<T> (&x)[HELD], float mean)
{
	struct sums sum = {0, 0};

	FF_UNROLL_ALL
	for (int k = 0; k < HELD; k++) {
		float one[pack<T>::n];

		get_pack(x[k], one);
		for (int i = 0; i < pack<T>::n; i++) {
			float d = is_held<T>(n, k) ? one[i] - mean : 0;

			sum.a += d * d;
		}
	}
	return 1 / sqrtf(add_team(shared, sum).a / (float)n.features + n.epsilon);
}

template <class T> FF_KERNEL void forward_held(struct ff_norm n, struct ff_norm_values v)
{
	FF_SHARED struct sums shared[BLOCK / 32];
	pack<T> x[HELD];
	float mean = 0, rate;

	hold(n, (const T *)v.x, x);
	if (n.centred)
		mean = find_mean(n, shared, x);
	rate = find_rate(n, shared, x, mean);
	FF_UNROLL_ALL
	for (int k = 0; k < HELD; k++) {
		int64_t at = held_at<T>(k);
		float one[pack<T>::n], of[pack<T>::n];

		if (!is_held<T>(n, k))
			break;
		get_pack(x[k], one);
		for (int i = 0; i < pack<T>::n; i++)
			one[i] = (one[i] - mean) * rate;
		if (n.weight) {
			get_pack(parameters((const T *)v.weight, at), of);
			for (int i = 0; i < pack<T>::n; i++)
				one[i] *= of[i];
		}
		if (n.bias) {
			get_pack(parameters((const T *)v.bias, at), of);
			for (int i = 0; i < pack<T>::n; i++)
				one[i] += of[i];
		}
		put_pack(&x[k], one);
		write_pack((T *)v.y + row_of() * n.features + at, x[k]);
	}
	if (threadIdx.x > 0 || row_of() >= n.rows)
		return;
	v.saved[2 * row_of()] = mean;
	v.saved[2 * row_of() + 1] = rate;
}

/* The numbers of a pack of a row's gradient, by their weights. */
template <class T>
FF_DEVICE void weigh(const struct ff_norm &n, const T *weight, const pack<T> &dy, int k,
		float (&ret)[pack<T>::n])
{
	float w[pack<T>::n];

	get_pack(dy, ret);
	if (!n.weight || !is_held<T>(n, k))
		return;
	get_pack(parameters(weight, held_at<T>(k)), w);
	for (int i = 0; i < pack<T>::n; i++)
		ret[i] *= w[i];
}

template <class T> FF_KERNEL void gradient_held(struct ff_norm n, struct ff_norm_values v)
{
	const T *weight = (const T *)v.weight;
	FF_SHARED struct sums shared[BLOCK / 32];
	pack<T> x[HELD], g[HELD];
	struct sums sum = {0, 0};
	float mean = 0, rate = 0;

	if (row_of() < n.rows) {
		mean = v.saved[2 * row_of()];
		rate = v.saved[2 * row_of() + 1];
	}
	hold(n, (const T *)v.x, x);
	hold(n, (const T *)v.dy, g);
	FF_UNROLL_ALL
	for (int k = 0; k < HELD; k++) {
		float one[pack<T>::n], d[pack<T>::n];

		get_pack(x[k], one);
		weigh(n, weight, g[k], k, d);
		for (int i = 0; i < pack<T>::n; i++) {
			sum.a += d[i];
			sum.b += d[i] * (one[i] - mean) * rate;
		}
	}
	sum = add_team(shared, sum);
	sum.a = n.centred ? sum.a / (float)n.features : 0;
	sum.b /= (float)n.features;
	FF_UNROLL_ALL
	for (int k = 0; k < HELD; k++) {
		float one[pack<T>::n], d[pack<T>::n];
		T *to = (T *)v.dx + row_of() * n.features + held_at<T>(k);

		if (!is_held<T>(n, k))
			break;
		get_pack(x[k], one);
		weigh(n, weight, g[k], k, d);
		for (int i = 0; i < pack<T>::n; i++)
			d[i] = rate * (d[i] - sum.a - (one[i] - mean) * rate * sum.b);
		if (v.adds_x) {
			read_pack(to, &x[k]);
			get_pack(x[k], one);
			for (int i = 0; i < pack<T>::n; i++)
				d[i] += one[i];
		}
		put_pack(&g[k], d);
		write_pack(to, g[k]);
	}
}

/* What a share of rows has of the gradients of V weights and biases from `param` on, which lie side
 * by side where they are several. */
template <class T, int V>
FF_DEVICE struct sums add_share(const struct ff_norm &n, const struct places &rests, int64_t param,
		int64_t share, const struct ff_norm_values &values)
{
	const T *x = (const T *)values.x, *dy = (const T *)values.dy;
	int64_t first = blockIdx.y * share, end = first + share < n.rests ? first + share : n.rests;
	bool own = param >= n.first && param < n.first + n.own;
	struct sums sum[V] = {};
	int64_t x0 = 0, row0 = 0;

	if (own)
		loops_at(n.param, param - n.first, &row0, &x0);
	for (int64_t i = first + strip<V>::row(); own && i < end; i += AT_ONCE * strip<V>::down) {
		pack<T, V> p[AT_ONCE], d[AT_ONCE];
		pack<float, 2> pair[AT_ONCE];

		FF_UNROLL_ALL
		for (int k = 0; k < AT_ONCE; k++) { /* as read_rows() has it */
			int64_t own_rest = i + k * strip<V>::down,
				rest = own_rest < end ? own_rest : i;
			int64_t row = rest, at = rest * n.features;

			if (V == 1)
				places_at(rests, rest, &row, &at);
			read_pack(x + x0 + at, &p[k]);
			read_pack(dy + x0 + at, &d[k]);
			pair[k] = *(const pack<float, 2> *)(values.saved + 2 * (row0 + row));
		}
		FF_UNROLL_ALL
		for (int k = 0; k < AT_ONCE; k++) {
			float one[V], g[V];

			get_pack(p[k], one);
			get_pack(d[k], g);
			for (int v = 0; v < V && i + k * strip<V>::down < end; v++) {
				sum[v].b += g[v];
				sum[v].a += g[v] * (one[v] - pair[k].x[0]) * pair[k].x[1];
			}
		}
	}
	return join_strip<V>(sum);
}

/* A block adds up one share of a strip of weights and biases, and the last block of these all
 * shares. */
template <class T, int V>
FF_KERNEL void weights(struct ff_norm n, struct places rests, int64_t share,
		struct ff_norm_values v, struct sums *all, uint32_t *tickets)
{
	int64_t strip_at = (int64_t)blockIdx.x * strip<V>::columns, param = strip_at + threadIdx.x;
	int64_t column = strip_at + strip<V>::column();
	bool has = threadIdx.x < strip<V>::columns && param < n.params;
	struct sums sum = add_share<T, V>(n, rests, column, share, v);

	if (gridDim.y > 1) {
		if (has)
			all[blockIdx.y * n.params + param] = sum;
		if (!is_last(&tickets[blockIdx.x], gridDim.y))
			return;
		sum = join_shares<V>(all + column, gridDim.y, n.params, column < n.params);
	}
	if (!has)
		return;
	if (v.dweight)
		v.dweight[param] = v.adds_weight ? sum.a + v.dweight[param] : sum.a;
	if (v.dbias)
		v.dbias[param] = v.adds_bias ? sum.b + v.dbias[param] : sum.b;
}

/* Whether rows lie one behind another, and parameters as their features do. */
static bool is_dense(const struct ff_norm *n)
{
	int64_t step = n->features;

	if (n->first || n->feature.rank != 1 || n->feature.source[0] != 1 ||
			n->feature.sink[0] != 1 || n->params != n->features)
		return false;
	for (uint32_t a = n->row.rank; a-- > 0; step *= n->row.n[a])
		if (n->row.n[a] > 1 && (n->row.source[a] != 0 || n->row.sink[a] != step))
			return false;
	return true;
}

template <class T> static bool has_packs(const struct ff_norm *n)
{
	return is_dense(n) && n->features % pack<T>::n == 0;
}

static bool can_pack(const void *x)
{
	return (uintptr_t)x % 16 == 0;
}

/* How many there are depends on the shape alone, and so does every sum. */
template <class T> static int64_t share_of(const struct ff_norm *n)
{
	int64_t narrow = strip<1>::count(n->params);
	int64_t across = has_packs<T>(n) ? strip<pack<T>::n>::count(n->params) : narrow;

	return share_for(n->rests, across, narrow > FF_TICKETS ? 1 : FF_STRIP_BLOCKS, 64);
}

template <class T> static int64_t shares_of(const struct ff_norm *n)
{
	return (n->rests + share_of<T>(n) - 1) / share_of<T>(n);
}

int64_t ff_norm_scratch(enum ff_dtype type, const struct ff_norm *n)
{
	int64_t shares = type == FF_BF16 ? shares_of<uint16_t>(n) : shares_of<float>(n);

	return shares > 1 ? shares * n->params * (int64_t)sizeof(struct sums) : 0;
}

/* Threads of a row that is not held: a power of two. */
static dim3 block_of(const struct ff_norm *n)
{
	unsigned threads = BLOCK;

	while (threads > 32 && threads / 2 >= n->features)
		threads /= 2;
	return dim3(threads);
}

/* Threads of the team of a row, and how many rows a block has. */
template <class T> static dim3 team_of(const struct ff_norm *n)
{
	unsigned threads = 32;

	while (threads < BLOCK && threads * HELD * pack<T>::n < n->features)
		threads *= 2;
	return dim3(threads, BLOCK / threads);
}

template <class T> static bool can_hold(const struct ff_norm *n)
{
	return has_packs<T>(n) && n->features <= BLOCK * HELD * pack<T>::n;
}

static dim3 grid_of(const struct ff_norm *n, dim3 block)
{
	return dim3((unsigned)((n->rows + block.y - 1) / block.y));
}

template <class T>
static cudaError_t launch_norm(
		const struct ff_norm *n, const struct ff_norm_values *v, cudaStream_t s)
{
	dim3 team = team_of<T>(n), block = block_of(n);

	if (can_hold<T>(n) && can_pack(v->x) && can_pack(v->y))
		return ff_launch(forward_held<T>, grid_of(n, team), team, s, *n, *v);
	return ff_launch(forward<T>, grid_of(n, block), block, s, *n, places_of(&n->feature), *v);
}

cudaError_t ff_launch_norm(enum ff_dtype type, const struct ff_norm *n,
		const struct ff_norm_values *v, cudaStream_t s)
{
	return type == FF_BF16 ? launch_norm<uint16_t>(n, v, s) : launch_norm<float>(n, v, s);
}

template <class T>
static cudaError_t launch_gradient(
		const struct ff_norm *n, const struct ff_norm_values *v, cudaStream_t s)
{
	dim3 team = team_of<T>(n), block = block_of(n);

	if (can_hold<T>(n) && can_pack(v->x) && can_pack(v->dy) && can_pack(v->dx))
		return ff_launch(gradient_held<T>, grid_of(n, team), team, s, *n, *v);
	return ff_launch(gradient<T>, grid_of(n, block), block, s, *n, places_of(&n->feature), *v);
}

cudaError_t ff_launch_norm_gradient(enum ff_dtype type, const struct ff_norm *n,
		const struct ff_norm_values *v, cudaStream_t s)
{
	return type == FF_BF16 ? launch_gradient<uint16_t>(n, v, s)
			       : launch_gradient<float>(n, v, s);
}

template <class T>
static cudaError_t launch_weights(const struct ff_norm *n, const struct ff_norm_values *v,
		float *scratch, uint32_t *tickets, cudaStream_t s)
{
	bool packs = has_packs<T>(n) && can_pack(v->x) && can_pack(v->dy);
	int64_t across = packs ? strip<pack<T>::n>::count(n->params) : strip<1>::count(n->params);
	dim3 grid((unsigned)across, (unsigned)shares_of<T>(n));

	return ff_launch(packs ? weights<T, pack<T>::n> : weights<T, 1>, grid, dim3(BLOCK), s, *n,
			places_of(&n->rest), share_of<T>(n), *v, (struct sums *)scratch, tickets);
}

cudaError_t ff_launch_norm_weights(enum ff_dtype type, const struct ff_norm *n,
		const struct ff_norm_values *v, float *scratch, uint32_t *tickets, cudaStream_t s)
{
	return type == FF_BF16 ? launch_weights<uint16_t>(n, v, scratch, tickets, s)
			       : launch_weights<float>(n, v, scratch, tickets, s);
}
