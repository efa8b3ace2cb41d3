/* Convolutions by cuDNN's graph interface: a graph of one convolution (its bias, an epilogue), the
 * first engine of its heuristics that is exact enough, gives the same bits each time and can
 * be made into a plan.  SPDX-License-Identifier: Apache-2.0 */
#include "dnn.h"

#include <cudnn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "kernel.h"

#define WORKSPACE ((int64_t)256 << 20) /* bytes that a plan may take */
#define ALIGNMENT 64                   /* of images */
#define MAX_ENGINES 32                 /* that are tried */

enum { IMAGE = 1, WEIGHT, BIAS, OUT, SUM, BIASED }; /* ids of tensors in a graph */

struct ff_conv {
	struct ff_conv *next;
	struct ff_conv_shape shape;
	cudnnBackendDescriptor_t plan; /* NULL: cuDNN has none */
	int64_t workspace;
};

struct ff_dnn {
	cudnnHandle_t handle;
	struct ff_conv *convs;
};

/* What a graph is put together from, to be destroyed. */
struct parts {
	const struct ff_kernel *k;
	const struct ff_conv_shape *shape;
	cudnnBackendDescriptor_t made[16];
	uint32_t n;
	bool missing; /* cuDNN says that it has no such thing */
	int code;     /* first failure */
	struct ff_error *err;
};

static int fail(const struct ff_kernel *k, cudnnStatus_t status, const char *verb,
		struct ff_error *err)
{
	char why[256] = "";

	cudnnGetLastErrorString(why, sizeof(why));
	return ff_fail(err, FF_E_RUN, "%s: cuDNN failed to %s: %s %s", k->name, verb,
			cudnnGetErrorString(status), why);
}

static bool is_missing(cudnnStatus_t status)
{
	return status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR;
}

static int open_dnn(const struct ff_kernel *k, struct ff_error *err)
{
	cudnnStatus_t status;
	struct ff_dnn *d;

	if (k->dev->dnn)
		return FF_OK;
	d = calloc(1, sizeof(*d));
	if (!d)
		return ff_fail_memory(err);
	status = cudnnCreate(&d->handle);
	if (status != CUDNN_STATUS_SUCCESS) {
		free(d);
		return fail(k, status, "start", err);
	}
	k->dev->dnn = d;
	return FF_OK;
}

void ff_dnn_close(struct ff_dnn *d)
{
	if (!d)
		return;
	while (d->convs) {
		struct ff_conv *c = d->convs;

		d->convs = c->next;
		if (c->plan)
			cudnnBackendDestroyDescriptor(c->plan);
		free(c);
	}
	cudnnDestroy(d->handle);
	free(d);
}

/* ---- descriptors: after the first failure nothing is done ---- */

static void check(struct parts *p, cudnnStatus_t status)
{
	if (status == CUDNN_STATUS_SUCCESS || p->code < 0)
		return;
	p->missing = is_missing(status);
	p->code = fail(p->k, status, "describe a convolution", p->err);
}

static cudnnBackendDescriptor_t make(struct parts *p, cudnnBackendDescriptorType_t type)
{
	cudnnBackendDescriptor_t d = NULL;

	if (p->code < 0)
		return NULL;
	check(p, cudnnBackendCreateDescriptor(type, &d));
	if (d)
		p->made[p->n++] = d;
	return d;
}

static void set(struct parts *p, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
	if (p->code == FF_OK)
		check(p, cudnnBackendSetAttribute(d, name, type, n, value));
}

static void set_part(struct parts *p, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendDescriptor_t part)
{
	set(p, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void finish(struct parts *p, cudnnBackendDescriptor_t d)
{
	if (p->code == FF_OK)
		check(p, cudnnBackendFinalize(d));
}

static void drop(struct parts *p)
{
	while (p->n)
		cudnnBackendDestroyDescriptor(p->made[--p->n]);
}

static cudnnDataType_t data_type(enum ff_dtype t)
{
	return t == FF_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* Axes that cuDNN is told of: two or three spatial ones. */
static uint32_t axes_of(const struct parts *p)
{
	return FF_MAX_SPATIAL - p->shape->filter.windows.first;
}

/* N, C and three spatial extents, as cuDNN counts them, stored channels last; of the spatial ones
 * those that it is told of. */
static cudnnBackendDescriptor_t tensor(struct parts *p, int64_t id, enum ff_dtype type,
		const int64_t *extent, int64_t alignment, bool is_virtual)
{
	cudnnBackendDescriptor_t d = make(p, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	uint32_t axes = axes_of(p), first = FF_MAX_SPATIAL - axes;
	int64_t n[2 + FF_MAX_SPATIAL] = {extent[0], extent[1]};
	int64_t stride[2 + FF_MAX_SPATIAL] = {0, 1}, step = extent[1];
	const cudnnDataType_t t = data_type(type);

	for (uint32_t i = 2 + axes; i-- > 2; step *= n[i]) {
		n[i] = extent[first + i];
		stride[i] = step;
	}
	stride[0] = step;
	set(p, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t);
	set(p, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2 + axes, n);
	set(p, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 2 + axes, stride);
	set(p, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
	set(p, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
	if (is_virtual)
		set(p, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
	finish(p, d);
	return d;
}

static cudnnBackendDescriptor_t convolution(struct parts *p)
{
	const struct ff_windows *w = &p->shape->filter.windows;
	cudnnBackendDescriptor_t d = make(p, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	int64_t dilation[FF_MAX_SPATIAL] = {0}, stride[FF_MAX_SPATIAL] = {0}, dims = axes_of(p);
	const int64_t *lo = w->pad[0] + w->first, *hi = w->pad[1] + w->first;
	const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;

	for (uint32_t i = w->first; i < FF_MAX_SPATIAL; i++) {
		dilation[i - w->first] = w->dilation[i];
		stride[i - w->first] = w->stride[i];
	}
	set(p, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
	set(p, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
	set(p, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
	set(p, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, dims, lo);
	set(p, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, dims, hi);
	set(p, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dims, dilation);
	set(p, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, dims, stride);
	finish(p, d);
	return d;
}

/* How each pass calls its parts. */
static const struct {
	cudnnBackendDescriptorType_t type;
	cudnnBackendAttributeName_t conv, image, weight, out, alpha, beta;
} passes[] = {
		[FF_CONV_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
				CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
		[FF_CONV_DATA] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
		[FF_CONV_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
				CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

/* to = from `mode` other, which is NULL where that takes one alone. */
static cudnnBackendDescriptor_t pointwise(struct parts *p, cudnnPointwiseMode_t mode,
		cudnnBackendDescriptor_t from, cudnnBackendDescriptor_t other,
		cudnnBackendDescriptor_t to)
{
	cudnnBackendDescriptor_t what = make(p, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), d;
	const cudnnDataType_t type = CUDNN_DATA_FLOAT;

	set(p, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
	set(p, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
	finish(p, what);
	d = make(p, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
	set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
	if (other)
		set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other);
	set_part(p, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
	finish(p, d);
	return d;
}

static cudnnBackendDescriptor_t bias_of(struct parts *p)
{
	const int64_t extent[] = {1, p->shape->filter.groups * p->shape->filter.k, 1, 1, 1};

	return tensor(p, BIAS, p->shape->type, extent, p->shape->bias_align, false);
}

static const cudnnPointwiseMode_t epilogues[FF_EPILOGUE_COUNT] = {
		[FF_EPILOGUE_RELU] = CUDNN_POINTWISE_RELU_FWD,
};

/* What is done to `from`, the convolution's result, on its way to `to`; the number of operations.
 */
static int64_t follow(struct parts *p, const int64_t *extent, cudnnBackendDescriptor_t from,
		cudnnBackendDescriptor_t to, cudnnBackendDescriptor_t *ops)
{
	const struct ff_conv_shape *s = p->shape;
	bool more = s->epilogue != FF_EPILOGUE_NONE;
	int64_t n = 0;

	if (s->has_bias) {
		cudnnBackendDescriptor_t sum =
				more ? tensor(p, BIASED, FF_F32, extent, ALIGNMENT, true) : to;

		ops[n++] = pointwise(p, CUDNN_POINTWISE_ADD, from, bias_of(p), sum);
		from = sum;
	}
	if (more)
		ops[n++] = pointwise(p, epilogues[s->epilogue], from, NULL, to);
	return n;
}

/* What something follows on stays float32 on its way. */
static cudnnBackendDescriptor_t graph(struct parts *p)
{
	const struct ff_conv_shape *s = p->shape;
	const struct ff_filter *f = &s->filter;
	const struct ff_windows *v = &f->windows;
	const int64_t image[] = {f->n, f->groups * f->c, v->in[0], v->in[1], v->in[2]};
	const int64_t weight[] = {f->groups * f->k, f->c, v->kernel[0], v->kernel[1], v->kernel[2]};
	const int64_t out[] = {f->n, f->groups * f->k, v->out[0], v->out[1], v->out[2]};
	const enum ff_dtype types[] = {
			s->pass == FF_CONV_DATA ? s->sink : s->type,
			s->pass == FF_CONV_WEIGHT ? s->sink : s->type,
			s->pass == FF_CONV_FORWARD ? s->sink : s->type,
	};
	cudnnBackendDescriptor_t conv = convolution(p);
	cudnnBackendDescriptor_t x = tensor(p, IMAGE, types[0], image, ALIGNMENT, false);
	cudnnBackendDescriptor_t w = tensor(p, WEIGHT, types[1], weight, s->weight_align, false);
	cudnnBackendDescriptor_t y = tensor(p, OUT, types[2], out, ALIGNMENT, false);
	bool followed = s->has_bias || s->epilogue != FF_EPILOGUE_NONE;
	cudnnBackendDescriptor_t sum = followed ? tensor(p, SUM, FF_F32, out, ALIGNMENT, true) : y;
	cudnnBackendDescriptor_t ops[3] = {make(p, passes[s->pass].type)}, g;
	const float one = 1, zero = 0;
	int64_t n = 1;

	set_part(p, ops[0], passes[s->pass].conv, conv);
	set_part(p, ops[0], passes[s->pass].image, x);
	set_part(p, ops[0], passes[s->pass].weight, w);
	set_part(p, ops[0], passes[s->pass].out, sum);
	set(p, ops[0], passes[s->pass].alpha, CUDNN_TYPE_FLOAT, 1, &one);
	set(p, ops[0], passes[s->pass].beta, CUDNN_TYPE_FLOAT, 1, &zero);
	finish(p, ops[0]);
	n += follow(p, out, sum, y, ops + 1);
	g = make(p, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	set(p, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &p->k->dev->dnn->handle);
	set(p, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
	finish(p, g);
	return g;
}

/* ---- plans ---- */

/* Not those that round inputs, that other bits come of each time, or that reach a result by
 * way of numbers far larger than it. */
static bool is_welcome(const struct ff_conv_shape *s, cudnnBackendDescriptor_t config)
{
	cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	cudnnBackendDescriptor_t engine = NULL;
	bool exact = s->type == FF_F32 && !s->tf32, welcome;
	int64_t n = 0, found = 0;

	if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
			CUDNN_STATUS_SUCCESS)
		return false;
	welcome = cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
				  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found,
				  &engine) == CUDNN_STATUS_SUCCESS &&
		  cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
				  CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
				  note) == CUDNN_STATUS_SUCCESS;
	for (int64_t i = 0; i < n && welcome; i++)
		welcome = note[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC &&
			  note[i] != CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
			  note[i] != CUDNN_NUMERICAL_NOTE_FFT &&
			  note[i] != CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 &&
			  !(exact && (note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
						     note[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
	cudnnBackendDestroyDescriptor(engine);
	return welcome;
}

/* A plan of that engine, unless it cannot be made or takes too much. */
static cudnnBackendDescriptor_t plan_of(
		const struct ff_dnn *d, cudnnBackendDescriptor_t config, int64_t *workspace)
{
	cudnnBackendDescriptor_t plan = NULL;
	int64_t n = 0;

	if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
			CUDNN_STATUS_SUCCESS)
		return NULL;
	if (cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
			    &d->handle) == CUDNN_STATUS_SUCCESS &&
			cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
					CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
					&config) == CUDNN_STATUS_SUCCESS &&
			cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
			cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
					CUDNN_TYPE_INT64, 1, &n,
					workspace) == CUDNN_STATUS_SUCCESS &&
			*workspace <= WORKSPACE)
		return plan;
	cudnnBackendDestroyDescriptor(plan);
	return NULL;
}

/* What a plan is kept for; false: for nothing. */
static bool print_problem(const struct ff_conv_shape *s, char text[FF_PLANS_TEXT])
{
	snprintf(text, FF_PLANS_TEXT, "convolution within %" PRId64 " bytes, by its bytes ",
			WORKSPACE);
	return ff_plans_print(text, s, sizeof(*s));
}

/* As it was chosen before. */
static cudnnBackendDescriptor_t kept_plan(
		const struct parts *p, cudnnBackendDescriptor_t g, int64_t *workspace)
{
	char problem[FF_PLANS_TEXT], choice[FF_PLANS_TEXT];
	cudnnBackendDescriptor_t plan = NULL;
	struct ff_engine e;

	if (p->code < 0 || !print_problem(p->shape, problem) ||
			!ff_plans_find(p->k->dev, problem, choice))
		return NULL;
	if (ff_engine_init(&e, g, choice) && is_welcome(p->shape, e.config))
		plan = plan_of(p->k->dev->dnn, e.config, workspace);
	ff_engine_finish(&e);
	return plan;
}

static void keep_plan(const struct parts *p, cudnnBackendDescriptor_t config)
{
	char problem[FF_PLANS_TEXT], choice[FF_PLANS_TEXT];

	if (print_problem(p->shape, problem) && ff_engine_print(config, choice))
		ff_plans_keep(p->k->dev, problem, choice);
}

/* The first of the engines that heuristics `mode` names. */
static cudnnBackendDescriptor_t first_plan(const struct ff_dnn *d, struct parts *p,
		cudnnBackendDescriptor_t g, cudnnBackendHeurMode_t mode, int64_t *workspace)
{
	cudnnBackendDescriptor_t config[MAX_ENGINES] = {NULL}, plan = NULL;
	cudnnBackendDescriptor_t heuristics = make(p, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	int64_t n = 0;

	set_part(p, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g);
	set(p, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (p->code < 0 || cudnnBackendFinalize(heuristics) != CUDNN_STATUS_SUCCESS)
		return NULL;
	for (int i = 0; i < MAX_ENGINES && p->code == FF_OK; i++)
		check(p, cudnnBackendCreateDescriptor(
					 CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[i]));
	if (p->code == FF_OK)
		check(p, cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
					 CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &n, config));
	for (int64_t i = 0; i < n && p->code == FF_OK && !plan; i++) {
		if (is_welcome(p->shape, config[i]))
			plan = plan_of(d, config[i], workspace);
		if (plan)
			keep_plan(p, config[i]);
	}
	for (int i = 0; i < MAX_ENGINES; i++)
		if (config[i])
			cudnnBackendDestroyDescriptor(config[i]);
	return plan;
}

static int make_plan(const struct ff_kernel *k, struct ff_conv *c, struct ff_error *err)
{
	struct ff_error why;
	struct parts p = {.k = k, .shape = &c->shape, .err = &why};
	cudnnBackendDescriptor_t g = graph(&p);

	c->plan = kept_plan(&p, g, &c->workspace);
	if (!c->plan)
		c->plan = first_plan(k->dev->dnn, &p, g, CUDNN_HEUR_MODE_A, &c->workspace);
	if (!c->plan)
		c->plan = first_plan(k->dev->dnn, &p, g, CUDNN_HEUR_MODE_FALLBACK, &c->workspace);
	drop(&p);
	if (p.code == FF_OK || p.missing)
		return FF_OK;
	if (err)
		*err = why;
	return p.code;
}

/* Shapes are zeroed before they are filled. */
int ff_conv_find(struct ff_kernel *k, const struct ff_conv_shape *shape, const struct ff_conv **ret,
		struct ff_error *err)
{
	int code = open_dnn(k, err);
	struct ff_conv *c;

	if (code < 0)
		return code;
	for (c = k->dev->dnn->convs; c; c = c->next)
		if (!memcmp(&c->shape, shape, sizeof(*shape)))
			break;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return ff_fail_memory(err);
		memcpy(&c->shape, shape, sizeof(*shape));
		c->next = k->dev->dnn->convs;
		k->dev->dnn->convs = c;
		code = make_plan(k, c, err);
	}
	*ret = c->plan ? c : NULL;
	ff_kernel_need(k, c->plan ? c->workspace : 0);
	return code;
}

int ff_conv_run(const struct ff_kernel *k, const struct ff_conv *c, cudaStream_t queue,
		const void *image, const void *weight, const void *bias, const void *out,
		void *scratch, struct ff_error *err)
{
	const int64_t id[] = {IMAGE, WEIGHT, OUT, BIAS};
	const void *pointer[] = {image, weight, out, bias};
	struct parts p = {.k = k, .shape = &c->shape, .err = err};
	cudnnBackendDescriptor_t pack = make(&p, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	int64_t n = c->shape.has_bias ? 4 : 3;
	cudnnHandle_t handle = k->dev->dnn->handle;

	set(&p, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointer);
	set(&p, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, id);
	set(&p, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
	finish(&p, pack);
	if (p.code == FF_OK)
		check(&p, cudnnSetStream(handle, queue));
	if (p.code == FF_OK)
		check(&p, cudnnBackendExecute(handle, c->plan, pack));
	drop(&p);
	return p.code;
}
