/* oneDNN 2.x behind a few verbs.  SPDX-License-Identifier: Apache-2.0 */
#include "dnnl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ff_call {
	struct ff_call *next;
	dnnl_primitive_t primitive;
	dnnl_stream_t stream;
	uint32_t n; /* arguments before the scratchpad */
	size_t clear_bytes;
	dnnl_exec_arg_t args[FF_CALL_ARGS + 1];
};

int ff_dnnl_check(
		dnnl_status_t s, const struct ff_kernel *k, const char *verb, struct ff_error *err)
{
	static const char *const reasons[] = {
			[dnnl_out_of_memory] = "out of memory",
			[dnnl_invalid_arguments] = "invalid arguments",
			[dnnl_unimplemented] = "not implemented",
			[dnnl_iterator_ends] = "no implementation left",
			[dnnl_runtime_error] = "runtime error",
			[dnnl_not_required] = "not required",
	};
	const char *reason = NULL;

	if (s == dnnl_success)
		return FF_OK;
	if ((size_t)s < sizeof(reasons) / sizeof(reasons[0]))
		reason = reasons[s];
	return ff_fail(err, s == dnnl_out_of_memory ? FF_E_NOMEM : FF_E_RUN,
			"%s: oneDNN failed to %s: %s", k ? k->name : "cpu backend", verb,
			reason ? reason : "unknown status");
}

void ff_dnnl_version(char *text, size_t size)
{
	const dnnl_version_t *v = dnnl_version();

	snprintf(text, size, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

int ff_dnnl_open(struct ff_dnnl **ret, struct ff_error *err)
{
	struct ff_dnnl *d = calloc(1, sizeof(*d));
	int code;

	if (!d)
		return ff_fail_memory(err);
	code = ff_dnnl_check(
			dnnl_engine_create(&d->engine, dnnl_cpu, 0), NULL, "create an engine", err);
	if (code < 0) {
		ff_dnnl_close(d);
		return code;
	}
	*ret = d;
	return FF_OK;
}

void ff_dnnl_close(struct ff_dnnl *d)
{
	if (!d)
		return;
	if (d->engine)
		dnnl_engine_destroy(d->engine);
	free(d);
}

static dnnl_data_type_t library_type(enum ff_dtype type)
{
	return type == FF_BF16 ? dnnl_bf16 : dnnl_f32;
}

int ff_dnnl_computes(const struct ff_dnnl *d, enum ff_dtype type, struct ff_error *err)
{
	dnnl_dims_t extent = {16, 16}, stride = {16, 1};
	dnnl_primitive_desc_t pd = NULL;
	dnnl_memory_desc_t matrix;
	dnnl_matmul_desc_t product;
	char version[64];
	dnnl_status_t s = dnnl_memory_desc_init_by_strides(
			&matrix, 2, extent, library_type(type), stride);

	if (s == dnnl_success)
		s = dnnl_matmul_desc_init(&product, &matrix, &matrix, NULL, &matrix);
	if (s == dnnl_success)
		s = dnnl_primitive_desc_create(&pd, &product, NULL, d->engine, NULL);
	dnnl_primitive_desc_destroy(pd);
	if (s == dnnl_success)
		return FF_OK;
	ff_dnnl_version(version, sizeof(version));
	return ff_fail(err, FF_E_INPUT,
			"%s does not compute in %s on this processor: here the graph must have "
			"dtype float32",
			version, ff_dtype_name(type));
}

int ff_dnnl_strided(const struct ff_kernel *k, enum ff_dtype type, int n, const dnnl_dims_t extent,
		const dnnl_dims_t stride, dnnl_memory_desc_t *ret, struct ff_error *err)
{
	return ff_dnnl_check(dnnl_memory_desc_init_by_strides(
					     ret, n, extent, library_type(type), stride),
			k, "describe a tensor", err);
}

int ff_dnnl_vector(const struct ff_kernel *k, enum ff_dtype type, int64_t extent,
		dnnl_memory_desc_t *ret, struct ff_error *err)
{
	dnnl_dims_t extents = {extent}, stride = {1};

	return ff_dnnl_strided(k, type, 1, extents, stride, ret, err);
}

int ff_dnnl_image(const struct ff_kernel *k, enum ff_dtype type, int n, const dnnl_dims_t extent,
		dnnl_memory_desc_t *ret, struct ff_error *err)
{
	return ff_dnnl_check(dnnl_memory_desc_init_by_tag(ret, n, extent, library_type(type),
					     n == 5 ? dnnl_ndhwc : dnnl_nhwc),
			k, "describe an image", err);
}

int ff_dnnl_any(const struct ff_kernel *k, enum ff_dtype type, int n, const dnnl_dims_t extent,
		dnnl_memory_desc_t *ret, struct ff_error *err)
{
	return ff_dnnl_check(dnnl_memory_desc_init_by_tag(ret, n, extent, library_type(type),
					     dnnl_format_tag_any),
			k, "describe a tensor", err);
}

bool ff_dnnl_same(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b)
{
	return dnnl_memory_desc_equal(a, b);
}

int64_t ff_dnnl_bytes(const dnnl_memory_desc_t *d)
{
	return (int64_t)dnnl_memory_desc_get_size(d);
}

int ff_dnnl_describe(const struct ff_kernel *k, const_dnnl_op_desc_t op,
		const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *ret, struct ff_error *err)
{
	dnnl_primitive_attr_t attr = NULL;
	dnnl_status_t s = dnnl_primitive_attr_create(&attr);

	if (s == dnnl_success)
		s = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
	if (s == dnnl_success)
		s = dnnl_primitive_desc_create(ret, op, attr, k->dnnl->engine, hint);
	dnnl_primitive_attr_destroy(attr);
	return ff_dnnl_check(s, k, "find an implementation", err);
}

/* Memory objects are bound to addresses only when the call runs. */
static dnnl_status_t add_arg(struct ff_call *c, uint32_t i, int arg, const dnnl_memory_desc_t *desc,
		dnnl_engine_t engine)
{
	c->args[i].arg = arg;
	return dnnl_memory_create(&c->args[i].memory, desc, engine, DNNL_MEMORY_NONE);
}

int ff_call_create(struct ff_kernel *k, const_dnnl_primitive_desc_t pd,
		const struct ff_call_arg *arg, uint32_t n, struct ff_call **ret,
		struct ff_error *err)
{
	const dnnl_memory_desc_t *scratchpad =
			dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
	struct ff_call *c = calloc(1, sizeof(*c));
	dnnl_status_t s;

	if (!c)
		return ff_fail_memory(err);
	c->next = k->calls;
	k->calls = c;
	c->n = n;
	s = dnnl_primitive_create(&c->primitive, pd);
	if (s == dnnl_success)
		s = dnnl_stream_create(&c->stream, k->dnnl->engine, dnnl_stream_default_flags);
	for (uint32_t i = 0; s == dnnl_success && i < n; i++)
		s = add_arg(c, i, arg[i].arg, arg[i].desc, k->dnnl->engine);
	if (s == dnnl_success)
		s = add_arg(c, n, DNNL_ARG_SCRATCHPAD, scratchpad, k->dnnl->engine);
	if (s != dnnl_success)
		return ff_dnnl_check(s, k, "prepare a primitive", err);
	if (ff_dnnl_bytes(scratchpad) > k->scratchpad_bytes)
		k->scratchpad_bytes = ff_dnnl_bytes(scratchpad);
	*ret = c;
	return FF_OK;
}

int ff_call_reorder(struct ff_kernel *k, const dnnl_memory_desc_t *source,
		const dnnl_memory_desc_t *sink, struct ff_call **ret, struct ff_error *err)
{
	const struct ff_call_arg arg[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, sink}};
	dnnl_primitive_attr_t attr = NULL;
	dnnl_primitive_desc_t pd = NULL;
	dnnl_status_t s = dnnl_primitive_attr_create(&attr);
	int code;

	if (s == dnnl_success)
		s = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
	if (s == dnnl_success)
		s = dnnl_reorder_primitive_desc_create(
				&pd, source, k->dnnl->engine, sink, k->dnnl->engine, attr);
	code = ff_dnnl_check(s, k, "find a reorder", err);
	if (code == FF_OK)
		code = ff_call_create(k, pd, arg, 2, ret, err);
	dnnl_primitive_desc_destroy(pd);
	dnnl_primitive_attr_destroy(attr);
	return code;
}

void ff_call_clear(struct ff_call *c)
{
	const dnnl_memory_desc_t *scratchpad;

	if (dnnl_memory_get_memory_desc(c->args[c->n].memory, &scratchpad) == dnnl_success)
		c->clear_bytes = (size_t)ff_dnnl_bytes(scratchpad);
}

int ff_call_run(const struct ff_kernel *k, const struct ff_call *c, const struct ff_kernel_io *io,
		const void *const *memory, struct ff_error *err)
{
	dnnl_status_t s = dnnl_success;

	if (c->clear_bytes)
		memset(ff_kernel_at(io, k->reserved_bytes), 0, c->clear_bytes);
	for (uint32_t i = 0; s == dnnl_success && i <= c->n; i++) {
		/* oneDNN has no handles to constant memory; sources are only read */
		const void *at = i < c->n ? memory[i] : ff_kernel_at(io, k->reserved_bytes);

		s = dnnl_memory_set_data_handle(c->args[i].memory, (void *)at);
	}
	if (s == dnnl_success)
		s = dnnl_primitive_execute(c->primitive, c->stream, (int)c->n + 1, c->args);
	if (s == dnnl_success)
		s = dnnl_stream_wait(c->stream);
	return ff_dnnl_check(s, k, "run", err);
}

void ff_calls_destroy(struct ff_call *c)
{
	while (c) {
		struct ff_call *next = c->next;

		for (uint32_t i = 0; i <= c->n; i++)
			dnnl_memory_destroy(c->args[i].memory);
		dnnl_stream_destroy(c->stream);
		dnnl_primitive_destroy(c->primitive);
		free(c);
		c = next;
	}
}
