/* Products of matrices, in plain loops.  SPDX-License-Identifier: Apache-2.0 */
#include "product.hpp"

#include <cmath>
#include <cstring>
#include <vector>

#include "elements.hpp"
#include "inside.hpp"

namespace lt
{

size_t size_of(cudaDataType_t type)
{
	return type == CUDA_R_16BF ? 2 : type == CUDA_R_32F ? 4 : 0;
}

bool has_bias(uint32_t epilogue)
{
	return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
	       epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
	       epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool keeps(uint32_t epilogue)
{
	return epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
	       epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool derives(uint32_t epilogue)
{
	return epilogue == CUBLASLT_EPILOGUE_DGELU;
}

bool has_aux(uint32_t epilogue)
{
	return keeps(epilogue) || derives(epilogue);
}

bool activates(uint32_t epilogue)
{
	return epilogue & (CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU);
}

bool sums_bias(uint32_t epilogue)
{
	return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

namespace
{

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

/* What gelu's derivative is at x, by the chain rule: gelu is x (1 + tanh(u)) / 2. */
float slope(float x)
{
	float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));

	return 0.5f * (1 + t) +
	       0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
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
			if (derives(p.desc.epilogue))
				x *= slope(twin::get(bf16, p.desc.aux,
						int64_t(i) + int64_t(j) * p.desc.aux_ld));
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

} // namespace

cudaError_t run(const Product &p)
{
	uint64_t a = extent(p.a) * size_of(p.a.type), b = extent(p.b) * size_of(p.b.type);
	uint64_t d = extent(p.d) * size_of(p.d.type), c = extent(p.c) * size_of(p.c.type);
	bool bias = has_bias(p.desc.epilogue) || sums_bias(p.desc.epilogue);
	uint64_t kept = has_aux(p.desc.epilogue) ? ((p.n - 1) * uint64_t(p.desc.aux_ld) + p.m) *
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

} // namespace lt
