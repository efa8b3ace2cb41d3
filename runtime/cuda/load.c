/* The CUDA backend as the rest of the program knows it: the module where there is one, or
 * what stands in for it and says why there is none.
 * SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "module.h"

#define MODULE "libffcuda.so"

/* Where the module is: as told, as built, as installed. */
static bool find(char *path, size_t size)
{
	static const char *const folders[] = {FF_CUDA_MODULES, FF_CUDA_INSTALLED};
	const char *told = getenv("FF_CUDA_MODULE");

	if (told) {
		snprintf(path, size, "%s", told);
		return true;
	}
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		snprintf(path, size, "%s/" MODULE, folders[i]);
		if (!access(path, R_OK))
			return true;
	}
	return false;
}

/* A module stays once it is loaded. */
static const struct ff_backend *load(struct ff_error *err)
{
	const struct ff_backend *b;
	char path[4096];
	ff_cuda_door door;
	void *module;

	if (!find(path, sizeof(path))) {
		ff_error_write(err, FF_E_INPUT, "this program was built without CUDA%s%s",
				FF_CUDA_MISSING[0] ? ", missing " : "", FF_CUDA_MISSING);
		return NULL;
	}
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module) {
		ff_error_write(err, FF_E_INPUT, "%s", dlerror());
		return NULL;
	}
	*(void **)&door = dlsym(module, FF_CUDA_DOOR);
	b = door ? door(FF_VERSION, sizeof(*b), sizeof(struct ff_comm)) : NULL;
	if (!b)
		ff_error_write(err, FF_E_INPUT, "%s is not of this version, " FF_VERSION, path);
	return b;
}

static int stand_in_open(uint32_t ordinal, struct ff_device **ret, struct ff_error *err)
{
	struct ff_error why = {0};

	(void)ret;
	load(&why);
	return ff_fail(err, FF_E_INPUT,
			"CUDA device %u cannot be opened: %.400s (use --device cpu)", ordinal,
			why.text);
}

static void stand_in_close(struct ff_device *dev)
{
	(void)dev;
}

/* No device of it can be opened, so nothing else is ever called. */
static const struct ff_backend stand_in = {
		.name = "cuda",
		.help = "NVIDIA GPUs: not in this build",
		.device.open = stand_in_open,
		.device.close = stand_in_close,
};

const struct ff_backend *ff_cuda_load(void)
{
	const struct ff_backend *b = load(NULL);

	return b ? b : &stand_in;
}

bool ff_cuda_driver(void)
{
	void *driver;

	if (getenv("FF_CUDA_MODULE"))
		return true;
	driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (driver)
		dlclose(driver);
	return driver;
}
