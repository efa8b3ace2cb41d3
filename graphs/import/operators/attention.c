/* Products of more than one matrix: ONNX' Attention, since opset 23: scaled products of queries and
 * keys, their softmax, sums of values. SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include <string.h>

#include "import/arrange.h"
#include "import/emit.h"
#include "import/inputs.h"
#include "import/lift.h"
#include "import/values.h"

/* Heads stand before places, or behind each other in the last axis. */
struct heads {
	int64_t n;
	int64_t width;
	bool apart;
};

static int read_heads(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		const char *attribute, struct heads *ret)
{
	*ret = (struct heads){.apart = v->rank == 4};
	if (v->rank != 3 && v->rank != 4)
		return ff_import_fail(
				im, n, "queries or keys of %u axes, expected 3 or 4", v->rank);
	ret->n = ret->apart ? v->shape[1] : ff_onnx_int(n, attribute, 0);
	if (ret->n < 1 || v->shape[v->rank - 1] % (ret->apart ? 1 : ret->n))
		return ff_import_fail(im, n, "%s does not fit %d features", attribute,
				v->shape[v->rank - 1]);
	ret->width = v->shape[v->rank - 1] / (ret->apart ? 1 : ret->n);
	return FF_OK;
}

static int swap(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *in,
		struct ff_onnx_value *ret)
{
	union ff_attrs a = {.transpose = {.rank = 4, .perm = {0, 2, 1, 3}}};
	const struct ff_emit e = {.op = FF_OP_TRANSPOSE, .attrs = &a, .in = {*in}, .n_in = 1};

	ret->kind = FF_ONNX_NODE;
	return ff_emit(im, n, &e, ret, 1);
}

/* What was transposed just for this operator, as it was before. */
static const struct ff_onnx_value *before_swap(struct ff_import *im, const struct ff_onnx_value *v)
{
	const Onnx__NodeProto *n = v->maker;
	const Onnx__AttributeProto *perm;
	const struct ff_onnx_value *in;

	if (!n || strcmp(n->op_type, "Transpose") != 0)
		return NULL;
	perm = ff_onnx_attr(n, "perm");
	in = ff_onnx_in(im, n, 0);
	if (!perm || perm->n_ints != 4 || perm->ints[0] != 0 || perm->ints[1] != 2 ||
			perm->ints[2] != 1 || perm->ints[3] != 3)
		return NULL;
	return in && in->kind == FF_ONNX_NODE && !in->arranged && in->rank == 4 ? in : NULL;
}

/* Heads behind each other: [N, places, heads * width]. */
static int join(struct ff_import *im, const Onnx__NodeProto *n, const struct ff_onnx_value *v,
		struct ff_onnx_value *ret)
{
	const struct ff_onnx_value *early = v->rank == 4 ? before_swap(im, v) : NULL;
	struct ff_onnx_value turned = {.kind = FF_ONNX_NODE};
	int32_t shape[3];
	int code = FF_OK;

	*ret = *v;
	if (v->rank == 3)
		return FF_OK;
	if (!early && (code = swap(im, n, v, &turned)) < 0)
		return code;
	turned = early ? *early : turned;
	shape[0] = turned.shape[0];
	shape[1] = turned.shape[1];
	shape[2] = turned.shape[2] * turned.shape[3];
	return ff_emit_reshape(im, n, &turned, 3, shape, ret);
}

/* What is added to scores: of booleans zeros, and where they are false what leaves nothing. */
static int read_mask(struct ff_import *im, const Onnx__NodeProto *n, const int32_t scores[4],
		struct ff_emit *e)
{
	const struct ff_onnx_value *mask = ff_onnx_in(im, n, 3);
	struct ff_onnx_value beside = {.kind = FF_ONNX_NODE, .rank = 4};
	struct ff_constant c;
	int code;

	if (!mask)
		return FF_OK;
	e->in[3] = (struct ff_onnx_value){.kind = FF_ONNX_NODE};
	e->n_in = 4;
	if (mask->kind == FF_ONNX_NODE) {
		if (mask->arranged || mask->rank != 4 || ff_dtype_is_whole(mask->dtype))
			return ff_import_fail(im, n,
					"expected a mask of numbers and of 4 axes, if it is "
					"computed");
		e->in[3] = *mask;
		return FF_OK;
	}
	if (mask->kind != FF_ONNX_CONSTANT || mask->constant.trained)
		return ff_import_fail(im, n, "a mask that is trained is not supported");
	c = mask->constant;
	c.whole = false;
	c.i = NULL;
	c.f = NULL;
	if ((code = ff_constant_alloc(im, &c)) < 0)
		return code;
	for (int64_t i = 0; i < c.n; i++)
		c.f[i] = !mask->constant.whole ? mask->constant.f[i]
			 : mask->constant.i[i] ? 0
					       : -1e30f;
	memcpy(beside.shape, scores, sizeof(beside.shape[0]) * 4);
	return ff_emit_constant(im, n, &c, &beside, &e->in[3]);
}

int ff_onnx_attention(struct ff_import *im, const Onnx__NodeProto *n)
{
	union ff_attrs a = ff_attrs_preset(FF_OP_ATTENTION);
	struct ff_emit e = {.op = FF_OP_ATTENTION, .attrs = &a, .n_in = 3};
	struct ff_onnx_value out = {.kind = FF_ONNX_NODE}, apart = out, turned = out, *in[3];
	struct heads queries, keys, values;
	int32_t scores[4];
	int code = FF_OK;

	for (size_t i = 0; i < 3 && code == FF_OK; i++)
		if ((code = ff_onnx_in_node(im, n, i, &in[i])) == FF_OK)
			code = join(im, n, in[i], &e.in[i]);
	if (code < 0 || (code = read_heads(im, n, in[0], "q_num_heads", &queries)) < 0 ||
			(code = read_heads(im, n, in[1], "kv_num_heads", &keys)) < 0 ||
			(code = read_heads(im, n, in[2], "kv_num_heads", &values)) < 0)
		return code;
	if (ff_onnx_in(im, n, 4) || ff_onnx_in(im, n, 5) || ff_onnx_in(im, n, 6) ||
			ff_onnx_real(n, "softcap", 0) != 0)
		return ff_import_fail(im, n, "keys of the past and softcap are not supported");
	if (keys.width != queries.width || values.width != queries.width || values.n != keys.n)
		return ff_import_fail(im, n, "heads of several widths are not supported");
	scores[0] = e.in[0].shape[0];
	scores[1] = (int32_t)queries.n;
	scores[2] = e.in[0].shape[1];
	scores[3] = e.in[1].shape[1];
	a.attention.head_dim = (int32_t)queries.width;
	a.attention.causal = ff_onnx_int(n, "is_causal", 0) != 0;
	a.attention.scale = (double)ff_onnx_real(n, "scale", 0);
	if ((code = read_mask(im, n, scores, &e)) < 0 || (code = ff_emit(im, n, &e, &out, 1)) < 0)
		return code;
	if (!queries.apart)
		return ff_onnx_set_same(im, n, 0, &out);
	scores[2] = scores[1];
	scores[1] = out.shape[1];
	scores[3] = (int32_t)queries.width;
	if ((code = ff_emit_reshape(im, n, &out, 4, scores, &apart)) < 0 ||
			(code = swap(im, n, &apart, &turned)) < 0)
		return code;
	return ff_onnx_set_same(im, n, 0, &turned);
}

/* Two terms of a product of matrices: the letters of each. */
struct product {
	const char *term[3]; /* both, and what comes out */
	size_t n[3];
};

static bool has(const struct product *p, int which, char c)
{
	return memchr(p->term[which], c, p->n[which]) != NULL;
}

/* "bij,bkj->bik"; `text` is without spaces. */
static bool read_equation(const char *text, struct product *ret)
{
	const char *comma = strchr(text, ','), *arrow = strstr(text, "->");

	if (!comma || !arrow || comma > arrow || strchr(comma + 1, ',') || strchr(text, '.'))
		return false;
	*ret = (struct product){{text, comma + 1, arrow + 2},
			{(size_t)(comma - text), (size_t)(arrow - comma - 1), strlen(arrow + 2)}};
	return ret->n[0] >= 3 && ret->n[1] == ret->n[0] && ret->n[2] == ret->n[0] &&
	       !memcmp(ret->term[0], ret->term[1], ret->n[0] - 2) &&
	       !memcmp(ret->term[0], ret->term[2], ret->n[0] - 2);
}

/* Products of matrices, whatever is before them alike in both; others are not. */
int ff_onnx_einsum(struct ff_import *im, const Onnx__NodeProto *n)
{
	const Onnx__AttributeProto *a = ff_onnx_attr(n, "equation");
	union ff_attrs attrs = ff_attrs_preset(FF_OP_MATMUL);
	struct product p = {0};
	char *text = ff_arena_alloc(im->arena, a ? a->s.len + 1 : 1);
	size_t len = 0, last;
	bool a_turned, b_turned;

	if (!text)
		return ff_fail_memory(im->err);
	for (size_t k = 0; a && k < a->s.len; k++)
		if (a->s.data[k] != ' ')
			text[len++] = (char)a->s.data[k];
	text[len] = '\0';
	if (n->n_input != 2 || !read_equation(text, &p))
		return ff_import_fail(im, n, "expected products of matrices, not \"%.60s\"", text);
	last = p.n[0] - 1;
	/* of each term the letter that the other has too is summed over */
	a_turned = has(&p, 1, p.term[0][last - 1]) && !has(&p, 2, p.term[0][last - 1]);
	b_turned = has(&p, 0, p.term[1][last]) && !has(&p, 2, p.term[1][last]);
	if (p.term[0][last - a_turned] != p.term[1][last - !b_turned] ||
			p.term[2][last - 1] != p.term[0][last - !a_turned] ||
			p.term[2][last] != p.term[1][last - b_turned])
		return ff_import_fail(im, n, "expected products of matrices, not \"%.60s\"", text);
	attrs.matmul.transpose_a = a_turned;
	attrs.matmul.transpose_b = b_turned;
	return ff_onnx_many(im, n, FF_OP_MATMUL, &attrs);
}
