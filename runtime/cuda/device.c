/* Devices and their memory.  SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "dnn.h"
#include "plans.h"
#include "stream.h"

int ff_cuda_check(cudaError_t code, const struct ff_device *dev, const char *verb,
		struct ff_error *err)
{
	if (code == cudaSuccess)
		return FF_OK;
	cudaGetLastError(); /* it is told now */
	return ff_fail(err, FF_E_RUN, "CUDA device %d failed to %s: %s", dev->ordinal, verb,
			cudaGetErrorString(code));
}

int ff_cuda_enter(const struct ff_device *dev, struct ff_error *err)
{
	return ff_cuda_check(cudaSetDevice(dev->ordinal), dev, "be chosen", err);
}

/* A process that hosts several devices copies between them. */
static int enable_peers(struct ff_device *dev, int n, struct ff_error *err)
{
	for (int peer = 0; peer < n; peer++) {
		cudaError_t code;
		int able = 0;

		if (peer == dev->ordinal)
			continue;
		code = cudaDeviceCanAccessPeer(&able, dev->ordinal, peer);
		if (code == cudaSuccess && able)
			code = cudaDeviceEnablePeerAccess(peer, 0);
		if (code == cudaErrorPeerAccessAlreadyEnabled) {
			cudaGetLastError();
			code = cudaSuccess;
		}
		if (code != cudaSuccess)
			return ff_cuda_check(code, dev, "reach another device", err);
	}
	return FF_OK;
}

static int open_device(struct ff_device *dev, int n, struct ff_error *err)
{
	const char *tf32 = getenv("FF_CUDA_TF32");
	int major = 0, code = ff_cuda_enter(dev, err);

	if (code == FF_OK)
		code = enable_peers(dev, n, err);
	if (code == FF_OK)
		code = ff_cuda_check(
				cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor,
						dev->ordinal),
				dev, "say what it is", err);
	if (code == FF_OK)
		code = ff_cuda_check(cudaStreamCreateWithFlags(&dev->own, cudaStreamNonBlocking),
				dev, "make a stream", err);
	dev->bf16 = major >= 8;
	dev->tf32 = tf32 && !strcmp(tf32, "1");
	return code;
}

/* Ordinals beyond the last device begin again at the first: ranks may share one. */
int ff_cuda_open(uint32_t ordinal, struct ff_device **ret, struct ff_error *err)
{
	struct ff_device *dev;
	cudaError_t status;
	int n = 0, code;

	status = cudaGetDeviceCount(&n);
	if (status != cudaSuccess || n < 1) {
		cudaGetLastError();
		return ff_fail(err, FF_E_INPUT, "no CUDA device answers: %s (use --device cpu)",
				cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice
									 : status));
	}
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return ff_fail_memory(err);
	dev->ordinal = (int)(ordinal % (uint32_t)n);
	code = open_device(dev, n, err);
	if (code < 0) {
		ff_cuda_close(dev);
		return code;
	}
	*ret = dev;
	return FF_OK;
}

void ff_cuda_close(struct ff_device *dev)
{
	if (!dev)
		return;
	ff_cuda_enter(dev, NULL);
	ff_dnn_close(dev->dnn);
	ff_blas_close(dev->blas);
	ff_plans_close(dev->plans);
	ff_trouble_close(dev);
	ff_ledgers_free(dev->ledgers);
	cudaFree(dev->figures);
	if (dev->own)
		cudaStreamDestroy(dev->own);
	free(dev);
}

int ff_cuda_computes(struct ff_device *dev, enum ff_dtype type, struct ff_error *err)
{
	if (type == FF_F32 || (type == FF_BF16 && dev->bf16))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT, "CUDA device %d has no kernels that compute in %s%s",
			dev->ordinal, ff_dtype_name(type),
			type == FF_BF16 ? ": its compute capability is below 8.0" : "");
}

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
			runtime / 1000, runtime % 1000 / 10, ff_dnn_version(), ff_blas_version());
	find_driver(ret->driver, sizeof(ret->driver));
	ret->threads = 1;
	ret->clock_mhz = attribute(dev, cudaDevAttrClockRate) / 1000;
	ret->memory_clock_mhz = attribute(dev, cudaDevAttrMemoryClockRate) / 1000;
	ret->cache_bytes = attribute(dev, cudaDevAttrL2CacheSize);
}

int ff_cuda_alloc(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	size_t size = bytes ? bytes : 64;
	void *memory = NULL;
	cudaError_t status;
	int code = ff_cuda_enter(dev, err);

	if (code < 0)
		return code;
	status = cudaMalloc(&memory, size);
	if (status == cudaErrorMemoryAllocation) {
		cudaGetLastError();
		return ff_fail(err, FF_E_NOMEM,
				"CUDA device %d cannot provide %zu bytes of device memory",
				dev->ordinal, bytes);
	}
	if (status == cudaSuccess)
		status = cudaMemsetAsync(memory, 0, size, dev->own);
	if (status == cudaSuccess)
		status = cudaStreamSynchronize(dev->own);
	code = ff_cuda_check(status, dev, "provide memory", err);
	if (code < 0) {
		ff_cuda_free(dev, memory);
		return code;
	}
	*ret = memory;
	return FF_OK;
}

void ff_cuda_free(struct ff_device *dev, void *memory)
{
	/* would wait for all that the device was given */
	if (memory && !dev->lost && ff_cuda_enter(dev, NULL) == FF_OK)
		cudaFree(memory);
}

int ff_cuda_pin(struct ff_device *dev, size_t bytes, void **ret, struct ff_error *err)
{
	int code = ff_cuda_enter(dev, err);

	return code < 0 ? code
			: ff_cuda_check(cudaHostAlloc(ret, bytes,
							cudaHostAllocPortable |
									cudaHostAllocMapped),
					  dev, "pin host memory", err);
}

void ff_cuda_unpin(struct ff_device *dev, void *memory)
{
	if (memory && !dev->lost && ff_cuda_enter(dev, NULL) == FF_OK)
		cudaFreeHost(memory);
}
