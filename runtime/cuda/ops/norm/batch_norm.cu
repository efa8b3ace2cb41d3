/* Batch norm: sums of each channel by blocks that have 32 channels and a share of the elements,
 * and by the last of those; everything else by element.  Every sum has a fixed order.  Each group
 * has blocks of its own, which count along x behind the channels. SPDX-License-Identifier:
 * Apache-2.0 */
#include "batch_norm.h"
#include "cuda/core/real.cuh"
#include "cuda/core/relu.cuh"
#include "sums.cuh"
#include "ticket.cuh"

#define MOST 64  /* shares of the elements of a channel */
#define CHUNK 32 /* elements of which a thread makes moments at a time */

struct moments {
	float count, mean, squares, unused;
};

FF_DEVICE struct moments merge(struct moments x, struct moments y)
{
	float count = x.count + y.count, apart = x.mean - y.mean;

	if (x.count == 0)
		return y;
	if (y.count == 0)
		return x;
	x.mean = x.mean * (x.count / count) + y.mean * (y.count / count);
	x.squares += y.squares + apart * apart * (x.count * y.count / count);
	x.count = count;
	return x;
}

/* Element `i` of channel `c`. */
FF_DEVICE int64_t locate(const struct ff_batch &b, int64_t c, int64_t i)
{
	if (b.inner == 1)
		return i * b.channels + c;
	return (i / b.inner * b.channels + c) * b.inner + i % b.inner;
}

FF_DEVICE int64_t channel_of(const struct ff_batch &b, int64_t i)
{
	return i / b.inner % b.channels;
}

/* Where element `i` of all has its statistics: those of group g and channel c are number
 * g channels + c. */
FF_DEVICE int64_t statistics_of(const struct ff_batch &b, int64_t i)
{
	int64_t row;

	if (b.groups == 1) /* divisions take time */
		return channel_of(b, i);
	row = i / b.inner / b.channels;
	return (row + b.skip) / b.group * b.channels + channel_of(b, i);
}

/* Elements of a channel that a block of threads goes through. */
struct run {
	int64_t c, group, first, end;
};

FF_DEVICE int64_t start_of(const struct ff_batch &b, int64_t group)
{
	int64_t at = group * b.group - b.skip;

	return at < 0 ? 0 : at < b.outer ? at : b.outer;
}

FF_DEVICE struct run run_of(const struct ff_batch &b, int64_t share)
{
	int64_t across = (b.channels + ACROSS - 1) / ACROSS, group = blockIdx.x / across;
	struct run r;

	r.c = blockIdx.x % across * ACROSS + threadIdx.x;
	r.group = group;
	r.first = start_of(b, group) * b.inner + blockIdx.y * share;
	r.end = start_of(b, group + 1) * b.inner;
	if (r.end > r.first + share)
		r.end = r.first + share;
	return r;
}

/* Where block `y` leaves what it has of a channel. */
FF_DEVICE int64_t share_at(const struct ff_batch &b, const struct run &r, int64_t y)
{
	return (r.group * gridDim.y + y) * b.channels + r.c;
}

/* Up to CHUNK elements from `first` on, DOWN apart, as distances from the first. */
template <class T>
FF_DEVICE struct moments read_chunk(
		const struct ff_batch &b, const T *x, int64_t c, int64_t first, int64_t end)
{
	float origin = real_get(x[locate(b, c, first)]), sum = 0, squares = 0, n = 0;
	struct moments m;

	for (int64_t i = first; i < end && i < first + CHUNK * DOWN; i += DOWN) {
		float d = real_get(x[locate(b, c, i)]) - origin;

		sum += d;
		squares += d * d;
		n += 1;
	}
	m.count = n;
	m.mean = origin + sum / n;
	m.squares = squares - sum * (sum / n);
	m.unused = 0;
	return m;
}

/* Of the threads of a channel; the first one has them. */
FF_DEVICE struct moments merge_down(struct moments (*part)[ACROSS], struct moments m)
{
	part[threadIdx.y][threadIdx.x] = m;
	__syncthreads();
	for (int k = 1; k < DOWN && threadIdx.y == 0; k++)
		m = merge(m, part[k][threadIdx.x]);
	return m;
}

template <class T>
FF_KERNEL void moments_of(struct ff_batch b, int64_t share, const T *x, struct moments *all,
		struct moments *out, uint32_t *tickets)
{
	FF_SHARED struct moments part[DOWN][ACROSS];
	struct run r = run_of(b, share);
	struct moments m = {0, 0, 0, 0};

	for (int64_t i = r.first + threadIdx.y; r.c < b.channels && i < r.end; i += CHUNK * DOWN)
		m = merge(m, read_chunk(b, x, r.c, i, r.end));
	m = merge_down(part, m);
	if (gridDim.y > 1) {
		if (threadIdx.y == 0 && r.c < b.channels)
			all[share_at(b, r, blockIdx.y)] = m;
		if (!is_last(&tickets[blockIdx.x], gridDim.y))
			return;
		m.count = m.mean = m.squares = m.unused = 0;
		for (int64_t i = threadIdx.y; r.c < b.channels && i < gridDim.y; i += DOWN)
			m = merge(m, all[share_at(b, r, i)]);
		m = merge_down(part, m);
	}
	if (threadIdx.y == 0 && r.c < b.channels)
		out[r.group * b.channels + r.c] = m;
}

/* As the sums came back: d g + b + c (x - a). */
template <class T>
FF_KERNEL void moments_gradient(struct ff_batch b, int64_t n, const T *x, const float *sums, T *g)
{
	int64_t i = thread_index();
	const float *s;

	if (i >= n)
		return;
	s = sums + 4 * statistics_of(b, i);
	real_put(&g[i], s[3] * real_get(g[i]) + s[1] + s[2] * (real_get(x[i]) - s[0]));
}

FF_DEVICE float rate_of(const struct ff_batch &b, float variance)
{
	return 1 / sqrtf(variance + b.epsilon);
}

template <class T>
FF_KERNEL void forward(struct ff_batch b, int64_t n, struct ff_batch_values v, T *y)
{
	int64_t i = thread_index(), c;
	float x;

	if (i >= n)
		return;
	c = channel_of(b, i);
	x = real_get(((const T *)v.x)[i]);
	if (v.moments) {
		const float *m = v.moments + 4 * statistics_of(b, i);

		x = (x - m[1]) * rate_of(b, m[2] / m[0]);
	} else {
		x = (x - v.mean[c]) * rate_of(b, v.variance[c]);
	}
	if (v.weight)
		x *= real_get(((const T *)v.weight)[c]);
	if (v.bias)
		x += real_get(((const T *)v.bias)[c]);
	if (v.beside)
		x = ff_plus(real_rounded<T>(x), real_get(((const T *)v.beside)[i]));
	real_put(&y[i], v.relu ? rectify(x) : x);
}

/* The gradients of a channel's parameters, and what is kept of it, from what there is of all
 * groups. */
FF_DEVICE void write_channel(const struct ff_batch &b, const struct ff_batch_values &v, int64_t c,
		struct sums sum, float mean, float variance)
{
	if (v.dweight)
		v.dweight[c] = sum.b;
	if (v.dbias)
		v.dbias[c] = sum.a;
	v.mean[c] += b.momentum * (mean - v.mean[c]);
	v.variance[c] += b.momentum * (variance - v.variance[c]);
}

/* What comes of the sums over the part's share of a group; of several groups, what parameters get
 * of it takes the place of the first of its shares. */
template <class T>
FF_DEVICE void write_sums(const struct ff_batch &b, const struct run &r,
		const struct ff_batch_values &v, struct sums sum, struct sums *all)
{
	int64_t t = r.group * b.channels + r.c;
	const float *m = v.moments + 4 * t;
	float rate = rate_of(b, m[2] / m[0]), scale = rate;
	float part = (float)((start_of(b, r.group + 1) - start_of(b, r.group)) * b.inner) / m[0];

	if (v.weight)
		scale *= real_get(((const T *)v.weight)[r.c]);
	if (v.dmoments) {
		float *g = v.dmoments + 4 * t;

		g[0] = m[1] * part;
		g[1] = -scale * sum.a / m[0];
		g[2] = -scale * rate * rate * sum.b / m[0];
		g[3] = scale * part;
	}
	sum.b *= rate;
	if (b.groups > 1)
		all[share_at(b, r, 0)] = sum;
	else
		write_channel(b, v, r.c, sum, m[1], m[2] / (m[0] - 1));
}

/* The gradient of the output's element `at`; from behind, for who reads it later, rounded.  It may
 * take the place of what it is made of. */
template <class T> FF_DEVICE float gradient_at(const struct ff_batch_values &v, int64_t at)
{
	T *dy = (T *)v.dy;
	float d;

	if (!v.behind)
		return real_get(dy[at]);
	d = real_get(((const T *)v.behind)[at]);
	if (v.relu_y)
		d *= rectify_slope(real_get(((const T *)v.relu_y)[at]));
	real_put(&dy[at], d);
	if (v.dbeside)
		real_put(&((T *)v.dbeside)[at], d);
	return real_rounded<T>(d);
}

/* dy and dy (x - mean). */
template <class T>
FF_KERNEL void sums_of(struct ff_batch b, int64_t share, struct ff_batch_values v, struct sums *all,
		uint32_t *tickets)
{
	FF_SHARED struct sums part[DOWN][ACROSS];
	struct run r = run_of(b, share);
	float mean = r.c < b.channels ? v.moments[4 * (r.group * b.channels + r.c) + 1] : 0;
	struct sums sum = {0, 0};

	for (int64_t i = r.first + threadIdx.y; r.c < b.channels && i < r.end; i += DOWN) {
		int64_t at = locate(b, r.c, i);
		float d = gradient_at<T>(v, at);

		sum.a += d;
		sum.b += d * (real_get(((const T *)v.x)[at]) - mean);
	}
	sum = add_down(part, sum);
	if (gridDim.y > 1) {
		if (threadIdx.y == 0 && r.c < b.channels)
			all[share_at(b, r, blockIdx.y)] = sum;
		if (!is_last(&tickets[blockIdx.x], gridDim.y))
			return;
		sum.a = sum.b = 0;
		for (int64_t i = threadIdx.y; r.c < b.channels && i < gridDim.y; i += DOWN) {
			struct sums one = all[share_at(b, r, i)];

			sum.a += one.a;
			sum.b += one.b;
		}
		sum = add_down(part, sum);
	}
	if (!v.behind) {
		if (threadIdx.y == 0 && r.c < b.channels)
			write_sums<T>(b, r, v, sum, all);
		return;
	}
	/* they may lie where blocks still read: the last of all writes them */
	if (threadIdx.y == 0 && r.c < b.channels)
		all[share_at(b, r, 0)] = sum;
	if (!is_last(&tickets[FF_TICKETS], gridDim.x))
		return;
	for (int64_t t = threadIdx.y * ACROSS + threadIdx.x; t < b.groups * b.channels;
			t += ACROSS * DOWN) {
		r.group = t / b.channels;
		r.c = t % b.channels;
		write_sums<T>(b, r, v, all[share_at(b, r, 0)], all);
	}
}

/* Statistics count as much as the part has of their group. */
FF_KERNEL void add_groups(
		struct ff_batch b, int64_t shares, struct ff_batch_values v, const struct sums *all)
{
	int64_t c = thread_index();
	struct sums sum = {0, 0};
	float mean = 0, variance = 0;

	if (c >= b.channels)
		return;
	for (int64_t g = 0; g < b.groups; g++) {
		const float *m = v.moments + 4 * (g * b.channels + c);
		float share = (float)(start_of(b, g + 1) - start_of(b, g)) / (float)b.outer;

		sum.a += all[g * shares * b.channels + c].a;
		sum.b += all[g * shares * b.channels + c].b;
		mean += share * m[1];
		variance += share * (m[2] / (m[0] - 1));
	}
	write_channel(b, v, c, sum, mean, variance);
}

/* Elements of a channel that a group has at most. */
static int64_t most_of(const struct ff_batch *b)
{
	return (b->group < b->outer ? b->group : b->outer) * b->inner;
}

static int64_t blocks_across(const struct ff_batch *b)
{
	return (b->channels + ACROSS - 1) / ACROSS * b->groups;
}

/* How many there are depends on the shape alone, and so does every sum. */
static int64_t share_of(const struct ff_batch *b)
{
	int64_t most = shares_for(blocks_across(b), MOST), least = (most_of(b) + most - 1) / most;

	return least > 256 ? least : 256;
}

static int64_t shares_of(const struct ff_batch *b)
{
	return (most_of(b) + share_of(b) - 1) / share_of(b);
}

static dim3 grid_of(const struct ff_batch *b)
{
	return dim3((unsigned)blocks_across(b), (unsigned)shares_of(b));
}

static int64_t volume(const struct ff_batch *b)
{
	return b->outer * b->channels * b->inner;
}

int64_t ff_batch_scratch(const struct ff_batch *b)
{
	return b->groups * shares_of(b) * b->channels * (int64_t)sizeof(struct moments);
}

cudaError_t ff_launch_batch_moments(enum ff_dtype type, const struct ff_batch *b, const void *x,
		float *moments, float *scratch, uint32_t *tickets, cudaStream_t s)
{
	struct moments *all = (struct moments *)scratch, *out = (struct moments *)moments;
	dim3 block(ACROSS, DOWN);

	if (type == FF_BF16)
		return ff_launch(moments_of<uint16_t>, grid_of(b), block, s, *b, share_of(b),
				(const uint16_t *)x, all, out, tickets);
	return ff_launch(moments_of<float>, grid_of(b), block, s, *b, share_of(b), (const float *)x,
			all, out, tickets);
}

cudaError_t ff_launch_batch_moments_gradient(enum ff_dtype type, const struct ff_batch *b,
		const void *x, const float *dmoments, void *gradient, cudaStream_t s)
{
	int64_t n = volume(b);

	if (type == FF_BF16)
		return ff_launch(moments_gradient<uint16_t>, blocks_of(n), dim3(BLOCK), s, *b, n,
				(const uint16_t *)x, dmoments, (uint16_t *)gradient);
	return ff_launch(moments_gradient<float>, blocks_of(n), dim3(BLOCK), s, *b, n,
			(const float *)x, dmoments, (float *)gradient);
}

cudaError_t ff_launch_batch_norm(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, void *y, cudaStream_t s)
{
	int64_t n = volume(b);

	if (type == FF_BF16)
		return ff_launch(forward<uint16_t>, blocks_of(n), dim3(BLOCK), s, *b, n, *v,
				(uint16_t *)y);
	return ff_launch(forward<float>, blocks_of(n), dim3(BLOCK), s, *b, n, *v, (float *)y);
}

template <class T>
static cudaError_t launch_gradient(const struct ff_batch *b, const struct ff_batch_values *v,
		float *scratch, uint32_t *tickets, cudaStream_t s)
{
	struct sums *all = (struct sums *)scratch;
	cudaError_t code = ff_launch(sums_of<T>, grid_of(b), dim3(ACROSS, DOWN), s, *b, share_of(b),
			*v, all, tickets);

	if (code != cudaSuccess || b->groups == 1)
		return code;
	return ff_launch(add_groups, blocks_of(b->channels), dim3(BLOCK), s, *b, shares_of(b), *v,
			(const struct sums *)all);
}

cudaError_t ff_launch_batch_norm_gradient(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, float *scratch, uint32_t *tickets, cudaStream_t s)
{
	return type == FF_BF16 ? launch_gradient<uint16_t>(b, v, scratch, tickets, s)
			       : launch_gradient<float>(b, v, scratch, tickets, s);
}
