/* Products of matrices by oneDNN, which sums in float32.  Operands that are not matrices one
 * behind the other, as images are not, or that are one for many, are made so in the workspace.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/matmul.h"

#include "cpu/core/dnnl.h"
#include "cpu/core/loops.h"

/* An operand, or (2) the output or its gradient. */
struct side {
	bool moved;
	struct ff_cpu_loops there, back;
	int64_t at, result; /* workspace: as matrices; the gradient as such */
	enum ff_dtype made; /* the gradient's type there: float32 where it is yet to be added up */
};

struct matmul {
	struct side side[3];
	struct ff_matmul product[FF_MATMUL_RESULTS];
	struct ff_call *call[FF_MATMUL_RESULTS];
	bool need_din[2];
};

static int describe_matrices(const struct ff_kernel *k, enum ff_dtype type, int64_t batch,
		int64_t rows, int64_t columns, bool transposed, dnnl_memory_desc_t *ret,
		struct ff_error *err)
{
	dnnl_dims_t extent = {batch, rows, columns}, stride = {rows * columns, columns, 1};

	if (transposed) {
		stride[1] = 1;
		stride[2] = rows;
	}
	return ff_dnnl_strided(k, type, 3, extent, stride, ret, err);
}

static int prepare_product(struct ff_kernel *k, const struct ff_matmul *p, enum ff_dtype type,
		enum ff_dtype sink, struct ff_call **ret, struct ff_error *err)
{
	dnnl_memory_desc_t a, b, c;
	const struct ff_call_arg arg[] = {
			{DNNL_ARG_SRC, &a}, {DNNL_ARG_WEIGHTS, &b}, {DNNL_ARG_DST, &c}};
	dnnl_primitive_desc_t pd = NULL;
	dnnl_matmul_desc_t d;
	int code = describe_matrices(
			k, type, p->batch, p->rows, p->inner, p->left_transposed, &a, err);

	if (code == FF_OK)
		code = describe_matrices(k, type, p->batch, p->inner, p->columns,
				p->right_transposed, &b, err);
	if (code == FF_OK)
		code = describe_matrices(k, sink, p->batch, p->rows, p->columns, false, &c, err);
	if (code == FF_OK)
		code = ff_dnnl_check(dnnl_matmul_desc_init(&d, &a, &b, NULL, &c), k,
				"describe matrix products", err);
	if (code == FF_OK)
		code = ff_dnnl_describe(k, &d, NULL, &pd, err);
	if (code < 0)
		return code;
	code = ff_call_create(k, pd, arg, 3, ret, err);
	dnnl_primitive_desc_destroy(pd);
	return code;
}

/* The operand as matrices one behind the other. */
static const void *matrices(const struct side *s, const struct ff_kernel_io *io, const void *shard)
{
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = shard};
	void *made = ff_kernel_at(io, s->at);

	if (!s->moved)
		return shard;
	ff_cpu_loops(&s->there, read, made);
	return made;
}

static int multiply(const struct ff_kernel *k, const struct ff_kernel_io *io,
		enum ff_matmul_result result, const void *const *operand, const struct side *sink,
		void *shard, struct ff_error *err)
{
	const struct matmul *m = k->state;
	void *made = sink->moved ? ff_kernel_at(io, sink->result) : shard;
	const void *const read[FF_LOOP_READ] = {[FF_LOOP_X] = made};
	const void *memory[] = {
			operand[m->product[result].left], operand[m->product[result].right], made};
	int code = ff_call_run(k, m->call[result], io, memory, err);

	if (code == FF_OK && sink->moved)
		ff_cpu_loops(&sink->back, read, shard);
	return code;
}

static int run_forward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct matmul *m = k->state;
	const void *const operand[] = {
			matrices(&m->side[0], io, io->in[0]), matrices(&m->side[1], io, io->in[1])};

	return multiply(k, io, FF_MATMUL_OUT, operand, &m->side[2], io->out[0], err);
}

static int run_backward(
		const struct ff_kernel *k, const struct ff_kernel_io *io, struct ff_error *err)
{
	const struct matmul *m = k->state;
	const void *const operand[] = {matrices(&m->side[0], io, io->in[0]),
			matrices(&m->side[1], io, io->in[1]),
			matrices(&m->side[2], io, io->dout[0])};
	int code = FF_OK;

	for (int i = 0; i < 2 && code == FF_OK; i++)
		if (m->need_din[i])
			code = multiply(k, io, i ? FF_MATMUL_DB : FF_MATMUL_DA, operand,
					&m->side[i], io->din[i], err);
	return code;
}

static void prepare_side(struct ff_kernel *k, const struct ff_work *w, uint32_t i, struct side *ret)
{
	enum ff_dtype type = ff_work_type(w);
	int64_t n;

	ret->there = (struct ff_cpu_loops){.run = ff_cpu_binary(FF_BINARY_first, FF_BINARY_Z),
			.type = type,
			.sink = type,
			.scale = 1};
	ret->back = ret->there;
	ff_loops_matrices(w, i, false, &ret->there.loops);
	ff_loops_matrices(w, i, true, &ret->back.loops);
	ret->moved = !ff_loops_still(&ret->there.loops);
	if (ret->back.loops.kept < ret->back.loops.rank)
		ret->back.type = FF_F32;
	ret->made = ret->back.type;
	n = ff_loops_volume(&ret->there.loops, 0, ret->there.loops.rank);
	if (!ret->moved)
		return;
	ret->at = ff_kernel_reserve(k, n * ff_dtype_bytes(type));
	ret->result = ff_kernel_reserve(k, n * ff_dtype_bytes(ret->made));
}

int ff_cpu_matmul_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	struct matmul *m = ff_kernel_state(k, sizeof(*m), err);
	int code = FF_OK;

	if (!m)
		return FF_E_NOMEM;
	for (uint32_t i = 0; i < 3; i++)
		prepare_side(k, w, i, &m->side[i]);
	for (int i = 0; i < FF_MATMUL_RESULTS && code == FF_OK; i++) {
		bool wanted = i == FF_MATMUL_OUT ? w->pass == FF_FORWARD : w->need_din[i - 1];

		m->product[i] = ff_matmul_of(w, (enum ff_matmul_result)i);
		if (wanted)
			code = prepare_product(k, &m->product[i], ff_work_type(w),
					m->side[i ? i - 1 : 2].made, &m->call[i], err);
		if (i)
			m->need_din[i - 1] = wanted;
	}
	k->run = w->pass == FF_FORWARD ? run_forward : run_backward;
	return code;
}
