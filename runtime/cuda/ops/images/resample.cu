/* What is linear along every axis of images: a thread has some channels of a pixel, and gathers
 * what goes into it in a fixed order, forward and backward.  SPDX-License-Identifier: Apache-2.0 */
#include "image.cuh"
#include "resample.h"

/* `to` is what is written; runs of its places and of those of `from`, by axis. */
struct resampling {
	struct image from, to;
	const struct ff_resample_run *of_to[3], *of_from[3];
};

template <class T, int N>
FF_KERNEL_BESIDE(3)
void resample(struct resampling r, const T *in, T *out)
{
	int64_t i = thread_index();
	struct spot s = spot_of(r.to, i, N);
	struct ff_resample_run z, y, x;
	float sum[N] = {};
	several<T, N> all;

	if (i >= r.to.threads)
		return;
	z = r.of_to[0][s.at[0]], y = r.of_to[1][s.at[1]], x = r.of_to[2][s.at[2]];
	for (int32_t a = z.first; a < z.end; a++)
		for (int32_t b = y.first; b < y.end; b++) {
			const T *row = in + row_at(r.from, s.n, a, b) + s.c;
			float of_row = (a == z.first ? z.weight : z.others) *
				       (b == y.first ? y.weight : y.others);

			FF_UNROLL
			for (int32_t c = x.first; c < x.end; c++) {
				several<T, N> v =
						*(const several<T, N> *)(row + c * r.from.channels);
				float w = of_row * (c == x.first ? x.weight : x.others);

				for (int k = 0; k < N; k++)
					sum[k] += w * real_get(v.x[k]);
			}
		}
	for (int k = 0; k < N; k++)
		real_put(&all.x[k], sum[k]);
	*(several<T, N> *)(out + i * N) = all;
}

/* With which weight an output reads input `i`; of outputs that may read it some do not. */
FF_DEVICE float weight_of(const struct ff_resample_run &r, int32_t i)
{
	bool reads = i >= r.first && i < r.end;

	return !reads ? 0 : i == r.first ? r.weight : r.others;
}

template <class T, int N>
FF_KERNEL_BESIDE(3)
void resample_gradient(struct resampling r, const T *dout, T *din)
{
	int64_t i = thread_index();
	struct spot s = spot_of(r.to, i, N);
	struct ff_resample_run z, y, x;
	float sum[N] = {};
	several<T, N> all;

	if (i >= r.to.threads)
		return;
	z = r.of_to[0][s.at[0]], y = r.of_to[1][s.at[1]], x = r.of_to[2][s.at[2]];
	for (int32_t a = z.first; a < z.end; a++)
		for (int32_t b = y.first; b < y.end; b++) {
			const T *row = dout + row_at(r.from, s.n, a, b) + s.c;
			float of_row = weight_of(r.of_from[0][a], s.at[0]) *
				       weight_of(r.of_from[1][b], s.at[1]);

			for (int32_t c = x.first; c < x.end; c++) {
				float w = of_row * weight_of(r.of_from[2][c], s.at[2]);
				several<T, N> v;

				if (w == 0)
					continue;
				v = *(const several<T, N> *)(row + c * r.from.channels);
				for (int k = 0; k < N; k++)
					sum[k] += w * real_get(v.x[k]);
			}
		}
	for (int k = 0; k < N; k++)
		real_put(&all.x[k], sum[k]);
	*(several<T, N> *)(din + i * N) = all;
}

static struct resampling resampling_of(const struct ff_resampling *r, bool back, int64_t each)
{
	struct image in = image_of(r->n, r->c, r->in[0], r->in[1], r->in[2], each);
	struct image out = image_of(r->n, r->c, r->out[0], r->out[1], r->out[2], each);
	struct resampling ret = {back ? out : in, back ? in : out, {}, {}};
	const struct ff_resample_run *of_out = r->runs;
	const struct ff_resample_run *of_in = of_out + r->out[0] + r->out[1] + r->out[2];

	for (int k = 0; k < 3; k++) {
		ret.of_to[k] = back ? of_in : of_out;
		ret.of_from[k] = back ? of_out : of_in;
		of_out += r->out[k];
		of_in += r->in[k];
	}
	return ret;
}

template <class T, int N>
static cudaError_t launch(const struct ff_resampling *r, bool back, const void *from, void *to,
		cudaStream_t s)
{
	struct resampling all = resampling_of(r, back, N);

	return ff_launch(back ? resample_gradient<T, N> : resample<T, N>, blocks_of(all.to.threads),
			dim3(BLOCK), s, all, (const T *)from, (T *)to);
}

/* 16 bytes a thread where so many channels divide. */
template <class T>
static cudaError_t launch_packs(const struct ff_resampling *r, bool back, const void *from,
		void *to, cudaStream_t s)
{
	return r->c % pack<T>::n == 0 ? launch<T, pack<T>::n>(r, back, from, to, s)
				      : launch<T, 1>(r, back, from, to, s);
}

cudaError_t ff_launch_resample(enum ff_dtype type, const struct ff_resampling *r, const void *in,
		void *out, cudaStream_t s)
{
	return type == FF_BF16 ? launch_packs<uint16_t>(r, false, in, out, s)
			       : launch_packs<float>(r, false, in, out, s);
}

cudaError_t ff_launch_resample_gradient(enum ff_dtype type, const struct ff_resampling *r,
		const void *dout, void *din, cudaStream_t s)
{
	return type == FF_BF16 ? launch_packs<uint16_t>(r, true, dout, din, s)
			       : launch_packs<float>(r, true, dout, din, s);
}
