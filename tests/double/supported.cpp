/* Which products cuBLASLt has.  SPDX-License-Identifier: Apache-2.0 */
#include <cstdarg>
#include <cstdio>

#include "inside.hpp"
#include "product.hpp"

namespace lt
{

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

static cublasStatus_t check_layout(const Layout &l, const char *name)
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

bool is_lacking(const Product &p)
{
	return (has_bias(p.desc.epilogue) && twin::lacks("bias")) ||
	       (sums_bias(p.desc.epilogue) && twin::lacks("bias-sums")) ||
	       (activates(p.desc.epilogue) && twin::lacks("activation")) ||
	       (keeps(p.desc.epilogue) && twin::lacks("keep")) ||
	       (derives(p.desc.epilogue) && twin::lacks("slope"));
}

static cublasStatus_t check_epilogue(const Product &p)
{
	uint32_t e = p.desc.epilogue;

	if (e != CUBLASLT_EPILOGUE_DEFAULT && e != CUBLASLT_EPILOGUE_RELU &&
			e != CUBLASLT_EPILOGUE_GELU && !has_bias(e) && !sums_bias(e) && !has_aux(e))
		return complain(CUBLAS_STATUS_NOT_SUPPORTED, "the double has no epilogue %u", e);
	if (has_aux(e) && (p.d.order != CUBLASLT_ORDER_COL || p.d.batch != 1 || p.desc.aux_ld % 8 ||
					  uint64_t(p.desc.aux_ld) < p.d.rows))
		return complain(CUBLAS_STATUS_INVALID_VALUE,
				"what is kept of %llu rows has leading dimension %lld",
				static_cast<unsigned long long>(p.d.rows),
				static_cast<long long>(p.desc.aux_ld));
	if (has_aux(e) && p.desc.aux_type != -1 && p.desc.aux_type != int32_t(p.d.type))
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

} // namespace lt
