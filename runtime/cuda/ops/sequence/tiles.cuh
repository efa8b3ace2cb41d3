/* Products of tiles of two matrices' rows in shared memory, of which each thread has some rows and
 * columns in registers.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_TILES_CUH
#define FF_CUDA_TILES_CUH

#include "cuda/core/real.cuh"

#define TILE 64
#define SIDE 16 /* threads each way, of four rows and four columns of scores */
#define OWN (TILE / SIDE)
#define CHUNK 32 /* elements of rows that are multiplied at once */
#define WIDTH 128

/* A tile in shared memory: rows of quads, where those of a few rows lie in other banks each. */
typedef several<float, 4> quad;
#define QUADS (TILE / 4)

FF_DEVICE uint32_t quad_at(uint32_t row, uint32_t at)
{
	return row * QUADS + (at ^ (row >> 2 & 7));
}

/* Rows of a head: the first of all, from one to the next, how many. */
template <class T> struct rows_of {
	const T *x;
	int64_t step, n;
};

/* Elements of a row from `from` on; zeros where there is none.  Rows of whole packs begin where
 * packs do: shards begin at multiples of 64 bytes. */
template <class T>
FF_DEVICE void take(const struct rows_of<T> &r, int64_t row, int64_t from, int64_t size, float *to)
{
	const T *x = r.x + row * r.step + from;

	if (row < r.n && from < size && size % pack<T>::n == 0) {
		pack<T> all = *(const pack<T> *)x;

		for (int k = 0; k < pack<T>::n; k++)
			to[k] = real_get(all.x[k]);
		return;
	}
	for (int k = 0; k < pack<T>::n; k++)
		to[k] = row < r.n && from + k < size ? real_get(x[k]) : 0;
}

/* CHUNK elements of TILE rows, an element of all rows a row. */
template <class T>
FF_DEVICE void load_turned(
		const struct rows_of<T> &r, int64_t first, int64_t from, int64_t size, quad *to)
{
	const uint32_t n = pack<T>::n, packs = CHUNK / n;

	for (uint32_t i = threadIdx.y * SIDE + threadIdx.x; i < TILE * packs; i += SIDE * SIDE) {
		uint32_t row = i / packs, d = i % packs * n;
		float x[pack<T>::n];

		take(r, first + row, from + d, size, x);
		for (uint32_t k = 0; k < n; k++)
			to[quad_at(d + k, row / 4)].x[row % 4] = x[k];
	}
}

/* `rows` rows of EACH elements a thread across. */
template <class T, int EACH>
FF_DEVICE void load_rows(const struct rows_of<T> &r, int64_t first, uint32_t rows, int64_t from,
		int64_t size, quad *to)
{
	const uint32_t n = pack<T>::n, packs = EACH * SIDE / n;

	for (uint32_t i = threadIdx.y * SIDE + threadIdx.x; i < rows * packs; i += SIDE * SIDE) {
		uint32_t row = i / packs, d = i % packs * n;
		float x[pack<T>::n];

		take(r, first + row, from + d, size, x);
		for (uint32_t k = 0; k < n; k++)
			to[(row * EACH * SIDE + d) / 4 + k / 4].x[k % 4] = x[k];
	}
}

/* Products of rows of two tiles: thread (x, y) has rows OWN * y and on of `a`, and OWN * x and on
 * of `b`.  `stage` has room for a tile. */
template <class T>
FF_DEVICE void multiply(const struct rows_of<T> &a, int64_t a0, const struct rows_of<T> &b,
		int64_t b0, int64_t size, quad *stage, float sum[OWN][OWN])
{
	quad *of_a = stage, *of_b = stage + CHUNK * QUADS;

	for (uint32_t i = 0; i < OWN * OWN; i++)
		sum[i / OWN][i % OWN] = 0;
	for (int64_t from = 0; from < size; from += CHUNK) {
		__syncthreads(); /* who reads the last chunks is done */
		load_turned(a, a0, from, size, of_a);
		load_turned(b, b0, from, size, of_b);
		__syncthreads();
		FF_UNROLL
		for (uint32_t d = 0; d < CHUNK; d++) {
			quad p = of_a[quad_at(d, threadIdx.y)], q = of_b[quad_at(d, threadIdx.x)];

			for (uint32_t i = 0; i < OWN; i++)
				for (uint32_t j = 0; j < OWN; j++)
					sum[i][j] += p.x[i] * q.x[j];
		}
	}
}

/* What threads have of a tile of queries by keys goes to shared memory: a query a row, or a key. */
FF_DEVICE void put_tile(const float x[OWN][OWN], bool turned, quad *to)
{
	for (uint32_t i = 0; i < OWN; i++) {
		uint32_t row = (turned ? threadIdx.x : threadIdx.y) * OWN + i;
		quad q;

		for (uint32_t j = 0; j < OWN; j++)
			q.x[j] = turned ? x[j][i] : x[i][j];
		to[quad_at(row, turned ? threadIdx.y : threadIdx.x)] = q;
	}
}

/* What the thread itself has put there. */
FF_DEVICE void take_tile(const quad *from, bool turned, float x[OWN][OWN])
{
	for (uint32_t i = 0; i < OWN; i++) {
		uint32_t row = (turned ? threadIdx.x : threadIdx.y) * OWN + i;
		quad q = from[quad_at(row, turned ? threadIdx.y : threadIdx.x)];

		for (uint32_t j = 0; j < OWN; j++)
			(turned ? x[j][i] : x[i][j]) = q.x[j];
	}
}

/* The column of a thread's element, whose quads are as far apart as threads reach. */
FF_DEVICE uint32_t column_of(uint32_t j)
{
	return j / 4 * TILE + threadIdx.x * 4 + j % 4;
}

/* Adds rows of `b` to a thread's, each by the weights of a row of the tile. */
template <class T, int EACH>
FF_DEVICE void add_rows(const quad *weights, const struct rows_of<T> &b, int64_t b0, int64_t from,
		int64_t size, quad *stage, float sum[OWN][EACH])
{
	const uint32_t rows = TILE * TILE / (EACH * SIDE); /* of `b` that the stage has room for */

	for (uint32_t first = 0; first < TILE; first += rows) {
		__syncthreads();
		load_rows<T, EACH>(b, b0 + first, rows, from, size, stage);
		__syncthreads();
		FF_UNROLL
		for (uint32_t k = 0; k < rows; k++) {
			quad w = weights[quad_at(first + k, threadIdx.y)], x[EACH / 4];

			for (uint32_t j = 0; j < EACH / 4; j++)
				x[j] = stage[(k * EACH * SIDE + column_of(j * 4)) / 4];
			for (uint32_t i = 0; i < OWN; i++)
				for (uint32_t j = 0; j < EACH; j++)
					sum[i][j] += w.x[i] * x[j / 4].x[j % 4];
		}
	}
}

template <class T, int EACH>
FF_DEVICE void put_rows(T *x, int64_t step, int64_t first, int64_t rows, int64_t n,
		const float sum[OWN][EACH])
{
	FF_UNROLL
	for (uint32_t i = 0; i < OWN; i++) {
		int64_t y = first + threadIdx.y * OWN + i;

		for (uint32_t j = 0; j < EACH; j++)
			if (y < rows && column_of(j) < n)
				real_put(&x[y * step + column_of(j)], sum[i][j]);
	}
}

#endif
