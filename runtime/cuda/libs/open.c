/* Devices are opened, and closed with all that they came to have.
 * SPDX-License-Identifier: Apache-2.0 */
#include "open.h"

#include <stdlib.h>
#include <string.h>

#include "blas.h"
#include "cuda/core/enter.h"
#include "cuda/core/report.h"
#include "cuda/core/stream.h"
#include "ff/cli.h"
#include "plan.h"
#include "plans.h"

static int ask(struct ff_device *dev, enum cudaDeviceAttr which, int *ret, struct ff_error *err)
{
	return ff_cuda_check(cudaDeviceGetAttribute(ret, which, dev->ordinal), dev,
			"say what it is", err);
}

/* Whether the module has kernels for a device of this compute capability, as 90 for 9.0: machine
 * code of its own major version that is not newer, or PTX of the last one, which any newer device
 * takes ("Binary Compatibility", "PTX Compatibility", CUDA C++ Programming Guide). */
static bool has_kernels(long capability)
{
	const char *at = FF_CUDA_ARCHS;
	long arch = 0;
	bool has = false;

	for (char *end; *at; at = *end ? end + 1 : end) {
		arch = strtol(at, &end, 10);
		end += strcspn(end, ",");
		has = has || (arch / 10 == capability / 10 && arch <= capability);
	}
	return has || arch <= capability;
}

static int check_kernels(const struct ff_device *dev, int major, int minor, struct ff_error *err)
{
	if (has_kernels(10 * major + minor))
		return FF_OK;
	return ff_fail(err, FF_E_INPUT,
			"CUDA device %d has compute capability %d.%d, for which this build has no "
			"kernels (built with -Dgpu_arch=" FF_CUDA_ARCHS "; use --device cpu)",
			dev->ordinal, major, minor);
}

/* Makes no context: that does who enters it. */
static int describe(struct ff_device *dev, struct ff_error *err)
{
	int major = 0, minor = 0, meets = 0, multiprocessors = 0;
	bool persistent = true;
	int code = ask(dev, cudaDevAttrComputeCapabilityMajor, &major, err);

	if (code == FF_OK)
		code = ask(dev, cudaDevAttrComputeCapabilityMinor, &minor, err);
	if (code == FF_OK)
		code = check_kernels(dev, major, minor, err);
	if (code == FF_OK)
		code = ask(dev, cudaDevAttrCooperativeLaunch, &meets, err);
	if (code == FF_OK)
		code = ask(dev, cudaDevAttrMultiProcessorCount, &multiprocessors, err);
	dev->bf16 = major >= 8;
	dev->sdpa = true;
	if (code == FF_OK)
		code = ff_cli_switch("FF_CUDA_TF32", &dev->tf32, err);
	if (code == FF_OK)
		code = ff_cli_switch("FF_CUDA_SDPA", &dev->sdpa, err);
	if (code == FF_OK)
		code = ff_cli_switch("FF_CUDA_PERSISTENT", &persistent, err);
	/* in KiB: within the L2 cache of all that have tensor cores for bfloat16 */
	dev->unfold_bytes = 32 << 10;
	if (code == FF_OK)
		code = ff_cli_count("FF_CUDA_UNFOLD", 0, 1 << 20, &dev->unfold_bytes, err);
	dev->unfold_bytes <<= 10;
	if (persistent && meets)
		dev->persistent = multiprocessors;
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
	code = describe(dev, err);
	if (code < 0) {
		ff_cuda_close(dev);
		return code;
	}
	*ret = dev;
	return FF_OK;
}

/* To free device memory is to wait for all that the device was given: what is lost keeps it. */
static void close_what_waits(struct ff_device *dev)
{
	if (dev->lost)
		return;
	ff_dnn_close(dev->dnn);
	ff_blas_close(dev->blas);
	cudaFree(dev->figures);
}

void ff_cuda_close(struct ff_device *dev)
{
	if (!dev)
		return;
	if (!dev->own) { /* nobody has entered it */
		ff_plans_close(dev->plans);
		free(dev);
		return;
	}
	ff_cuda_leave(dev);
	ff_cuda_enter(dev, NULL);
	close_what_waits(dev);
	ff_plans_close(dev->plans);
	ff_device_errors_close(dev);
	ff_ledgers_free(dev->ledgers);
	cudaStreamDestroy(dev->own);
	free(dev);
}
