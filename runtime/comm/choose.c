/* Which communication ranks use.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "ff/backend.h"
#include "process/agree.h"

/* Whether NCCL is insisted on (1), refused (-1) or neither, as the first rank is told: ranks that
 * choose apart would wait for each other in different libraries. */
static int read_choice(struct ff_comm *host, int64_t *choice, struct ff_error *err)
{
	const char *word = getenv("FF_NCCL");
	int code = FF_OK;

	if (word && strcmp(word, "0") != 0 && strcmp(word, "1") != 0)
		code = ff_fail(err, FF_E_INPUT, "FF_NCCL=%.100s: expected 0 or 1", word);
	code = ff_agree_code(host, code, err);
	*choice = !word || host->rank > 0 ? 0 : strcmp(word, "1") ? -1 : 1;
	return code < 0 ? code : ff_agree_sum(host, choice, 1, err);
}

int ff_comm_prefer(const struct ff_backend *b, const struct ff_machine *m, struct ff_comm **comm,
		struct ff_error *err)
{
	struct ff_comm *host = *comm;
	int64_t choice = 0;
	int code = read_choice(host, &choice, err);

	if (code == FF_OK && choice > 0 && !b->comm)
		code = ff_fail(err, FF_E_INPUT,
				"FF_NCCL=1, but NCCL communicates among GPUs alone (--device "
				"cuda)");
	code = ff_agree_code(host, code, err);
	if (code == FF_OK && b->comm && (choice > 0 || (!choice && host->n_ranks > 1)))
		code = b->comm(host, m, choice > 0, comm, err);
	return code;
}
