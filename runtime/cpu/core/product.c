/* Products of two matrices by oneDNN's matmul.  SPDX-License-Identifier: Apache-2.0 */
#include "product.h"

#include <string.h>

#include "real.h"

struct described {
	dnnl_memory_desc_t a, b, c, bias;
	dnnl_primitive_desc_t pd;
};

static int describe_matrix(const struct ff_kernel *k, enum ff_dtype type, int64_t rows,
		int64_t columns, bool transposed, dnnl_memory_desc_t *ret, struct ff_error *err)
{
	dnnl_dims_t extent = {rows, columns}, stride = {columns, 1};

	if (transposed) {
		stride[0] = 1;
		stride[1] = rows;
	}
	return ff_dnnl_strided(k, type, 2, extent, stride, ret, err);
}

/* B as it lies, or (`any`) as oneDNN likes it. */
static int describe(const struct ff_kernel *k, const struct ff_product *p, bool any,
		struct described *d, struct ff_error *err)
{
	dnnl_dims_t extent = {p->inner, p->columns};
	dnnl_memory_desc_t b;
	dnnl_matmul_desc_t matmul;
	int code = describe_matrix(k, p->type, p->rows, p->inner, p->a_transposed, &d->a, err);

	if (code == FF_OK)
		code = describe_matrix(
				k, p->type, p->inner, p->columns, p->b_transposed, &d->b, err);
	b = d->b;
	if (code == FF_OK && any)
		code = ff_dnnl_any(k, p->type, 2, extent, &b, err);
	if (code == FF_OK)
		code = describe_matrix(k, p->sink, p->rows, p->columns, false, &d->c, err);
	if (code == FF_OK)
		code = describe_matrix(k, p->type, 1, p->columns, false, &d->bias, err);
	if (code == FF_OK)
		code = ff_dnnl_check(dnnl_matmul_desc_init(&matmul, &d->a, &b,
						     p->has_bias ? &d->bias : NULL, &d->c),
				k, "describe a matrix product", err);
	return code < 0 ? code : ff_dnnl_describe(k, &matmul, NULL, &d->pd, err);
}

static int create(struct ff_kernel *k, const struct ff_product *p, const struct described *d,
		const dnnl_memory_desc_t *b, struct ff_call **ret, struct ff_error *err)
{
	const struct ff_call_arg arg[] = {{DNNL_ARG_SRC, &d->a}, {DNNL_ARG_WEIGHTS, b},
			{DNNL_ARG_DST, &d->c}, {DNNL_ARG_BIAS, &d->bias}};

	return ff_call_create(k, d->pd, arg, p->has_bias ? 4 : 3, ret, err);
}

int ff_product_prepare(struct ff_kernel *k, const struct ff_product *p, struct ff_call **ret,
		struct ff_error *err)
{
	struct described d = {.pd = NULL};
	int code = describe(k, p, false, &d, err);

	if (code == FF_OK)
		code = create(k, p, &d, &d.b, ret, err);
	dnnl_primitive_desc_destroy(d.pd);
	return code;
}

int ff_product_prepare_packed(struct ff_kernel *k, const struct ff_product *p,
		struct ff_call **pack, int64_t *packed_bytes, struct ff_call **ret,
		struct ff_error *err)
{
	struct described d = {.pd = NULL};
	const dnnl_memory_desc_t *wanted;
	int code = describe(k, p, true, &d, err);

	*pack = NULL;
	*packed_bytes = 0;
	if (code < 0)
		return code;
	wanted = dnnl_primitive_desc_query_md(d.pd, dnnl_query_weights_md, 0);
	if (!ff_dnnl_same(wanted, &d.b)) {
		*packed_bytes = ff_dnnl_bytes(wanted);
		code = ff_call_reorder(k, &d.b, wanted, pack, err);
	}
	if (code == FF_OK)
		code = create(k, p, &d, wanted, ret, err);
	dnnl_primitive_desc_destroy(d.pd);
	return code;
}

FF_REAL_LOOP void sum_rows(enum ff_dtype type, int64_t rows, int64_t columns,
		const void *restrict x, float *restrict sum)
{
	memset(sum, 0, (size_t)columns * sizeof(*sum));
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			sum[j] += ff_real_get(type, x, i * columns + j);
}

void ff_column_sums(enum ff_dtype type, int64_t rows, int64_t columns, const void *x, float *sum)
{
	FF_REAL_CALL(type, sum_rows, rows, columns, x, sum);
}
