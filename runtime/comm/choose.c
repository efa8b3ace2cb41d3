/* Which communication ranks use.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ff/backend.h"
#include "process/agree.h"

int ff_comm_prefer(const struct ff_backend *b, const struct ff_machine *m, struct ff_comm **comm,
		struct ff_error *err)
{
	const char *word = getenv("FF_NCCL");
	bool insist = word && !strcmp(word, "1");
	struct ff_comm *host = *comm;
	int code = FF_OK;

	if (word && !insist && strcmp(word, "0") != 0)
		code = ff_fail(err, FF_E_INPUT, "FF_NCCL=%.100s: expected 0 or 1", word);
	else if (insist && !b->comm)
		code = ff_fail(err, FF_E_INPUT,
				"FF_NCCL=1, but NCCL communicates among GPUs alone (--device "
				"cuda)");
	code = ff_agree_code(host, code, err);
	if (code == FF_OK && b->comm && (insist || (!word && host->n_ranks > 1)))
		code = b->comm(host, m, insist, comm, err);
	return code;
}
