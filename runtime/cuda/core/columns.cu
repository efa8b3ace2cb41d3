/* Biases: a number for each column, added to all rows; and sums of columns, their gradients.
 * SPDX-License-Identifier: Apache-2.0 */
#include "strips.cuh"

#define AT_ONCE 4 /* rows that a thread reads */

struct place {
	int64_t columns, column;

	FF_METHOD int64_t operator()(int64_t row) const
	{
		return row * columns + column;
	}
};

/* Rows of a share; how many there are depends on the shape alone, and so does every sum. */
static int64_t share_of(int64_t rows, int64_t columns)
{
	return share_for(rows, strip<8>::count(columns), FF_STRIP_BLOCKS, 128);
}

int64_t ff_column_scratch(int64_t rows, int64_t columns)
{
	int64_t share = share_of(rows, columns), shares = (rows + share - 1) / share;

	return shares > 1 ? shares * columns * (int64_t)sizeof(float) : 0;
}

template <class T, int V>
FF_KERNEL void add_share(int64_t rows, int64_t columns, int64_t share, const T *x, float *sums)
{
	int64_t strip_at = (int64_t)blockIdx.x * strip<V>::columns, own = strip_at + threadIdx.x;
	int64_t column = strip_at + strip<V>::column(), first = blockIdx.y * share;
	int64_t end = first + share < rows ? first + share : rows;
	float sum[V] = {}, all;

	for (int64_t row = first + strip<V>::row(); column < columns && row < end;
			row += AT_ONCE * strip<V>::down) {
		pack<T, V> p[AT_ONCE];
		read_rows(x, place{columns, column}, row, end, p);
		FF_UNROLL_ALL
		for (int k = 0; k < AT_ONCE; k++) {
			float one[V];

			get_pack(p[k], one);
			for (int v = 0; v < V; v++)
				sum[v] += one[v];
		}
	}
	all = join_strip<V>(sum);
	if (threadIdx.x < strip<V>::columns && own < columns)
		sums[blockIdx.y * columns + own] = all;
}

template <int V>
FF_KERNEL void add_shares(int64_t shares, int64_t columns, const float *sums, float *all)
{
	int64_t strip_at = (int64_t)blockIdx.x * strip<V>::columns, own = strip_at + threadIdx.x;
	int64_t column = strip_at + strip<V>::column();
	float sum = join_shares<V>(sums + column, shares, columns, column < columns);

	if (threadIdx.x < strip<V>::columns && own < columns)
		all[own] = sum;
}

template <class T, int V>
FF_KERNEL void add_bias(int64_t rows, int64_t columns, int64_t share, const T *bias, T *image)
{
	int64_t column = (int64_t)blockIdx.x * strip<V>::columns + strip<V>::column();
	int64_t first = blockIdx.y * share, end = first + share < rows ? first + share : rows;
	float add[V];

	if (column >= columns)
		return;
	for (int v = 0; v < V; v++)
		add[v] = real_get(bias[column + v]);
	for (int64_t row = first + strip<V>::row(); row < end; row += AT_ONCE * strip<V>::down) {
		pack<T, V> p[AT_ONCE];
		int n = read_rows((const T *)image, place{columns, column}, row, end, p);

		FF_UNROLL_ALL
		for (int k = 0; k < AT_ONCE; k++) {
			float one[V];

			get_pack(p[k], one);
			for (int v = 0; v < V; v++)
				one[v] += add[v];
			put_pack(&p[k], one);
		}
		write_rows(p, n, image, place{columns, column}, row);
	}
}

template <int V>
static cudaError_t launch_shares(
		int64_t shares, int64_t columns, const float *scratch, float *sum, cudaStream_t s)
{
	return ff_launch(add_shares<V>, dim3((unsigned)strip<V>::count(columns)), dim3(BLOCK), s,
			shares, columns, scratch, sum);
}

template <class T, int V>
static cudaError_t launch_columns(int64_t rows, int64_t columns, const void *x, float *sum,
		float *scratch, cudaStream_t s)
{
	int64_t share = share_of(rows, columns), shares = (rows + share - 1) / share;
	dim3 grid((unsigned)strip<V>::count(columns), (unsigned)shares);
	cudaError_t code = ff_launch(add_share<T, V>, grid, dim3(BLOCK), s, rows, columns, share,
			(const T *)x, shares > 1 ? scratch : sum);

	if (code != cudaSuccess || shares == 1)
		return code;
	return by_packs<float>(columns, scratch)
			       ? launch_shares<pack<float>::n>(shares, columns, scratch, sum, s)
			       : launch_shares<1>(shares, columns, scratch, sum, s);
}

template <class T>
static cudaError_t launch_columns(int64_t rows, int64_t columns, const void *x, float *sum,
		float *scratch, cudaStream_t s)
{
	return by_packs<T>(columns, x)
			       ? launch_columns<T, pack<T>::n>(rows, columns, x, sum, scratch, s)
			       : launch_columns<T, 1>(rows, columns, x, sum, scratch, s);
}

cudaError_t ff_launch_columns(enum ff_dtype type, int64_t rows, int64_t columns, const void *x,
		float *sum, void *scratch, cudaStream_t s)
{
	return type == FF_BF16 ? launch_columns<uint16_t>(
						 rows, columns, x, sum, (float *)scratch, s)
			       : launch_columns<float>(rows, columns, x, sum, (float *)scratch, s);
}

template <class T, int V>
static cudaError_t launch_bias(
		int64_t rows, int64_t columns, const void *bias, void *image, cudaStream_t s)
{
	int64_t share = share_for(rows, strip<V>::count(columns), 4 * FF_STRIP_BLOCKS, 128);
	dim3 grid((unsigned)strip<V>::count(columns), (unsigned)((rows + share - 1) / share));

	return ff_launch(add_bias<T, V>, grid, dim3(BLOCK), s, rows, columns, share,
			(const T *)bias, (T *)image);
}

template <class T>
static cudaError_t launch_bias(
		int64_t rows, int64_t columns, const void *bias, void *image, cudaStream_t s)
{
	return by_packs<T>(columns, image)
			       ? launch_bias<T, pack<T>::n>(rows, columns, bias, image, s)
			       : launch_bias<T, 1>(rows, columns, bias, image, s);
}

cudaError_t ff_launch_bias(enum ff_dtype type, int64_t rows, int64_t channels, const void *bias,
		void *image, cudaStream_t s)
{
	return type == FF_BF16 ? launch_bias<uint16_t>(rows, channels, bias, image, s)
			       : launch_bias<float>(rows, channels, bias, image, s);
}
