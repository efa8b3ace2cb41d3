/* Devices are opened, and closed with all that they came to have.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "plan.h"
#include "plans.h"
#include "stream.h"

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
	const char *tf32 = getenv("FF_CUDA_TF32"), *sdpa = getenv("FF_CUDA_SDPA");
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
	dev->sdpa = !sdpa || strcmp(sdpa, "0") != 0;
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
