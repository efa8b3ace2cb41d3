/* Products of matrices by cuBLASLt, in batches.  Operands that are not matrices one behind the
 * other, as images are not, or that are one for many, are made so in the workspace.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/matmul.h"

#include "cuda/core/kernel.h"
#include "cuda/core/stream.h"
#include "cuda/libs/blas.h"
#include "cuda/ops/elements/fold.h"

/* An operand, or (2) the output or its gradient. */
struct side {
	bool moved;
	struct ff_folding there, back;
	int64_t at, result; /* workspace: as matrices; the gradient as such */
	enum ff_dtype made; /* the gradient's type there: float32 where it is yet to be added up */
};

struct matmul {
	enum ff_dtype type;
	struct side side[3];
	struct ff_matmul product[FF_MATMUL_RESULTS];
	struct ff_product *call[FF_MATMUL_RESULTS];
	bool need_din[2];
};

static void finish(struct ff_kernel *k)
{
	struct matmul *m = k->state;

	for (int i = 0; i < FF_MATMUL_RESULTS; i++)
		ff_product_destroy(m->call[i]);
}

static int move(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		const struct ff_folding *f, enum ff_dtype type, const void *from, void *to,
		struct ff_error *err)
{
	const struct matmul *m = k->state;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = from};

	return ff_kernel_launched(ff_launch_fold(f, type, m->type, read, to,
						  ff_kernel_scratch(k, io), ff_stream_queue(s)),
			k, err);
}

/* The operand as matrices one behind the other. */
static int matrices(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		uint32_t i, const void *shard, const void **ret, struct ff_error *err)
{
	const struct matmul *m = k->state;
	const struct side *side = &m->side[i];
	void *made = ff_kernel_at(io, side->at);

	*ret = side->moved ? made : shard;
	return side->moved ? move(k, s, io, &side->there, m->type, shard, made, err) : FF_OK;
}

static int multiply(const struct ff_kernel *k, struct ff_stream *s, const struct ff_kernel_io *io,
		enum ff_matmul_result result, const void *const *operand, uint32_t sink,
		void *shard, struct ff_error *err)
{
	const struct matmul *m = k->state;
	const struct side *side = &m->side[sink];
	void *made = side->moved ? ff_kernel_at(io, side->result) : shard;
	int code = ff_product_run(k, m->call[result], ff_stream_queue(s),
			operand[m->product[result].left], operand[m->product[result].right], NULL,
			made, ff_kernel_scratch(k, io), err);

	return code < 0 || !side->moved ? code
					: move(k, s, io, &side->back, side->made, made, shard, err);
}

static int run_forward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const void *operand[2];
	int code = matrices(k, s, io, 0, io->in[0], &operand[0], err);

	if (code == FF_OK)
		code = matrices(k, s, io, 1, io->in[1], &operand[1], err);
	return code < 0 ? code : multiply(k, s, io, FF_MATMUL_OUT, operand, 2, io->out[0], err);
}

static int run_backward(const struct ff_kernel *k, struct ff_stream *s,
		const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct matmul *m = k->state;
	const void *const shard[] = {io->in[0], io->in[1], io->dout[0]}, *operand[3];
	int code = FF_OK;

	for (uint32_t i = 0; i < 3 && code == FF_OK; i++)
		code = matrices(k, s, io, i, shard[i], &operand[i], err);
	for (uint32_t i = 0; i < 2 && code == FF_OK; i++)
		if (m->need_din[i])
			code = multiply(k, s, io, i ? FF_MATMUL_DB : FF_MATMUL_DA, operand, i,
					io->din[i], err);
	return code;
}

static int add(struct ff_kernel *k, uint32_t input, bool *ret, struct ff_error *err)
{
	struct matmul *m = k->state;

	(void)err;
	*ret = !m->side[input].moved;
	if (*ret)
		ff_product_add(m->call[input ? FF_MATMUL_DB : FF_MATMUL_DA]);
	return FF_OK;
}

static void prepare_side(struct ff_kernel *k, const struct ff_work *w, uint32_t i, struct side *ret)
{
	enum ff_dtype type = ff_work_type(w);
	int64_t n;

	ret->there = (struct ff_folding){
			.function = FF_BINARY_first, .part = FF_BINARY_Z, .scale = 1};
	ret->back = ret->there;
	ff_loops_matrices(w, i, false, &ret->there.loops);
	ff_loops_matrices(w, i, true, &ret->back.loops);
	ret->moved = !ff_loops_still(&ret->there.loops);
	ret->made = ret->back.loops.kept < ret->back.loops.rank ? FF_F32 : type;
	n = ff_loops_volume(&ret->there.loops, 0, ret->there.loops.rank);
	if (!ret->moved)
		return;
	ret->at = ff_kernel_reserve(k, n * ff_dtype_bytes(type));
	ret->result = ff_kernel_reserve(k, n * ff_dtype_bytes(ret->made));
	ff_kernel_need(k, ff_fold_scratch(&ret->back));
}

static int prepare_product(struct ff_kernel *k, const struct ff_matmul *p, enum ff_dtype type,
		enum ff_dtype sink, struct ff_product **ret, struct ff_error *err)
{
	const struct ff_product_shape shape = {.rows = p->rows,
			.inner = p->inner,
			.columns = p->columns,
			.batch = p->batch,
			.a_transposed = p->left_transposed,
			.b_transposed = p->right_transposed,
			.type = type,
			.sink = sink};

	return ff_product_create(k, &shape, ret, err);
}

int ff_cuda_matmul_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct matmul *m = ff_kernel_state(k, sizeof(*m), err);
	int code = FF_OK;

	if (!m)
		return FF_E_NOMEM;
	k->finish = finish;
	m->type = ff_work_type(w);
	for (uint32_t i = 0; i < 3; i++)
		prepare_side(k, w, i, &m->side[i]);
	for (int i = 0; i < FF_MATMUL_RESULTS && code == FF_OK; i++) {
		bool wanted = i == FF_MATMUL_OUT ? w->pass == FF_FORWARD : w->need_din[i - 1];

		m->product[i] = ff_matmul_of(w, (enum ff_matmul_result)i);
		if (wanted)
			code = prepare_product(k, &m->product[i], m->type,
					m->side[i ? i - 1 : 2].made, &m->call[i], err);
		if (i)
			m->need_din[i - 1] = wanted;
	}
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	k->add = w->pass == FF_FORWARD ? NULL : add;
	return code;
}
