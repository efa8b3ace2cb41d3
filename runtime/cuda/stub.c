/* The CUDA backend of a build without CUDA: says so.  No device of it can be
 * opened, so nothing but open and close is ever called.
 * SPDX-License-Identifier: Apache-2.0 */
#include "ff/backend.h"

static int stub_open(uint32_t ordinal, struct ff_device **ret, struct ff_error *err)
{
	(void)ret;
	return ff_fail(err, FF_E_INPUT,
			"CUDA device %u cannot be opened: this program was built without CUDA "
			"(use --device cpu)",
			ordinal);
}

static void stub_close(struct ff_device *dev)
{
	(void)dev;
}

const struct ff_backend ff_backend_cuda = {
		.name = "cuda",
		.help = "NVIDIA GPUs: not in this build",
		.open = stub_open,
		.close = stub_close,
};
