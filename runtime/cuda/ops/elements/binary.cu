/* Functions of two elements as their operands broadcast, and the sums that are the gradients of
 * what is broadcast.  Sums have an order that the shape alone decides.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/functions.cuh"
#include "cuda/core/places.cuh"
#include "fold.h"

#define MOST 64   /* shares of what an element of the sink is made of */
#define LEAST 256 /* steps in a share */

#define OF(part, expression)                                                                       \
	case part:                                                                                 \
		for (int k = 0; k < N; k++) {                                                      \
			float x = xs[k], y = ys[k], z = zs[k];                                     \
                                                                                                   \
			(void)x, (void)y, (void)z;                                                 \
			ret[k] = expression;                                                       \
		}                                                                                  \
		return;
#define CASES(name, of_z, of_dx, of_dy)                                                            \
	OF(FF_BINARY_##name *FF_BINARY_PARTS + FF_BINARY_Z, of_z)                                  \
	OF(FF_BINARY_##name *FF_BINARY_PARTS + FF_BINARY_DX, z * (of_dx))                          \
	OF(FF_BINARY_##name *FF_BINARY_PARTS + FF_BINARY_DY, z * (of_dy))
/* All threads take one way. */
template <int N>
FF_DEVICE void values_of(int32_t function, int32_t part, const float *xs, const float *ys,
		const float *zs, float *ret)
{
	switch (function * FF_BINARY_PARTS + part) {
		FF_BINARIES(CASES)
	}
}
#undef CASES
#undef OF

struct readers {
	const void *read[FF_LOOP_READ];
};

/* Loops whose steps along one axis are of some neighbours each. */
struct ways {
	struct ff_loops loops;
	struct divisor by[FF_MAX_RANK];
	int32_t each[FF_LOOP_READ]; /* from one of the neighbours to the next */
	int32_t narrow;             /* 32 bits count the steps */
};

/* Some neighbours, or one element for all of them. */
template <class T, int N>
FF_DEVICE void read_at(const void *array, int64_t at, bool neighbours, float *ret)
{
	const T *from = (const T *)array + at;

	if (array && neighbours && N > 1) {
		several<T, N> all = *(const several<T, N> *)from;

		for (int k = 0; k < N; k++)
			ret[k] = real_get(all.x[k]);
	} else {
		float one = array ? real_get(*from) : 0;

		for (int k = 0; k < N; k++)
			ret[k] = one;
	}
}

template <class T, int N> FF_DEVICE void put_at(T *array, int64_t at, const float *x)
{
	several<T, N> all;

	for (int k = 0; k < N; k++)
		real_put(&all.x[k], x[k]);
	*(several<T, N> *)(array + at) = all;
}

/* Adds what step `i` of the axes `first` to end - 1 moves. */
template <class I>
FF_DEVICE void walk(const struct ways &w, uint32_t first, uint32_t end, I i, int64_t *at)
{
	for (uint32_t axis = end; axis-- > first;) {
		I step = i;

		i = axis > first ? (I)divided(w.by[axis], &step) : 0;
		for (int k = 0; k < FF_LOOP_READ; k++)
			at[k] += (int64_t)step * w.loops.stride[k][axis];
	}
}

FF_DEVICE void step_to(const struct ways &w, uint32_t first, uint32_t end, int64_t i, int64_t *at)
{
	if (w.narrow)
		walk(w, first, end, (uint32_t)i, at);
	else
		walk(w, first, end, i, at);
}

template <class T, int N>
FF_DEVICE void values_at(const struct ff_folding &f, const struct ways &w, const struct readers &r,
		const int64_t *at, float *ret)
{
	float x[N], y[N], z[N];

	read_at<T, N>(r.read[FF_LOOP_X], at[FF_LOOP_X], w.each[FF_LOOP_X], x);
	read_at<T, N>(r.read[FF_LOOP_Y], at[FF_LOOP_Y], w.each[FF_LOOP_Y], y);
	read_at<T, N>(r.read[FF_LOOP_Z], at[FF_LOOP_Z], w.each[FF_LOOP_Z], z);
	values_of<N>(f.function, f.part, x, y, z, ret);
}

struct sinks {
	void *of[2];
};

/* What is not shared by steps: one such sink, or two that are as large. */
struct mapping {
	struct ff_folding f[2];
	struct ways way[2];
	struct readers r;
	const void *relu_out;
	struct sinks sink;
	int64_t n; /* elements */
};

/* Some neighbours of the sinks.  All is read before anything is written, which may lie where the
 * same thread has read. */
template <class T, class S, int N, int SINKS>
FF_DEVICE void map_at(const struct mapping &m, const int64_t at[SINKS][FF_LOOP_READ], int64_t to)
{
	float z[SINKS][N], y[N];

	FF_UNROLL
	for (int i = 0; i < SINKS; i++) {
		values_at<T, N>(m.f[i], m.way[i], m.r, at[i], z[i]);
		for (int k = 0; k < N; k++)
			z[i][k] *= m.f[i].scale;
		if (!m.relu_out)
			continue;
		read_at<T, N>(m.relu_out, at[i][FF_LOOP_Z], m.way[i].each[FF_LOOP_Z], y);
		for (int k = 0; k < N; k++)
			z[i][k] *= rectify_slope(y[k]);
	}
	FF_UNROLL
	for (int i = 0; i < SINKS; i++) {
		for (int k = 0; k < N && SINKS == 1; k++)
			z[i][k] = m.f[i].relu ? rectify(z[i][k]) : z[i][k];
		put_at<S, N>((S *)m.sink.of[i], to, z[i]);
	}
}

template <class T, class S, int N, int SINKS> FF_KERNEL_BESIDE(4) void map(struct mapping m)
{
	int64_t step = thread_index(), to = step * N, at[SINKS][FF_LOOP_READ] = {};

	if (to >= m.n)
		return;
	FF_UNROLL
	for (int i = 0; i < SINKS; i++)
		step_to(m.way[i], 0, m.way[i].loops.rank, step, at[i]);
	if (to + N <= m.n) {
		map_at<T, S, N, SINKS>(m, at, to);
		return;
	}
	for (; to < m.n; to++) {
		map_at<T, S, 1, SINKS>(m, at, to);
		FF_UNROLL
		for (int i = 0; i < SINKS; i++)
			for (int k = 0; k < FF_LOOP_READ; k++)
				at[i][k] += m.way[i].each[k];
	}
}

FF_DEVICE float joined(const struct ff_folding &f, float a, float b)
{
	return f.largest ? ff_larger(a, b) : a + b;
}

/* How a block folds: as many elements of the sink, or packs of them, as it is wide, and a share of
 * what they are made of, which its lanes take in turns.  Where it goes down, packs are of steps and
 * lanes are neighbours, else of elements, which then are. */
struct weaving {
	int64_t kept, steps, share; /* in packs */
	int32_t wide, lanes, down, unused;
};

template <class T, class S, int N>
FF_KERNEL void fold(struct ff_folding f, struct ways w, struct readers r, struct weaving v,
		float *shares, S *sink)
{
	FF_SHARED float part[N][BLOCK];
	int32_t own = (int32_t)threadIdx.x, lane = v.down ? own % v.lanes : own / v.wide;
	int32_t column = v.down ? own / v.lanes : own % v.wide, slot = lane * v.wide + column;
	int64_t element = (int64_t)blockIdx.x * v.wide + column, first = blockIdx.y * v.share;
	int64_t end = first + v.share < v.steps ? first + v.share : v.steps;
	int64_t base[FF_LOOP_READ] = {0};
	float all[N];

	for (int k = 0; k < N; k++)
		all[k] = f.largest ? -INFINITY : 0;
	if (element < v.kept)
		step_to(w, 0, w.loops.kept, element, base);
	for (int64_t i = first + lane; element < v.kept && i < end; i += v.lanes) {
		int64_t at[FF_LOOP_READ] = {base[0], base[1], base[2]};
		float x[N];

		step_to(w, w.loops.kept, w.loops.rank, i, at);
		values_at<T, N>(f, w, r, at, x);
		for (int k = 0; k < N; k++)
			all[k] = joined(f, all[k], x[k]);
	}
	for (int k = 0; k < N; k++)
		part[k][slot] = all[k];
	for (int32_t apart = v.lanes / 2; apart > 0; apart /= 2) {
		__syncthreads();
		for (int k = 0; k < N && lane < apart; k++)
			part[k][slot] = joined(f, part[k][slot], part[k][slot + apart * v.wide]);
	}
	if (lane > 0 || element >= v.kept)
		return;
	for (int k = 0; k < N; k++)
		all[k] = part[k][slot];
	for (int k = 1; k < N && v.down; k++)
		all[0] = joined(f, all[0], all[k]);
	for (int k = 0; k < N && !shares; k++)
		all[k] *= f.scale;
	if (shares && v.down)
		shares[blockIdx.y * v.kept + element] = all[0];
	else if (shares)
		put_at<float, N>(shares, (blockIdx.y * v.kept + element) * N, all);
	else if (v.down)
		real_put(&sink[element], all[0]);
	else
		put_at<S, N>(sink, element * N, all);
}

template <class S>
FF_KERNEL void join_shares(
		struct ff_folding f, int64_t kept, int64_t n, const float *shares, S *sink)
{
	int64_t element = thread_index();
	float all;

	if (element >= kept)
		return;
	all = shares[element];
	for (int64_t i = 1; i < n; i++)
		all = joined(f, all, shares[i * kept + element]);
	real_put(&sink[element], all * f.scale);
}

/* A whole number of packs, whatever their type. */
static int64_t share_of(int64_t steps)
{
	int64_t least = (steps + MOST - 1) / MOST;

	return least > LEAST ? (least + 7) / 8 * 8 : LEAST;
}

int64_t ff_fold_scratch(const struct ff_folding *f)
{
	int64_t steps = ff_loops_volume(&f->loops, f->loops.kept, f->loops.rank);
	int64_t shares = (steps + share_of(steps) - 1) / share_of(steps);

	return shares > 1 ? shares * ff_loops_volume(&f->loops, 0, f->loops.kept) *
					       (int64_t)sizeof(float)
			  : 0;
}

/* Whether neighbours in what is read are neighbours in the sink. */
static bool goes_across(const struct ff_loops *l)
{
	int64_t kept = 0, shared = 0;

	for (int k = 0; k < FF_LOOP_READ && l->kept; k++) {
		int64_t a = l->stride[k][l->kept - 1], b = l->stride[k][l->rank - 1];

		kept = a > kept ? a : kept;
		shared = b > shared ? b : shared;
	}
	return l->kept && kept < shared;
}

/* Whether `each` steps of an axis are a pack: neighbours in whatever they do not share, where packs
 * begin.  What is one run may end in a part of one. */
static bool has_packs(const struct ff_loops *l, uint32_t axis, int64_t each)
{
	bool packs = axis < l->rank && (l->n[axis] % each == 0 || l->rank == 1);

	for (int k = 0; k < FF_LOOP_READ && packs; k++) {
		packs = l->stride[k][axis] == 0 || l->stride[k][axis] == 1;
		for (uint32_t i = 0; i < l->rank && packs && l->stride[k][axis]; i++)
			packs = i == axis || l->stride[k][i] % each == 0;
	}
	return packs;
}

static struct ways ways_of(const struct ff_loops *l, uint32_t axis, int64_t each)
{
	struct ways w = {*l, {}, {}, 0};

	if (axis < l->rank) {
		w.loops.n[axis] = (l->n[axis] + each - 1) / each;
		for (int k = 0; k < FF_LOOP_READ; k++) {
			w.each[k] = each > 1 ? (int32_t)l->stride[k][axis] : 0;
			w.loops.stride[k][axis] *= each;
		}
	}
	w.narrow = ff_loops_volume(&w.loops, 0, l->rank) <= FF_NARROW;
	for (uint32_t i = 0; i < l->rank; i++)
		w.by[i] = divisor_of(w.loops.n[i]);
	return w;
}

template <class T, class S, int N, int SINKS>
static cudaError_t launch_map(struct mapping *m, cudaStream_t s)
{
	for (int i = 0; i < SINKS; i++)
		m->way[i] = ways_of(&m->f[i].loops, m->f[i].loops.rank - 1, N);
	return ff_launch(map<T, S, N, SINKS>, blocks_of((m->n + N - 1) / N), dim3(BLOCK), s, *m);
}

/* 16 bytes of what is read a thread where the loops allow it: shards begin at multiples of 64. */
template <class T, class S, int SINKS>
static cudaError_t launch_maps(struct mapping *m, cudaStream_t s)
{
	bool packs = true;

	m->n = ff_loops_volume(&m->f[0].loops, 0, m->f[0].loops.rank);
	for (int i = 0; i < SINKS; i++)
		packs = packs && has_packs(&m->f[i].loops, m->f[i].loops.rank - 1, pack<T>::n);
	return packs ? launch_map<T, S, pack<T>::n, SINKS>(m, s) : launch_map<T, S, 1, SINKS>(m, s);
}

template <class T, class S, int N>
static cudaError_t launch_fold(const struct ff_folding *f, const struct readers &r, S *sink,
		float *scratch, cudaStream_t s)
{
	const struct ff_loops *l = &f->loops;
	int64_t kept = ff_loops_volume(l, 0, l->kept), steps = ff_loops_volume(l, l->kept, l->rank);
	int64_t share = share_of(steps), shares = (steps + share - 1) / share;
	bool down = !goes_across(l);
	struct ways w = ways_of(l, (down ? l->rank : l->kept) - 1, N);
	struct weaving v = {kept / (down ? 1 : N), steps / (down ? N : 1), share / (down ? N : 1),
			32, 1, down, 0};
	cudaError_t code;

	while (down && v.lanes < BLOCK && v.lanes * 4 <= v.steps)
		v.lanes *= 2;
	while (!down && v.wide > 1 && v.wide / 2 >= v.kept)
		v.wide /= 2;
	if (down)
		v.wide = BLOCK / v.lanes;
	else
		v.lanes = BLOCK / v.wide;
	code = ff_launch(fold<T, S, N>,
			dim3((unsigned)((v.kept + v.wide - 1) / v.wide), (unsigned)shares),
			dim3(BLOCK), s, *f, w, r, v, shares > 1 ? scratch : (float *)NULL, sink);
	if (code != cudaSuccess || shares == 1)
		return code;
	return ff_launch(join_shares<S>, blocks_of(kept), dim3(BLOCK), s, *f, kept, shares,
			(const float *)scratch, sink);
}

template <class T, class S>
static cudaError_t launch(const struct ff_folding *f, const struct readers &r, S *sink,
		float *scratch, cudaStream_t s)
{
	const struct ff_loops *l = &f->loops;
	uint32_t axis = (goes_across(l) ? l->kept : l->rank) - 1;
	struct mapping m = {{*f, {}}, {}, r, NULL, {{sink, NULL}}, 0};

	if (l->kept == l->rank)
		return launch_maps<T, S, 1>(&m, s);
	return has_packs(l, axis, pack<T>::n) && l->n[axis] % pack<T>::n == 0
			       ? launch_fold<T, S, pack<T>::n>(f, r, sink, scratch, s)
			       : launch_fold<T, S, 1>(f, r, sink, scratch, s);
}

cudaError_t ff_launch_fold(const struct ff_folding *f, enum ff_dtype type, enum ff_dtype sink_type,
		const void *const *read, void *sink, void *scratch, cudaStream_t s)
{
	struct readers r;

	for (int k = 0; k < FF_LOOP_READ; k++)
		r.read[k] = read[k];
	if (type == FF_F32 && sink_type == FF_F32)
		return launch<float, float>(f, r, (float *)sink, (float *)scratch, s);
	if (type == FF_F32)
		return launch<float, uint16_t>(f, r, (uint16_t *)sink, (float *)scratch, s);
	if (sink_type == FF_F32)
		return launch<uint16_t, float>(f, r, (float *)sink, (float *)scratch, s);
	return launch<uint16_t, uint16_t>(f, r, (uint16_t *)sink, (float *)scratch, s);
}

bool ff_fold_alike(const struct ff_folding f[2], const enum ff_dtype sink_type[2])
{
	return f[0].loops.kept == f[0].loops.rank && f[1].loops.kept == f[1].loops.rank &&
	       ff_loops_volume(&f[0].loops, 0, f[0].loops.rank) ==
			       ff_loops_volume(&f[1].loops, 0, f[1].loops.rank) &&
	       sink_type[0] == sink_type[1];
}

template <class T, class S>
static cudaError_t launch_two(const struct ff_folding f[2], const struct readers &r,
		const void *relu_out, const struct sinks &sink, cudaStream_t s)
{
	struct mapping m = {{f[0], f[1]}, {}, r, relu_out, sink, 0};

	return launch_maps<T, S, 2>(&m, s);
}

cudaError_t ff_launch_fold_two(const struct ff_folding f[2], enum ff_dtype type,
		enum ff_dtype sink_type, const void *const *read, const void *relu_out,
		void *const sink[2], cudaStream_t s)
{
	struct sinks both = {{sink[0], sink[1]}};
	struct readers r;

	for (int k = 0; k < FF_LOOP_READ; k++)
		r.read[k] = read[k];
	if (type == FF_F32 && sink_type == FF_F32)
		return launch_two<float, float>(f, r, relu_out, both, s);
	if (type == FF_F32)
		return launch_two<float, uint16_t>(f, r, relu_out, both, s);
	if (sink_type == FF_F32)
		return launch_two<uint16_t, float>(f, r, relu_out, both, s);
	return launch_two<uint16_t, uint16_t>(f, r, relu_out, both, s);
}
