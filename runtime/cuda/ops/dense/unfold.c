/* A row for each window, the elements that it sees behind one another (Chellapilla et al., High
 * Performance Convolutional Neural Networks for Document Processing, 2006): the gradient of filters
 * is a product of the results' gradient and these.  Shares of the samples are added in their order.
 * SPDX-License-Identifier: Apache-2.0 */
#include "unfold.h"

#include "cuda/core/copy.h"
#include "cuda/libs/blas.h"

#define MOST ((int64_t)256 << 20) /* bytes of rows where they cannot be shared out */
#define WIDE 16                   /* bytes of channels that a thread takes */
#define ALIGNMENT 64              /* of what is multiplied */

static int64_t row_bytes(const struct ff_filter *f, enum ff_dtype type)
{
	return ff_windows_taps(&f->windows) * f->c * ff_dtype_bytes(type);
}

static int64_t pixels(const int64_t extent[FF_MAX_SPATIAL])
{
	return extent[0] * extent[1] * extent[2];
}

/* The most samples, a divisor of all, whose rows have room and whose results are followed by the
 * next ones' where cuBLASLt takes them; where none has room the fewest. */
static int64_t share_of(const struct ff_filter *f, enum ff_dtype type, int64_t room)
{
	int64_t out = pixels(f->windows.out), result = out * f->k * ff_dtype_bytes(type);
	int64_t fewest = f->n;

	for (int64_t share = f->n; share > 0; share--) {
		if (f->n % share || share * result % ALIGNMENT)
			continue;
		if (share * out * row_bytes(f, type) <= room)
			return share;
		fewest = share;
	}
	return fewest;
}

bool ff_unfold_serves(const struct ff_kernel *k, const struct ff_filter *f, enum ff_dtype type)
{
	int64_t room = k->dev->unfold_bytes, share = share_of(f, type, room);

	return room > 0 && f->groups == 1 && f->c * ff_dtype_bytes(type) % WIDE == 0 &&
	       share * pixels(f->windows.out) * row_bytes(f, type) <= MOST;
}

/* Images with all their padding as zeros around them. */
static void fill_around(const struct ff_windows *v, int64_t size[FF_MAX_SPATIAL],
		int64_t first[FF_MAX_SPATIAL])
{
	for (uint32_t i = 0; i < FF_MAX_SPATIAL; i++) {
		first[i] = v->pad[0][i] > 0 ? v->pad[0][i] : 0;
		size[i] = v->in[i] + first[i] + (v->pad[1][i] > 0 ? v->pad[1][i] : 0);
	}
}

static void fill_windows(const struct ff_filter *f, int64_t share, const int64_t size[],
		struct ff_strided *ret)
{
	const struct ff_windows *v = &f->windows;
	int64_t step = f->c, dense = 1;

	*ret = (struct ff_strided){.rank = 8, .n = {[0] = share, [7] = f->c}};
	ret->source[7] = 1;
	for (uint32_t i = FF_MAX_SPATIAL; i-- > 0; step *= size[i]) {
		ret->n[1 + i] = v->out[i];
		ret->n[4 + i] = v->kernel[i];
		ret->source[1 + i] = step * v->stride[i];
		ret->source[4 + i] = step * v->dilation[i];
	}
	ret->source[0] = step;
	for (uint32_t a = ret->rank; a-- > 0; dense *= ret->n[a])
		ret->sink[a] = dense;
}

static void fill(const struct ff_filter *f, enum ff_dtype type, const struct ff_image *in,
		int64_t room, struct ff_unfold *u)
{
	int64_t size[FF_MAX_SPATIAL], first[FF_MAX_SPATIAL];
	struct ff_image share = *in;

	share.n[0] = share_of(f, type, room);
	fill_around(&f->windows, size, first);
	u->type = type;
	u->shares = f->n / share.n[0];
	u->dout_step = share.n[0] * pixels(f->windows.out) * f->k;
	u->image_step = share.n[0] * in->stride[0];
	u->surrounds = !in->is_last || pixels(size) != pixels(f->windows.in);
	ff_border_fill(&share, 1, f->c, 0, type, size, first, &u->border);
	fill_windows(f, share.n[0], size, &u->windows);
}

int ff_unfold_prepare(struct ff_kernel *k, const struct ff_filter *f, enum ff_dtype type,
		const struct ff_image *in, struct ff_unfold *u, struct ff_error *err)
{
	struct ff_product_shape s = {.rows = f->k,
			.columns = ff_windows_taps(&f->windows) * f->c,
			.a_transposed = true,
			.type = type,
			.sink = FF_F32};
	int code;

	fill(f, type, in, k->dev->unfold_bytes, u);
	s.inner = f->n / u->shares * pixels(f->windows.out);
	u->around = u->surrounds ? ff_kernel_reserve(k, u->border.elements * ff_dtype_bytes(type))
				 : -1;
	u->rows = ff_kernel_reserve(k, s.inner * row_bytes(f, type));
	code = ff_product_create(k, &s, &u->writes, err);
	if (code < 0 || u->shares == 1)
		return code;
	code = ff_product_create(k, &s, &u->adds, err);
	if (code == FF_OK)
		ff_product_add(u->adds);
	return code;
}

void ff_unfold_finish(struct ff_unfold *u)
{
	ff_product_destroy(u->writes);
	ff_product_destroy(u->adds);
}

void ff_unfold_add(struct ff_unfold *u)
{
	ff_product_add(u->writes);
}

int ff_unfold_run(const struct ff_kernel *k, const struct ff_unfold *u,
		const struct ff_kernel_io *io, const void *image, const void *dout, float *dweight,
		cudaStream_t queue, struct ff_error *err)
{
	void *rows = ff_kernel_at(io, u->rows), *around = ff_kernel_at(io, u->around);
	int code = FF_OK;

	for (int64_t i = 0; i < u->shares && code == FF_OK; i++) {
		const void *share = ff_at(u->type, image, i * u->image_step);

		if (u->surrounds)
			code = ff_border_make(k, &u->border, share, around, queue, err);
		if (code == FF_OK)
			code = ff_kernel_launched(
					ff_cuda_strided(&u->windows, u->type,
							u->surrounds ? around : share, rows, queue),
					k, err);
		if (code == FF_OK)
			code = ff_product_run(k, i ? u->adds : u->writes, queue,
					ff_at(u->type, dout, i * u->dout_step), rows, NULL, dweight,
					ff_kernel_scratch(k, io), err);
	}
	return code;
}
