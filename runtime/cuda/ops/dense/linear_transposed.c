/* A linear layer whose features are stored before its places: y^T = W x^T + b, sample by sample,
 * by products whose results lie so.  Backward all samples' gradients are brought side by side, a
 * feature a row, for one product each.  So rows are places, which mostly are a multiple of 16
 * bytes, where features, as words are, often are not.  SPDX-License-Identifier: Apache-2.0 */
#include "linear_transposed.h"

#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/blas.h"

#define ACCESS 16 /* bytes that rows are a multiple of */

struct transposed {
	enum ff_dtype type;
	int64_t samples, places, in_features, out_features; /* of the part */
	bool has_bias, need_din, need_weight;
	struct ff_product *forward, *data, *weight;
	struct ff_strided bias; /* of each feature, to all of its places */
	struct ff_strided rows; /* features, samples, places: from samples first to features */
};

static void finish(struct ff_kernel *k)
{
	struct transposed *t = k->state;

	ff_product_destroy(t->forward);
	ff_product_destroy(t->data);
	ff_product_destroy(t->weight);
}

/* The product is added to the bias: so it is rounded once. */
static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transposed *t = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	int code = FF_OK;

	if (t->has_bias)
		code = ff_kernel_launched(
				ff_cuda_strided(&t->bias, t->type, io->in[2], io->out[0], queue), k,
				err);
	return code < 0 ? code
			: ff_product_run(k, t->forward, queue, io->in[1], io->in[0], NULL,
					  io->out[0], ff_kernel_scratch(k, io), err);
}

/* What is written may lie where the gradient of the transposition was: it is read before. */
static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct transposed *t = k->state;
	cudaStream_t queue = ff_stream_queue(s);
	void *scratch = ff_kernel_scratch(k, io), *dout = (void *)io->dout[0];
	int code = ff_kernel_launched(
			ff_cuda_strided(&t->rows, t->type, io->dout[1], dout, queue), k, err);

	if (code == FF_OK && t->need_weight)
		code = ff_product_run(k, t->weight, queue, dout, io->in[0], io->din[2], io->din[1],
				scratch, err);
	if (code == FF_OK && t->need_din)
		code = ff_product_run(
				k, t->data, queue, dout, io->in[1], NULL, io->din[0], scratch, err);
	return code;
}

/* Sums of rows that come with the product are written. */
static int add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct transposed *t = k->state;

	(void)err;
	*ret = input < 2;
	if (*ret)
		ff_product_add(input == 1 ? t->weight : t->data);
	return FF_OK;
}

static int prepare_forward(struct ff_kernel *k, struct transposed *t, struct ff_error *err)
{
	const struct ff_product_shape p = {.rows = t->out_features,
			.inner = t->in_features,
			.columns = t->places,
			.batch = t->samples,
			.a_shared = true,
			.b_transposed = true,
			.type = t->type,
			.sink = t->type};
	int code = ff_product_create(k, &p, &t->forward, err);

	k->run = run_forward;
	if (code == FF_OK && !k->declined && t->has_bias)
		ff_product_add(t->forward);
	return code;
}

static int prepare_backward(struct ff_kernel *k, struct transposed *t, struct ff_error *err)
{
	const struct ff_product_shape weight = {.rows = t->out_features,
			.inner = t->samples * t->places,
			.columns = t->in_features,
			.gives_sums = t->has_bias,
			.type = t->type,
			.sink = FF_F32};
	const struct ff_product_shape data = {.rows = t->samples * t->places,
			.inner = t->out_features,
			.columns = t->in_features,
			.a_transposed = true,
			.type = t->type,
			.sink = t->type};
	int code = FF_OK;

	k->run = run_backward;
	k->add = add;
	if (t->need_weight)
		code = ff_product_create(k, &weight, &t->weight, err);
	if (code == FF_OK && t->need_weight)
		k->declined = t->has_bias && !ff_product_gives_sums(t->weight);
	return code < 0 || k->declined || !t->need_din ? code
						       : ff_product_create(k, &data, &t->data, err);
}

static void fill_copies(struct transposed *t)
{
	const int64_t all = t->samples * t->places, each = t->out_features * t->places;

	t->bias = (struct ff_strided){.rank = 3,
			.n = {t->samples, t->out_features, t->places},
			.source = {0, 1, 0},
			.sink = {each, t->places, 1}};
	t->rows = (struct ff_strided){.rank = 3,
			.n = {t->out_features, t->samples, t->places},
			.source = {t->places, each, 1},
			.sink = {all, t->places, 1}};
}

int ff_cuda_linear_transposed_prepare(
		struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct transposed *t = ff_kernel_state(k, sizeof(*t), err);
	uint32_t last = w->out[0].rank - 1;

	if (!t)
		return FF_E_NOMEM;
	k->finish = finish;
	t->type = ff_work_type(w);
	t->samples = ff_region_size(&w->out[0], 0);
	t->in_features = ff_region_size(&w->in[0], last);
	t->out_features = ff_region_size(&w->out[0], last);
	t->places = 1;
	for (uint32_t i = 1; i < last; i++)
		t->places *= ff_region_size(&w->out[0], i);
	t->has_bias = w->node->n_in > 2 && ff_region_volume(&w->in[2]) > 0;
	t->need_din = w->pass == FF_BACKWARD && w->need_din[0];
	t->need_weight = ff_grads_make(w->grads, true);
	k->declined = t->places * ff_dtype_bytes(t->type) % ACCESS;
	if (k->declined)
		return FF_OK;
	fill_copies(t);
	return w->pass == FF_FORWARD ? prepare_forward(k, t, err) : prepare_backward(k, t, err);
}
