/* The CPU backend of a build without oneDNN: memory, streams and copies, which the null backend
 * has of it, and no kernels.  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cpu/core/engine.h"
#include "kernels.h"

static int nothing(struct ff_error *err)
{
	return ff_fail(err, FF_E_INPUT,
			"this program was built without oneDNN, so that the CPU computes nothing "
			"(use "
			"--device cuda)");
}

int ff_dnnl_open(struct ff_dnnl **ret, struct ff_error *err)
{
	(void)err;
	*ret = NULL;
	return FF_OK;
}

void ff_dnnl_close(struct ff_dnnl *d)
{
	(void)d;
}

void ff_dnnl_version(char *text, size_t size)
{
	snprintf(text, size, "none");
}

int ff_dnnl_computes(const struct ff_dnnl *d, enum ff_dtype type, struct ff_error *err)
{
	(void)d, (void)type;
	return nothing(err);
}

int ff_cpu_kernel(struct ff_device *dev, const struct ff_work *w, struct ff_kernel **ret,
		struct ff_error *err)
{
	(void)dev, (void)w, (void)ret;
	return nothing(err);
}

/* None is ever made. */
void ff_cpu_kernel_close(struct ff_kernel *k)
{
	(void)k;
}

int64_t ff_cpu_workspace(const struct ff_kernel *k)
{
	(void)k;
	return 0;
}
