/* cuBLASLt: products of matrices, float32 or bfloat16, summed in float32.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstdlib>
#include <cublasLt.h>
#include <unistd.h>

#include "inside.hpp"
#include "product.hpp"

using namespace lt;

namespace
{

struct Handle {
	uint32_t magic = HANDLE;
	int device;
};

struct Preference {
	uint32_t magic = PREFERENCE;
	uint32_t mode = 0, reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
	uint32_t align[4] = {256, 256, 256, 256};
	uint64_t workspace = 0;
};

/* An algorithm knows what it was chosen for. */
struct Algo {
	uint32_t magic, id;
	uint64_t problem, workspace;
	uint32_t align[5]; /* of A, B, C, D and what is kept beside */
};

static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits its opaque one");

struct Attribute {
	int id;
	void *at;
	size_t bytes;
};

/* NULL, with a sentence, for what is no such thing. */
template <typename T> T *behind(const void *opaque, const char *what)
{
	auto *p = static_cast<T *>(const_cast<void *>(opaque));

	if (p && p->magic == T().magic)
		return p;
	complain(CUBLAS_STATUS_INVALID_VALUE, "there is no such %s", what);
	return nullptr;
}

template <typename T> cublasStatus_t destroy(const void *opaque, const char *what)
{
	T *p = behind<T>(opaque, what);

	if (!p)
		return CUBLAS_STATUS_INVALID_VALUE;
	p->magic = 0;
	delete p;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(const std::vector<Attribute> &all, const char *what, int id, const void *value,
		size_t bytes)
{
	for (const Attribute &a : all) {
		if (a.id != id)
			continue;
		if (a.bytes != bytes)
			return complain(CUBLAS_STATUS_INVALID_VALUE,
					"attribute %d of a %s has %zu bytes, not %zu", id, what,
					a.bytes, bytes);
		memcpy(a.at, value, bytes);
		return CUBLAS_STATUS_SUCCESS;
	}
	return complain(CUBLAS_STATUS_NOT_SUPPORTED, "the double knows no attribute %d of a %s", id,
			what);
}

uint64_t mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x9e3779b97f4a7c15u ^ h >> 29;
}

/* What an algorithm depends on. */
uint64_t problem(const Product &p)
{
	const Layout *all[] = {&p.a, &p.b, &p.c, &p.d};
	uint64_t h = mix(mix(mix(1, uint64_t(p.desc.compute)), uint64_t(p.desc.trans_a)),
			uint64_t(p.desc.trans_b) << 32 | p.desc.epilogue);

	for (const Layout *l : all) {
		h = mix(mix(mix(h, uint64_t(l->type)), uint64_t(l->order)), uint64_t(l->batch));
		h = mix(mix(mix(h, l->rows), l->cols), uint64_t(l->ld));
	}
	return has_aux(p.desc.epilogue) ? mix(h, uint64_t(p.desc.aux_ld)) : h;
}

Product product(Desc &desc, Layout &a, Layout &b, Layout &c, Layout &d)
{
	Product p = {};

	p.desc = desc;
	p.a = a;
	p.b = b;
	p.c = c;
	p.d = d;
	return p;
}

/* What heuristics take a pointer to be a multiple of. */
uint32_t alignment(const void *p)
{
	uint32_t ret = 256;

	while (reinterpret_cast<uintptr_t>(p) % ret)
		ret /= 2;
	return ret;
}

/* "Must be 256B aligned (i.e. lowest 8 bits of address must be 0)": cuBLAS Library, User Guide, the
 * parameter `workspace` of cublasLtMatmul(),
 * https://docs.nvidia.com/cuda/cublas/index.html#cublasltmatmul */
const uint32_t WORKSPACE_ALIGN = 256;

/* Whether the algorithm was chosen for this, and finds what it needs. */
cublasStatus_t check_algo(const Algo *algo, const Product &p, size_t workspace_bytes)
{
	const void *all[] = {p.A, p.B, p.beta != 0 ? p.C : nullptr, p.D,
			has_aux(p.desc.epilogue) ? p.desc.aux : nullptr};

	if (algo->magic != ALGO)
		return complain(CUBLAS_STATUS_INVALID_VALUE, "there is no such algorithm");
	if (algo->problem != problem(p))
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"an algorithm was chosen for another product");
	if (algo->workspace > workspace_bytes)
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"an algorithm needs %llu bytes of workspace, but is given %zu",
				static_cast<unsigned long long>(algo->workspace), workspace_bytes);
	if (reinterpret_cast<uintptr_t>(p.workspace) % WORKSPACE_ALIGN)
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"a workspace is at %p, expected a multiple of %u", p.workspace,
				WORKSPACE_ALIGN);
	for (int i = 0; i < 5; i++)
		if (reinterpret_cast<uintptr_t>(all[i]) % algo->align[i])
			return complain(CUBLAS_STATUS_INVALID_VALUE,
					"%c is at %p, but the algorithm was promised multiples of "
					"%u bytes",
					"ABCDK"[i], all[i], algo -> align[i]);
	return CUBLAS_STATUS_SUCCESS;
}

/* Faults of a product; true: there is none. */
bool distort(Product *p, void **workspace, size_t *bytes, cudaStream_t *stream)
{
	if (twin::planted("a product's factors are swapped"))
		std::swap(p->A, p->B);
	if (twin::planted("a product's factor is off"))
		p->A = static_cast<const char *>(p->A) + 64;
	if (twin::planted("a product's factor is not aligned"))
		p->B = static_cast<const char *>(p->B) + 2;
	if (twin::planted("a product is written elsewhere"))
		p->D = static_cast<char *>(p->D) + 256;
	if (twin::planted("a product is added where it should not be"))
		p->beta = 1 - p->beta;
	if (twin::planted("a product has another factor"))
		p->alpha *= 2;
	if (*bytes && twin::planted("a product's workspace is too small"))
		*bytes = 0;
	if (*workspace && twin::planted("a product's workspace is not aligned"))
		*workspace = static_cast<char *>(*workspace) + 64;
	if (twin::known(*stream) && twin::planted("a product is on another stream"))
		*stream = twin::beside(*stream);
	return twin::planted("a product is missing");
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *ret)
{
	auto *h = new Handle;

	h->device = twin::device() + twin::planted("a handle of cuBLASLt is another device's");
	*ret = reinterpret_cast<cublasLtHandle_t>(h);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
	return destroy<Handle>(h, "handle");
}

size_t cublasLtGetVersion(void)
{
	return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
	return CUDART_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_SUCCESS         ? "success"
	       : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
	       : status == CUBLAS_STATUS_INVALID_VALUE ? "an invalid value"
						       : "a failure";
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
	return cublasLtGetStatusString(status);
}

cublasStatus_t cublasLtMatmulDescCreate(
		cublasLtMatmulDesc_t *ret, cublasComputeType_t compute, cudaDataType_t scale)
{
	auto *d = new Desc;

	d->compute = compute;
	d->scale = scale;
	*ret = reinterpret_cast<cublasLtMatmulDesc_t>(d);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
	return destroy<Desc>(d, "product");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
		cublasLtMatmulDescAttributes_t attr, const void *value, size_t bytes)
{
	Desc *d = behind<Desc>(desc, "product");
	const char *elsewhere;

	if (!d)
		return CUBLAS_STATUS_INVALID_VALUE;
	if ((attr == CUBLASLT_MATMUL_DESC_TRANSA &&
			    twin::planted("a product's transposition is not said")) ||
			(attr == CUBLASLT_MATMUL_DESC_EPILOGUE &&
					twin::planted("a product's epilogue is not said")))
		return CUBLAS_STATUS_SUCCESS;
	if (attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER &&
			twin::planted("a product's bias is elsewhere")) {
		elsewhere = *static_cast<const char *const *>(value) + 64;
		value = &elsewhere;
	}
	return set({{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &d->compute, sizeof(d->compute)},
				   {CUBLASLT_MATMUL_DESC_SCALE_TYPE, &d->scale, sizeof(d->scale)},
				   {CUBLASLT_MATMUL_DESC_POINTER_MODE, &d->pointer_mode,
						   sizeof(d->pointer_mode)},
				   {CUBLASLT_MATMUL_DESC_TRANSA, &d->trans_a, sizeof(d->trans_a)},
				   {CUBLASLT_MATMUL_DESC_TRANSB, &d->trans_b, sizeof(d->trans_b)},
				   {CUBLASLT_MATMUL_DESC_EPILOGUE, &d->epilogue,
						   sizeof(d->epilogue)},
				   {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->bias, sizeof(d->bias)},
				   {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &d->bias_stride,
						   sizeof(d->bias_stride)},
				   {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &d->aux,
						   sizeof(d->aux)},
				   {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d->aux_ld,
						   sizeof(d->aux_ld)},
				   {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &d->aux_type,
						   sizeof(d->aux_type)},
				   {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &d->bias_type,
						   sizeof(d->bias_type)}},
			"product", attr, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret, cudaDataType type,
		uint64_t rows, uint64_t cols, int64_t ld)
{
	auto *l = new Layout;

	l->type = type;
	l->rows = rows;
	l->cols = cols;
	l->ld = ld + twin::planted("a leading dimension is too large") -
		twin::planted("a leading dimension is too small");
	if (twin::planted("a matrix has rows and columns swapped"))
		std::swap(l->rows, l->cols);
	if (twin::planted("a matrix is of another type"))
		l->type = type == CUDA_R_32F ? CUDA_R_16BF : CUDA_R_32F;
	*ret = reinterpret_cast<cublasLtMatrixLayout_t>(l);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
	return destroy<Layout>(l, "layout");
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
		cublasLtMatrixLayoutAttribute_t attr, const void *value, size_t bytes)
{
	Layout *l = behind<Layout>(layout, "layout");

	if (!l)
		return CUBLAS_STATUS_INVALID_VALUE;
	return set({{CUBLASLT_MATRIX_LAYOUT_TYPE, &l->type, sizeof(l->type)},
				   {CUBLASLT_MATRIX_LAYOUT_ORDER, &l->order, sizeof(l->order)},
				   {CUBLASLT_MATRIX_LAYOUT_ROWS, &l->rows, sizeof(l->rows)},
				   {CUBLASLT_MATRIX_LAYOUT_COLS, &l->cols, sizeof(l->cols)},
				   {CUBLASLT_MATRIX_LAYOUT_LD, &l->ld, sizeof(l->ld)},
				   {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &l->batch,
						   sizeof(l->batch)},
				   {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &l->stride,
						   sizeof(l->stride)}},
			"layout", attr, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret)
{
	*ret = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
	return destroy<Preference>(p, "preference");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
		cublasLtMatmulPreferenceAttributes_t attr, const void *value, size_t bytes)
{
	Preference *p = behind<Preference>(pref, "preference");

	if (!p)
		return CUBLAS_STATUS_INVALID_VALUE;
	return set({{CUBLASLT_MATMUL_PREF_SEARCH_MODE, &p->mode, sizeof(p->mode)},
				   {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &p->reductions,
						   sizeof(p->reductions)},
				   {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p->workspace,
						   sizeof(p->workspace)},
				   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->align[0], 4},
				   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->align[1], 4},
				   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->align[2], 4},
				   {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->align[3], 4}},
			"preference", attr, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
		cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
		cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
		cublasLtMatmulHeuristicResult_t *ret)
{
	auto *h = behind<Handle>(handle, "handle");
	auto *y = behind<Desc>(desc, "product");
	auto *la = behind<Layout>(a, "layout"), *lb = behind<Layout>(b, "layout");
	auto *lc = behind<Layout>(c, "layout"), *ld = behind<Layout>(d, "layout");
	auto *x = reinterpret_cast<const Algo *>(algo);
	cublasStatus_t code;
	Product p;

	if (!h || !y || !la || !lb || !lc || !ld)
		return CUBLAS_STATUS_INVALID_VALUE;
	p = product(*y, *la, *lb, *lc, *ld);
	code = check(p);
	if (code != CUBLAS_STATUS_SUCCESS)
		return code;
	if (is_lacking(p))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (x->magic != ALGO || x->problem != problem(p))
		return CUBLAS_STATUS_INVALID_VALUE;
	*ret = {};
	ret->workspaceSize = x->workspace;
	ret->state = CUBLAS_STATUS_SUCCESS;
	ret->wavesCount = 1;
	return CUBLAS_STATUS_SUCCESS;
}

/* "cublasLtReductionScheme_t", cuBLAS Library User Guide: sums whose terms are shared among blocks
 * may be stored, or added up in place, in the output's type.  Ours are rounded once. */
static cublasStatus_t check_reductions(const Preference &pref, const Product &p)
{
	const uint32_t rounding =
			CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;

	if (p.d.type == CUDA_R_32F || !(pref.reductions & rounding))
		return CUBLAS_STATUS_SUCCESS;
	return complain(CUBLAS_STATUS_INVALID_VALUE,
			"a preference lets sums of a product be rounded to type %d on their way",
			int(p.d.type));
}

/* Two of them: one that likes a workspace, one that needs none. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
		cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
		cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int most,
		cublasLtMatmulHeuristicResult_t *ret, int *n)
{
	auto *h = behind<Handle>(handle, "handle");
	auto *pref = behind<Preference>(preference, "preference");
	auto *y = behind<Desc>(desc, "product");
	auto *la = behind<Layout>(a, "layout"), *lb = behind<Layout>(b, "layout");
	auto *lc = behind<Layout>(c, "layout"), *ld = behind<Layout>(d, "layout");
	cublasStatus_t code;
	Product p;

	*n = 0;
	if (!h || !y || !la || !lb || !lc || !ld || !pref || most < 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	p = product(*y, *la, *lb, *lc, *ld);
	code = check(p);
	if (code != CUBLAS_STATUS_SUCCESS)
		return code;
	code = check_reductions(*pref, p);
	if (code != CUBLAS_STATUS_SUCCESS)
		return code;
	if (twin::lacks("choices"))
		return CUBLAS_STATUS_INTERNAL_ERROR;
	twin::asked();
	if (is_lacking(p))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	for (uint32_t id = 0; id < 2 && *n < most; id++) {
		uint64_t need = id ? 0 : 1024 + p.n % 7 * 256;
		Algo algo = {ALGO, id, problem(p), need,
				{pref->align[0], pref->align[1], pref->align[2], pref->align[3],
						alignment(p.desc.aux)}};

		if (need > pref->workspace)
			continue;
		ret[*n] = {};
		memcpy(&ret[*n].algo, &algo, sizeof(algo));
		ret[*n].workspaceSize = need;
		ret[*n].state = CUBLAS_STATUS_SUCCESS;
		ret[*n].wavesCount = 1;
		++*n;
	}
	return CUBLAS_STATUS_SUCCESS;
}

/* FF_DOUBLE_SLOW_PRODUCT names an algorithm that takes its time; -1: all do. */
static void dally(uint32_t algorithm)
{
	const char *slow = getenv("FF_DOUBLE_SLOW_PRODUCT");

	if (slow && (atoll(slow) == algorithm || atoll(slow) < 0))
		usleep(20000);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
		const void *A, cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b,
		const void *beta, const void *C, cublasLtMatrixLayout_t c, void *D,
		cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, void *workspace,
		size_t workspace_bytes, cudaStream_t stream)
{
	twin::Call call("cublasLtMatmul");
	auto *h = behind<Handle>(handle, "handle");
	auto *y = behind<Desc>(desc, "product");
	auto *la = behind<Layout>(a, "layout"), *lb = behind<Layout>(b, "layout");
	auto *lc = behind<Layout>(c, "layout"), *ld = behind<Layout>(d, "layout");
	cublasStatus_t code;
	uint32_t id = 0;
	Product p;

	if (call.code != cudaSuccess)
		return CUBLAS_STATUS_EXECUTION_FAILED;
	if (!h || !y || !la || !lb || !lc || !ld || !alpha || !beta)
		return CUBLAS_STATUS_INVALID_VALUE;
	p = product(*y, *la, *lb, *lc, *ld);
	code = check(p);
	if (code != CUBLAS_STATUS_SUCCESS)
		return code;
	p.alpha = *static_cast<const float *>(alpha);
	p.beta = *static_cast<const float *>(beta);
	p.A = A;
	p.B = B;
	p.C = C;
	p.D = D;
	if (distort(&p, &workspace, &workspace_bytes, &stream))
		return CUBLAS_STATUS_SUCCESS;
	p.workspace = workspace;
	if (algo) {
		auto *x = reinterpret_cast<const Algo *>(algo);

		code = check_algo(x, p, workspace_bytes);
		p.workspace_bytes = x->workspace;
		id = x->id;
	}
	if (code != CUBLAS_STATUS_SUCCESS)
		return code;
	if ((has_bias(p.desc.epilogue) || sums_bias(p.desc.epilogue)) && !p.desc.bias)
		return complain(CUBLAS_STATUS_INVALID_VALUE, "an epilogue has no bias");
	if (has_aux(p.desc.epilogue) && !p.desc.aux)
		return complain(CUBLAS_STATUS_INVALID_VALUE, "an epilogue keeps nothing");
	/* "Thread Safety" and cublasLtCreate(), cuBLAS: a handle is of the device that was current
	 */
	if (h->device != twin::device())
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"a handle of device %d is used while %d is current", h->device,
				twin::device());
	if (twin::known(stream) && stream->device != h->device)
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"a handle of device %d works on a stream of device %d", h->device,
				stream->device);
	return twin::enqueue(stream, "a product",
			       [p, id] {
				       dally(id);
				       return run(p);
			       }) == cudaSuccess
			       ? CUBLAS_STATUS_SUCCESS
			       : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // extern "C"
