/* Backends by name.  SPDX-License-Identifier: Apache-2.0 */
#include "ff/backend.h"

#include <string.h>

static const struct ff_backend *const backends[] = {
		&ff_backend_cpu, &ff_backend_cuda, &ff_backend_null};

const struct ff_backend *ff_backend_find(const char *name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (!strcmp(backends[i]->name, name))
			return backends[i];
	return NULL;
}

int ff_backend_computes(const struct ff_backend *b, enum ff_dtype type, struct ff_error *err)
{
	struct ff_device *dev;
	int code = b->open(0, &dev, err);

	if (code < 0)
		return code;
	code = b->computes(dev, type, err);
	b->close(dev);
	return code;
}

const struct ff_backend *ff_backend_preset(void)
{
	struct ff_device *dev = NULL;

	if (ff_backend_cuda.open(0, &dev, NULL) < 0)
		return &ff_backend_cpu;
	ff_backend_cuda.close(dev);
	return &ff_backend_cuda;
}
