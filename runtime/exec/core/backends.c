/* Backends by name.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/backends.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/load.h"

static const struct ff_backend *const backends[] = {&ff_backend_cpu, &ff_backend_null};

const struct ff_backend *ff_backend_find(const char *name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	return strcmp(name, "cuda") ? NULL : ff_cuda_load();
}

int ff_backend_computes(const struct ff_backend *b, enum ff_dtype type, struct ff_error *err)
{
	struct ff_device *dev;
	int code = b->device.open(0, &dev, err);

	if (code < 0)
		return code;
	code = b->device.computes(dev, type, err);
	b->device.close(dev);
	return code;
}

const struct ff_backend *ff_backend_preset(void)
{
	const struct ff_backend *cuda = ff_cuda_driver() ? ff_cuda_load() : NULL;
	struct ff_device *dev = NULL;

	if (!cuda || cuda->device.open(0, &dev, NULL) < 0)
		return &ff_backend_cpu;
	cuda->device.close(dev);
	return cuda;
}

/* The environment goes to ranks that this process starts: they do not time, so that all of them
 * choose alike. */
int ff_backends_tune(struct ff_error *err)
{
	char own[32];

	snprintf(own, sizeof(own), "%lld", (long long)getpid());
	return setenv(FF_TUNING_PROCESS, own, 1) ? ff_fail_memory(err) : FF_OK;
}
