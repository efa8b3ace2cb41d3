/* Convolutions as products of matrices.  The windows of all results are the rows of a matrix: the
 * image itself, where a window is a pixel, or copies of its pixels.  The filter is the other matrix
 * as it lies, so nothing is brought into oneDNN's layout and back, which for small images and many
 * channels takes as long as the arithmetic.  SPDX-License-Identifier: Apache-2.0 */
#include "filter_product.h"

#include <string.h>

#include "ff/reduce.h"
#include "product.h"

#define FEW_ROWS 128   /* below, oneDNN 2.6's sgemm is faster than its matmul at dY W */
#define MANY_ROWS 1024 /* from here on its gradient of the weights is as fast as a product */
#define NARROW 64      /* channels; of fewer the convolutions waste less */

static bool is_direct(const struct ff_windows *w)
{
	bool same = ff_windows_taps(w) == 1;

	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++)
		same = same && w->in[i] == w->out[i] && !w->pad[0][i] && !w->pad[1][i] &&
		       (w->stride[i] == 1 || w->out[i] == 1);
	return same;
}

static bool is_strided(const struct ff_windows *w)
{
	bool strides = false;

	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++)
		strides = strides || (w->stride[i] > 1 && w->out[i] > 1);
	return strides;
}

static int64_t rows_of(const struct ff_filter *f)
{
	return f->n * f->windows.out[0] * f->windows.out[1] * f->windows.out[2];
}

/* The filter's way to another layout costs by its elements, the windows' copies by theirs: which
 * are fewer is what counts.  oneDNN's gradient of the weights, and all it does with strides, is
 * slower than the rest; its gradient of the image leaves padding out, which products do not. */
int ff_filter_product_passes(const struct ff_filter *f, int passes)
{
	int64_t rows = rows_of(f);
	int ret = 0;

	if (f->type != FF_F32 || f->image_type != FF_F32 || f->groups > 1 || f->c < NARROW ||
			f->k < NARROW)
		return 0;
	if (is_direct(&f->windows))
		ret = FF_FILTER_FORWARD | FF_FILTER_DATA |
		      (rows < MANY_ROWS ? FF_FILTER_WEIGHT : 0);
	else if (rows * (is_strided(&f->windows) ? 1 : 2) <= f->k)
		ret = FF_FILTER_FORWARD | FF_FILTER_DATA | FF_FILTER_WEIGHT;
	else if (rows <= f->k)
		ret = FF_FILTER_WEIGHT;
	return ret & passes;
}

static int prepare_products(struct ff_kernel *k, const struct ff_filter *f, int passes,
		struct ff_filter_product *p, struct ff_error *err)
{
	const struct ff_product forward = {.rows = p->rows,
			.inner = p->depth,
			.columns = f->k,
			.b_transposed = true,
			.has_bias = f->bias,
			.type = FF_F32,
			.sink = FF_F32};
	const struct ff_product data = {.rows = p->rows,
			.inner = f->k,
			.columns = p->depth,
			.type = FF_F32,
			.sink = FF_F32};
	const struct ff_product weight = {.rows = f->k,
			.inner = p->rows,
			.columns = p->depth,
			.a_transposed = true,
			.type = FF_F32,
			.sink = FF_F32};
	int code = FF_OK;

	if (passes & FF_FILTER_FORWARD)
		code = ff_product_prepare(k, &forward, &p->forward, err);
	if (code == FF_OK && passes & FF_FILTER_DATA && p->rows >= FEW_ROWS)
		code = ff_product_prepare(k, &data, &p->data, err);
	if (code == FF_OK && passes & FF_FILTER_WEIGHT)
		code = ff_product_prepare(k, &weight, &p->weight, err);
	return code;
}

int ff_filter_product_prepare(struct ff_kernel *k, const struct ff_filter *f, int passes,
		struct ff_filter_product *ret, struct ff_error *err)
{
	*ret = (struct ff_filter_product){.windows = f->windows,
			.direct = is_direct(&f->windows),
			.n = f->n,
			.c = f->c,
			.k = f->k,
			.rows = rows_of(f),
			.depth = f->c * ff_windows_taps(&f->windows)};
	if (!ret->direct)
		ret->columns_bytes = ret->rows * ret->depth * FF_F32_BYTES;
	return prepare_products(k, f, passes, ret, err);
}

/* The image's element that a tap of a row's window meets, or -1 where that is padding. */
static int64_t meet(const struct ff_filter_product *p, int64_t row, int64_t tap)
{
	const struct ff_windows *w = &p->windows;
	int64_t at = 0, step = p->c;

	for (uint32_t i = FF_MAX_SPATIAL; i-- > 0;) {
		int64_t place = row % w->out[i] * w->stride[i] - w->pad[0][i] +
				tap % w->kernel[i] * w->dilation[i];

		if (place < 0 || place >= w->in[i])
			return -1;
		at += place * step;
		step *= w->in[i];
		row /= w->out[i];
		tap /= w->kernel[i];
	}
	return at + row * step; /* what is left of the row is the sample */
}

/* All windows, one behind the other: the image, or `columns`. */
static const float *gather(const struct ff_filter_product *p, const float *image, float *columns)
{
	size_t bytes = (size_t)p->c * sizeof(*image);

	if (p->direct)
		return image;
#pragma omp parallel for if (p->rows * p->depth >= FF_CPU_PARALLEL)
	for (int64_t row = 0; row < p->rows; row++)
		for (int64_t tap = 0; tap < p->depth / p->c; tap++) {
			float *to = columns + row * p->depth + tap * p->c;
			int64_t at = meet(p, row, tap);

			if (at < 0)
				memset(to, 0, bytes);
			else
				memcpy(to, image + at, bytes);
		}
	return columns;
}

/* Adds every window to where it was gathered, sample by sample in the order of rows. */
static void scatter(const struct ff_filter_product *p, const float *columns, float *image)
{
	int64_t rows = p->rows / p->n, pixels = 1;

	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++)
		pixels *= p->windows.in[i];
#pragma omp parallel for if (p->rows * p->depth >= FF_CPU_PARALLEL)
	for (int64_t n = 0; n < p->n; n++) {
		memset(image + n * pixels * p->c, 0, (size_t)(pixels * p->c) * sizeof(*image));
		for (int64_t row = n * rows; row < (n + 1) * rows; row++)
			for (int64_t tap = 0; tap < p->depth / p->c; tap++) {
				int64_t at = meet(p, row, tap);

				if (at >= 0)
					ff_reduce(FF_REDUCE_SUM, FF_F32, p->c,
							columns + row * p->depth + tap * p->c,
							image + at);
			}
	}
}

int ff_filter_product_forward(const struct ff_kernel *k, const struct ff_filter_product *p,
		const struct ff_kernel_io *io, const float *image, const float *weight,
		const float *bias, float *result, float *columns, struct ff_error *err)
{
	const void *memory[] = {gather(p, image, columns), weight, result, bias};

	return ff_call_run(k, p->forward, io, memory, err);
}

int ff_filter_product_data(const struct ff_kernel *k, const struct ff_filter_product *p,
		const struct ff_kernel_io *io, const float *dresult, const float *weight,
		float *dimage, float *columns, struct ff_error *err)
{
	float *sink = p->direct ? dimage : columns;
	const void *memory[] = {dresult, weight, sink};
	int code;

	if (p->data)
		code = ff_call_run(k, p->data, io, memory, err);
	else
		code = ff_dnnl_check(dnnl_sgemm('N', 'N', p->rows, p->depth, p->k, 1, dresult, p->k,
						     weight, p->depth, 0, sink, p->depth),
				k, "multiply", err);
	if (code == FF_OK && !p->direct)
		scatter(p, columns, dimage);
	return code;
}

int ff_filter_product_weight(const struct ff_kernel *k, const struct ff_filter_product *p,
		const struct ff_kernel_io *io, const float *image, const float *dresult,
		float *dweight, float *dbias, float *columns, struct ff_error *err)
{
	const void *memory[] = {dresult, gather(p, image, columns), dweight};

	if (dbias)
		ff_column_sums(FF_F32, p->rows, p->k, dresult, dbias);
	return ff_call_run(k, p->weight, io, memory, err);
}
