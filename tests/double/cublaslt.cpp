/* cuBLASLt: products of matrices, float32 or bfloat16, summed in float32.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include <cublasLt.h>

#include "elements.hpp"
#include "inside.hpp"

namespace
{

/* What stands behind the opaque handles; `magic` says which is which. */
enum Magic : uint32_t { HANDLE = 0xb1a50001, DESC, LAYOUT, PREFERENCE, ALGO };

struct Handle {
	uint32_t magic = HANDLE;
	int device;
};

struct Desc {
	uint32_t magic = DESC;
	cublasComputeType_t compute;
	cudaDataType_t scale;
	int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
	int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N, bias_type = -1;
	uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	void *bias = nullptr;
	int64_t bias_stride = 0;
	void *aux = nullptr;
	int64_t aux_ld = 0;
	int32_t aux_type = -1;
};

struct Layout {
	uint32_t magic = LAYOUT;
	cudaDataType_t type;
	int32_t order = CUBLASLT_ORDER_COL, batch = 1;
	uint64_t rows, cols;
	int64_t ld, stride = 0;
};

struct Preference {
	uint32_t magic = PREFERENCE;
	uint32_t mode = 0, align[4] = {256, 256, 256, 256};
	uint64_t workspace = 0;
};

/* An algorithm knows what it was chosen for. */
struct Algo {
	uint32_t magic, id;
	uint64_t problem, workspace;
	uint32_t align[5]; /* of A, B, C, D and what is kept */
};

static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits its opaque one");

struct Attribute {
	int id;
	void *at;
	size_t bytes;
};

/* One product: op(a) is m x k, op(b) k x n. */
struct Product {
	Desc desc;
	Layout a, b, c, d;
	uint64_t m, n, k;
	float alpha, beta;
	const void *A, *B, *C;
	void *D, *workspace;
	size_t workspace_bytes;
};

cublasStatus_t complain(cublasStatus_t code, const char *format, ...)
		__attribute__((format(printf, 2, 3)));

cublasStatus_t complain(cublasStatus_t code, const char *format, ...)
{
	char text[300];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	twin::complain(cudaSuccess, "cuBLASLt: %s", text);
	return code;
}

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

size_t size_of(cudaDataType_t type)
{
	return type == CUDA_R_16BF ? 2 : type == CUDA_R_32F ? 4 : 0;
}

/* Elements from the first to behind the last. */
uint64_t extent(const Layout &l)
{
	uint64_t lines = l.order == CUBLASLT_ORDER_COL ? l.cols : l.rows;
	uint64_t line = l.order == CUBLASLT_ORDER_COL ? l.rows : l.cols;

	return uint64_t(l.batch - 1) * uint64_t(l.stride) + (lines - 1) * uint64_t(l.ld) + line;
}

int64_t index(const Layout &l, int64_t row, int64_t col)
{
	return l.order == CUBLASLT_ORDER_COL ? row + col * l.ld : row * l.ld + col;
}

cublasStatus_t check_layout(const Layout &l, const char *name)
{
	uint64_t line = l.order == CUBLASLT_ORDER_COL ? l.rows : l.cols;

	if (!size_of(l.type))
		return complain(CUBLAS_STATUS_NOT_SUPPORTED, "%s has type %d", name, int(l.type));
	if (l.order != CUBLASLT_ORDER_COL && l.order != CUBLASLT_ORDER_ROW)
		return complain(CUBLAS_STATUS_NOT_SUPPORTED, "%s has order %d", name, l.order);
	if (!l.rows || !l.cols || l.ld < 0 || uint64_t(l.ld) < line || l.batch < 1)
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"%s is %llu x %llu, but its leading dimension is %lld", name,
				static_cast<unsigned long long>(l.rows),
				static_cast<unsigned long long>(l.cols),
				static_cast<long long>(l.ld));
	return CUBLAS_STATUS_SUCCESS;
}

bool has_bias(uint32_t epilogue)
{
	return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
	       epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
	       epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

/* Writes what its activation is of, too. */
bool keeps(uint32_t epilogue)
{
	return epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
	       epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool activates(uint32_t epilogue)
{
	return epilogue & (CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU);
}

bool sums_bias(uint32_t epilogue)
{
	return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

bool is_lacking(const Product &p)
{
	return (has_bias(p.desc.epilogue) && twin::lacks("bias")) ||
	       (sums_bias(p.desc.epilogue) && twin::lacks("bias-sums")) ||
	       (activates(p.desc.epilogue) && twin::lacks("activation")) ||
	       (keeps(p.desc.epilogue) && twin::lacks("keep"));
}

cublasStatus_t check_epilogue(const Product &p)
{
	uint32_t e = p.desc.epilogue;

	if (e != CUBLASLT_EPILOGUE_DEFAULT && e != CUBLASLT_EPILOGUE_RELU &&
			e != CUBLASLT_EPILOGUE_GELU && !has_bias(e) && !sums_bias(e) && !keeps(e))
		return complain(CUBLAS_STATUS_NOT_SUPPORTED, "the double has no epilogue %u", e);
	if (keeps(e) && (p.d.order != CUBLASLT_ORDER_COL || p.d.batch != 1 || p.desc.aux_ld % 8 ||
					uint64_t(p.desc.aux_ld) < p.d.rows))
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"what is kept of %llu rows has leading dimension %lld",
				static_cast<unsigned long long>(p.d.rows),
				static_cast<long long>(p.desc.aux_ld));
	if (keeps(e) && p.desc.aux_type != -1 && p.desc.aux_type != int32_t(p.d.type))
		return complain(CUBLAS_STATUS_NOT_SUPPORTED, "what is kept is of type %d",
				p.desc.aux_type);
	if ((has_bias(e) || sums_bias(e)) && p.d.order != CUBLASLT_ORDER_COL)
		return complain(CUBLAS_STATUS_NOT_SUPPORTED, "a bias of a row-major product");
	if (has_bias(e) && p.desc.bias_type != -1 && p.desc.bias_type != int32_t(p.d.type))
		return complain(CUBLAS_STATUS_NOT_SUPPORTED,
				"a bias of type %d for a product of %d", p.desc.bias_type,
				int(p.d.type));
	return CUBLAS_STATUS_SUCCESS;
}

/* Shapes, types, orders. */
cublasStatus_t check(Product &p)
{
	const Layout *all[] = {&p.a, &p.b, &p.c, &p.d};
	const char *names[] = {"A", "B", "C", "D"};
	uint64_t inner;

	for (int i = 0; i < 4; i++) {
		cublasStatus_t code = check_layout(*all[i], names[i]);

		if (code != CUBLAS_STATUS_SUCCESS)
			return code;
	}
	p.m = p.desc.trans_a == CUBLAS_OP_N ? p.a.rows : p.a.cols;
	p.k = p.desc.trans_a == CUBLAS_OP_N ? p.a.cols : p.a.rows;
	inner = p.desc.trans_b == CUBLAS_OP_N ? p.b.rows : p.b.cols;
	p.n = p.desc.trans_b == CUBLAS_OP_N ? p.b.cols : p.b.rows;
	if (inner != p.k || p.d.rows != p.m || p.d.cols != p.n || p.c.rows != p.m ||
			p.c.cols != p.n)
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"shapes: op(A) %llu x %llu, op(B) %llu x %llu, D %llu x %llu",
				static_cast<unsigned long long>(p.m),
				static_cast<unsigned long long>(p.k),
				static_cast<unsigned long long>(inner),
				static_cast<unsigned long long>(p.n),
				static_cast<unsigned long long>(p.d.rows),
				static_cast<unsigned long long>(p.d.cols));
	if (p.a.batch != p.d.batch || p.b.batch != p.d.batch || p.c.batch != p.d.batch)
		return complain(CUBLAS_STATUS_INVALID_VALUE, "batches of %d, %d, %d and %d",
				p.a.batch, p.b.batch, p.c.batch, p.d.batch);
	if (p.a.type != p.b.type || p.c.type != p.d.type ||
			(p.a.type == CUDA_R_32F && p.d.type != CUDA_R_32F))
		return complain(CUBLAS_STATUS_NOT_SUPPORTED, "types %d, %d to %d, %d",
				int(p.a.type), int(p.b.type), int(p.c.type), int(p.d.type));
	if ((p.desc.compute != CUBLAS_COMPUTE_32F &&
			    p.desc.compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
			    p.desc.compute != CUBLAS_COMPUTE_32F_FAST_TF32) ||
			p.desc.scale != CUDA_R_32F ||
			p.desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST)
		return complain(CUBLAS_STATUS_NOT_SUPPORTED,
				"compute type %d, scale type %d, pointer mode %d",
				int(p.desc.compute), int(p.desc.scale), p.desc.pointer_mode);
	return check_epilogue(p);
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
	return keeps(p.desc.epilogue) ? mix(h, uint64_t(p.desc.aux_ld)) : h;
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

/* op(x) of one batch, column-major, as float32. */
std::vector<float> gather(const Product &p, const Layout &l, const void *array, bool transposed,
		uint64_t rows, uint64_t cols, int64_t batch)
{
	std::vector<float> ret(rows * cols);
	bool bf16 = l.type == CUDA_R_16BF, tf32 = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;

	for (uint64_t j = 0; j < cols; j++)
		for (uint64_t i = 0; i < rows; i++) {
			int64_t at = transposed ? index(l, int64_t(j), int64_t(i))
						: index(l, int64_t(i), int64_t(j));
			float x = twin::get(bf16, array, batch * l.stride + at);

			ret[i + j * rows] = tf32 ? twin::to_tf32(x) : x;
		}
	return ret;
}

float activate(uint32_t epilogue, float x)
{
	if (epilogue & CUBLASLT_EPILOGUE_RELU)
		return x > 0 ? x : x < 0 ? 0 : x; /* a NaN stays one */
	if (epilogue & CUBLASLT_EPILOGUE_GELU)
		return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
	return x;
}

/* Sums of the rows of op(A), or of the columns of op(B). */
void sum_bias(const Product &p, const std::vector<float> &a, const std::vector<float> &b,
		int64_t batch)
{
	bool of_a = p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA;
	uint64_t n = of_a ? p.m : p.n;

	for (uint64_t i = 0; i < n; i++) {
		float sum = 0;

		for (uint64_t l = 0; l < p.k; l++)
			sum += of_a ? a[i + l * p.m] : b[l + i * p.k];
		twin::put((p.desc.bias_type == -1 ? p.d.type : p.desc.bias_type) == CUDA_R_16BF,
				p.desc.bias, batch * p.desc.bias_stride + int64_t(i), sum);
	}
}

void multiply(const Product &p, int64_t batch)
{
	std::vector<float> a = gather(p, p.a, p.A, p.desc.trans_a != CUBLAS_OP_N, p.m, p.k, batch);
	std::vector<float> b = gather(p, p.b, p.B, p.desc.trans_b != CUBLAS_OP_N, p.k, p.n, batch);
	std::vector<float> sum(p.m);
	bool bf16 = p.d.type == CUDA_R_16BF;

	for (uint64_t j = 0; j < p.n; j++) {
		for (uint64_t i = 0; i < p.m; i++)
			sum[i] = 0;
		for (uint64_t l = 0; l < p.k; l++)
			for (uint64_t i = 0; i < p.m; i++)
				sum[i] += a[i + l * p.m] * b[l + j * p.k];
		for (uint64_t i = 0; i < p.m; i++) {
			int64_t at = batch * p.d.stride + index(p.d, int64_t(i), int64_t(j));
			float x = p.alpha * sum[i];

			if (p.beta != 0)
				x += p.beta *
				     twin::get(bf16, p.C,
						     batch * p.c.stride +
								     index(p.c, int64_t(i),
										     int64_t(j)));
			if (has_bias(p.desc.epilogue))
				x += twin::get(bf16, p.desc.bias,
						batch * p.desc.bias_stride + int64_t(i));
			if (keeps(p.desc.epilogue))
				twin::put(bf16, p.desc.aux, int64_t(i) + int64_t(j) * p.desc.aux_ld,
						x);
			twin::put(bf16, p.D, at, activate(p.desc.epilogue, x));
		}
	}
	if (sums_bias(p.desc.epilogue))
		sum_bias(p, a, b, batch);
}

uint64_t bias_length(const Product &p)
{
	return uint64_t(p.d.batch - 1) * uint64_t(p.desc.bias_stride) +
	       (p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m);
}

bool overlap(const void *a, uint64_t n_a, const void *b, uint64_t n_b)
{
	auto *x = static_cast<const char *>(a), *y = static_cast<const char *>(b);

	return x < y + n_b && y < x + n_a;
}

cudaError_t run(const Product &p)
{
	uint64_t a = extent(p.a) * size_of(p.a.type), b = extent(p.b) * size_of(p.b.type);
	uint64_t d = extent(p.d) * size_of(p.d.type), c = extent(p.c) * size_of(p.c.type);
	bool bias = has_bias(p.desc.epilogue) || sums_bias(p.desc.epilogue);
	uint64_t kept = keeps(p.desc.epilogue) ? ((p.n - 1) * uint64_t(p.desc.aux_ld) + p.m) *
								 size_of(p.d.type)
					       : 0;

	if (!twin::reachable("a product's A", p.A, a) ||
			!twin::reachable("a product's B", p.B, b) ||
			!twin::reachable("a product's D", p.D, d) ||
			(p.beta != 0 && !twin::reachable("a product's C", p.C, c)) ||
			(bias && !twin::reachable("a product's bias", p.desc.bias,
						 bias_length(p) * size_of(p.d.type))) ||
			(kept && !twin::reachable("what a product keeps", p.desc.aux, kept)) ||
			!twin::reachable("a product's workspace", p.workspace, p.workspace_bytes))
		return cudaErrorIllegalAddress;
	if (overlap(p.A, a, p.D, d) || overlap(p.B, b, p.D, d) ||
			(kept && (overlap(p.A, a, p.desc.aux, kept) ||
						 overlap(p.B, b, p.desc.aux, kept) ||
						 overlap(p.D, d, p.desc.aux, kept))) ||
			(p.workspace_bytes &&
					(overlap(p.workspace, p.workspace_bytes, p.A, a) ||
							overlap(p.workspace, p.workspace_bytes, p.B,
									b) ||
							overlap(p.workspace, p.workspace_bytes, p.D,
									d)))) {
		twin::complain(cudaErrorLaunchFailure,
				"cuBLASLt: a product's memory overlaps what it is of");
		return cudaErrorLaunchFailure;
	}
	if (p.workspace_bytes)
		memset(p.workspace, 0xff, p.workspace_bytes);
	for (int64_t i = 0; i < p.d.batch; i++)
		multiply(p, i);
	return cudaSuccess;
}

/* What heuristics take a pointer to be a multiple of. */
uint32_t alignment(const void *p)
{
	uint32_t ret = 256;

	while (reinterpret_cast<uintptr_t>(p) % ret)
		ret /= 2;
	return ret;
}

/* Whether the algorithm was chosen for this, and finds what it needs. */
cublasStatus_t check_algo(const Algo *algo, const Product &p, size_t workspace_bytes)
{
	const void *all[] = {p.A, p.B, p.beta != 0 ? p.C : nullptr, p.D,
			keeps(p.desc.epilogue) ? p.desc.aux : nullptr};

	if (algo->magic != ALGO)
		return complain(CUBLAS_STATUS_INVALID_VALUE, "there is no such algorithm");
	if (algo->problem != problem(p))
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"an algorithm was chosen for another product");
	if (algo->workspace > workspace_bytes)
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"an algorithm needs %llu bytes of workspace, but is given %zu",
				static_cast<unsigned long long>(algo->workspace), workspace_bytes);
	for (int i = 0; i < 5; i++)
		if (reinterpret_cast<uintptr_t>(all[i]) % algo->align[i])
			return complain(CUBLAS_STATUS_INVALID_VALUE,
					"%c is at %p, but the algorithm was promised multiples of "
					"%u bytes",
					"ABCDK"[i], all[i], algo -> align[i]);
	return CUBLAS_STATUS_SUCCESS;
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *ret)
{
	auto *h = new Handle;

	h->device = twin::device();
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

	if (!d)
		return CUBLAS_STATUS_INVALID_VALUE;
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
	l->ld = ld;
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
	p.workspace = workspace;
	if (algo) {
		auto *x = reinterpret_cast<const Algo *>(algo);

		code = check_algo(x, p, workspace_bytes);
		p.workspace_bytes = x->workspace;
	}
	if (code != CUBLAS_STATUS_SUCCESS)
		return code;
	if ((has_bias(p.desc.epilogue) || sums_bias(p.desc.epilogue)) && !p.desc.bias)
		return complain(CUBLAS_STATUS_INVALID_VALUE, "an epilogue has no bias");
	if (keeps(p.desc.epilogue) && !p.desc.aux)
		return complain(CUBLAS_STATUS_INVALID_VALUE, "an epilogue keeps nothing");
	if (twin::known(stream) && stream->device != h->device)
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"a handle of device %d works on a stream of device %d", h->device,
				stream->device);
	return twin::enqueue(stream, "a product", [p] { return run(p); }) == cudaSuccess
			       ? CUBLAS_STATUS_SUCCESS
			       : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // extern "C"
