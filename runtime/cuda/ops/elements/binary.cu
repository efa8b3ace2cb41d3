/* Functions of two elements as their operands broadcast, and the sums that are the gradients of
 * what is broadcast.  Sums have an order that the shape alone decides.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/functions.cuh"
#include "cuda/core/real.cuh"
#include "cuda/core/relu.cuh"
#include "fold.h"

#define MOST 64   /* shares of what an element of the sink is made of */
#define LEAST 256 /* steps in a share */

#define CASES(name, of_z, of_dx, of_dy)                                                            \
	case FF_BINARY_##name *FF_BINARY_PARTS + FF_BINARY_Z:                                      \
		return of_z;                                                                       \
	case FF_BINARY_##name *FF_BINARY_PARTS + FF_BINARY_DX:                                     \
		return z * (of_dx);                                                                \
	case FF_BINARY_##name *FF_BINARY_PARTS + FF_BINARY_DY:                                     \
		return z * (of_dy);
/* All threads take one way. */
FF_DEVICE float value_of(int32_t function, int32_t part, float x, float y, float z)
{
	switch (function * FF_BINARY_PARTS + part) {
		FF_BINARIES(CASES)
	}
	return 0;
}
#undef CASES

struct readers {
	const void *read[FF_LOOP_READ];
};

template <class T> FF_DEVICE float read_at(const void *array, int64_t at)
{
	return array ? real_get(((const T *)array)[at]) : 0;
}

/* Adds what step `i` of the axes `first` to end - 1 moves. */
FF_DEVICE void step_to(
		const struct ff_loops &l, uint32_t first, uint32_t end, int64_t i, int64_t *at)
{
	for (uint32_t axis = end; axis-- > first;) {
		int64_t rest = axis > first ? i / l.n[axis] : 0, step = i - rest * l.n[axis];

		for (int k = 0; k < FF_LOOP_READ; k++)
			at[k] += step * l.stride[k][axis];
		i = rest;
	}
}

template <class T>
FF_DEVICE float value_at(const struct ff_folding &f, const struct readers &r, const int64_t *at)
{
	return value_of(f.function, f.part, read_at<T>(r.read[FF_LOOP_X], at[FF_LOOP_X]),
			read_at<T>(r.read[FF_LOOP_Y], at[FF_LOOP_Y]),
			read_at<T>(r.read[FF_LOOP_Z], at[FF_LOOP_Z]));
}

template <class T, class S>
FF_KERNEL void map(struct ff_folding f, struct readers r, S *sink, int64_t n)
{
	int64_t i = thread_index(), at[FF_LOOP_READ] = {0};
	float z;

	if (i >= n)
		return;
	step_to(f.loops, 0, f.loops.rank, i, at);
	z = value_at<T>(f, r, at) * f.scale;
	real_put(&sink[i], f.relu ? rectify(z) : z);
}

struct sinks {
	void *of[2];
};

/* Element `i` of both.  All is read before anything is written, which may lie where the same
 * thread has read. */
template <class T, class S>
FF_KERNEL void map_two(struct ff_folding f, struct ff_folding g, struct readers r,
		const T *relu_out, struct sinks sink, int64_t n)
{
	int64_t i = thread_index(), at[FF_LOOP_READ] = {0}, beside[FF_LOOP_READ] = {0};
	float a, b;

	if (i >= n)
		return;
	step_to(f.loops, 0, f.loops.rank, i, at);
	step_to(g.loops, 0, g.loops.rank, i, beside);
	a = value_at<T>(f, r, at) * f.scale;
	b = value_at<T>(g, r, beside) * g.scale;
	if (relu_out) {
		a *= rectify_slope(real_get(relu_out[at[FF_LOOP_Z]]));
		b *= rectify_slope(real_get(relu_out[beside[FF_LOOP_Z]]));
	}
	real_put(&((S *)sink.of[0])[i], a);
	real_put(&((S *)sink.of[1])[i], b);
}

FF_DEVICE float joined(const struct ff_folding &f, float a, float b)
{
	return f.largest ? ff_larger(a, b) : a + b;
}

/* A block has as many elements of the sink as it is wide, and a share of what they are made of;
 * its rows of threads take turns. */
template <class T, class S>
FF_KERNEL void fold(struct ff_folding f, struct readers r, int64_t kept, int64_t steps,
		int64_t share, float *shares, S *sink)
{
	FF_SHARED float part[BLOCK];
	int64_t element = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	int64_t first = blockIdx.y * share, end = first + share < steps ? first + share : steps;
	int64_t base[FF_LOOP_READ] = {0};
	float all = f.largest ? -INFINITY : 0;

	if (element < kept)
		step_to(f.loops, 0, f.loops.kept, element, base);
	for (int64_t i = first + threadIdx.y; element < kept && i < end; i += blockDim.y) {
		int64_t at[FF_LOOP_READ];

		for (int k = 0; k < FF_LOOP_READ; k++)
			at[k] = base[k];
		step_to(f.loops, f.loops.kept, f.loops.rank, i, at);
		all = joined(f, all, value_at<T>(f, r, at));
	}
	part[threadIdx.y * blockDim.x + threadIdx.x] = all;
	__syncthreads();
	if (threadIdx.y > 0 || element >= kept)
		return;
	for (unsigned k = 1; k < blockDim.y; k++)
		all = joined(f, all, part[k * blockDim.x + threadIdx.x]);
	if (shares)
		shares[blockIdx.y * kept + element] = all;
	else
		real_put(&sink[element], all * f.scale);
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

static int64_t share_of(int64_t steps)
{
	int64_t least = (steps + MOST - 1) / MOST;

	return least > LEAST ? least : LEAST;
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

template <class T, class S>
static cudaError_t launch(const struct ff_folding *f, const struct readers &r, S *sink,
		float *scratch, cudaStream_t s)
{
	int64_t kept = ff_loops_volume(&f->loops, 0, f->loops.kept);
	int64_t steps = ff_loops_volume(&f->loops, f->loops.kept, f->loops.rank);
	int64_t share = share_of(steps), shares = (steps + share - 1) / share;
	unsigned wide = goes_across(&f->loops) || steps < 64 ? 32 : 1;
	dim3 grid((unsigned)((kept + wide - 1) / wide), (unsigned)shares);
	cudaError_t code;

	if (f->loops.kept == f->loops.rank)
		return ff_launch(map<T, S>, blocks_of(kept), dim3(BLOCK), s, *f, r, sink, kept);
	code = ff_launch(fold<T, S>, grid, dim3(wide, BLOCK / wide), s, *f, r, kept, steps, share,
			shares > 1 ? scratch : (float *)NULL, sink);
	if (code != cudaSuccess || shares == 1)
		return code;
	return ff_launch(join_shares<S>, blocks_of(kept), dim3(BLOCK), s, *f, kept, shares,
			(const float *)scratch, sink);
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
	int64_t n = ff_loops_volume(&f[0].loops, 0, f[0].loops.rank);

	return ff_launch(map_two<T, S>, blocks_of(n), dim3(BLOCK), s, f[0], f[1], r,
			(const T *)relu_out, sink, n);
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
