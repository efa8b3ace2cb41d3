/* Cells of recurrences: a thread a feature of a sample.  Step by step a launch has the cells alone,
 * behind a product of cuBLASLt's.  Where a step is short, one launch has all of them, products
 * included, and its blocks meet between two steps (Diamos et al., "Persistent RNNs", ICML 2016;
 * weights are left to the caches here).  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/functions.cuh"
#include "cuda/core/real.cuh"
#include "ff/steps.h"
#include "recurrent.h"

#include "kernels/cells.h"

#define CELL(row, n_gates, n_kept, with_cell, n_half)                                              \
	struct row##_of {                                                                          \
		static const int gates = n_gates, kept = n_kept, has_cell = with_cell;             \
		static const int half = n_half;                                                    \
		FF_METHOD static void step(const ff_step_in *in, ff_step_out *out)                 \
		{                                                                                  \
			ff_step_##row(in, out);                                                    \
		}                                                                                  \
		FF_METHOD static void slope(const ff_slope_in *in, ff_slope_out *out)              \
		{                                                                                  \
			ff_slope_##row(in, out);                                                   \
		}                                                                                  \
	};
FF_CELLS(CELL)
#undef CELL

template <class T> FF_DEVICE float get_or_zero(const void *array, int64_t i)
{
	return array ? real_get(((const T *)array)[i]) : 0;
}

template <class T> FF_DEVICE void put_if_any(void *array, int64_t i, float x)
{
	if (array)
		real_put(&((T *)array)[i], x);
}

/* ---- one cell of one step ---- */

/* Where step `i`, in the order of time, is in the sequence. */
FF_DEVICE int64_t place_of(const struct ff_cells &c, int64_t i)
{
	return c.reverse ? c.steps - 1 - i : i;
}

/* The saved states of half `i`. */
template <class T> FF_DEVICE T *states_of(const struct ff_cells &c, int64_t i)
{
	int64_t second = i % c.halves;

	return (T *)c.states +
	       (place_of(c, i / c.halves) * c.halves + second) * c.samples * c.hidden;
}

/* What half `i` made of the gates' gradients, `gates` a feature. */
template <class T> FF_DEVICE T *slopes_of(const struct ff_cells &c, int64_t i, int gates)
{
	int64_t second = i % c.halves;

	return (T *)c.du +
	       (place_of(c, i / c.halves) * c.halves + second) * c.samples * gates * c.hidden;
}

/* Half `i` of feature j of sample n, whose gates get `u` of the state, but for the bias. */
template <class T, class C>
FF_DEVICE void take_step(const struct ff_cells &c, int64_t i, int64_t n, int64_t j, const float *u)
{
	const int halves = C::half ? 2 : 1;
	int64_t now = place_of(c, i / halves), second = i % halves, at = n * c.hidden + j;
	int64_t each = c.samples * c.hidden;
	bool first = i == 0, last = i + 1 == c.steps * halves;
	const T *x = (const T *)c.x + now * c.x_step + n * c.x_sample;
	T *before = states_of<T>(c, i - second);
	float *kept = C::kept ? c.kept + (now * c.samples + n) * C::kept * c.hidden + j : NULL;
	struct ff_step_in in;
	struct ff_step_out out;

	in.cell = 0;
	for (int g = 0; g < C::gates; g++) {
		in.x[g] = real_get(x[g * c.hidden + j]);
		in.u[g] = u[g] + get_or_zero<T>(c.bias, g * c.hidden + j);
	}
	in.state = first ? get_or_zero<T>(c.first_state, at) : real_get(before[at]);
	if (first)
		real_put(&before[at], in.state);
	if (C::has_cell) {
		in.cell = !first           ? c.cell[at]
			  : c.carried_cell ? c.carried_cell[at]
					   : get_or_zero<T>(c.first_cell, at);
		c.cells[now * each + at] = in.cell;
	}
	for (int k = 0; C::half == 2 && k < C::kept; k++)
		in.kept[k] = kept[k * c.hidden];
	C::step(&in, &out);
	for (int k = 0; k < C::kept; k++)
		kept[k * c.hidden] = out.kept[k];
	if (C::has_cell) {
		c.cell[at] = out.cell;
		put_if_any<T>(last ? c.last_cell : NULL, at, out.cell);
		put_if_any<float>(last ? c.left_cell : NULL, at, out.cell);
	}
	if (second + 1 == halves)
		put_if_any<T>(c.y, now * c.y_step + n * c.y_sample + j, out.state);
	put_if_any<T>(last ? c.left : states_of<T>(c, i + 1), at, out.state);
	put_if_any<T>(c.operand, at, out.state);
}

/* Its gradients, where the state behind it has `carry` by way of the next half's product. */
template <class T, class C>
FF_DEVICE void take_slope(const struct ff_cells &c, int64_t i, int64_t n, int64_t j, float carry)
{
	const int halves = C::half ? 2 : 1;
	int64_t now = place_of(c, i / halves), second = i % halves, at = n * c.hidden + j;
	int64_t each = c.samples * c.hidden, y = now * c.y_step + n * c.y_sample + j;
	bool last = i + 1 == c.steps * halves;
	const float *kept =
			C::kept ? c.kept + (now * c.samples + n) * C::kept * c.hidden + j : NULL;
	T *du = slopes_of<T>(c, i, C::gates);
	struct ff_slope_in in;
	struct ff_slope_out out;

	in.cell = in.dcell = 0;
	in.dstate = second + 1 == halves ? get_or_zero<T>(c.grad.dy, y) : 0;
	if (!last)
		in.dstate = in.dstate + c.through[at] + carry;
	else
		in.dstate = in.dstate + get_or_zero<T>(c.grad.dleft, at);
	in.out = get_or_zero<T>(c.y, y);
	in.state = real_get(states_of<T>(c, i - second)[at]);
	for (int k = 0; k < C::kept; k++)
		in.kept[k] = kept[k * c.hidden];
	if (C::has_cell) {
		in.cell = c.cells[now * each + at];
		in.dcell = !last               ? c.cell[at]
			   : c.grad.dleft_cell ? c.grad.dleft_cell[at]
					       : get_or_zero<T>(c.grad.dlast_cell, at);
	}
	if (C::half == 1)
		in.dcell = c.cell[at];
	C::slope(&in, &out);
	for (int g = 0; g < C::gates; g++) {
		int64_t u = (n * C::gates + g) * c.hidden + j;

		/* a step's first half of two makes the gradient of all of its x */
		put_if_any<T>(second ? NULL : c.grad.dx,
				now * c.x_step + n * c.x_sample + g * c.hidden + j, out.dx[g]);
		real_put(&du[u], out.du[g]);
		put_if_any<T>(c.operand, u, out.du[g]);
	}
	c.through[at] = out.dstate;
	if (C::has_cell || C::half)
		c.cell[at] = out.dcell;
}

/* What the first step finds: the gradients of feature `at` of all samples'. */
template <class T> FF_DEVICE void take_states(const struct ff_cells &c, int64_t at, float carry)
{
	put_if_any<T>(c.grad.dstate, at, c.through[at] + carry);
	if (c.grad.dfirst_cell)
		put_if_any<T>(c.grad.dfirst_cell, at, c.cell[at]);
	if (c.grad.dcarried_cell)
		c.grad.dcarried_cell[at] = c.cell[at];
}

/* ---- a launch a step ---- */

template <class T, class C> FF_KERNEL void cell_step(struct ff_cells c, int64_t i)
{
	int64_t at = thread_index(), n = at / c.hidden, j = at - n * c.hidden;
	float u[C::gates];

	if (at >= c.samples * c.hidden)
		return;
	for (int g = 0; g < C::gates; g++)
		u[g] = i || c.first_state ? c.product[(n * C::gates + g) * c.hidden + j] : 0;
	take_step<T, C>(c, i, n, j, u);
}

template <class T, class C> FF_KERNEL void cell_slope(struct ff_cells c, int64_t i)
{
	int64_t at = thread_index(), n = at / c.hidden;

	if (at < c.samples * c.hidden)
		take_slope<T, C>(c, i, n, at - n * c.hidden,
				i + 1 < c.steps * c.halves ? c.product[at] : 0);
}

template <class T> FF_KERNEL void cell_states(struct ff_cells c)
{
	int64_t at = thread_index();

	if (at < c.samples * c.hidden)
		take_states<T>(c, at, c.product[at]);
}

#define STEP_ROW(row, gates, kept, has_cell, half)                                                 \
	{cell_step<float, row##_of>, cell_step<uint16_t, row##_of>},
#define SLOPE_ROW(row, gates, kept, has_cell, half)                                                \
	{cell_slope<float, row##_of>, cell_slope<uint16_t, row##_of>},

cudaError_t ff_launch_cell_step(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t i, cudaStream_t s)
{
	static void (*const kernel[FF_CELL_COUNT][2])(struct ff_cells, int64_t) = {
			FF_CELLS(STEP_ROW)};

	return ff_launch(kernel[cell][type == FF_BF16], blocks_of(c->samples * c->hidden),
			dim3(BLOCK), s, *c, i);
}

cudaError_t ff_launch_cell_slope(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t i, cudaStream_t s)
{
	static void (*const kernel[FF_CELL_COUNT][2])(struct ff_cells, int64_t) = {
			FF_CELLS(SLOPE_ROW)};

	return ff_launch(kernel[cell][type == FF_BF16], blocks_of(c->samples * c->hidden),
			dim3(BLOCK), s, *c, i);
}

cudaError_t ff_launch_cell_states(enum ff_dtype type, const struct ff_cells *c, cudaStream_t s)
{
	return ff_launch(type == FF_BF16 ? cell_states<uint16_t> : cell_states<float>,
			blocks_of(c->samples * c->hidden), dim3(BLOCK), s, *c);
}

/* ---- one launch ---- */

#define LANES 32
#define SAMPLES FF_STEP_SAMPLES
#define FEATURES FF_STEP_FEATURES /* with their samples no more than lanes */

/* Sums over a warp's lanes of 2, 4, ... 32 numbers: each lane has that which is its own number, of
 * as many as there are. */
template <int n> FF_DEVICE float add_lanes(float *x)
{
	int lane = threadIdx.x % LANES;

	for (int width = n / 2; width > 0; width /= 2)
		for (int i = 0; i < width; i++) {
			float give = lane & width ? x[i] : x[i + width];
			float keep = lane & width ? x[i + width] : x[i];

			x[i] = keep + __shfl_xor_sync(~0u, give, width);
		}
	for (int other = n; other < LANES; other *= 2)
		x[0] += __shfl_xor_sync(~0u, x[0], other);
	return x[0];
}

/* Products of `rows` rows of a matrix with SAMPLES vectors, in the order of rows, of which each
 * lane has its own.  What is beyond the last row or vector is that one again. */
template <class T, int rows>
FF_DEVICE float multiply(const T *matrix, int64_t row_step, int64_t rows_left, const T *vectors,
		int64_t n, int64_t vectors_left)
{
	const int all = rows * SAMPLES, room = all <= 8 ? 8 : all <= 16 ? 16 : 32;
	float sum[room], y[SAMPLES];

	for (int i = 0; i < room; i++)
		sum[i] = 0;
	for (int64_t k = threadIdx.x % LANES; k < n; k += LANES) {
		for (int s = 0; s < SAMPLES; s++)
			y[s] = real_get(vectors[(s < vectors_left ? s : vectors_left - 1) * n + k]);
		for (int r = 0; r < rows; r++) {
			int64_t row = r < rows_left ? r : rows_left - 1;
			float w = real_get(matrix[row * row_step + k]);

			for (int s = 0; s < SAMPLES; s++)
				sum[r * SAMPLES + s] += w * y[s];
		}
	}
	return add_lanes<room>(sum);
}

FF_DEVICE int64_t warp_index()
{
	return thread_index() / LANES;
}

FF_DEVICE int64_t warp_count()
{
	return (int64_t)gridDim.x * blockDim.x / LANES;
}

static inline __host__ __device__ int64_t tiles_of(int64_t n, int64_t size)
{
	return (n + size - 1) / size;
}

/* A warp has a feature's gates of some samples, the same ones in all steps. */
template <class T, class C> FF_KERNEL void cell_steps(struct ff_cells c)
{
	int64_t tiles = tiles_of(c.samples, SAMPLES), lane = threadIdx.x % LANES;

	for (int64_t i = 0; i < c.steps; i++) {
		const T *before = i ? states_of<T>(c, i) : (const T *)c.first_state;

		for (int64_t t = warp_index(); t < c.hidden * tiles; t += warp_count()) {
			int64_t j = t / tiles, n = (t - j * tiles) * SAMPLES;
			float u[C::gates], sum = 0;

			if (before)
				sum = multiply<T, C::gates>((const T *)c.weight + j * c.hidden,
						c.hidden * c.hidden, C::gates,
						before + n * c.hidden, c.hidden, c.samples - n);
			for (int g = 0; g < C::gates; g++)
				u[g] = __shfl_sync(~0u, sum, g * SAMPLES + (int)lane % SAMPLES);
			if (lane < SAMPLES && n + lane < c.samples)
				take_step<T, C>(c, i, n + lane, j, u);
		}
		if (i + 1 < c.steps)
			ff_meet();
	}
}

/* What the gates' gradients of half `i` give the state before it, of the lane's own feature and
 * sample, which are at `t` among all warps'. */
template <class T, class C>
FF_DEVICE float carry_of(const struct ff_cells &c, int64_t i, int64_t n, int64_t j)
{
	int64_t all = C::gates * c.hidden;

	return multiply<T, FEATURES>((const T *)c.turned + j * all, all, c.hidden - j,
			slopes_of<T>(c, i, C::gates) + n * all, all, c.samples - n);
}

/* A warp has two features of some samples, the same ones in all steps. */
template <class T, class C> FF_KERNEL void cell_slopes(struct ff_cells c)
{
	int64_t tiles = tiles_of(c.samples, SAMPLES), all = tiles_of(c.hidden, FEATURES) * tiles;
	int64_t lane = threadIdx.x % LANES, rows = C::gates * c.hidden;

	for (int64_t k = thread_index(); k < rows * c.hidden; k += warp_count() * LANES)
		((T *)c.turned)[k % c.hidden * rows + k / c.hidden] = ((const T *)c.weight)[k];
	for (int64_t i = c.steps; i-- > (c.need_states ? -1 : 0);) {
		if (i + 1 < c.steps)
			ff_meet();
		for (int64_t t = warp_index(); t < all; t += warp_count()) {
			int64_t j = t / tiles * FEATURES, n = t % tiles * SAMPLES;
			float carry = i + 1 < c.steps ? carry_of<T, C>(c, i + 1, n, j) : 0;

			j += lane / SAMPLES;
			n += lane % SAMPLES;
			if (lane >= FEATURES * SAMPLES || j >= c.hidden || n >= c.samples)
				continue;
			if (i < 0)
				take_states<T>(c, n * c.hidden + j, carry);
			else
				take_slope<T, C>(c, i, n, j, carry);
		}
	}
}

typedef void (*whole)(struct ff_cells c);

/* NULL: a step is two halves. */
template <class T, class C> constexpr whole steps_of()
{
	if constexpr (C::half)
		return nullptr;
	else
		return cell_steps<T, C>;
}

template <class T, class C> constexpr whole slopes_of()
{
	if constexpr (C::half)
		return nullptr;
	else
		return cell_slopes<T, C>;
}

/* So many warps: on as many multiprocessors as there are, as many on each. */
static cudaError_t launch_whole(whole kernel, const struct ff_cells *c, int64_t warps,
		int64_t blocks, cudaStream_t s)
{
	int64_t each = tiles_of(warps, blocks);

	static_assert(FF_STEP_WARPS * LANES <= BLOCK, "a block has so many");
	each = each < FF_STEP_WARPS ? each : FF_STEP_WARPS;
	blocks = tiles_of(warps, each) < blocks ? tiles_of(warps, each) : blocks;
	return ff_launch_together(
			kernel, dim3((unsigned)blocks), dim3((unsigned)(each * LANES)), s, *c);
}

#define STEPS_ROW(row, gates, kept, has_cell, half)                                                \
	{steps_of<float, row##_of>(), steps_of<uint16_t, row##_of>()},
#define SLOPES_ROW(row, gates, kept, has_cell, half)                                               \
	{slopes_of<float, row##_of>(), slopes_of<uint16_t, row##_of>()},

cudaError_t ff_launch_cell_steps(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t blocks, cudaStream_t s)
{
	static const whole kernel[FF_CELL_COUNT][2] = {FF_CELLS(STEPS_ROW)};

	return launch_whole(kernel[cell][type == FF_BF16], c,
			c->hidden * tiles_of(c->samples, SAMPLES), blocks, s);
}

cudaError_t ff_launch_cell_slopes(enum ff_cell cell, enum ff_dtype type, const struct ff_cells *c,
		int64_t blocks, cudaStream_t s)
{
	static const whole kernel[FF_CELL_COUNT][2] = {FF_CELLS(SLOPES_ROW)};

	return launch_whole(kernel[cell][type == FF_BF16], c,
			tiles_of(c->hidden, FEATURES) * tiles_of(c->samples, SAMPLES), blocks, s);
}
