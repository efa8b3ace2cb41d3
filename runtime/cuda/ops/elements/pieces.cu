/* Copies between a whole and its pieces: a thread has a column of some rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/core/places.cuh"
#include "pieces.h"

#define MOST_DOWN 65535 /* blocks along y */

template <class T> FF_KERNEL void copy_pieces(struct ff_pieces p)
{
	int64_t column = thread_index(), first = blockIdx.y * blockDim.y + threadIdx.y;
	int64_t down = (int64_t)gridDim.y * blockDim.y, i = 0;

	while (i < p.n && column >= p.width[i])
		column -= p.width[i++];
	if (i == p.n)
		return;
	for (int64_t row = first; row < p.rows; row += down) {
		T *piece = (T *)p.piece[i] + row * p.width[i] + column;
		T *whole = (T *)p.whole + row * p.step + p.at[i] + column;

		if (p.joins)
			*whole = *piece;
		else
			*piece = *whole;
	}
}

/* Blocks are as wide as rows, if these are narrow. */
template <class T> static cudaError_t launch(const struct ff_pieces *p, cudaStream_t s)
{
	int64_t width = 0, across = 1, down;

	for (int64_t i = 0; i < p->n; i++)
		width += p->width[i];
	while (across < width && across < BLOCK)
		across *= 2;
	down = (p->rows * across + BLOCK - 1) / BLOCK;
	return ff_launch(copy_pieces<T>,
			dim3((unsigned)((width + across - 1) / across),
					(unsigned)(down < MOST_DOWN ? down : MOST_DOWN)),
			dim3((unsigned)across, (unsigned)(BLOCK / across)), s, *p);
}

cudaError_t ff_launch_pieces(const struct ff_pieces *p, int64_t bytes, cudaStream_t s)
{
	switch (bytes) {
	case 1:
		return launch<uint8_t>(p, s);
	case 2:
		return launch<uint16_t>(p, s);
	case 4:
		return launch<uint32_t>(p, s);
	case 8:
		return launch<uint64_t>(p, s);
	default:
		return launch<word16>(p, s);
	}
}
