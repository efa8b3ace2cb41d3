/* The CPU device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CPU_DEVICE_H
#define FF_CPU_DEVICE_H

#include "ff/backend.h"

struct ff_dnnl; /* dnnl.h; NULL in a build without oneDNN */

struct ff_device {
	struct ff_dnnl *dnnl;
};

#endif
