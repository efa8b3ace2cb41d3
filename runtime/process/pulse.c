/* Signs of life.  SPDX-License-Identifier: Apache-2.0 */
#include "pulse.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

struct ff_pulse *ff_pulse_create(double limit_s, struct ff_error *err)
{
	struct ff_pulse *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		ff_error_write(err, FF_E_NOMEM, "shared memory: %s", strerror(errno));
		return NULL;
	}
	p->limit_s = limit_s;
	return p;
}

void ff_pulse_destroy(struct ff_pulse *p)
{
	if (p)
		munmap(p, sizeof(*p));
}
