/* Property test: every kernel of a backend (chosen.h), forward and backward, on
 * random parts of random nodes, against the operators' definitions.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chosen.h"
#include "drawn.h"
#include "ff/builder.h"
#include "ff/philox.h"
#include "ff/strategy.h"
#include "typed.h"

/* Of the largest magnitude; of bfloat16, beside half a unit in its own last place. */
#define TOLERANCE 1e-4

static const struct ff_backend *backend;
static uint64_t seed;

static void check(int code, const struct ff_error *err)
{
	ck_assert_msg(code == FF_OK, "%s", err->text);
}

/* A part of a random config, or any box of the iteration space. */
static void draw_box(struct trial *t, struct ff_region *box)
{
	struct ff_config c = {.replicas = 1};
	uint32_t parts = 1;

	for (uint32_t i = 0; i < FF_MAX_DIMS; i++) {
		c.degree[i] = 1;
		if (i < t->node->n_dims && coin(t))
			c.degree[i] = (uint16_t)draw(t, 1,
					t->node->dim[i].extent < 5 ? t->node->dim[i].extent : 5);
		parts *= c.degree[i];
	}
	ff_config_box(t->node, &c, ff_random_below(&t->r, parts), box);
	if (coin(t))
		return;
	for (uint32_t i = 0; i < t->node->n_dims; i++) {
		int32_t extent = t->node->dim[i].extent;

		box->lo[i] = draw(t, 0, extent - 1);
		box->hi[i] = draw(t, box->lo[i] + 1, extent);
	}
}

/* Gradients of parameters are always wanted, of the data where it is random; where backward may be
 * computed in two it is so now and then. */
static void draw_work(struct trial *t, enum ff_pass pass)
{
	uint32_t node = (uint32_t)(t->node - t->graph.nodes);
	struct ff_work *w = &t->work;
	struct ff_region box;

	draw_box(t, &box);
	ff_work_fill(&t->graph, node, &box, pass, w);
	for (uint32_t i = 0; i < t->node->n_data; i++)
		w->need_din[i] = pass == FF_BACKWARD && coin(t) &&
				 !((ff_op_row(t->node->op)->flags & FF_OP_LOSS) && i > 0) &&
				 !(t->node->op == FF_OP_BATCH_NORM && i == 0);
	if (pass == FF_BACKWARD && (ff_op_row(t->node->op)->flags & FF_OP_HALVES))
		ff_work_keep(w, (enum ff_grads)draw(t, FF_GRADS_ALL, FF_GRADS_PARAMS));
}

static double *new_whole(struct trial *t, const struct ff_operand *o)
{
	return ff_arena_array(&t->arena, (size_t)naive_volume(o->rank, o->shape), sizeof(double));
}

static double *random_whole(struct trial *t, const struct ff_operand *o)
{
	int64_t n = naive_volume(o->rank, o->shape);
	double *v = new_whole(t, o);

	for (int64_t i = 0; i < n; i++) {
		double u = ff_random_unit(&t->r) * 4 - 2;

		if (t->positive)
			u = fabs(u) + 0.25;
		if (t->inside)
			u *= 0.45;
		v[i] = typed_round(o->dtype, (float)(t->ties ? floor(u) : u));
	}
	return v;
}

/* Labels, and what the prelude finds of all logits of each. */
static void fill_loss(struct trial *t, double *labels, double *all, double *own)
{
	const struct ff_operand *logits = &t->node->in_map[0], *o = &t->node->in_map[1];
	struct ff_region positions = {.rank = o->rank};
	int32_t at[FF_MAX_RANK] = {0};

	memcpy(positions.hi, o->shape, sizeof(o->shape));
	do {
		int64_t i = naive_index(o, at);
		int32_t from[FF_MAX_RANK] = {at[0]}, label = draw(t, -1, logits->shape[1] - 1);

		memcpy(from + 2, at + 1, (o->rank - 1) * sizeof(*at));
		labels[i] = label;
		if (label < 0)
			labels[i] = label = t->node->attrs.loss.ignore;
		t->naive.valid += label != t->node->attrs.loss.ignore;
		all[2 * i] = own[2 * i] = own[2 * i + 1] = -INFINITY;
		all[2 * i + 1] = -1;
		for (from[1] = 0; from[1] < logits->shape[1]; from[1]++) {
			double x = t->naive.in[0][naive_index(logits, from)];

			all[2 * i] = fmax(all[2 * i], x);
			if (from[1] == label)
				own[2 * i] = x;
			if (from[1] < label)
				own[2 * i + 1] = fmax(own[2 * i + 1], x);
		}
		for (from[1] = 0; from[1] < logits->shape[1]; from[1]++)
			all[2 * i + 1] +=
					exp(t->naive.in[0][naive_index(logits, from)] - all[2 * i]);
	} while (naive_next(&positions, at));
}

/* Some targets are no number, some labels to ignore. */
static void fill_targets(struct trial *t, double *target)
{
	const struct ff_operand *o = &t->node->in_map[1];
	int64_t n = naive_volume(o->rank, o->shape);

	for (int64_t i = 0; i < n; i++) {
		bool counts = draw(t, 0, 7) > 0;

		if (o->dtype == FF_I32)
			target[i] = counts ? t->node->attrs.loss.ignore + 1
					   : t->node->attrs.loss.ignore;
		else if (!counts)
			target[i] = NAN;
		t->naive.valid += counts;
	}
}

/* Data whose mean is now and then far from zero; what the prelude finds of all of it. */
static void fill_batch(struct trial *t, double *x, double *moments)
{
	const struct ff_operand *o = &t->node->in_map[0], *m = &t->node->in_map[1];
	double offset = o->dtype == FF_F32 && coin(t) ? 50 : 0;
	int64_t n = naive_volume(o->rank, o->shape), inner = 1;

	for (uint32_t i = 2; i < o->rank; i++)
		inner *= o->shape[i];
	for (int64_t i = 0; i < n; i++)
		x[i] = typed_round(o->dtype, (float)(x[i] + offset));
	for (int64_t k = 0; moments && k < naive_volume(m->rank - 1, m->shape); k++) {
		double *own = moments + 4 * k;

		memset(own, 0, 4 * sizeof(*own));
		for (int64_t i = 0; i < n; i++)
			if (naive_moments(t->node, i / inner) == k) {
				own[0]++;
				own[1] += x[i];
			}
		own[1] = (double)(float)(own[1] / own[0]);
		for (int64_t i = 0; i < n; i++)
			if (naive_moments(t->node, i / inner) == k)
				own[2] += (x[i] - own[1]) * (x[i] - own[1]);
		own[2] = (double)(float)own[2];
	}
}

static void fill_naive(struct trial *t)
{
	const struct ff_node *n = t->node;
	const struct ff_op_row *row = ff_op_row(n->op);
	struct naive *x = &t->naive;

	*x = (struct naive){.w = &t->work, .seed = seed + 3, .training = draw(t, 0, 3) > 0};
	x->step = ff_random_u32(&t->r);
	for (uint32_t i = 0; i < n->n_in; i++) {
		x->in[i] = random_whole(t, &n->in_map[i]);
		x->din[i] = new_whole(t, &n->in_map[i]);
	}
	if (n->op == FF_OP_SOFTMAX_CROSS_ENTROPY)
		fill_loss(t, (double *)x->in[1], (double *)x->in[2], (double *)x->in[3]);
	if (row->flags & FF_OP_LOSS && row->predicts != FF_PREDICTS_CLASSES)
		fill_targets(t, (double *)x->in[1]);
	if (n->op == FF_OP_BATCH_NORM || n->op == FF_OP_BATCH_MOMENTS)
		fill_batch(t, (double *)x->in[0], n->n_in > 1 ? (double *)x->in[1] : NULL);
	x->dout = random_whole(t, &n->out_map[0]);
	x->out = new_whole(t, &n->out_map[0]);
	t->before = NULL;
	if (n->op == FF_OP_BATCH_MOMENTS) {
		t->before = random_whole(t, &n->in_map[0]);
		memcpy(x->din[0], t->before,
				(size_t)naive_volume(n->in_map[0].rank, n->in_map[0].shape) *
						sizeof(*t->before));
	}
	naive_run(x);
}

/* NaN: what is not written shows. */
static void *device_memory(struct trial *t, int64_t bytes)
{
	return chosen_put(t->dev, t->stream, NULL, (size_t)bytes);
}

/* A dense shard of `region`, of elements of `type`; NULL when that is empty. */
static void *shard_of(struct trial *t, const struct ff_operand *o, enum ff_dtype type,
		const struct ff_region *region, const double *whole)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(type));
	int32_t at[FF_MAX_RANK];
	void *v, *shard;

	if (!bytes)
		return NULL;
	v = malloc(bytes);
	ck_assert_ptr_nonnull(v);
	memset(v, 0xff, bytes);
	memcpy(at, region->lo, sizeof(at));
	do {
		double value = whole ? whole[naive_index(o, at)] : NAN;

		typed_put(type, v, ff_region_offset(o->order, region, at), value);
	} while (naive_next(region, at));
	shard = chosen_put(t->dev, t->stream, v, bytes);
	free(v);
	return shard;
}

static void compare(struct trial *t, const char *what, const struct ff_operand *o,
		enum ff_dtype type, const struct ff_region *region, const void *device,
		const double *whole)
{
	size_t bytes = (size_t)(ff_region_volume(region) * ff_dtype_bytes(type));
	int64_t n = naive_volume(o->rank, o->shape);
	int32_t at[FF_MAX_RANK];
	double largest = 0.01; /* data are about 1, of which sums may cancel */
	char key[FF_KEY_BYTES];
	void *shard;

	if (!bytes)
		return;
	shard = malloc(bytes);
	chosen_get(t->stream, shard, device, bytes);
	for (int64_t i = 0; i < n; i++)
		largest = fmax(largest, fabs(whole[i]));
	memcpy(at, region->lo, sizeof(at));
	do {
		double want = whole[naive_index(o, at)],
		       have = typed_get(type, shard, ff_region_offset(o->order, region, at));
		double rounding = type == FF_BF16 ? BF16_HALF_ULP * fabs(want) : 0;

		if (fabs(want - have) <= TOLERANCE * largest + rounding)
			continue;
		ff_work_key(&t->work, key);
		ck_abort_msg("%s at (%d, %d, %d, %d) is %g, expected %g: %s", what, at[0], at[1],
				at[2], at[3], have, want, key);
	} while (naive_next(region, at));
	free(shard);
}

static void give_back(struct trial *t, struct ff_kernel_io *io)
{
	for (uint32_t i = 0; i < NAIVE_INPUTS; i++) {
		backend->memory.free(t->dev, (void *)(uintptr_t)io->in[i]);
		backend->memory.free(t->dev, io->din[i]);
	}
	backend->memory.free(t->dev, io->out[0]);
	backend->memory.free(t->dev, (void *)(uintptr_t)io->dout[0]);
	backend->memory.free(t->dev, io->workspace);
}

/* Only what the pass may touch is there, so that anything else crashes. */
static void fill_io(struct trial *t, int64_t workspace, struct ff_kernel_io *io)
{
	const struct ff_node *n = t->node;
	const struct ff_work *w = &t->work;
	const struct naive *x = &t->naive;
	const struct ff_operand *o = &n->out_map[0], *in = n->in_map;
	bool back = w->pass == FF_BACKWARD;
	uint32_t flags = ff_op_row(n->op)->flags;

	*io = (struct ff_kernel_io){.seed = x->seed,
			.step = x->step,
			.training = x->training,
			.valid = x->valid};
	for (uint32_t i = 0; i < n->n_in; i++) {
		if (!back || ((i >= n->n_data || (flags & FF_OP_BACKWARD_IN)) &&
					     ff_grads_read(w->grads, i >= n->n_data)))
			io->in[i] = shard_of(t, &in[i], in[i].dtype, &w->in[i], x->in[i]);
		if (w->need_din[i])
			io->din[i] = shard_of(t, &in[i], (enum ff_dtype)in[i].gradient, &w->in[i],
					t->before);
	}
	if (!back || (flags & FF_OP_BACKWARD_OUT))
		io->out[0] = shard_of(t, o, o->dtype, &w->out[0], back ? x->out : NULL);
	if (back && !(flags & FF_OP_LOSS))
		io->dout[0] = shard_of(t, o, o->dtype, &w->out[0], x->dout);
	if (n->n_saved)
		io->out[1] = t->saved;
	for (uint32_t k = n->n_out - n->n_kept; k < n->n_out; k++)
		io->out[k] = t->kept[k - (n->n_out - n->n_kept)];
	if (workspace)
		io->workspace = device_memory(t, workspace);
}

/* A half of backward gets by with what the whole needs. */
static void check_half(struct trial *t, int64_t workspace)
{
	struct ff_work whole;
	struct ff_kernel *k;
	struct ff_error err;

	if (t->work.grads == FF_GRADS_ALL)
		return;
	ff_work_fill(&t->graph, (uint32_t)(t->node - t->graph.nodes), &t->work.box, FF_BACKWARD,
			&whole);
	whole.need_din[0] = true;
	check(backend->kernel.open(t->dev, &whole, &k, &err), &err);
	ck_assert_int_le(workspace, backend->kernel.workspace(k));
	backend->kernel.close(k);
}

/* Twice, with the same result, but where a gradient replaces another one. */
static void run_kernel(struct trial *t)
{
	const struct ff_node *n = t->node;
	const struct ff_work *w = &t->work;
	struct ff_kernel *k;
	struct ff_kernel_io io;
	struct ff_error err;
	int64_t workspace;

	check(backend->kernel.open(t->dev, w, &k, &err), &err);
	workspace = backend->kernel.workspace(k);
	ck_assert_int_eq(workspace % 64, 0);
	check_half(t, workspace);
	fill_io(t, workspace, &io);
	for (int again = 0; again < (t->before && w->pass == FF_BACKWARD ? 1 : 2); again++) {
		check(backend->kernel.run(t->stream, k, &io, &err), &err);
		check(backend->stream.drain(t->stream, &err), &err);
		if (w->pass == FF_FORWARD)
			compare(t, "out", &n->out_map[0], n->out_map[0].dtype, &w->out[0],
					io.out[0], t->naive.out);
		for (uint32_t i = 0; i < n->n_in; i++)
			if (w->need_din[i])
				compare(t, i < n->n_data ? "din" : "dweight", &n->in_map[i],
						(enum ff_dtype)n->in_map[i].gradient, &w->in[i],
						io.din[i], t->naive.din[i]);
	}
	give_back(t, &io);
	backend->kernel.close(k);
}

static void make_kept(struct trial *t)
{
	for (int i = 0; i < FF_MAX_KEPT; i++) {
		const struct ff_operand *o = &t->node->out_map[1 + i];
		double *all = new_whole(t, o);

		for (int32_t c = 0; c < o->shape[0]; c++)
			all[c] = i ? NAIVE_KEPT_VARIANCE : NAIVE_KEPT_MEAN;
		t->kept[i] = shard_of(t, o, FF_F32, &t->work.out[1 + i], all);
	}
}

/* After two steps: the variance that is kept is that of a sample, and of several groups each
 * counts as much as the part has of it. */
static void check_kept(struct trial *t)
{
	const struct ff_region *in = &t->work.in[0];
	double rest = (1 - t->node->attrs.norm.momentum) * (1 - t->node->attrs.norm.momentum);
	double share = (1 - rest) / ff_region_size(in, 0);

	for (int i = 0; i < FF_MAX_KEPT; i++) {
		const struct ff_operand *o = &t->node->out_map[1 + i];
		double *want = new_whole(t, o);

		for (int32_t c = 0; c < o->shape[0]; c++) {
			want[c] = rest * (i ? NAIVE_KEPT_VARIANCE : NAIVE_KEPT_MEAN);
			for (int32_t s = in->lo[0]; s < in->hi[0]; s++) {
				const double *m = t->naive.in[1] +
						  4 * naive_moments(t->node,
								      s * (int64_t)o->shape[0] + c);

				want[c] += share * (i ? m[2] / (m[0] - 1) : m[1]);
			}
		}
		compare(t, "kept", o, FF_F32, &t->work.out[1 + i], t->kept[i], want);
	}
}

/* Backward of what saves something runs after forward of the same part. */
static void run_pass(struct trial *t, enum ff_pass pass)
{
	const struct ff_node *n = t->node;

	draw_work(t, pass);
	fill_naive(t);
	if (n->n_kept)
		make_kept(t);
	else if (n->n_saved)
		t->saved = device_memory(t, ff_region_volume(&t->work.out[1]) *
							    ff_dtype_bytes(n->out_map[1].dtype));
	if (t->saved && pass == FF_BACKWARD) {
		struct ff_work backward = t->work;

		ff_work_fill(&t->graph, (uint32_t)(n - t->graph.nodes), &backward.box, FF_FORWARD,
				&t->work);
		run_kernel(t);
		t->work = backward;
	}
	run_kernel(t);
	if (n->n_kept && pass == FF_BACKWARD)
		check_kept(t);
	backend->memory.free(t->dev, t->saved);
	for (int i = 0; i < FF_MAX_KEPT; i++) {
		backend->memory.free(t->dev, t->kept[i]);
		t->kept[i] = NULL;
	}
	t->saved = NULL;
}

static void run_trial(enum ff_op op, enum ff_dtype type, uint32_t number, struct ff_device *dev,
		struct ff_stream *stream)
{
	struct trial t = {.r = {.seed = seed, .stream = ff_philox_stream(number, op)},
			.dev = dev,
			.stream = stream};
	struct ff_builder *b;
	struct ff_error err;

	ff_arena_init(&t.arena);
	check(ff_builder_create("trial", &t.arena, &b, &err), &err);
	ff_builder_set_dtype(b, type);
	if (op == FF_OP_SOFTMAX_CROSS_ENTROPY)
		build_loss(&t, b);
	else if (ff_op_row(op)->flags & FF_OP_LOSS)
		build_point_loss(&t, b, op);
	else
		build_other(&t, b, op == FF_OP_BATCH_MOMENTS ? FF_OP_BATCH_NORM : op);
	check(ff_builder_finish(b, &t.graph, &err), &err);
	t.node = &t.graph.nodes[ff_graph_find(&t.graph, "node")];
	if (op == FF_OP_BATCH_MOMENTS)
		t.node = &t.graph.nodes[ff_graph_find(&t.graph, "node.moments")];
	run_pass(&t, FF_FORWARD);
	run_pass(&t, FF_BACKWARD);
	ff_arena_finish(&t.arena);
}

static const uint16_t trials[FF_OP_COUNT] = {[FF_OP_CONV1D] = 150,
		[FF_OP_CONV2D] = 250,
		[FF_OP_CONV3D] = 150,
		[FF_OP_CONV_TRANSPOSE1D] = 150,
		[FF_OP_CONV_TRANSPOSE2D] = 250,
		[FF_OP_CONV_TRANSPOSE3D] = 150,
		[FF_OP_LINEAR] = 80,
		[FF_OP_POOL1D] = 100,
		[FF_OP_POOL2D] = 150,
		[FF_OP_POOL3D] = 100,
		[FF_OP_ADAPTIVE_POOL] = 100,
		[FF_OP_UPSAMPLE] = 150,
		[FF_OP_LOCAL_RESPONSE_NORM] = 100,
#define UNARY(e, row) [e] = 30,
		FF_UNARY_OPS(UNARY)
#undef UNARY
				[FF_OP_ADD] = 40,
		[FF_OP_CONCAT] = 100,
		[FF_OP_RESHAPE] = 300,
		[FF_OP_DROPOUT] = 60,
		[FF_OP_LAYER_NORM] = 80,
		[FF_OP_RMS_NORM] = 50,
		[FF_OP_GROUP_NORM] = 80,
		[FF_OP_BATCH_MOMENTS] = 80,
		[FF_OP_BATCH_NORM] = 80,
		[FF_OP_SOFTMAX_CROSS_ENTROPY] = 60,
#define POINT_LOSS(e, row) [e] = 60,
		FF_POINT_LOSS_OPS(POINT_LOSS)
#undef POINT_LOSS
};

/* In float32 and, where the processor has it, in bfloat16. */
START_TEST(test_against_definition)
{
	enum ff_op op = (enum ff_op)(_i % FF_OP_COUNT);
	enum ff_dtype type = _i < FF_OP_COUNT ? FF_F32 : FF_BF16;
	struct ff_device *dev;
	struct ff_stream *stream;
	struct ff_error err;
	bool able;

	check(backend->device.open(0, &dev, &err), &err);
	check(backend->stream.open(dev, op % 2, &stream, &err), &err);
	able = backend->device.computes(dev, type, &err) == FF_OK;
	ck_assert(able || type == FF_BF16);
	for (uint32_t i = 0; trials[op] && i < ff_test_rounds(trials[op]) && able; i++)
		run_trial(op, type, i, dev, stream);
	backend->stream.close(stream);
	backend->device.close(dev);
}
END_TEST

/* Convolutions are a case by themselves: CK_RUN_CASE has them alone, by other plans of cuDNN. */
static Suite *suite(void)
{
	const int first = FF_OP_CONV1D, end = FF_OP_CONV_TRANSPOSE3D + 1;
	Suite *s = suite_create("kernels");
	TCase *c = tcase_create("convolutions"), *t = tcase_create("others");

	backend = chosen_backend();
	seed = ff_test_seed(20240601);
	for (int type = 0; type < 2; type++) {
		const int at = type * FF_OP_COUNT;

		tcase_add_loop_test(c, test_against_definition, at + first, at + end);
		tcase_add_loop_test(t, test_against_definition, at, at + first);
		tcase_add_loop_test(t, test_against_definition, at + end, at + FF_OP_COUNT);
	}
	tcase_set_timeout(c, 0);
	tcase_set_timeout(t, 0);
	suite_add_tcase(s, c);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return chosen_main(suite);
}
