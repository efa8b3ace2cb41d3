/* The double of cuBLASLt: what is right, and planted faults.  SPDX-License-Identifier: Apache-2.0
 */
#include <cmath>

#include <cublasLt.h>

#include "checked.hpp"

#define M 5
#define N 4
#define K 3

/* D = A B, column by column; `ld` is A's leading dimension. */
struct Multiplication {
	cublasLtHandle_t handle;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t a, b, d;
	cublasLtMatmulPreference_t preference;
	cublasLtMatmulHeuristicResult_t result;
	cudaStream_t stream;
	float *A, *B, *D;
	void *workspace;
	int found;

	explicit Multiplication(int64_t ld, uint64_t most = 1 << 20)
	{
		ff_double_complaint();
		ff_double_seed(0);
		OK(cublasLtCreate(&handle));
		OK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
		OK(cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, M, K, ld));
		OK(cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, K, N, K));
		OK(cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, M, N, M));
		OK(cublasLtMatmulPreferenceCreate(&preference));
		OK(cublasLtMatmulPreferenceSetAttribute(preference,
				CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof(most)));
		OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		A = device_array(numbers(M * K, 1));
		B = device_array(numbers(K * N, 2));
		D = device_array(numbers(M * N, 0));
		OK(cudaMalloc(&workspace, 4096));
		found = 0;
	}
	~Multiplication()
	{
		ff_double_complaint();
		cublasLtMatmulPreferenceDestroy(preference);
		cublasLtMatrixLayoutDestroy(a);
		cublasLtMatrixLayoutDestroy(b);
		cublasLtMatrixLayoutDestroy(d);
		cublasLtMatmulDescDestroy(desc);
		cublasLtDestroy(handle);
		cudaStreamDestroy(stream);
		for (void *p : {static_cast<void *>(A), static_cast<void *>(B),
				     static_cast<void *>(D), workspace})
			cudaFree(p);
		ff_double_complaint();
	}
	cublasStatus_t choose()
	{
		return cublasLtMatmulAlgoGetHeuristic(
				handle, desc, a, b, d, d, preference, 1, &result, &found);
	}
	cublasStatus_t run(size_t bytes, const float *from)
	{
		const float one = 1, zero = 0;

		return cublasLtMatmul(handle, desc, &one, from, a, B, b, &zero, D, d, D, d,
				&result.algo, workspace, bytes, stream);
	}
};

START_TEST(product)
{
	Multiplication m(M);
	std::vector<float> a = numbers(M * K, 1), b = numbers(K * N, 2), d;

	OK(m.choose());
	ck_assert_uint_gt(m.result.workspaceSize, 0);
	OK(m.run(m.result.workspaceSize, m.A));
	OK(cudaStreamSynchronize(m.stream));
	d = host_array(m.D, M * N);
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			float sum = 0;

			for (int k = 0; k < K; k++)
				sum += a[size_t(i + k * M)] * b[size_t(k + j * K)];
			ck_assert_float_eq(d[size_t(i + j * M)], sum);
		}
}
END_TEST

/* A leading dimension that is too small is refused; one that is too large leaves the matrix. */
START_TEST(wrong_leading_dimension)
{
	{
		Multiplication m(M - 1);

		ck_assert_int_eq(m.choose(), CUBLAS_STATUS_INVALID_VALUE);
		expect("its leading dimension is 4");
	}
	Multiplication m(M + 1);

	OK(m.choose());
	OK(m.run(m.result.workspaceSize, m.A));
	ck_assert_int_eq(cudaStreamSynchronize(m.stream), cudaErrorIllegalAddress);
	expect("a product's A: 68 bytes");
}
END_TEST

START_TEST(product_promises)
{
	Multiplication m(M);

	OK(m.choose());
	ck_assert_int_eq(m.run(0, m.A), CUBLAS_STATUS_INVALID_VALUE);
	expect("bytes of workspace, but is given 0");
	ck_assert_int_eq(m.run(m.result.workspaceSize, m.A + 1), CUBLAS_STATUS_INVALID_VALUE);
	expect("was promised multiples of 256");
	OK(cublasLtMatrixLayoutSetAttribute(m.b, CUBLASLT_MATRIX_LAYOUT_LD, "\4\0\0\0\0\0\0", 8));
	ck_assert_int_eq(m.run(m.result.workspaceSize, m.A), CUBLAS_STATUS_INVALID_VALUE);
	expect("chosen for another product");
	OK(cublasLtMatrixLayoutSetAttribute(m.b, CUBLASLT_MATRIX_LAYOUT_LD, "\3\0\0\0\0\0\0", 8));
	OK(m.choose());
	m.workspace = static_cast<char *>(m.workspace) + 64;
	ck_assert_int_eq(m.run(m.result.workspaceSize, m.A), CUBLAS_STATUS_INVALID_VALUE);
	expect("expected a multiple of 256");
	m.workspace = static_cast<char *>(m.workspace) - 64;
	OK(cudaFree(m.workspace));
	OK(cudaMalloc(&m.workspace, 64));
	OK(m.run(m.result.workspaceSize, m.A));
	ck_assert_int_eq(cudaStreamSynchronize(m.stream), cudaErrorIllegalAddress);
	expect("a product's workspace");
}
END_TEST

static void set_epilogue(Multiplication &m, cublasLtEpilogue_t e, const void *bias)
{
	OK(cublasLtMatmulDescSetAttribute(m.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, sizeof(e)));
	OK(cublasLtMatmulDescSetAttribute(
			m.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
}

/* What goes on behind a product: a bias a row and a relu; sums of what was multiplied. */
/* Whose sums may be rounded on their way. */
START_TEST(reductions)
{
	const uint32_t once = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	const int32_t type = CUDA_R_16BF;
	Multiplication m(M);

	OK(m.choose());
	for (cublasLtMatrixLayout_t l : {m.a, m.b, m.d})
		OK(cublasLtMatrixLayoutSetAttribute(
				l, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof(type)));
	ck_assert_int_eq(m.choose(), CUBLAS_STATUS_INVALID_VALUE);
	expect("be rounded to type");
	OK(cublasLtMatmulPreferenceSetAttribute(m.preference,
			CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &once, sizeof(once)));
	OK(m.choose());
}
END_TEST

START_TEST(epilogues)
{
	Multiplication m(M), plain(M);
	float *bias = device_array({-1000, 0, -150, -100, 3}),
	      *sums = device_array({NAN, NAN, NAN, NAN});
	std::vector<float> own = host_array(bias, M), b = host_array(m.B, K * N), d, before, sum;
	int cut = 0;

	OK(plain.choose());
	OK(plain.run(plain.result.workspaceSize, plain.A));
	OK(cudaStreamSynchronize(plain.stream));
	before = host_array(plain.D, M * N);
	OK(m.choose());
	set_epilogue(m, CUBLASLT_EPILOGUE_RELU_BIAS, bias);
	ck_assert_int_eq(m.run(m.result.workspaceSize, m.A), CUBLAS_STATUS_INVALID_VALUE);
	expect("chosen for another product");
	OK(m.choose());
	OK(m.run(m.result.workspaceSize, m.A));
	OK(cudaStreamSynchronize(m.stream));
	d = host_array(m.D, M * N);
	for (size_t i = 0; i < M * N; i++) {
		float x = before[i] + own[i % M];

		ck_assert_float_eq(d[i], x > 0 ? x : 0);
		cut += x < 0;
	}
	ck_assert_int_gt(cut, 0);
	ck_assert_int_lt(cut, M * N);
	set_epilogue(m, CUBLASLT_EPILOGUE_BGRADB, nullptr);
	OK(m.choose());
	ck_assert_int_eq(m.run(m.result.workspaceSize, m.A), CUBLAS_STATUS_INVALID_VALUE);
	expect("an epilogue has no bias");
	set_epilogue(m, CUBLASLT_EPILOGUE_BGRADB, sums);
	OK(m.run(m.result.workspaceSize, m.A));
	OK(cudaStreamSynchronize(m.stream));
	sum = host_array(sums, N);
	for (size_t j = 0; j < N; j++)
		ck_assert_float_eq(sum[j], b[j * K] + b[j * K + 1] + b[j * K + 2]);
	set_epilogue(m, CUBLASLT_EPILOGUE_BGRADB, sums + 1);
	OK(m.run(m.result.workspaceSize, m.A));
	ck_assert_int_eq(cudaStreamSynchronize(m.stream), cudaErrorIllegalAddress);
	expect("a product's bias");
	cudaFree(bias);
	cudaFree(sums);
}
END_TEST

/* ---- gelu ---- */

static void set_kept(Multiplication &m, cublasLtEpilogue_t e, int64_t ld, const float *kept)
{
	set_epilogue(m, e, nullptr);
	OK(cublasLtMatmulDescSetAttribute(
			m.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &ld, sizeof(ld)));
	OK(cublasLtMatmulDescSetAttribute(
			m.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &kept, sizeof(kept)));
}

/* As it is defined, and its derivative as it follows from that by differences. */
static double gelu(double x)
{
	return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
	const double h = 1e-5;

	return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

/* What a product's gelu is of is kept, apart as its leading dimension says; by the derivative at
 * what was kept another product is multiplied. */
START_TEST(gelu_epilogues)
{
	const int64_t apart = 8;
	Multiplication m(M), plain(M);
	std::vector<float> at(apart * N), before, d, found;
	float *kept;

	for (size_t i = 0; i < at.size(); i++)
		at[i] = -6 + 12 * float(i) / float(at.size() - 1);
	kept = device_array(at);
	OK(plain.choose());
	OK(plain.run(plain.result.workspaceSize, plain.A));
	OK(cudaStreamSynchronize(plain.stream));
	before = host_array(plain.D, M * N);
	set_kept(m, CUBLASLT_EPILOGUE_DGELU, apart, kept);
	OK(m.choose());
	OK(m.run(m.result.workspaceSize, m.A));
	OK(cudaStreamSynchronize(m.stream));
	d = host_array(m.D, M * N);
	found = host_array(kept, at.size());
	for (size_t j = 0; j < N; j++)
		for (size_t i = 0; i < M; i++) {
			double x = double(before[i + j * M]);

			ck_assert_double_eq_tol(double(d[i + j * M]),
					x * gelu_slope(double(at[i + j * apart])), 1e-6 * fabs(x));
		}
	ck_assert(found == at);
	set_kept(m, CUBLASLT_EPILOGUE_GELU_AUX, apart, kept);
	OK(m.choose());
	OK(m.run(m.result.workspaceSize, m.A));
	OK(cudaStreamSynchronize(m.stream));
	d = host_array(m.D, M * N);
	found = host_array(kept, at.size());
	for (size_t i = 0; i < at.size(); i++)
		ck_assert_float_eq(found[i],
				i % apart < M ? before[i % apart + i / apart * M] : at[i]);
	for (size_t i = 0; i < M * N; i++)
		ck_assert_double_eq_tol(double(d[i]), gelu(double(before[i])),
				1e-6 * fabs(double(before[i])));
	cudaFree(kept);
}
END_TEST

/* A leading dimension that is no multiple of 8, memory that ends too early, is the product's own,
 * or was not told. */
START_TEST(wrong_kept)
{
	Multiplication m(M);
	float *kept = device_array(std::vector<float>(8 * N - 8, 1));

	set_kept(m, CUBLASLT_EPILOGUE_DGELU, M, kept);
	ck_assert_int_eq(m.choose(), CUBLAS_STATUS_INVALID_VALUE);
	expect("has leading dimension 5");
	set_kept(m, CUBLASLT_EPILOGUE_DGELU, 8, nullptr);
	OK(m.choose());
	ck_assert_int_eq(m.run(m.result.workspaceSize, m.A), CUBLAS_STATUS_INVALID_VALUE);
	expect("an epilogue keeps nothing");
	set_kept(m, CUBLASLT_EPILOGUE_DGELU, 8, kept);
	OK(m.run(m.result.workspaceSize, m.A));
	ck_assert_int_eq(cudaStreamSynchronize(m.stream), cudaErrorIllegalAddress);
	expect("what a product keeps");
	cudaFree(kept);
}
END_TEST

static Suite *suite()
{
	Suite *s = suite_create("products");
	TCase *c = tcase_create("products");

	tcase_set_timeout(c, 0);
	tcase_add_test(c, product);
	tcase_add_test(c, wrong_leading_dimension);
	tcase_add_test(c, product_promises);
	tcase_add_test(c, reductions);
	tcase_add_test(c, epilogues);
	tcase_add_test(c, gelu_epilogues);
	tcase_add_test(c, wrong_kept);
	suite_add_tcase(s, c);
	return s;
}

int main()
{
	return ff_check_main(suite());
}
