/* Biases: a number for each column, added to all rows; and sums of columns, their gradients.
 * SPDX-License-Identifier: Apache-2.0 */
#include "real.cuh"

#define ACROSS 32
#define DOWN 8
#define MOST 64 /* shares of the rows */

/* Rows of a share; how many there are depends on the shape alone, and so does every sum. */
static int64_t share_of(int64_t rows)
{
	int64_t least = (rows + MOST - 1) / MOST;

	return least > 256 ? least : 256;
}

int64_t ff_column_scratch(int64_t rows, int64_t columns)
{
	int64_t shares = (rows + share_of(rows) - 1) / share_of(rows);

	return shares > 1 ? shares * columns * (int64_t)sizeof(float) : 0;
}

/* A block adds up one share of 32 columns. */
template <class T>
FF_KERNEL void add_share(int64_t rows, int64_t columns, int64_t share, const T *x, float *sums)
{
	FF_SHARED float part[DOWN][ACROSS];
	int64_t column = (int64_t)blockIdx.x * ACROSS + threadIdx.x, first = blockIdx.y * share;
	int64_t end = first + share < rows ? first + share : rows;
	float sum = 0;

	for (int64_t row = first + threadIdx.y; column < columns && row < end; row += DOWN)
		sum += real_get(x[row * columns + column]);
	part[threadIdx.y][threadIdx.x] = sum;
	__syncthreads();
	if (threadIdx.y > 0 || column >= columns)
		return;
	for (int k = 1; k < DOWN; k++)
		sum += part[k][threadIdx.x];
	sums[blockIdx.y * columns + column] = sum;
}

FF_KERNEL void add_shares(int64_t shares, int64_t columns, const float *sums, float *all)
{
	int64_t column = thread_index();
	float sum = 0;

	if (column >= columns)
		return;
	for (int64_t i = 0; i < shares; i++)
		sum += sums[i * columns + column];
	all[column] = sum;
}

template <class T>
static cudaError_t launch_columns(int64_t rows, int64_t columns, const void *x, float *sum,
		float *scratch, cudaStream_t s)
{
	int64_t share = share_of(rows), shares = (rows + share - 1) / share;
	dim3 grid((unsigned)((columns + ACROSS - 1) / ACROSS), (unsigned)shares);
	cudaError_t code = ff_launch(add_share<T>, grid, dim3(ACROSS, DOWN), s, rows, columns,
			share, (const T *)x, shares > 1 ? scratch : sum);

	if (code != cudaSuccess || shares == 1)
		return code;
	return ff_launch(add_shares, blocks_of(columns), dim3(BLOCK), s, shares, columns,
			(const float *)scratch, sum);
}

cudaError_t ff_launch_columns(enum ff_dtype type, int64_t rows, int64_t columns, const void *x,
		float *sum, void *scratch, cudaStream_t s)
{
	if (type == FF_BF16)
		return launch_columns<uint16_t>(rows, columns, x, sum, (float *)scratch, s);
	return launch_columns<float>(rows, columns, x, sum, (float *)scratch, s);
}

template <class T> FF_KERNEL void add_bias(int64_t n, int64_t channels, const T *bias, T *image)
{
	int64_t i = thread_index();

	if (i < n)
		real_put(&image[i], real_get(image[i]) + real_get(bias[i % channels]));
}

cudaError_t ff_launch_bias(enum ff_dtype type, int64_t rows, int64_t channels, const void *bias,
		void *image, cudaStream_t s)
{
	int64_t n = rows * channels;

	if (type == FF_BF16)
		return ff_launch(add_bias<uint16_t>, blocks_of(n), dim3(BLOCK), s, n, channels,
				(const uint16_t *)bias, (uint16_t *)image);
	return ff_launch(add_bias<float>, blocks_of(n), dim3(BLOCK), s, n, channels,
			(const float *)bias, (float *)image);
}
