/* Moments of batch norm: of each channel by blocks that have a share of its elements, and by the
 * last of those.  Every sum has a fixed order.  SPDX-License-Identifier: Apache-2.0 */
#include "batch.cuh"
#include "batch_moments.h"
#include "ticket.cuh"

#define CHUNK 8 /* elements of a channel that a thread reads at once */
#define BOTH 4  /* of two values */
#define ALL 3   /* of three */

/* Of as many elements of V channels each. */
template <int V> struct moments {
	float count, mean[V], squares[V];
};

template <int V> FF_DEVICE void join(struct moments<V> &x, const struct moments<V> &y)
{
	float count = x.count + y.count, part = y.count / count;

	if (y.count == 0)
		return;
	if (x.count == 0) {
		x = y;
		return;
	}
	for (int k = 0; k < V; k++) {
		float apart = y.mean[k] - x.mean[k];

		x.mean[k] += apart * part;
		x.squares[k] += y.squares[k] + apart * apart * (x.count * part);
	}
	x.count = count;
}

/* Of up to CHUNK elements, which are in registers: their mean first. */
template <class T, int V>
FF_DEVICE struct moments<V> read_chunk(
		const struct ff_batch &b, const T *x, int64_t c, int64_t first, int64_t end) {
	pack<T, V> p[CHUNK];
	struct moments<V> m = {
	};
	int n = read_rows(x, place<V>{b, c}, first, end, p);
	float each = 1 / (float)n;

	m.count = (float)n;
	FF_UNROLL_ALL
	for (int k = 0; k < CHUNK; k++) { /* behind the last there are zeros */
		float one[V];

		get_pack(p[k], one);
		for (int v = 0; v < V; v++)
			m.mean[v] += one[v] * each;
	}
	FF_UNROLL_ALL
	for (int k = 0; k < CHUNK; k++) {
		float one[V];

		get_pack(p[k], one);
		for (int v = 0; v < V; v++) {
			float d = k < n ? one[v] - m.mean[v] : 0;

			m.squares[v] += d * d;
		}
	}
	return m;
}

template <int V>
FF_DEVICE struct moments<1> join_threads(const struct moments<V> &m) {
	struct moments<1> own[V];

	for (int v = 0; v < V; v++)
		own[v] = {m.count, {m.mean[v]}, {m.squares[v]}};
	return join_strip<V>(own);
}

/* Of the shares of a channel. */
template <int V>
FF_DEVICE struct moments<1> join_moments(const struct ff_batch &b, int64_t share, int64_t group,
		int64_t c, const struct sums *all) {
	int64_t n = (start_of(b, group + 1) - start_of(b, group)) * b.inner;
	struct moments<V> m = {
	};

	for (int64_t i = strip<V>::row(); c < b.channels && i < gridDim.y; i += strip<V>::down) {
		pack<struct sums, V> p =
				*(const pack<struct sums, V> *)(all + share_at(b, group, i, c));
		int64_t rest = n - i * share;
		struct moments<V> one;

		one.count = rest < 0 ? 0 : (float)(rest < share ? rest : share);
		for (int v = 0; v < V; v++) {
			one.mean[v] = p.x[v].a;
			one.squares[v] = p.x[v].b;
		}
		join(m, one);
	}
	return join_threads<V>(m);
}

template <class T, int V>
FF_KERNEL_BESIDE(2)
void moments_of(struct ff_batch b, int64_t share, const T *x, struct sums *all, float *out,
		uint32_t *tickets)
{
	struct run r = run_of<V>(b, share);
	int64_t c = r.c + strip<V>::column(), own = r.c + threadIdx.x;
	bool has = threadIdx.x < strip<V>::columns && own < b.channels;
	struct moments<V> m = {
	};
	struct moments<1> one;

	for (int64_t i = r.first + strip<V>::row(); c < b.channels && i < r.end;
			i += CHUNK * strip<V>::down)
		join(m, read_chunk<T, V>(b, x, c, i, r.end));
	one = join_threads<V>(m);
	if (gridDim.y > 1) {
		if (has)
			all[share_at(b, r.group, blockIdx.y, own)] = {one.mean[0], one.squares[0]};
		if (!is_last(&tickets[blockIdx.x], gridDim.y))
			return;
		one = join_moments<V>(b, share, r.group, c, all);
	}
	if (!has)
		return;
	out += 4 * (r.group * b.channels + own);
	out[0] = one.count;
	out[1] = one.mean[0];
	out[2] = one.squares[0];
	out[3] = 0;
}

/* What was rounded, and is added to a sum. */
template <class T, int V> FF_DEVICE void add_pack(const pack<T, V> &x, pack<T, V> *sum)
{
	float one[V], all[V];

	get_pack(x, one);
	get_pack(*sum, all);
	for (int v = 0; v < V; v++)
		all[v] = ff_plus(all[v], one[v]);
	put_pack(sum, all);
}

/* As the sums came back: d g + b + c (x - a). */
template <class T, int V, bool adds>
FF_KERNEL_BESIDE(3)
void moments_gradient(struct ff_batch b, int64_t share, const T *x, const float *sums, T *g, T *sum)
{
	struct run r = run_of<V>(b, share);
	int64_t c = r.c + strip<V>::column();
	const int each = adds ? ALL : BOTH;
	pack<float, 4> s[V];

	if (c >= b.channels)
		return;
	for (int v = 0; v < V; v++)
		s[v] = *(const pack<float, 4> *)(sums + 4 * (r.group * b.channels + c + v));
	for (int64_t i = r.first + strip<V>::row(); i < r.end; i += each * strip<V>::down) {
		pack<T, V> p[each], d[each], all[each];
		int n = read_rows(x, place<V>{b, c}, i, r.end, p);

		read_rows((const T *)g, place<V>{b, c}, i, r.end, d);
		if (adds)
			read_rows((const T *)sum, place<V>{b, c}, i, r.end, all);
		FF_UNROLL_ALL
		for (int k = 0; k < each; k++) {
			float one[V], dy[V];

			get_pack(p[k], one);
			get_pack(d[k], dy);
			for (int v = 0; v < V; v++)
				dy[v] = s[v].x[3] * dy[v] + s[v].x[1] +
					s[v].x[2] * (one[v] - s[v].x[0]);
			put_pack(&d[k], dy);
			if (adds)
				add_pack(d[k], &all[k]);
		}
		if (adds)
			write_rows(all, n, sum, place<V>{b, c}, i);
		else
			write_rows(d, n, g, place<V>{b, c}, i);
	}
}

template <class T, int V>
static cudaError_t launch_moments(const struct ff_batch *b, const void *x, float *moments,
		float *scratch, uint32_t *tickets, cudaStream_t s)
{
	int64_t share = share_of<T>(b, FF_STRIP_BLOCKS);

	return ff_launch(moments_of<T, V>, grid_of<V>(b, share), dim3(BLOCK), s, *b, share,
			(const T *)x, (struct sums *)scratch, moments, tickets);
}

cudaError_t ff_launch_batch_moments(enum ff_dtype type, const struct ff_batch *b, const void *x,
		float *moments, float *scratch, uint32_t *tickets, cudaStream_t s)
{
	return LAUNCH(launch_moments, can_pack(x), b, x, moments, scratch, tickets, s);
}

template <class T, int V>
static cudaError_t launch_moments_gradient(const struct ff_batch *b, const void *x,
		const float *dmoments, void *gradient, void *sum, cudaStream_t s)
{
	int64_t share = share_of<T>(b, 4 * FF_STRIP_BLOCKS);

	return ff_launch(sum ? moments_gradient<T, V, true> : moments_gradient<T, V, false>,
			grid_of<V>(b, share), dim3(BLOCK), s, *b, share, (const T *)x, dmoments,
			(T *)gradient, (T *)sum);
}

cudaError_t ff_launch_batch_moments_gradient(enum ff_dtype type, const struct ff_batch *b,
		const void *x, const float *dmoments, void *gradient, void *sum, cudaStream_t s)
{
	return LAUNCH(launch_moments_gradient, can_pack(x) && can_pack(gradient) && can_pack(sum),
			b, x, dmoments, gradient, sum, s);
}
