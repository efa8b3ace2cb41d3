/* Communication among GPUs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CUDA_COMM_H
#define FF_CUDA_COMM_H

#include "ff/comm.h"

/* A slot of struct ff_backend: nccl.c, or no_nccl.c where there is none. */
int ff_cuda_comm(struct ff_comm *host, const struct ff_machine *m, bool insist,
		struct ff_comm **ret, struct ff_error *err);

#endif
