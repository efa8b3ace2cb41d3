/* Cells of recurrences: a thread a feature of a sample.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/functions.cuh"
#include "cuda/core/real.cuh"
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

template <class T, class C> FF_KERNEL void cell_step(struct ff_cell_step p)
{
	int64_t at = thread_index(), i = at / p.hidden, j = at - i * p.hidden;
	const T *x = (const T *)p.x + i * p.x_sample;
	struct ff_step_in in;
	struct ff_step_out out;

	if (at >= p.samples * p.hidden)
		return;
	in.cell = 0;
	for (int g = 0; g < C::gates; g++) {
		int64_t u = (i * C::gates + g) * p.hidden + j;

		in.x[g] = real_get(x[g * p.hidden + j]);
		in.u[g] = (p.u ? p.u[u] : 0) + get_or_zero<T>(p.bias, g * p.hidden + j);
	}
	in.state = get_or_zero<T>(p.before, at);
	put_if_any<T>(p.before_kept, at, in.state);
	if (C::has_cell) {
		in.cell = !p.first         ? p.cell[at]
			  : p.carried_cell ? p.carried_cell[at]
					   : get_or_zero<T>(p.first_cell, at);
		p.cells[at] = in.cell;
	}
	for (int k = 0; C::half == 2 && k < C::kept; k++)
		in.kept[k] = p.kept[(i * C::kept + k) * p.hidden + j];
	C::step(&in, &out);
	for (int k = 0; k < C::kept; k++)
		p.kept[(i * C::kept + k) * p.hidden + j] = out.kept[k];
	if (C::has_cell) {
		p.cell[at] = out.cell;
		put_if_any<T>(p.last_cell, at, out.cell);
		put_if_any<float>(p.left_cell, at, out.cell);
	}
	put_if_any<T>(p.y, i * p.y_sample + j, out.state);
	put_if_any<T>(p.next, at, out.state);
	put_if_any<T>(p.operand, at, out.state);
}

template <class T, class C> FF_KERNEL void cell_slope(struct ff_cell_slope p)
{
	int64_t at = thread_index(), i = at / p.hidden, j = at - i * p.hidden;
	struct ff_slope_in in;
	struct ff_slope_out out;

	if (at >= p.samples * p.hidden)
		return;
	in.cell = in.dcell = 0;
	in.dstate = get_or_zero<T>(p.dy, i * p.y_sample + j);
	if (!p.last)
		in.dstate = in.dstate + p.through[at] + p.carry[at];
	else
		in.dstate = in.dstate + get_or_zero<T>(p.dleft, at);
	in.out = get_or_zero<T>(p.y, i * p.y_sample + j);
	in.state = get_or_zero<T>(p.before, at);
	for (int k = 0; k < C::kept; k++)
		in.kept[k] = p.kept[(i * C::kept + k) * p.hidden + j];
	if (C::has_cell) {
		in.cell = p.cells[at];
		in.dcell = !p.last        ? p.dcell[at]
			   : p.dleft_cell ? p.dleft_cell[at]
					  : get_or_zero<T>(p.dlast_cell, at);
	}
	if (C::half == 1)
		in.dcell = p.dcell[at];
	C::slope(&in, &out);
	for (int g = 0; g < C::gates; g++) {
		put_if_any<T>(p.dx, i * p.x_sample + g * p.hidden + j, out.dx[g]);
		put_if_any<T>(p.du, (i * C::gates + g) * p.hidden + j, out.du[g]);
		put_if_any<T>(p.operand, (i * C::gates + g) * p.hidden + j, out.du[g]);
	}
	p.through[at] = out.dstate;
	if (C::has_cell || C::half)
		p.dcell[at] = out.dcell;
}

template <class T>
FF_KERNEL void cell_states(int64_t n, const float *through, const float *carry, const float *dcell,
		void *dstate, void *dfirst_cell, float *dcarried_cell)
{
	int64_t at = thread_index();

	if (at >= n)
		return;
	put_if_any<T>(dstate, at, through[at] + carry[at]);
	if (dfirst_cell)
		put_if_any<T>(dfirst_cell, at, dcell[at]);
	if (dcarried_cell)
		dcarried_cell[at] = dcell[at];
}

#define STEP_ROW(row, gates, kept, has_cell, half)                                                 \
	{cell_step<float, row##_of>, cell_step<uint16_t, row##_of>},
#define SLOPE_ROW(row, gates, kept, has_cell, half)                                                \
	{cell_slope<float, row##_of>, cell_slope<uint16_t, row##_of>},

cudaError_t ff_launch_cell_step(
		enum ff_cell cell, enum ff_dtype type, const struct ff_cell_step *p, cudaStream_t s)
{
	static void (*const kernel[FF_CELL_COUNT][2])(struct ff_cell_step) = {FF_CELLS(STEP_ROW)};

	return ff_launch(kernel[cell][type == FF_BF16], blocks_of(p->samples * p->hidden),
			dim3(BLOCK), s, *p);
}

cudaError_t ff_launch_cell_slope(enum ff_cell cell, enum ff_dtype type,
		const struct ff_cell_slope *p, cudaStream_t s)
{
	static void (*const kernel[FF_CELL_COUNT][2])(struct ff_cell_slope) = {FF_CELLS(SLOPE_ROW)};

	return ff_launch(kernel[cell][type == FF_BF16], blocks_of(p->samples * p->hidden),
			dim3(BLOCK), s, *p);
}

cudaError_t ff_launch_cell_states(enum ff_dtype type, int64_t n, const float *through,
		const float *carry, const float *dcell, void *dstate, void *dfirst_cell,
		float *dcarried_cell, cudaStream_t s)
{
	if (type == FF_BF16)
		return ff_launch(cell_states<uint16_t>, blocks_of(n), dim3(BLOCK), s, n, through,
				carry, dcell, dstate, dfirst_cell, dcarried_cell);
	return ff_launch(cell_states<float>, blocks_of(n), dim3(BLOCK), s, n, through, carry, dcell,
			dstate, dfirst_cell, dcarried_cell);
}
