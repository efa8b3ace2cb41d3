/* What a device is, and the versions of all that computes on it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "describe.h"

#include <cublasLt.h>
#include <cudnn.h>
#include <stdio.h>
#include <string.h>

#include "cuda/core/device.h"

/* 0 where it is not told. */
static uint32_t attribute(const struct ff_device *dev, enum cudaDeviceAttr which)
{
	int value = 0;

	if (cudaDeviceGetAttribute(&value, which, dev->ordinal) != cudaSuccess) {
		cudaGetLastError();
		return 0;
	}
	return value > 0 ? (uint32_t)value : 0;
}

/* The kernel module's own version stands between words and a date: the first word of digits
 * and dots. */
static void find_release(char *text, size_t size)
{
	FILE *f = fopen("/proc/driver/nvidia/version", "r");
	char line[256] = "", *rest = line;
	const char *word;

	text[0] = '\0';
	if (!f)
		return;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	while ((word = strsep(&rest, " \t\n")))
		if (*word && strchr(word, '.') && !word[strspn(word, "0123456789.")]) {
			snprintf(text, size, "%.30s, ", word);
			return;
		}
}

static void find_driver(char *text, size_t size)
{
	char release[40];
	int cuda = 0;

	find_release(release, sizeof(release));
	cudaDriverGetVersion(&cuda);
	snprintf(text, size, "%sCUDA %d.%d", release, cuda / 1000, cuda % 1000 / 10);
}

void ff_cuda_describe(struct ff_device *dev, struct ff_device_info *ret)
{
	struct cudaDeviceProp p = {0};
	int runtime = 0;

	cudaGetDeviceProperties(&p, dev->ordinal);
	cudaRuntimeGetVersion(&runtime);
	snprintf(ret->processor, sizeof(ret->processor), "%.95s", p.name);
	snprintf(ret->kernels, sizeof(ret->kernels), "CUDA %d.%d, cuDNN %zu, cuBLAS %zu",
			runtime / 1000, runtime % 1000 / 10, cudnnGetVersion(),
			cublasLtGetVersion());
	find_driver(ret->driver, sizeof(ret->driver));
	ret->threads = 1;
	ret->clock_mhz = attribute(dev, cudaDevAttrClockRate) / 1000;
	ret->memory_clock_mhz = attribute(dev, cudaDevAttrMemoryClockRate) / 1000;
	ret->cache_bytes = attribute(dev, cudaDevAttrL2CacheSize);
}

int ff_cuda_computes(struct ff_device *dev, enum ff_dtype type, struct ff_error *err)
{
	if (type == FF_F32 || (type == FF_BF16 && dev->bf16))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "CUDA device %d has no kernels that compute in %s%s",
			dev->ordinal, ff_dtype_name(type),
			type == FF_BF16 ? ": its compute capability is below 8.0" : "");
}
