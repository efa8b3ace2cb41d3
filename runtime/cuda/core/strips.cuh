/* Columns of a row-major matrix: a block has a strip of them and a share of the rows.  A thread has
 * V columns side by side, one access a row, and every `down`th row of the share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_STRIPS_CUH
#define FF_CUDA_STRIPS_CUH

#include "real.cuh"

/* A row of a strip is 128 bytes where an access is 16. */
template <int V> struct strip {
	static const int across = V > 1 ? 8 : 32, down = FF_BLOCK / across, columns = across * V;
	static const int parts = FF_BLOCK / columns; /* of V rows of threads */

	FF_METHOD static int column()
	{
		return (int)threadIdx.x % across * V;
	}
	FF_METHOD static int row()
	{
		return (int)threadIdx.x / across;
	}
	static int64_t count(int64_t all)
	{
		return (all + columns - 1) / columns;
	}
};

struct sums {
	float a, b;
};

FF_DEVICE void join(float &x, float y)
{
	x += y;
}
FF_DEVICE void join(struct sums &x, struct sums y)
{
	x.a += y.a;
	x.b += y.b;
}

/* What all threads have of each column, joined in a fixed order: thread number c has column c. */
template <int V, class S> FF_DEVICE S join_strip(const S (&own)[V])
{
	FF_SHARED S part[FF_BLOCK * V];
	const int columns = strip<V>::columns, column = (int)threadIdx.x % columns;
	const int first = (int)threadIdx.x / columns;
	S all;

	for (int i = 0; i < V; i++)
		part[strip<V>::row() * columns + strip<V>::column() + i] = own[i];
	__syncthreads();
	all = part[first * V * columns + column];
	for (int k = 1; k < V; k++)
		join(all, part[(first * V + k) * columns + column]);
	__syncthreads();
	part[threadIdx.x] = all;
	__syncthreads();
	for (int k = 1; k < strip<V>::parts && first == 0; k++)
		join(all, part[k * columns + column]);
	__syncthreads(); /* the next ones may come */
	return all;
}

/* The sums of a column in shares that blocks left in memory, of which a thread takes every `down`th
 * one. */
template <int V, class S>
FF_DEVICE S join_shares(const S *shares, int64_t n, int64_t columns, bool some)
{
	S own[V] = {};

	for (int64_t i = strip<V>::row(); some && i < n; i += strip<V>::down) {
		pack<S, V> one = *(const pack<S, V> *)(shares + i * columns);

		for (int k = 0; k < V; k++)
			join(own[k], one.x[k]);
	}
	return join_strip<V>(own);
}

/* The numbers of a pack, and back: of bfloat16 two at once, as they lie in a register. */
template <class T, int V> FF_DEVICE void get_pack(const pack<T, V> &p, float (&ret)[V])
{
	FF_UNROLL_ALL
	for (int e = 0; e < V; e++) {
		if constexpr (sizeof(T) == 2 && V % 2 == 0) {
			uint32_t two;

			memcpy(&two, &p.x[e / 2 * 2], sizeof(two));
			ret[e] = real_get((uint16_t)(e % 2 ? two >> 16 : two));
		} else {
			ret[e] = real_get(p.x[e]);
		}
	}
}

template <class T, int V> FF_DEVICE void put_pack(pack<T, V> *p, const float (&x)[V])
{
	FF_UNROLL_ALL
	for (int e = 0; e < V; e++) {
		if constexpr (sizeof(T) == 2 && V % 2 == 0) {
			__nv_bfloat162 two;
			uint32_t bits;

			if (e % 2)
				continue;
			two = __floats2bfloat162_rn(x[e], x[e + 1]);
			memcpy(&bits, &two, sizeof(bits));
			memcpy(&p->x[e], &bits, sizeof(bits));
		} else {
			real_put(&p->x[e], x[e]);
		}
	}
}

/* One access: nvcc may take apart the copy of a struct, down to a store for each element, which the
 * cache does not put together again. */
template <class T, int V> FF_DEVICE void read_pack(const T *x, pack<T, V> *p)
{
	if constexpr (sizeof(*p) == sizeof(uint4)) {
		uint4 words = *(const uint4 *)x;

		memcpy(p, &words, sizeof(words));
	} else {
		*p = *(const pack<T, V> *)x;
	}
}

template <class T, int V> FF_DEVICE void write_pack(T *x, const pack<T, V> &p)
{
	if constexpr (sizeof(p) == sizeof(uint4)) {
		uint32_t w[4];

		memcpy(w, &p, sizeof(w));
		__stwb((uint4 *)x, uint4{w[0], w[1], w[2], w[3]});
	} else {
		*(pack<T, V> *)x = p;
	}
}

/* Of a thread's columns up to N rows, `down` apart from `first` on, which there must be, and zeros
 * behind them: how many there are.  Row i is at x[place(i)].  All are in flight at once: behind the
 * last row the first is read again, for a branch round an access would wait for what it reads. */
template <int V, int N, class T, class P>
FF_DEVICE int read_rows(const T *x, P place, int64_t first, int64_t end, pack<T, V> (&ret)[N])
{
	int n = 1;

	FF_UNROLL_ALL
	for (int k = 0; k < N; k++) {
		int64_t row = first + k * strip<V>::down;

		read_pack(x + place(row < end ? row : first), &ret[k]);
	}
	FF_UNROLL_ALL
	for (int k = 1; k < N; k++) {
		if (first + k * strip<V>::down < end)
			n = k + 1;
		else
			ret[k] = {};
	}
	return n;
}

template <int V, int N, class T, class P>
FF_DEVICE void write_rows(const pack<T, V> (&p)[N], int n, T *x, P place, int64_t first)
{
	FF_UNROLL_ALL
	for (int k = 0; k < N; k++)
		if (k < n)
			write_pack(x + place(first + k * strip<V>::down), p[k]);
}

/* Whether a thread can have a pack of columns. */
template <class T> static inline bool by_packs(int64_t columns, const void *x)
{
	return columns % pack<T>::n == 0 && (uintptr_t)x % sizeof(pack<T>) == 0;
}

/* Rows of a share where `strips` of so many rows make so many blocks.  By the shape alone, as sums
 * are to be. */
static inline int64_t share_for(int64_t rows, int64_t strips, int64_t blocks, int64_t least)
{
	int64_t shares = strips < blocks ? blocks / strips : 1,
		share = (rows + shares - 1) / shares;

	return share > least ? share : least;
}

/* Two for each of the 132 multiprocessors of an H100, which run at once: more shares would only
 * take longer to join. */
#define FF_STRIP_BLOCKS 264

#endif
