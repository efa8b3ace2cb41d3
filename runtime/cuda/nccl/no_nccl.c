/* In the place of NCCL.  SPDX-License-Identifier: Apache-2.0 */
#include "comm.h"
#include "process/agree.h"

int ff_cuda_comm(struct ff_comm *host, const struct ff_machine *m, bool insist,
		struct ff_comm **ret, struct ff_error *err)
{
	(void)m, (void)ret;
	if (!insist)
		return FF_OK;
	return ff_agree_code(host,
			ff_fail(err, FF_E_INPUT,
					"FF_NCCL=1, but the CUDA backend was built without NCCL"),
			err);
}
