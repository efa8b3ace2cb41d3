/* Devices as a process enters them.  SPDX-License-Identifier: Apache-2.0 */
#include "enter.h"

#include <pthread.h>
#include <stdio.h>

#include "device.h"

int ff_cuda_check(cudaError_t code, const struct ff_device *dev, const char *verb,
		struct ff_error *err)
{
	if (code == cudaSuccess)
		return FF_OK;
	cudaGetLastError(); /* it is told now */
	return ff_fail(err, FF_E_RUN, "CUDA device %d failed to %s: %s", dev->ordinal, verb,
			cudaGetErrorString(code));
}

/* Those that this process has entered.  It copies between them, and reaches no others: that would
 * make a context on each, memory that no plan knows of, where another rank may be the only one that
 * is let in. */
static pthread_mutex_t entered_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ff_device *entered;

/* Kernels of `dev` read the peer's memory, which without access would end the process's context
 * (cudaErrorIllegalAddress).  Leaves the thread with `dev`. */
static int reach(const struct ff_device *dev, const struct ff_device *peer, struct ff_error *err)
{
	char verb[48];
	int able = 0;
	cudaError_t code = cudaSetDevice(dev->ordinal);

	if (code == cudaSuccess)
		code = cudaDeviceCanAccessPeer(&able, dev->ordinal, peer->ordinal);
	if (code == cudaSuccess && !able)
		return ff_fail(err, FF_E_RUN,
				"CUDA device %d cannot reach the memory of device %d, as one "
				"process that computes on both has to",
				dev->ordinal, peer->ordinal);
	if (code == cudaSuccess)
		code = cudaDeviceEnablePeerAccess(peer->ordinal, 0);
	if (code == cudaErrorPeerAccessAlreadyEnabled) {
		cudaGetLastError();
		code = cudaSuccess;
	}
	snprintf(verb, sizeof(verb), "reach the memory of device %d", peer->ordinal);
	return ff_cuda_check(code, dev, verb, err);
}

static int reach_all(const struct ff_device *dev, struct ff_error *err)
{
	int code = FF_OK;

	for (const struct ff_device *d = entered; d && code == FF_OK; d = d->entered) {
		if (d->ordinal == dev->ordinal)
			continue;
		code = reach(d, dev, err);
		if (code == FF_OK)
			code = reach(dev, d, err);
	}
	return code;
}

static int start(struct ff_device *dev, struct ff_error *err)
{
	cudaStream_t own = NULL;
	int code = reach_all(dev, err);

	if (code == FF_OK)
		code = ff_cuda_check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), dev,
				"make a stream", err);
	if (code < 0)
		return code;
	dev->own = own;
	dev->entered = entered;
	entered = dev;
	return FF_OK;
}

static int start_once(struct ff_device *dev, struct ff_error *err)
{
	int code = FF_OK;

	pthread_mutex_lock(&entered_lock);
	if (!dev->own)
		code = start(dev, err);
	pthread_mutex_unlock(&entered_lock);
	return code;
}

int ff_cuda_enter(struct ff_device *dev, struct ff_error *err)
{
	int code = ff_cuda_check(cudaSetDevice(dev->ordinal), dev, "be chosen", err);

	return code < 0 || dev->own ? code : start_once(dev, err);
}

void ff_cuda_leave(const struct ff_device *dev)
{
	struct ff_device **at = &entered;

	pthread_mutex_lock(&entered_lock);
	while (*at && *at != dev)
		at = &(*at)->entered;
	if (*at)
		*at = dev->entered;
	pthread_mutex_unlock(&entered_lock);
}
