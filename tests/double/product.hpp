/* Products of matrices, as cuBLASLt is told of them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_DOUBLE_PRODUCT_HPP
#define FF_DOUBLE_PRODUCT_HPP

#include <cstddef>
#include <cstdint>
#include <cublasLt.h>

namespace lt
{

/* What stands behind the opaque handles; `magic` says which is which. */
enum Magic : uint32_t { HANDLE = 0xb1a50001, DESC, LAYOUT, PREFERENCE, ALGO };

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

/* What an epilogue adds, sums, does last, writes beside, and multiplies by: gelu's derivative. */
bool has_bias(uint32_t epilogue);
bool sums_bias(uint32_t epilogue);
bool activates(uint32_t epilogue);
bool keeps(uint32_t epilogue);
bool derives(uint32_t epilogue);
/* Whether there is something beside D, written or read. */
bool has_aux(uint32_t epilogue);

size_t size_of(cudaDataType_t type); /* 0: none that is known */
/* supported.cpp: says what is wrong; returns `code`. */
cublasStatus_t complain(cublasStatus_t code, const char *format, ...)
		__attribute__((format(printf, 2, 3)));
/* Whether its shapes, types and orders are such as there are; its extents follow. */
cublasStatus_t check(Product &p);
/* Whether the double was told to lack it. */
bool is_lacking(const Product &p);
/* product.cpp: computes it, if its memory is there. */
cudaError_t run(const Product &p);

} // namespace lt

#endif
