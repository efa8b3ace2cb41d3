/* Descriptors of cuDNN: after the first failure nothing is done.
 * SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

int ff_parts_fail(const struct ff_kernel *k, cudnnStatus_t status, const char *verb,
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

void ff_parts_check(struct ff_parts *p, cudnnStatus_t status)
{
	if (status == CUDNN_STATUS_SUCCESS || p->code < 0)
		return;
	p->missing = is_missing(status);
	p->code = ff_parts_fail(p->k, status, p->verb, p->err);
}

cudnnBackendDescriptor_t ff_parts_make(struct ff_parts *p, cudnnBackendDescriptorType_t type)
{
	cudnnBackendDescriptor_t d = NULL;

	if (p->code < 0)
		return NULL;
	if (p->n == FF_PARTS) {
		p->code = ff_fail(p->err, FF_E_RUN, "%s: a graph of more than %d parts", p->k->name,
				FF_PARTS);
		return NULL;
	}
	ff_parts_check(p, cudnnBackendCreateDescriptor(type, &d));
	if (d)
		p->made[p->n++] = d;
	return d;
}

void ff_parts_set(struct ff_parts *p, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
		cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
	if (p->code == FF_OK)
		ff_parts_check(p, cudnnBackendSetAttribute(d, name, type, n, value));
}

void ff_parts_set_part(struct ff_parts *p, cudnnBackendDescriptor_t d,
		cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part)
{
	ff_parts_set(p, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

void ff_parts_finish(struct ff_parts *p, cudnnBackendDescriptor_t d)
{
	if (p->code == FF_OK)
		ff_parts_check(p, cudnnBackendFinalize(d));
}

void ff_parts_drop(struct ff_parts *p)
{
	while (p->n)
		cudnnBackendDestroyDescriptor(p->made[--p->n]);
}

cudnnDataType_t ff_parts_type(enum ff_dtype t)
{
	return t == FF_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

int ff_parts_run(const struct ff_kernel *k, cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
		cudaStream_t queue, int64_t n, const int64_t *ids, const void *const *pointers,
		void *workspace, struct ff_error *err)
{
	struct ff_parts p = {.k = k, .verb = "run what it has planned", .err = err};
	cudnnBackendDescriptor_t pack = ff_parts_make(&p, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);

	ff_parts_set(&p, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n,
			pointers);
	ff_parts_set(&p, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
	ff_parts_set(&p, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
			&workspace);
	ff_parts_finish(&p, pack);
	if (p.code == FF_OK)
		ff_parts_check(&p, cudnnSetStream(handle, queue));
	if (p.code == FF_OK)
		ff_parts_check(&p, cudnnBackendExecute(handle, plan, pack));
	ff_parts_drop(&p);
	return p.code;
}
