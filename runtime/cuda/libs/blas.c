/* Matrix products by cuBLASLt.  It thinks column by column, in which a row-major matrix is its
 * transpose: C^T = B^T A^T, so that A and B change places.
 * SPDX-License-Identifier: Apache-2.0 */
#include "blas.h"

#include <cublasLt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/core/copy.h"
#include "cuda/core/kernel.h"
#include "plans.h"
#include "tune.h"

#define WORKSPACE ((size_t)32 << 20) /* as NVIDIA advises for Hopper */
#define ALIGNMENT 64                 /* of all that the memory plan places */
#define WAYS 6                       /* of a product, that are timed, in the order of heuristics */
#define KEPT_COLUMNS 8               /* what is kept beside C has multiples of them */

/* How products of a shape are computed, so that it is asked for once. */
struct choice {
	struct ff_product_shape shape;
	cublasLtMatmulAlgo_t algo;
	size_t workspace;
	bool none; /* cuBLASLt has none */
};

struct ff_blas {
	cublasLtHandle_t handle;
	struct choice *choice;
	uint32_t n, cap;
	bool tunes; /* the fastest way of some is taken */
};

struct ff_product {
	struct ff_blas *blas;
	cublasLtMatmulDesc_t matmul;
	cublasLtMatrixLayout_t a, b, c; /* as cuBLASLt has them */
	struct choice choice;
	bool has_bias, add_bias; /* by the product, to one that is there before it */
	bool gives_sums, adds;
};

static int check(cublasStatus_t status, const struct ff_kernel *k, const char *verb,
		struct ff_error *err)
{
	if (status == CUBLAS_STATUS_SUCCESS)
		return FF_OK;
	return ff_fail(err, FF_E_RUN, "%s: cuBLAS failed to %s: %s", k->name, verb,
			cublasLtGetStatusString(status));
}

static int open_blas(const struct ff_kernel *k, struct ff_error *err)
{
	struct ff_blas *b;
	int code;

	if (k->dev->blas)
		return FF_OK;
	b = calloc(1, sizeof(*b));
	if (!b)
		return ff_fail_memory(err);
	k->dev->blas = b;
	code = ff_plans_tune(k->dev, &b->tunes, err);
	return code < 0 ? code : check(cublasLtCreate(&b->handle), k, "start", err);
}

void ff_blas_close(struct ff_blas *b)
{
	if (!b)
		return;
	if (b->handle)
		cublasLtDestroy(b->handle);
	free(b->choice);
	free(b);
}

static cudaDataType_t data_type(enum ff_dtype t)
{
	return t == FF_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static int set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const void *value,
		size_t size, const struct ff_kernel *k, struct ff_error *err)
{
	return check(cublasLtMatmulDescSetAttribute(d, what, value, size), k,
			"describe a matrix product", err);
}

static const cublasLtEpilogue_t epilogues[FF_EPILOGUE_COUNT][2] = {
		[FF_EPILOGUE_NONE] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS},
		[FF_EPILOGUE_RELU] = {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS},
		[FF_EPILOGUE_GELU] = {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS},
		[FF_EPILOGUE_GELU_KEEPS] = {CUBLASLT_EPILOGUE_GELU_AUX,
				CUBLASLT_EPILOGUE_GELU_AUX_BIAS},
		/* of a gradient, which has no bias */
		[FF_EPILOGUE_GELU_SLOPE] = {CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU},
};

/* Whether there is something beside C that is kept, or was. */
static bool has_kept(const struct ff_product_shape *s)
{
	return s->epilogue == FF_EPILOGUE_GELU_KEEPS || s->epilogue == FF_EPILOGUE_GELU_SLOPE;
}

static int set_kept(const struct ff_kernel *k, const struct ff_product *p, const void *kept,
		struct ff_error *err)
{
	return set(p->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &kept, sizeof(kept), k,
			err);
}

/* It lies as C does; heuristics look at the pointer, for its alignment. */
static int describe_kept(const struct ff_kernel *k, const struct ff_product_shape *s,
		const struct ff_product *p, struct ff_error *err)
{
	int code = set(p->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &s->columns,
			sizeof(s->columns), k, err);

	return code < 0 ? code : set_kept(k, p, (const void *)(uintptr_t)ALIGNMENT, err);
}

/* Its B is our A. */
static int describe_epilogue(const struct ff_kernel *k, const struct ff_product_shape *s,
		struct ff_product *p, struct ff_error *err)
{
	cublasLtEpilogue_t e = s->gives_sums ? CUBLASLT_EPILOGUE_BGRADB
					     : epilogues[s->epilogue][s->has_bias];
	const int32_t type = (int32_t)data_type(s->sink);
	int code = set(p->matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof(e), k, err);

	if (code == FF_OK && has_kept(s))
		code = describe_kept(k, s, p, err);
	if (code == FF_OK && s->has_bias && s->c_beside)
		code = set(p->matmul, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &s->columns,
				sizeof(s->columns), k, err);
	if (code < 0 || !s->gives_sums)
		return code;
	return set(p->matmul, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof(type), k, err);
}

static int describe_product(const struct ff_kernel *k, const struct ff_product_shape *s,
		struct ff_product *p, struct ff_error *err)
{
	/* TF32 rounds inputs to 10 bits; bfloat16 has fewer anyway */
	cublasComputeType_t compute = k->dev->tf32 && s->type == FF_F32
						      ? CUBLAS_COMPUTE_32F_FAST_TF32
						      : CUBLAS_COMPUTE_32F;
	cublasOperation_t a = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasOperation_t b = s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
	int code = check(cublasLtMatmulDescCreate(&p->matmul, compute, CUDA_R_32F), k,
			"describe a matrix product", err);

	if (code == FF_OK)
		code = set(p->matmul, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof(a), k, err);
	if (code == FF_OK)
		code = set(p->matmul, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof(b), k, err);
	return code < 0 ? code : describe_epilogue(k, s, p, err);
}

/* How matrices of a batch lie: one behind the other, beside each other, or one is all of them. */
enum lie { BEHIND, BESIDE, SHARED };

/* `columns` numbers a row. */
static int describe_matrix(const struct ff_kernel *k, enum ff_dtype type, int64_t rows,
		int64_t columns, int64_t batch, enum lie lie, cublasLtMatrixLayout_t *ret,
		struct ff_error *err)
{
	const int32_t count = (int32_t)batch;
	const int64_t apart = lie == SHARED ? 0 : lie == BESIDE ? columns : rows * columns;
	int code = check(cublasLtMatrixLayoutCreate(ret, data_type(type), (uint64_t)columns,
					 (uint64_t)rows, lie == BESIDE ? batch * columns : columns),
			k, "describe a matrix", err);

	if (code < 0 || batch < 2)
		return code;
	code = check(cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
				     &count, sizeof(count)),
			k, "describe matrices", err);
	if (code < 0)
		return code;
	return check(cublasLtMatrixLayoutSetAttribute(*ret,
				     CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart,
				     sizeof(apart)),
			k, "describe matrices", err);
}

static int describe(const struct ff_kernel *k, const struct ff_product_shape *s,
		struct ff_product *p, struct ff_error *err)
{
	enum lie of_a = s->a_shared ? SHARED : s->a_beside ? BESIDE : BEHIND;
	int code = describe_product(k, s, p, err);

	if (code == FF_OK)
		code = describe_matrix(k, s->type, s->b_transposed ? s->columns : s->inner,
				s->b_transposed ? s->inner : s->columns, s->batch,
				s->b_beside ? BESIDE : BEHIND, &p->a, err);
	if (code == FF_OK)
		code = describe_matrix(k, s->type, s->a_transposed ? s->inner : s->rows,
				s->a_transposed ? s->rows : s->inner, s->batch, of_a, &p->b, err);
	return code < 0 ? code
			: describe_matrix(k, s->sink, s->rows, s->columns, s->batch,
					  s->c_beside ? BESIDE : BEHIND, &p->c, err);
}

static const struct choice *find_choice(const struct ff_blas *b, const struct ff_product_shape *s)
{
	for (uint32_t i = 0; i < b->n; i++) {
		const struct ff_product_shape *o = &b->choice[i].shape;

		if (o->rows == s->rows && o->inner == s->inner && o->columns == s->columns &&
				o->batch == s->batch && o->a_shared == s->a_shared &&
				o->a_beside == s->a_beside && o->b_beside == s->b_beside &&
				o->c_beside == s->c_beside && o->a_transposed == s->a_transposed &&
				o->b_transposed == s->b_transposed && o->has_bias == s->has_bias &&
				o->gives_sums == s->gives_sums && o->epilogue == s->epilogue &&
				o->type == s->type && o->sink == s->sink)
			return &b->choice[i];
	}
	return NULL;
}

static int keep_choice(struct ff_blas *b, const struct choice *c, struct ff_error *err)
{
	if (b->n == b->cap) {
		uint32_t cap = b->cap ? 2 * b->cap : 64;
		struct choice *grown = realloc(b->choice, cap * sizeof(*grown));

		if (!grown)
			return ff_fail_memory(err);
		b->choice = grown;
		b->cap = cap;
	}
	b->choice[b->n++] = *c;
	return FF_OK;
}

/* Where threads share a sum, its parts stay float32 until they are added up; otherwise cuBLASLt may
 * round each to the result's type (cuBLAS Library User Guide, "cublasLtReductionScheme_t"). */
static int limit_rounding(
		cublasLtMatmulPreference_t p, const struct ff_kernel *k, struct ff_error *err)
{
	const uint32_t once = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

	return check(cublasLtMatmulPreferenceSetAttribute(p,
				     CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &once,
				     sizeof(once)),
			k, "limit a product's rounding", err);
}

static int limit(cublasLtMatmulPreference_t p, const struct ff_kernel *k, struct ff_error *err)
{
	static const cublasLtMatmulPreferenceAttributes_t sides[] = {
			CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
			CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
			CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
			CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
	const size_t most = WORKSPACE;
	const uint32_t alignment = ALIGNMENT;
	int code = check(cublasLtMatmulPreferenceSetAttribute(p,
					 CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
					 sizeof(most)),
			k, "limit a product's workspace", err);

	for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]) && code == FF_OK; i++)
		code = check(cublasLtMatmulPreferenceSetAttribute(
					     p, sides[i], &alignment, sizeof(alignment)),
				k, "limit a product's alignment", err);
	return code;
}

/* What a choice is kept for: all that cuBLASLt is told.  "Rounded once": older choices were not
 * limited so. */
static void print_problem(const struct ff_kernel *k, const struct ff_product_shape *s, bool timed,
		char text[FF_PLANS_TEXT])
{
	snprintf(text, FF_PLANS_TEXT,
			"product of %" PRId64 " x %" PRId64 " x %" PRId64 ", %" PRId64
			" of them%s%s%s%s%s%s%s%s, epilogue %d, %s to %s%s%s, within %zu bytes, "
			"aligned to %d%s",
			s->rows, s->inner, s->columns, s->batch, s->a_shared ? ", one A" : "",
			s->a_beside ? ", A beside" : "", s->b_beside ? ", B beside" : "",
			s->c_beside ? ", C beside" : "", s->a_transposed ? ", A transposed" : "",
			s->b_transposed ? ", B transposed" : "", s->has_bias ? ", bias" : "",
			s->gives_sums ? ", sums" : "", (int)s->epilogue, ff_dtype_name(s->type),
			ff_dtype_name(s->sink), s->sink == FF_F32 ? "" : " rounded once",
			k->dev->tf32 ? ", TF32" : "", WORKSPACE, ALIGNMENT, timed ? ", timed" : "");
}

static void keep_algo(const struct ff_kernel *k, const struct choice *c, bool timed)
{
	char problem[FF_PLANS_TEXT], text[FF_PLANS_TEXT];

	snprintf(text, sizeof(text), "workspace %zu algorithm ", c->workspace);
	print_problem(k, &c->shape, timed, problem);
	if (ff_plans_print(text, &c->algo, sizeof(c->algo)))
		ff_plans_keep(k->dev, problem, text);
}

/* As it was chosen before; cuBLASLt says whether it still can be. */
static bool find_algo(const struct ff_kernel *k, struct ff_product *p, bool timed)
{
	char problem[FF_PLANS_TEXT], text[FF_PLANS_TEXT];
	cublasLtMatmulHeuristicResult_t result = {0};
	int read = 0;

	print_problem(k, &p->choice.shape, timed, problem);
	if (!ff_plans_find(k->dev, problem, text) ||
			sscanf(text, "workspace %zu algorithm %n", &p->choice.workspace, &read) <
					1 ||
			!read ||
			!ff_plans_scan(text + read, &p->choice.algo, sizeof(p->choice.algo)))
		return false;
	return cublasLtMatmulAlgoCheck(p->blas->handle, p->matmul, p->a, p->b, p->c, p->c,
			       &p->choice.algo, &result) == CUBLAS_STATUS_SUCCESS &&
	       result.workspaceSize <= p->choice.workspace && p->choice.workspace <= WORKSPACE;
}

/* Ways of a product of made-up matrices. */
struct ways {
	const struct ff_kernel *k;
	const struct ff_product *p;
	const cublasLtMatmulHeuristicResult_t *way;
	int64_t a, b, c, bias, kept, scratch; /* where these are */
};

static bool run_way(const void *arg, int64_t i, char *memory, cudaStream_t queue)
{
	const struct ways *w = arg;
	const struct ff_product *p = w->p;
	const cublasLtMatmulHeuristicResult_t *way = &w->way[i];
	const void *bias = memory + w->bias;
	const float one = 1, none = 0;
	void *c = memory + w->c;
	struct ff_error ignored;
	int code = FF_OK;

	if (p->has_bias || p->gives_sums)
		code = set(p->matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias), w->k,
				&ignored);
	if (code == FF_OK && has_kept(&p->choice.shape))
		code = set_kept(w->k, p, memory + w->kept, &ignored);
	return code == FF_OK &&
	       cublasLtMatmul(p->blas->handle, p->matmul, &one, memory + w->b, p->a, memory + w->a,
			       p->b, &none, c, p->c, c, p->c, &way->algo,
			       way->workspaceSize ? memory + w->scratch : NULL, way->workspaceSize,
			       queue) == CUBLAS_STATUS_SUCCESS;
}

static int64_t find_fastest(const struct ff_kernel *k, const struct ff_product *p,
		const cublasLtMatmulHeuristicResult_t *way, int64_t n)
{
	const struct ff_product_shape *s = &p->choice.shape;
	int64_t count = s->batch < 2 ? 1 : s->batch, size = ff_dtype_bytes(s->type);
	int64_t results = count * s->rows * s->columns * ff_dtype_bytes(s->sink);
	struct ways w = {.k = k, .p = p, .way = way};
	struct ff_trial trial = {.n = n, .arg = &w, .run = run_way};

	w.a = ff_trial_take(&trial, count * s->rows * s->inner * size);
	w.b = ff_trial_take(&trial, count * s->inner * s->columns * size);
	w.c = ff_trial_take(&trial, results);
	w.bias = ff_trial_take(&trial, (s->rows + s->columns) * FF_F32_BYTES);
	w.kept = ff_trial_take(&trial, has_kept(s) ? results : 0);
	w.scratch = ff_trial_take(&trial, (int64_t)WORKSPACE);
	return ff_tune(&trial);
}

static void put_choice(struct ff_product *p, const cublasLtMatmulHeuristicResult_t *way)
{
	p->choice.algo = way->algo;
	p->choice.workspace = way->workspaceSize;
}

/* The fastest of `n` ways, kept from now on; what somebody else chose meanwhile stays.  Where it
 * cannot be kept the first, as next time another might be faster. */
static void take(const struct ff_kernel *k, struct ff_product *p,
		const cublasLtMatmulHeuristicResult_t *way, int64_t n)
{
	bool timed = p->blas->tunes;
	int64_t best = timed ? find_fastest(k, p, way, n) : 0;

	if (timed && find_algo(k, p, true))
		return;
	put_choice(p, &way[best]);
	keep_algo(k, &p->choice, timed);
	if (best > 0 && !find_algo(k, p, true))
		put_choice(p, &way[0]);
}

/* Those that can run go to the front; how many. */
static int keep_runnable(cublasLtMatmulHeuristicResult_t *way, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++)
		if (way[i].state == CUBLAS_STATUS_SUCCESS)
			way[kept++] = way[i];
	return kept;
}

/* What cuBLASLt's heuristics take to be the fastest, or what is. */
static int ask(const struct ff_kernel *k, struct ff_product *p, struct ff_error *err)
{
	cublasLtMatmulHeuristicResult_t way[WAYS] = {0};
	cublasLtMatmulPreference_t preference = NULL;
	cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
	int n = 0,
	    code = check(cublasLtMatmulPreferenceCreate(&preference), k, "limit a product", err);

	if (code < 0)
		return code;
	code = limit(preference, k, err);
	if (code == FF_OK && p->choice.shape.sink != FF_F32)
		code = limit_rounding(preference, k, err);
	if (code == FF_OK)
		status = cublasLtMatmulAlgoGetHeuristic(p->blas->handle, p->matmul, p->a, p->b,
				p->c, p->c, preference, p->blas->tunes ? WAYS : 1, way, &n);
	cublasLtMatmulPreferenceDestroy(preference);
	n = keep_runnable(way, n);
	p->choice.none = status == CUBLAS_STATUS_NOT_SUPPORTED ||
			 (status == CUBLAS_STATUS_SUCCESS && n < 1);
	if (code == FF_OK && !p->choice.none)
		code = check(status, k, "choose a matrix product", err);
	if (code == FF_OK && !p->choice.none)
		take(k, p, way, n);
	return code < 0 ? code : keep_choice(p->blas, &p->choice, err);
}

/* Of what is known here, was kept or is asked for. */
static int choose(struct ff_kernel *k, struct ff_product *p, const struct ff_product_shape *shape,
		struct ff_error *err)
{
	const struct choice *known = find_choice(p->blas, shape);

	p->choice = (struct choice){.shape = *shape};
	if (known) {
		p->choice = *known;
		return FF_OK;
	}
	if (find_algo(k, p, true) || (!p->blas->tunes && find_algo(k, p, false)))
		return keep_choice(p->blas, &p->choice, err);
	p->choice = (struct choice){.shape = *shape};
	return ask(k, p, err);
}

/* Where cuBLASLt has none with a bias, the product is added to it: so it is rounded once.  Sums are
 * somebody else's. */
static int go_without_bias(struct ff_kernel *k, struct ff_product *p,
		const struct ff_product_shape *shape, struct ff_error *err)
{
	struct ff_product_shape plain = *shape;
	int code;

	p->add_bias = shape->has_bias;
	plain.has_bias = p->has_bias = false;
	plain.gives_sums = p->gives_sums = false;
	code = describe_epilogue(k, &plain, p, err);
	return code < 0 ? code : choose(k, p, &plain, err);
}

/* Slopes of gelu are by a tanh of fewer bits than float32 has: on H100 off by some 1e-5 of them. */
static bool is_rough(const struct ff_kernel *k, const struct ff_product_shape *s)
{
	return s->epilogue == FF_EPILOGUE_GELU_SLOPE && s->type == FF_F32 && !k->dev->tf32;
}

int ff_product_create(struct ff_kernel *k, const struct ff_product_shape *shape,
		struct ff_product **ret, struct ff_error *err)
{
	struct ff_product *p;
	int code = open_blas(k, err);

	if (code < 0)
		return code;
	p = calloc(1, sizeof(*p));
	if (!p)
		return ff_fail_memory(err);
	*ret = p; /* whose kernel frees it */
	p->blas = k->dev->blas;
	p->has_bias = shape->has_bias;
	p->gives_sums = shape->gives_sums;
	if ((has_kept(shape) && shape->columns % KEPT_COLUMNS) || is_rough(k, shape)) {
		k->declined = true;
		return FF_OK;
	}
	code = describe(k, shape, p, err);
	if (code == FF_OK)
		code = choose(k, p, shape, err);
	if (code == FF_OK && p->choice.none &&
			(shape->epilogue != FF_EPILOGUE_NONE || shape->a_shared)) {
		k->declined = true;
		return FF_OK;
	}
	if (code == FF_OK && p->choice.none && (shape->has_bias || shape->gives_sums))
		code = go_without_bias(k, p, shape, err);
	if (code == FF_OK && p->choice.none)
		return ff_fail(err, FF_E_RUN, "%s: cuBLAS has no such matrix product", k->name);
	ff_kernel_need(k, (int64_t)p->choice.workspace);
	return code;
}

void ff_product_destroy(struct ff_product *p)
{
	if (!p)
		return;
	if (p->c)
		cublasLtMatrixLayoutDestroy(p->c);
	if (p->b)
		cublasLtMatrixLayoutDestroy(p->b);
	if (p->a)
		cublasLtMatrixLayoutDestroy(p->a);
	if (p->matmul)
		cublasLtMatmulDescDestroy(p->matmul);
	free(p);
}

int ff_product_keep(const struct ff_kernel *k, const struct ff_product *p, const void *kept,
		struct ff_error *err)
{
	return set_kept(k, p, kept, err);
}

void ff_product_add(struct ff_product *p)
{
	p->adds = true;
}

bool ff_product_gives_sums(const struct ff_product *p)
{
	return p->gives_sums;
}

/* The bias in every row of C, or of those that lie beside each other. */
static int fill_bias(const struct ff_kernel *k, const struct ff_product *p, const void *bias,
		void *c, cudaStream_t queue, struct ff_error *err)
{
	const struct ff_product_shape *s = &p->choice.shape;
	const int64_t columns = s->c_beside ? s->batch * s->columns : s->columns;
	const struct ff_strided rows = {
			.rank = 2, .n = {s->rows, columns}, .source = {0, 1}, .sink = {columns, 1}};

	return ff_kernel_launched(ff_cuda_strided(&rows, s->sink, bias, c, queue), k, err);
}

int ff_product_run(const struct ff_kernel *k, const struct ff_product *p, cudaStream_t queue,
		const void *a, const void *b, const void *bias, void *c, void *scratch,
		struct ff_error *err)
{
	const float one = 1, there = p->adds || p->add_bias ? 1 : 0;
	int code = FF_OK;

	if (p->add_bias)
		code = fill_bias(k, p, bias, c, queue, err);
	if (code == FF_OK && (p->has_bias || p->gives_sums))
		code = set(p->matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias), k,
				err);
	return code < 0 ? code
			: check(cublasLtMatmul(p->blas->handle, p->matmul, &one, b, p->a, a, p->b,
						&there, c, p->c, c, p->c, &p->choice.algo,
						p->choice.workspace ? scratch : NULL,
						p->choice.workspace, queue),
					  k, "multiply", err);
}
