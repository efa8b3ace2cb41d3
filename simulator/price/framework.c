/* What frameworks do otherwise than our runtime.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/framework.h"

#include <math.h>

#include "ff/block.h"

#define PAD 8

/* What is read and written element by element of all scores so many times. */
static struct ff_kernel_shape of_scores(
		const struct ff_kernel_shape *s, enum ff_kernel_class class, double times)
{
	return (struct ff_kernel_shape){.class = class,
			.type = s->type,
			.bytes = s->count * s->m * s->n * times * (double)ff_dtype_bytes(s->type),
			.back = s->back};
}

/* Whether Megatron-LM's kernel takes such scores (megatron/model/fused_softmax.py @ 0cb36de): of
 * others, as of two heads of one sample on a GPU, it scales, masks and takes the softmax one after
 * another, in float32. */
static bool is_apart(const struct ff_framework *f, const struct ff_kernel_shape *s)
{
	bool fits = ff_dtype_bytes(s->type) < 4 && s->n > 16 && s->n <= 2048 &&
		    fmod(s->m, 4) == 0 && fmod(s->count, 4) == 0;

	return f->causal && s->class == FF_KERNEL_ATTENTION && !fits;
}

static double wide(const struct ff_kernel_shape *s)
{
	return FF_F32_BYTES / (double)ff_dtype_bytes(s->type);
}

/* Beside the softmax it scales, masks in place, unless passes over all scores are counted, and
 * casts from and to what is narrower. */
static uint32_t apart(const struct ff_framework *f, const struct ff_kernel_shape *s,
		struct ff_kernel_shape *ret)
{
	double times = (f->passes > 0 ? 0 : 4 * wide(s)) + (wide(s) > 1 ? 2 * (1 + wide(s)) : 0);

	ret[0] = of_scores(s, FF_KERNEL_STREAM, times);
	ret[1] = of_scores(s, FF_KERNEL_SOFTMAX, wide(s) * (s->back ? 3 : 2));
	return 2;
}

/* Between the products.  Of what is dropped there is a mask of bytes. */
static uint32_t between(const struct ff_framework *f, const struct ff_kernel_shape *s, bool dropout,
		struct ff_kernel_shape *ret)
{
	double read = (f->causal ? s->share : 1) * (s->back ? 2 : 1);
	double dropped = (f->wide.softmax ? 2 * wide(s) : 2) + 1 / (double)ff_dtype_bytes(s->type);
	uint32_t n = 0;

	if (is_apart(f, s) || (f->wide.softmax && wide(s) > 1))
		n = apart(f, s, ret);
	else
		ret[n++] = of_scores(s, f->causal ? FF_KERNEL_STREAM : FF_KERNEL_SOFTMAX, read + 1);
	if (f->passes > 0)
		ret[n++] = of_scores(s, FF_KERNEL_STREAM, f->passes);
	if (dropout)
		ret[n++] = of_scores(s, FF_KERNEL_STREAM, dropped);
	return n;
}

/* Queries times keys, what lies between, and that times values; of all pairs, masked or not. */
static uint32_t as_products(const struct ff_framework *f, const struct ff_kernel_shape *s,
		bool dropout, struct ff_kernel_shape *ret)
{
	uint32_t n = 0;

	ret[n++] = ff_kernel_product(s->type, s->count, s->m, s->n, s->k);
	ret[n++] = ff_kernel_product(s->type, s->count, s->m, s->k, s->n);
	if (s->back) {
		ret[n++] = ff_kernel_product(s->type, s->count, s->n, s->k, s->m);
		ret[n++] = ff_kernel_product(s->type, s->count, s->n, s->k, s->m);
	}
	if (f->copies)
		ret[n++] = (struct ff_kernel_shape){
				.class = FF_KERNEL_STREAM, .type = s->type, .bytes = 2 * s->bytes};
	return n + between(f, s, dropout, ret + n);
}

/* Of what a layer that multiplies has made, the gradient is read once more. */
static uint32_t sums(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	bool bias = w->node->n_in > w->node->n_data + 1;

	if (w->pass != FF_BACKWARD || !bias || !ff_grads_make(w->grads, true))
		return 0;
	ret[0] = (struct ff_kernel_shape){.class = FF_KERNEL_STREAM,
			.type = ff_work_type(w),
			.bytes = (double)(ff_region_volume(&w->out[0]) *
					  ff_dtype_bytes(ff_work_type(w)))};
	return 1;
}

/* What a convolution has made is read and written once more, unless what reads it adds the bias. */
static uint32_t biases(
		const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *ret)
{
	if (w->pass == FF_BACKWARD || w->node->n_in <= w->node->n_data + 1 ||
			f->fuses[ff_work_type(w) != FF_F32])
		return 0;
	ret[0] = (struct ff_kernel_shape){.class = FF_KERNEL_STREAM,
			.type = ff_work_type(w),
			.bytes = 2 * (double)(ff_region_volume(&w->out[0]) *
						     ff_dtype_bytes(ff_work_type(w)))};
	return 1;
}

/* Both images of a filter whose groups have a channel each are read once for each tap. */
static void tap(const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *k)
{
	if (f->convolutions.taps && w->node->op == FF_OP_CONV2D && k->class == FF_KERNEL_POOL &&
			k->pass == FF_CONV_FILTER)
		k->bytes *= k->taps;
}

/* Parameters that are multiplied by, and their gradients, between float32 and 16 bits. */
static uint32_t casts(const struct ff_work *w, struct ff_kernel_shape *ret)
{
	enum ff_dtype type = ff_work_type(w);
	int64_t elements = 0;

	for (uint32_t i = w->node->n_data; i < w->node->n_in; i++)
		elements += ff_region_volume(&w->in[i]);
	if (ff_dtype_bytes(type) > 2 || elements == 0 ||
			(w->pass == FF_BACKWARD && !ff_grads_make(w->grads, true)))
		return 0;
	ret[0] = (struct ff_kernel_shape){.class = FF_KERNEL_STREAM,
			.type = type,
			.bytes = (double)elements * (double)(ff_dtype_bytes(type) + FF_F32_BYTES)};
	return 1;
}

/* A loss, or what gathers what it must know of all classes. */
static bool is_loss_op(const struct ff_graph *g, enum ff_op op)
{
	bool any = ff_op_row(op)->flags & FF_OP_LOSS;

	for (uint32_t i = 0; i < g->n_losses && !any; i++)
		any = ff_op_row(g->nodes[g->loss[i]].op)->prelude == op;
	return any;
}

/* One kernel after another, each of which reads and writes memory: `bytes` an element of what the
 * operator reads, forward and backward. */
static struct ff_kernel_shape one_by_one(const struct ff_work *w, const double bytes[2])
{
	return (struct ff_kernel_shape){.class = FF_KERNEL_STREAM,
			.type = ff_work_type(w),
			.bytes = (double)ff_region_volume(&w->in[0]) *
				 bytes[w->pass == FF_BACKWARD]};
}

/* Megatron-LM casts logits to float32, takes their maximum, subtracts it, takes exponentials, sums
 * them and divides, each in memory; backward it multiplies and casts
 * (megatron/mpu/cross_entropy.py). */
static uint32_t losses(
		const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *ret)
{
	ret[0] = one_by_one(w, f->written.loss);
	return ff_op_row(w->node->op)->flags & FF_OP_LOSS ? 1 : 0;
}

/* What a framework has no kernel of its own for. */
static const double *written_out(const struct ff_framework *f, const struct ff_work *w)
{
	bool narrow = ff_dtype_bytes(ff_work_type(w)) < 4;
	const double *bytes = w->node->op == FF_OP_LAYER_NORM           ? f->written.layer_norm
			      : w->node->op == FF_OP_RMS_NORM && narrow ? f->written.rms_norm
			      : w->node->op == FF_OP_ROPE && narrow     ? f->written.rope
									: NULL;

	return bytes && bytes[0] > 0 ? bytes : NULL;
}

/* What is computed in float32 though all else is in 16 bits: norms, and sums of what they made.
 * PyTorch adds what layers made in 16 bits to that, and casts what they read and its gradient. */
static void widen(const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *k)
{
	bool norm = w->node->op == FF_OP_LAYER_NORM;

	if (f->wide.norms && (norm || w->node->op == FF_OP_ADD))
		k->bytes *= FF_F32_BYTES / (double)ff_dtype_bytes(ff_work_type(w));
	if (f->wide.norms && f->wide.softmax && norm && ff_dtype_bytes(ff_work_type(w)) < 4)
		k->bytes += (double)ff_region_volume(&w->in[0]) *
			    (double)(ff_dtype_bytes(ff_work_type(w)) + FF_F32_BYTES);
}

/* Of a sum, the gradient of what was added in 16 bits. */
static uint32_t handed_on(
		const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *ret)
{
	enum ff_dtype type = ff_work_type(w);

	if (!f->wide.softmax || ff_dtype_bytes(type) == FF_F32_BYTES)
		return 0;
	ret[0] = (struct ff_kernel_shape){.class = FF_KERNEL_STREAM,
			.type = type,
			.bytes = (double)ff_region_volume(&w->out[0]) *
				 (double)(ff_dtype_bytes(type) + FF_F32_BYTES)};
	return 1;
}

bool ff_framework_adds(const struct ff_framework *f, const struct ff_work *w, uint32_t i)
{
	struct ff_kernel_shape kernel[FF_MOST_KERNELS];

	return f && f->adds && i >= w->node->n_data && ff_work_kernels(w, kernel) > 0 &&
	       kernel[0].class == FF_KERNEL_PRODUCT;
}

/* Elements that each kernel of gelu by tanh reads and writes for one of its own, forward: x^3,
 * times a number, plus x, times a number, tanh, plus one, x / 2, their product.  Backward the
 * product, the half, tanh, two numbers, the power in three, and what x is read by added up. */
static const double gelu_elements[2][11] = {
		{2, 2, 3, 2, 2, 2, 2, 3},
		{3, 3, 2, 3, 2, 2, 2, 2, 3, 3, 3},
};

static uint32_t gelus(
		const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *ret)
{
	const double *elements = gelu_elements[w->pass == FF_BACKWARD];
	double each = (double)(ff_region_volume(&w->out[0]) *
			       (f->written.layer_norm[0] > 0 ? FF_F32_BYTES
							     : ff_dtype_bytes(ff_work_type(w))));
	bool tanh = f->written.layer_norm[0] > 0 || (f->gelus && w->node->attrs.unary.form != 0);
	uint32_t n = 0;

	if (w->node->op != FF_OP_GELU || !tanh)
		return 0;
	for (; n < 11 && elements[n] > 0; n++)
		ret[n] = (struct ff_kernel_shape){.class = FF_KERNEL_STREAM,
				.type = ff_work_type(w),
				.bytes = each * elements[n]};
	return n;
}

double ff_framework_narrowed(
		const struct ff_framework *f, const struct ff_graph *g, enum ff_dtype type)
{
	double own = (double)ff_dtype_bytes(type), narrow = (double)ff_dtype_bytes(g->dtype);

	return f && f->narrow && narrow < own ? narrow / own : 1;
}

/* Gradients of what a table's rows are looked up in are narrower there. */
static void narrow(const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *k)
{
	const struct ff_node *n = w->node;

	for (uint32_t i = n->n_data; i < n->n_in && k->class == FF_KERNEL_LOOKUP; i++) {
		enum ff_dtype type = (enum ff_dtype)n->in_map[i].gradient;

		k->bytes -= (double)ff_work_gradient_bytes(w, i) *
			    (1 - ff_framework_narrowed(f, w->graph, type));
	}
}

/* Backward of a sum whose operands are as large as it is. */
static bool is_handed_on(const struct ff_work *w)
{
	bool all = w->node->op == FF_OP_ADD && w->pass == FF_BACKWARD;

	for (uint32_t i = 0; i < w->node->n_in && all; i++)
		all = ff_region_volume(&w->in[i]) == ff_region_volume(&w->out[0]);
	return all;
}

static enum ff_op source_op(const struct ff_work *w, uint32_t node, uint32_t slot)
{
	const struct ff_graph *g = w->graph;

	return g->nodes[ff_edge_source(g, g->nodes[node].in + slot)].op;
}

/* Whether a batch norm's kernel adds there what else the node reads. */
static bool is_added(const struct ff_work *w, uint32_t node)
{
	const struct ff_node *n = &w->graph->nodes[node];

	return n->op == FF_OP_ADD && n->n_in == 2 &&
	       (source_op(w, node, 0) == FF_OP_BATCH_NORM ||
			       source_op(w, node, 1) == FF_OP_BATCH_NORM);
}

/* Whether a sum drops what the node makes. */
static bool is_dropped(const struct ff_work *w)
{
	const struct ff_graph *g = w->graph;
	const struct ff_value *v = &g->values[w->node->out];

	return w->node->op == FF_OP_DROPOUT && w->pass != FF_BACKWARD && v->n_uses == 1 &&
	       g->nodes[g->edges[g->uses[v->first_use]].node].op == FF_OP_ADD;
}

/* Whether the node multiplies vectors of a sample by one another. */
static bool is_square(const struct ff_graph *g, uint32_t node)
{
	const struct ff_node *n = &g->nodes[node];

	return n->op == FF_OP_MATMUL && g->edges[n->in].value == g->edges[n->in + 1].value;
}

/* Whether it picks some of such products, or lays them out for that. */
static bool is_behind_square(const struct ff_graph *g, uint32_t node)
{
	while (g->nodes[node].op == FF_OP_GATHER || g->nodes[node].op == FF_OP_RESHAPE) {
		node = ff_edge_source(g, g->nodes[node].in);
		if (is_square(g, node))
			return true;
	}
	return false;
}

/* Whether it brings words, which a layer has made in a row, in order for our loss. */
static bool is_row_of_words(const struct ff_work *w, uint32_t node)
{
	const struct ff_graph *g = w->graph;
	const struct ff_value *v = &g->values[w->node->out];

	return w->node->op == FF_OP_TRANSPOSE && source_op(w, node, 0) == FF_OP_LINEAR &&
	       v->n_uses > 0 && is_loss_op(g, g->nodes[g->edges[g->uses[v->first_use]].node].op);
}

/* Whether a norm reads the sum first. */
static bool is_joined(const struct ff_work *w)
{
	const struct ff_graph *g = w->graph;
	const struct ff_value *v = &g->values[w->node->out];
	bool any = false;

	for (uint32_t i = 0; i < v->n_uses && w->node->op == FF_OP_ADD; i++)
		any |= g->nodes[ff_value_reader(g, v, i)].op == FF_OP_LAYER_NORM;
	return any;
}

enum {
	ALONE,
	DROPPED,
	ROW_OF_WORDS,
	JOINED,
	SUMMED_UP,
	SUM_OF_NORM,
	CUT_OFF,
	CUT_OFF_SUM,
	SQUARE,
	BEHIND_SQUARE
};

uint32_t ff_framework_place(const struct ff_framework *f, const struct ff_work *w)
{
	uint32_t node = (uint32_t)(w->node - w->graph->nodes);

	if (f->drops && is_dropped(w))
		return DROPPED;
	if (is_row_of_words(w, node))
		return ROW_OF_WORDS;
	if (f->joins && is_joined(w))
		return JOINED;
	if (f->interacts && is_square(w->graph, node))
		return SQUARE;
	if (f->interacts && is_behind_square(w->graph, node))
		return BEHIND_SQUARE;
	if (!f->fuses[ff_work_type(w) != FF_F32])
		return ALONE;
	if (f->convolutions.sums_up && w->node->op == FF_OP_BATCH_MOMENTS &&
			w->pass != FF_BACKWARD && source_op(w, node, 0) == FF_OP_CONV2D)
		return SUMMED_UP;
	if (is_added(w, node))
		return SUM_OF_NORM;
	if (w->node->op != FF_OP_RELU)
		return ALONE;
	if (is_added(w, ff_edge_source(w->graph, w->node->in)))
		return CUT_OFF_SUM;
	return source_op(w, node, 0) == FF_OP_BATCH_NORM ? CUT_OFF : ALONE;
}

/* What a neighbour's kernel computes: a sum's other operand is read, and a gradient that is handed
 * on to that is written.  Of products of vectors, which go no further than the kernel, the vectors
 * are read, and backward their gradients are written. */
static uint32_t fused(const struct ff_work *w, uint32_t place, struct ff_kernel_shape *ret)
{
	bool back = w->pass == FF_BACKWARD;
	int64_t elements = place == SQUARE   ? ff_region_volume(&w->in[0]) * (1 + back)
			   : place == JOINED ? ff_region_volume(&w->out[0]) * 2
					     : ff_region_volume(&w->out[0]);

	ret[0] = (struct ff_kernel_shape){.class = FF_KERNEL_STREAM,
			.type = ff_work_type(w),
			.bytes = (double)(elements * ff_dtype_bytes(ff_work_type(w)))};
	ret[0].fused = place == JOINED;
	return place == SQUARE ||
	       (place == SUM_OF_NORM || place == JOINED ? !back : place == CUT_OFF_SUM && back);
}

/* What products and convolutions are computed in, how their operands lie, whose kernel attention
 * is, and that a block of threads goes over a channel twice (cuDNN's bn_fw_tr_1C11_kernel_NCHW). */
static void lay_out(
		const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *k)
{
	bool norm = w->node->op == FF_OP_BATCH_NORM || w->node->op == FF_OP_BATCH_MOMENTS;
	bool convolution = k->class == FF_KERNEL_CONVOLUTION;

	k->steps = FF_STEPS_LIBRARY;
	k->tf32 = convolution ? f->convolutions.tf32
			      : k->class == FF_KERNEL_PRODUCT && f->tf32_products;
	k->channels_first = convolution && f->convolutions.channels_first[k->type != FF_F32];
	k->attention = k->type == FF_BF16 ? f->attention : NULL;
	if (norm && f->blocks) {
		k->class = FF_KERNEL_NORM;
		k->back = w->pass == FF_BACKWARD;
	}
}

/* Rows of what a linear layer reads, of its weights and of their gradients. */
static void pad(const struct ff_framework *f, const struct ff_work *w, struct ff_kernel_shape *k)
{
	double *inner = w->pass == FF_FORWARD ? &k->k : &k->n;

	if (f->pads && w->node->op == FF_OP_LINEAR && k->class == FF_KERNEL_PRODUCT)
		*inner = PAD * ceil(*inner / PAD);
}

uint32_t ff_framework_kernels(const struct ff_framework *f, const struct ff_work *w,
		struct ff_kernel_shape ret[FF_FRAMEWORK_KERNELS])
{
	struct ff_kernel_shape own[FF_MOST_KERNELS];
	uint32_t n_own = ff_work_kernels(w, own), place = ff_framework_place(f, w), n = 0;
	const double *bytes = written_out(f, w);

	if (f->written.loss[0] > 0 && n_own == 1 && is_loss_op(w->graph, w->node->op))
		return losses(f, w, ret);
	if (bytes && n_own > 0) {
		ret[0] = one_by_one(w, bytes);
		return 1;
	}
	if (f->hands_on && is_handed_on(w))
		return handed_on(f, w, ret);
	if ((n = gelus(f, w, ret)) > 0)
		return n;
	if (place != ALONE)
		return fused(w, place, ret);
	for (uint32_t i = 0; i < n_own; i++) {
		if (f->products && own[i].class == FF_KERNEL_ATTENTION)
			n += as_products(f, &own[i], w->node->attrs.attention.dropout > 0, ret + n);
		else
			ret[n++] = own[i];
	}
	for (uint32_t i = 0; i < n && f->narrow && w->pass == FF_BACKWARD; i++)
		narrow(f, w, &ret[i]);
	if (n_own > 0 && (own[0].class == FF_KERNEL_PRODUCT ||
					 own[0].class == FF_KERNEL_CONVOLUTION)) {
		n += f->sums ? sums(w, ret + n) : 0;
		n += f->casts ? casts(w, ret + n) : 0;
	}
	if (n_own > 0 && own[0].class == FF_KERNEL_CONVOLUTION && f->convolutions.biases)
		n += biases(f, w, ret + n);
	for (uint32_t i = 0; i < n; i++) {
		pad(f, w, &ret[i]);
		tap(f, w, &ret[i]);
		widen(f, w, &ret[i]);
		lay_out(f, w, &ret[i]);
	}
	return n;
}

/* Sums of gradients where they are made come with what makes them. */
static bool is_message(const struct ff_schedule *s, const struct ff_task *t)
{
	return t->move->network_bytes > 0 &&
	       s->graph->values[s->graph->edges[t->edge].value].kind == FF_VALUE_ACTIVATION;
}

bool ff_framework_awaits(
		const struct ff_framework *f, const struct ff_schedule *s, const struct ff_task *t)
{
	return f->hosts.waits && ff_task_moves_edge(t) && t->move->kind == FF_MOVE_POINT_TO_POINT &&
	       is_message(s, t);
}

static double message_calls(const struct ff_framework *f, const struct ff_task *t)
{
	if (t->move->kind != FF_MOVE_POINT_TO_POINT)
		return 1;
	return 1 + f->hosts.shapes[ff_task_pass(t) == FF_BACKWARD];
}

/* As how many operators a framework has a pass of one of ours: none where it launches nothing. */
static uint32_t operators(const struct ff_framework *f, const struct ff_work *w)
{
	struct ff_kernel_shape kernel[FF_MOST_KERNELS], call[FF_FRAMEWORK_KERNELS];
	uint32_t n = ff_work_kernels(w, kernel);

	if (f->hosts.calls)
		return ff_framework_kernels(f, w, call);
	if (n == 1 && is_apart(f, &kernel[0]))
		return ff_dtype_bytes(kernel[0].type) < 4 ? 5 : 3;
	return n > 0;
}

double ff_framework_issue_us(
		const struct ff_framework *f, const struct ff_schedule *s, const struct ff_task *t)
{
	struct ff_work work;

	if (ff_task_moves_edge(t))
		return is_message(s, t) ? message_calls(f, t) * f->hosts.operator_us : 0;
	if (!ff_task_computes_part(t))
		return f->hosts.operator_us;
	ff_task_work(s, t, &work);
	return operators(f, &work) * f->hosts.operator_us;
}
