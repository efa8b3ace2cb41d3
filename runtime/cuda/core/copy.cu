/* Copies of regions, reductions of them, fills, reshapes.  SPDX-License-Identifier: Apache-2.0 */
#include "functions.cuh"
#include "places.cuh"
#include "reshape.h"

#define ACROSS 32 /* threads side by side of a block that transposes */

template <class T> FF_KERNEL void copy_units(struct places p, const T *source, T *sink, int64_t n)
{
	int64_t i = thread_index(), from, to;

	if (i >= n)
		return;
	places_at(p, i, &from, &to);
	sink[to] = source[from];
}

/* Tiles of a transposition: of each side so many elements that accesses are whole lines. */
template <class T> struct tile {
	static const int n = sizeof(T) <= 4 ? 64 : 32, pad = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
	static const int down = BLOCK / ACROSS;

	T x[n][n + pad]; /* rows of an odd number of words: no two lanes of a bank */
};

/* What a lane reads or writes at once. */
template <class T, int N> struct alignas(N * sizeof(T)) group {
	T x[N];
};

/* The last two axes are those of a matrix: its rows lie one behind the other in the source, its
 * columns in the sink, `in` and `out` at a time.  A tile of it passes through shared memory; all
 * that a thread reads of it is on its way before it writes any.  `p` counts tiles, and its last
 * axis is that of the sink: neighbours there are written at about the same time. */
template <class T, int in, int out>
FF_KERNEL void transpose(struct places p, int64_t rows, int64_t columns, int64_t from_column,
		int64_t to_row, const T *source, T *sink)
{
	const int n = tile<T>::n, down = tile<T>::down, deep = n / down;
	const int reads = n / ACROSS / in, writes = n / ACROSS / out;
	FF_SHARED struct tile<T> passing;
	struct group<T, in> held[deep][reads];
	int lane = (int)threadIdx.x, y = (int)threadIdx.y;
	int64_t first_row, first_column, from, to;

	tile_at(p, blockIdx.x, &first_row, &first_column, &from, &to);
	rows -= first_row * n;
	columns -= first_column * n;
	source += from;
	sink += to;
	for (int k = 0; k < deep; k++)
		for (int r = 0; r < reads; r++) {
			int row = (r * ACROSS + lane) * in, column = k * down + y;

			if (row < rows && column < columns)
				held[k][r] = *(const struct group<T, in> *)(source + row +
									    column * from_column);
		}
	for (int k = 0; k < deep; k++)
		for (int r = 0; r < reads; r++)
			*(struct group<T, in> *)&passing.x[k * down + y][(r * ACROSS + lane) * in] =
					held[k][r];
	__syncthreads();
	for (int k = 0; k < deep; k++)
		for (int r = 0; r < writes; r++) {
			int column = (r * ACROSS + lane) * out, row = k * down + y;
			struct group<T, out> x;

			for (int i = 0; i < out; i++)
				x.x[i] = passing.x[column + i][row];
			if (row < rows && column < columns)
				*(struct group<T, out> *)(sink + column + row * to_row) = x;
		}
}

/* The axis whose elements lie one behind the other in the source becomes the last but one. */
static bool is_transposition(const struct ff_strided *l, struct ff_strided *ret)
{
	uint32_t last = l->rank - 1;

	*ret = *l;
	if (l->rank < 2 || l->source[last] == 1 || l->sink[last] != 1 || l->n[last] < 8)
		return false;
	for (uint32_t i = 0; i < last; i++) {
		if (l->source[i] != 1 || l->n[i] < 8)
			continue;
		for (uint32_t k = i; k + 1 < last; k++) {
			ret->n[k] = l->n[k + 1];
			ret->source[k] = l->source[k + 1];
			ret->sink[k] = l->sink[k + 1];
		}
		ret->n[last - 1] = l->n[i];
		ret->source[last - 1] = l->source[i];
		ret->sink[last - 1] = l->sink[i];
		return true;
	}
	return false;
}

/* Whether elements along axis `along`, which are one behind the other in `stride`, lie in pairs. */
static bool lie_in_pairs(const struct ff_strided *l, const int64_t *stride, uint32_t along,
		const void *array, size_t bytes)
{
	if (l->n[along] % 2 || (uintptr_t)array % (2 * bytes))
		return false;
	for (uint32_t i = 0; i < l->rank; i++)
		if (i != along && stride[i] % 2)
			return false;
	return true;
}

template <class T, int in, int out>
static cudaError_t launch_transpose(
		const struct ff_strided *l, const void *source, void *sink, cudaStream_t s)
{
	const int n = tile<T>::n;
	uint32_t row = l->rank - 2, column = l->rank - 1;
	struct ff_strided tiles = *l;

	for (uint32_t i = row; i <= column; i++) {
		tiles.n[i] = (l->n[i] + n - 1) / n;
		tiles.source[i] *= n;
		tiles.sink[i] *= n;
	}
	return ff_launch(transpose<T, in, out>, dim3((unsigned)ff_strided_volume(&tiles)),
			dim3(ACROSS, tile<T>::down), s, places_of(&tiles), l->n[row], l->n[column],
			l->source[column], l->sink[row], (const T *)source, (T *)sink);
}

/* Two bytes a lane would be half a line. */
static cudaError_t launch_transpose_halves(
		const struct ff_strided *l, const void *source, void *sink, cudaStream_t s)
{
	bool in = lie_in_pairs(l, l->source, l->rank - 2, source, sizeof(uint16_t));
	bool out = lie_in_pairs(l, l->sink, l->rank - 1, sink, sizeof(uint16_t));

	if (in)
		return out ? launch_transpose<uint16_t, 2, 2>(l, source, sink, s)
			   : launch_transpose<uint16_t, 2, 1>(l, source, sink, s);
	return out ? launch_transpose<uint16_t, 1, 2>(l, source, sink, s)
		   : launch_transpose<uint16_t, 1, 1>(l, source, sink, s);
}

template <class T>
static cudaError_t launch_copy(
		const struct ff_strided *l, const void *source, void *sink, cudaStream_t s)
{
	int64_t n = ff_strided_volume(l);
	struct ff_strided t;

	if (!is_transposition(l, &t))
		return ff_launch(copy_units<T>, blocks_of(n), dim3(BLOCK), s, places_of(l),
				(const T *)source, (T *)sink, n);
	return sizeof(T) == 2 ? launch_transpose_halves(&t, source, sink, s)
			      : launch_transpose<T, 1, 1>(&t, source, sink, s);
}

cudaError_t ff_launch_copy(const struct ff_strided *l, int64_t bytes, const void *source,
		void *sink, cudaStream_t s)
{
	switch (bytes) {
	case 1:
		return launch_copy<uint8_t>(l, source, sink, s);
	case 2:
		return launch_copy<uint16_t>(l, source, sink, s);
	case 4:
		return launch_copy<uint32_t>(l, source, sink, s);
	case 8:
		return launch_copy<uint64_t>(l, source, sink, s);
	default:
		return launch_copy<word16>(l, source, sink, s);
	}
}

/* ---- reductions ---- */

struct sum {
	template <class T> FF_METHOD static void reduce(const T *x, T *y)
	{
		real_put(y, real_get(*y) + real_get(*x));
	}
	FF_METHOD static void reduce(const int32_t *x, int32_t *y)
	{
		*y = (int32_t)((uint32_t)*y + (uint32_t)*x);
	}
};

struct largest {
	template <class T> FF_METHOD static void reduce(const T *x, T *y)
	{
		real_put(y, ff_larger(real_get(*x), real_get(*y)));
	}
	FF_METHOD static void reduce(const int32_t *x, int32_t *y)
	{
		*y = *x > *y ? *x : *y;
	}
};

struct pair {
	float most, rest;
};

/* Of the two, the smaller one's largest is among the others from now on. */
struct log_sum_exp {
	FF_METHOD static void reduce(const struct pair *x, struct pair *y)
	{
		bool swap = x->most > y->most;
		struct pair a = swap ? *x : *y, b = swap ? *y : *x;

		if (b.most > -INFINITY)
			a.rest += (1 + b.rest) * expf(b.most - a.most);
		else if (isnan(b.most))
			a.rest = b.most;
		*y = a;
	}
};

struct moments_of {
	float count, mean, squares, sum;
};

/* As graphs/base/reduce.c has it. */
struct moments {
	FF_METHOD static void reduce(const struct moments_of *x, struct moments_of *y)
	{
		float count = x->count + y->count, p = x->count / count, q = y->count / count;
		bool both = x->count != 0 && y->count != 0;
		float apart = x->mean - y->mean;

		y->squares += x->squares;
		if (both)
			y->squares += apart * apart * (x->count * y->count / count);
		y->mean = both ? x->mean * p + y->mean * q : x->mean + y->mean;
		y->count = count;
		y->sum += x->sum;
	}
};

struct tied {
	float most, equal;
};

/* As graphs/base/reduce.c has it. */
struct ties {
	FF_METHOD static void reduce(const struct tied *x, struct tied *y)
	{
		if (x->most > y->most || x->most != x->most || y->equal == -INFINITY)
			*y = *x;
		else if (x->most == y->most && x->equal > -INFINITY)
			y->equal += x->equal;
	}
};

template <class T, class Op>
FF_KERNEL void reduce_units(struct places p, const T *source, T *sink, int64_t n)
{
	int64_t i = thread_index(), from, to;

	if (i >= n)
		return;
	places_at(p, i, &from, &to);
	Op::reduce(source + from, sink + to);
}

template <class T, class Op>
static cudaError_t launch_reduce(
		const struct ff_strided *l, const void *source, void *sink, cudaStream_t s)
{
	int64_t n = ff_strided_volume(l);

	return ff_launch(reduce_units<T, Op>, blocks_of(n), dim3(BLOCK), s, places_of(l),
			(const T *)source, (T *)sink, n);
}

cudaError_t ff_launch_reduce(const struct ff_strided *l, enum ff_dtype type, enum ff_reduce op,
		const void *source, void *sink, cudaStream_t s)
{
	bool max = op == FF_REDUCE_MAX;

	if (op == FF_REDUCE_LOG_SUM_EXP)
		return launch_reduce<pair, log_sum_exp>(l, source, sink, s);
	if (op == FF_REDUCE_MOMENTS)
		return launch_reduce<moments_of, moments>(l, source, sink, s);
	if (op == FF_REDUCE_TIES)
		return launch_reduce<tied, ties>(l, source, sink, s);
	if (type == FF_I32)
		return max ? launch_reduce<int32_t, largest>(l, source, sink, s)
			   : launch_reduce<int32_t, sum>(l, source, sink, s);
	if (type == FF_BF16)
		return max ? launch_reduce<uint16_t, largest>(l, source, sink, s)
			   : launch_reduce<uint16_t, sum>(l, source, sink, s);
	return max ? launch_reduce<float, largest>(l, source, sink, s)
		   : launch_reduce<float, sum>(l, source, sink, s);
}

/* ---- fills, conversions ---- */

template <class T> FF_KERNEL void fill(T *memory, int64_t n, T bits)
{
	int64_t i = thread_index();

	if (i < n)
		memory[i] = bits;
}

cudaError_t ff_launch_fill(void *memory, int64_t bytes, int64_t n, uint32_t bits, cudaStream_t s)
{
	if (bytes == 2)
		return ff_launch(fill<uint16_t>, blocks_of(n), dim3(BLOCK), s, (uint16_t *)memory,
				n, (uint16_t)bits);
	return ff_launch(fill<uint32_t>, blocks_of(n), dim3(BLOCK), s, (uint32_t *)memory, n, bits);
}

template <class A, class B> FF_KERNEL void convert(const A *source, B *sink, int64_t n)
{
	int64_t i = thread_index();

	if (i < n)
		real_put(&sink[i], real_get(source[i]));
}

cudaError_t ff_launch_convert(enum ff_dtype from, const void *source, enum ff_dtype to, void *sink,
		int64_t n, cudaStream_t s)
{
	if (from == FF_BF16 && to == FF_F32)
		return ff_launch(convert<uint16_t, float>, blocks_of(n), dim3(BLOCK), s,
				(const uint16_t *)source, (float *)sink, n);
	return ff_launch(convert<float, uint16_t>, blocks_of(n), dim3(BLOCK), s,
			(const float *)source, (uint16_t *)sink, n);
}

/* ---- reshapes ---- */

template <class T>
FF_KERNEL void reshape(struct ff_reshape_side source, struct ff_reshape_side sink, const T *from,
		T *to, int64_t n)
{
	int64_t i = thread_index(), rest = i, index = 0, at = 0;
	bool there = true;

	if (i >= n)
		return;
	for (uint32_t k = sink.rank; k-- > 0;) {
		uint32_t axis = sink.order[k];

		index += (sink.lo[axis] + rest % sink.n[axis]) * sink.index[axis];
		rest /= sink.n[axis];
	}
	for (uint32_t axis = 0; axis < source.rank; axis++) {
		int64_t x = index / source.index[axis] - source.lo[axis];

		index %= source.index[axis];
		there = there && x >= 0 && x < source.n[axis];
		at += x * source.stride[axis];
	}
	to[i] = there ? from[at] : (T)0;
}

cudaError_t ff_launch_reshape(const struct ff_reshape_side *source,
		const struct ff_reshape_side *sink, int64_t bytes, const void *from, void *to,
		cudaStream_t s)
{
	int64_t n = 1;

	for (uint32_t i = 0; i < sink->rank; i++)
		n *= sink->n[i];
	if (bytes == 1)
		return ff_launch(reshape<uint8_t>, blocks_of(n), dim3(BLOCK), s, *source, *sink,
				(const uint8_t *)from, (uint8_t *)to, n);
	if (bytes == 2)
		return ff_launch(reshape<uint16_t>, blocks_of(n), dim3(BLOCK), s, *source, *sink,
				(const uint16_t *)from, (uint16_t *)to, n);
	return ff_launch(reshape<uint32_t>, blocks_of(n), dim3(BLOCK), s, *source, *sink,
			(const uint32_t *)from, (uint32_t *)to, n);
}
