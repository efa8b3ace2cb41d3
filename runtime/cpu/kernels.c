/* Kernels by operator: the table that fails to link when one is missing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

#include "cpu/core/dnnl.h"
#include "cpu/core/kernel.h"

typedef int (*ff_prepare)(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err);

static const ff_prepare prepare[FF_OP_COUNT] = {
#define FF_CPU_ROW(e, row) [e] = ff_cpu_##row##_prepare,
		FF_OPS(FF_CPU_ROW)
#undef FF_CPU_ROW
};

/* Inputs are loaded by their consumers; no part ever computes one. */
int ff_cpu_input_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	(void)w;
	return ff_fail(err, FF_E_RUN, "%s: inputs are loaded, not computed", k->name);
}

/* Parameters are updated bucket by bucket, not by a kernel. */
int ff_cpu_parameter_prepare(struct ff_kernel *k, const struct ff_work *w, struct ff_error *err)
{
	(void)w;
	return ff_fail(err, FF_E_RUN, "%s: parameters are updated, not computed", k->name);
}

int ff_cpu_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err)
{
	struct ff_kernel *k = calloc(1, sizeof(*k));
	int code;

	if (!k)
		return ff_fail_memory(err);
	k->dnnl = dev->dnnl;
	snprintf(k->name, sizeof(k->name), "%s \"%.60s\" %s", ff_op_row(w->node->op)->name,
			w->node->name, w->pass == FF_FORWARD ? "forward" : "backward");
	code = prepare[w->node->op](k, w, err);
	if (code < 0) {
		ff_cpu_kernel_close(k);
		return code;
	}
	*ret = k;
	return FF_OK;
}

void ff_cpu_kernel_close(struct ff_kernel *k)
{
	if (!k)
		return;
	ff_calls_destroy(k->calls);
	free(k->state);
	free(k);
}

int64_t ff_cpu_workspace(const struct ff_kernel *k)
{
	return k->reserved_bytes + (k->scratchpad_bytes + 63) / 64 * 64;
}
