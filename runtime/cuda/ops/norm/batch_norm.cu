/* Batch norm of given moments: forward by element; sums of each channel by blocks that have a share
 * of its elements, and by the last of those.  Every sum has a fixed order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "batch.cuh"
#include "batch_norm.h"
#include "cuda/core/functions.cuh"
#include "ticket.cuh"

#define LESS 4  /* elements of a channel that a thread reads at once, of each value */
#define FINAL 4 /* channels that a thread of the last block reads at once */

FF_DEVICE float rate_of(const struct ff_batch &b, float variance)
{
	return 1 / sqrtf(variance + b.epsilon);
}

/* What a channel's elements become: (x - mean) scale + bias. */
struct line {
	float mean, scale, bias;
};

template <class T>
FF_DEVICE struct line line_of(
		const struct ff_batch &b, const struct ff_batch_values &v, int64_t group, int64_t c)
{
	struct line l = {0, 0, 0};

	if (v.moments) {
		pack<float, 4> m =
				*(const pack<float, 4> *)(v.moments + 4 * (group * b.channels + c));

		l.mean = m.x[1];
		l.scale = rate_of(b, m.x[2] / m.x[0]);
	} else {
		l.mean = v.mean[c];
		l.scale = rate_of(b, v.variance[c]);
	}
	if (v.weight)
		l.scale *= real_get(((const T *)v.weight)[c]);
	if (v.bias)
		l.bias = real_get(((const T *)v.bias)[c]);
	return l;
}

/* Of one pack; `low`: the least that an output may be. */
template <class T, int V>
FF_DEVICE void follow(const struct line (&l)[V], const pack<T, V> *beside, float low, pack<T, V> *x)
{
	float one[V], other[V];

	get_pack(*x, one);
	for (int e = 0; e < V; e++)
		one[e] = (one[e] - l[e].mean) * l[e].scale + l[e].bias;
	if (beside) {
		put_pack(x, one); /* as it is rounded where it is written */
		get_pack(*x, one);
		get_pack(*beside, other);
		for (int e = 0; e < V; e++)
			one[e] = ff_plus(one[e], other[e]);
	}
	for (int e = 0; e < V; e++)
		one[e] = one[e] <= low ? low : one[e];
	put_pack(x, one);
}

template <class T, int V> FF_DEVICE void clip(float low, float high, pack<T, V> *x)
{
	float one[V];

	get_pack(*x, one);
	for (int e = 0; e < V; e++)
		one[e] = ff_between(one[e], low, high);
	put_pack(x, one);
}

enum goes_on { ALONE, BESIDE, CLIPPED };

/* What is the same for all elements is known to the compiler: a branch for each element costs as
 * much as the element. */
template <class T, int V, enum goes_on how>
FF_KERNEL_BESIDE(3)
void forward(struct ff_batch b, int64_t share, struct ff_batch_values v, T *y)
{
	FF_SHARED struct line lines[strip<V>::columns];
	float low = v.relu ? 0 : -INFINITY;
	struct run r = run_of<V>(b, share);
	int64_t c = r.c + strip<V>::column();
	struct line l[V];

	if (threadIdx.x < strip<V>::columns && r.c + threadIdx.x < b.channels)
		lines[threadIdx.x] = line_of<T>(b, v, r.group, r.c + threadIdx.x);
	__syncthreads();
	if (c >= b.channels)
		return;
	for (int k = 0; k < V; k++)
		l[k] = lines[strip<V>::column() + k];
	for (int64_t i = r.first + strip<V>::row(); i < r.end; i += LESS * strip<V>::down) {
		pack<T, V> p[LESS], q[LESS];
		int n = read_rows((const T *)v.x, place<V>{b, c}, i, r.end, p);

		if (how == BESIDE)
			read_rows((const T *)v.beside, place<V>{b, c}, i, r.end, q);
		FF_UNROLL_ALL
		for (int k = 0; k < LESS; k++)
			follow(l, how == BESIDE ? &q[k] : NULL, low, &p[k]);
		if (how == CLIPPED && v.kept)
			write_rows(p, n, (T *)v.kept, place<V>{b, c}, i);
		FF_UNROLL_ALL
		for (int k = 0; k < LESS && how == CLIPPED; k++)
			clip(v.low, v.high, &p[k]);
		write_rows(p, n, y, place<V>{b, c}, i);
	}
}

struct kept {
	float mean, variance;
};

/* What the gradients of a channel are made of, and what is kept of it so far. */
struct channel {
	struct sums sum;
	float count, mean, squares, weight;
	struct kept kept;
};

template <class T>
FF_DEVICE struct channel read_channel(const struct ff_batch &b, const struct ff_batch_values &v,
		int64_t group, int64_t c, struct sums sum)
{
	const float *m = v.moments + 4 * (group * b.channels + c);

	return {sum, m[0], m[1], m[2], v.weight ? real_get(((const T *)v.weight)[c]) : 1,
			{v.mean[c], v.variance[c]}};
}

/* The gradients of a channel's parameters, and what is kept of it, from what there is of all
 * groups. */
FF_DEVICE void write_parameters(const struct ff_batch &b, const struct ff_batch_values &v,
		int64_t c, struct sums sum, struct kept batch, struct kept kept)
{
	if (v.dweight)
		v.dweight[c] = sum.b;
	if (v.dbias)
		v.dbias[c] = sum.a;
	v.mean[c] = kept.mean + b.momentum * (batch.mean - kept.mean);
	v.variance[c] = kept.variance + b.momentum * (batch.variance - kept.variance);
}

/* What comes of the sums over the part's share of a group; of several groups, what parameters get
 * of it takes the place of the first of its shares. */
FF_DEVICE void write_channel(const struct ff_batch &b, const struct ff_batch_values &v,
		int64_t group, int64_t c, const struct channel &l, struct sums *all)
{
	float rate = rate_of(b, l.squares / l.count), scale = rate * l.weight;
	float part = (float)((start_of(b, group + 1) - start_of(b, group)) * b.inner) / l.count;
	struct sums sum = {l.sum.a, l.sum.b * rate};

	if (v.dmoments)
		*(pack<float, 4> *)(v.dmoments + 4 * (group * b.channels + c)) = {{l.mean * part,
				-scale * l.sum.a / l.count,
				-scale * rate * rate * l.sum.b / l.count, scale * part}};
	if (b.groups > 1)
		all[share_at(b, group, 0, c)] = sum;
	else
		write_parameters(b, v, c, sum, {l.mean, l.squares / (l.count - 1)}, l.kept);
}

/* Where the gradients of the output come from: they are there, or made of those behind, of a sum,
 * a relu or a clip. */
enum way { THERE, SUM, RELU, CLIP };

/* The gradients of the output, of V channels' elements; from behind, for who reads it later,
 * rounded.  They may take the place of what they are made of. */
template <enum way way, int V, class T>
FF_DEVICE void read_gradients(const struct ff_batch &b, const struct ff_batch_values &v, int64_t c,
		int64_t first, int64_t end, pack<T, V> (&ret)[LESS])
{
	pack<T, V> y[LESS];
	int n = read_rows(way == THERE ? (const T *)v.dy : (const T *)v.behind, place<V>{b, c},
			first, end, ret);

	if (way == THERE)
		return;
	if (way != SUM)
		read_rows((const T *)v.slope_of, place<V>{b, c}, first, end, y);
	FF_UNROLL_ALL
	for (int k = 0; k < LESS && way != SUM; k++) {
		float dy[V], of[V];

		get_pack(ret[k], dy);
		get_pack(y[k], of);
		for (int e = 0; e < V; e++)
			dy[e] *= way == RELU ? rectify_slope(of[e])
					     : clip_slope(of[e], v.low, v.high);
		put_pack(&ret[k], dy);
	}
	write_rows(ret, n, (T *)v.dy, place<V>{b, c}, first);
	if (v.dbeside)
		write_rows(ret, n, (T *)v.dbeside, place<V>{b, c}, first);
}

/* Of dy and dy (x - mean), of a share. */
template <class T, int V, enum way way>
FF_DEVICE struct sums add_share(
		const struct ff_batch &b, const struct ff_batch_values &v, const struct run &r)
{
	int64_t c = r.c + strip<V>::column();
	struct sums sum[V] = {};
	float mean[V];

	for (int e = 0; e < V; e++)
		mean[e] = c < b.channels ? v.moments[4 * (r.group * b.channels + c + e) + 1] : 0;
	for (int64_t i = r.first + strip<V>::row(); c < b.channels && i < r.end;
			i += LESS * strip<V>::down) {
		pack<T, V> p[LESS], d[LESS];
		read_rows((const T *)v.x, place<V>{b, c}, i, r.end, p);
		read_gradients<way>(b, v, c, i, r.end, d);
		FF_UNROLL_ALL
		for (int k = 0; k < LESS; k++) {
			float one[V], dy[V];

			get_pack(p[k], one);
			get_pack(d[k], dy);
			for (int e = 0; e < V; e++) {
				sum[e].a += dy[e];
				sum[e].b += dy[e] * (one[e] - mean[e]);
			}
		}
	}
	return join_strip<V>(sum);
}

/* Of all channels, as the last block of all. */
template <class T>
FF_DEVICE void write_all(
		const struct ff_batch &b, const struct ff_batch_values &v, struct sums *all)
{
	for (int64_t t = threadIdx.x; t < b.groups * b.channels; t += FINAL * FF_BLOCK) {
		struct channel l[FINAL];

		FF_UNROLL_ALL
		for (int k = 0; k < FINAL; k++) {
			int64_t at = t + k * FF_BLOCK, group = at / b.channels;
			int64_t c = at - group * b.channels;

			if (group < b.groups)
				l[k] = read_channel<T>(
						b, v, group, c, all[share_at(b, group, 0, c)]);
		}
		FF_UNROLL_ALL
		for (int k = 0; k < FINAL; k++) {
			int64_t at = t + k * FF_BLOCK, group = at / b.channels;

			if (group < b.groups)
				write_channel(b, v, group, at - group * b.channels, l[k], all);
		}
	}
}

template <class T, int V, enum way way>
FF_KERNEL_BESIDE(2)
void sums_of(struct ff_batch b, int64_t share, struct ff_batch_values v, struct sums *all,
		uint32_t *tickets)
{
	struct run r = run_of<V>(b, share);
	int64_t c = r.c + strip<V>::column(), own = r.c + threadIdx.x;
	bool has = threadIdx.x < strip<V>::columns && own < b.channels;
	struct sums sum = add_share<T, V, way>(b, v, r);

	if (gridDim.y > 1) {
		if (has)
			all[share_at(b, r.group, blockIdx.y, own)] = sum;
		if (!is_last(&tickets[blockIdx.x], gridDim.y))
			return;
		sum = join_shares<V>(all + share_at(b, r.group, 0, c), gridDim.y, b.channels,
				c < b.channels);
	}
	if (way == THERE) {
		if (has)
			write_channel(b, v, r.group, own, read_channel<T>(b, v, r.group, own, sum),
					all);
		return;
	}
	/* they may lie where blocks still read: the last of all writes them */
	if (has)
		all[share_at(b, r.group, 0, own)] = sum;
	if (is_last(&tickets[FF_TICKETS], gridDim.x))
		write_all<T>(b, v, all);
}

/* Statistics count as much as the part has of their group. */
FF_KERNEL void add_groups(
		struct ff_batch b, int64_t shares, struct ff_batch_values v, const struct sums *all)
{
	int64_t c = thread_index();
	struct sums sum = {0, 0};
	struct kept batch = {0, 0};

	if (c >= b.channels)
		return;
	for (int64_t g = 0; g < b.groups; g++) {
		const float *m = v.moments + 4 * (g * b.channels + c);
		float share = (float)(start_of(b, g + 1) - start_of(b, g)) / (float)b.outer;

		join(sum, all[g * shares * b.channels + c]);
		batch.mean += share * m[1];
		batch.variance += share * (m[2] / (m[0] - 1));
	}
	write_parameters(b, v, c, sum, batch, {v.mean[c], v.variance[c]});
}

int64_t ff_batch_scratch(enum ff_dtype type, const struct ff_batch *b)
{
	return type == FF_BF16 ? scratch_of<uint16_t>(b) : scratch_of<float>(b);
}

static bool can_pack(const struct ff_batch_values *v)
{
	return can_pack(v->x) && can_pack(v->dy) && can_pack(v->beside) && can_pack(v->behind) &&
	       can_pack(v->slope_of) && can_pack(v->dbeside) && can_pack(v->kept);
}

template <class T, int V>
static cudaError_t launch_norm(
		const struct ff_batch *b, const struct ff_batch_values *v, void *y, cudaStream_t s)
{
	int64_t share = share_of<T>(b, 4 * FF_STRIP_BLOCKS);

	return ff_launch(v->clips    ? forward<T, V, CLIPPED>
			 : v->beside ? forward<T, V, BESIDE>
				     : forward<T, V, ALONE>,
			grid_of<V>(b, share), dim3(BLOCK), s, *b, share, *v, (T *)y);
}

cudaError_t ff_launch_batch_norm(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, void *y, cudaStream_t s)
{
	return LAUNCH(launch_norm, can_pack(v) && can_pack(y), b, v, y, s);
}

template <class T, int V>
static cudaError_t launch_gradient(const struct ff_batch *b, const struct ff_batch_values *v,
		float *scratch, uint32_t *tickets, cudaStream_t s)
{
	struct sums *all = (struct sums *)scratch;
	int64_t share = share_of<T>(b, FF_STRIP_BLOCKS);
	cudaError_t code = ff_launch(v->clips      ? sums_of<T, V, CLIP>
				     : v->slope_of ? sums_of<T, V, RELU>
				     : v->behind   ? sums_of<T, V, SUM>
						   : sums_of<T, V, THERE>,
			grid_of<V>(b, share), dim3(BLOCK), s, *b, share, *v, all, tickets);

	if (code != cudaSuccess || b->groups == 1)
		return code;
	return ff_launch(add_groups, blocks_of(b->channels), dim3(BLOCK), s, *b,
			shares_of(b, share), *v, (const struct sums *)all);
}

cudaError_t ff_launch_batch_norm_gradient(enum ff_dtype type, const struct ff_batch *b,
		const struct ff_batch_values *v, float *scratch, uint32_t *tickets, cudaStream_t s)
{
	return LAUNCH(launch_gradient, can_pack(v), b, v, scratch, tickets, s);
}
