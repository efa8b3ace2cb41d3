/* Certificates: what a lower bound rests on, so that others can work it out again.
 * docs/certificate.md says what is claimed.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_CHECK_CERTIFICATE_H
#define FF_CHECK_CERTIFICATE_H

#include "weighted.h"

#define FF_CERTIFICATE_VERSION 6
#define FF_MOST_CERTIFIED 16 /* numbers of micro-batches */

#define FF_CERTIFIED_MEASURED "measured"

/* Strategies of so many micro-batches take no less. */
struct ff_certified {
	uint32_t micro_batches;
	double us;
	struct ff_weights *by;
};

struct ff_certificate {
	const char *machine, *optimizer;
	const char *costs; /* "analytic", "peak", FF_CERTIFIED_MEASURED */
	uint32_t devices;
	double us; /* none takes less */
	uint32_t n_parts;
	struct ff_certified part[FF_MOST_CERTIFIED];
};

void ff_certificate_write(
		const struct ff_graph *g, const struct ff_certificate *c, struct ff_out *o);
/* FF_E_INPUT where it is none, or for another graph.  All memory from `a`. */
int ff_certificate_load(const char *path, const struct ff_graph *g, struct ff_arena *a,
		struct ff_certificate *ret, struct ff_error *err);
/* Works the bound out again, by the prices of `p`.  FF_E_RUN where the certificate does not hold,
 * or says another figure than comes of its weights. */
int ff_certificate_verify(const struct ff_certificate *c, const struct ff_graph *g,
		const struct ff_machine *m, struct ff_pricer *p, struct ff_error *err);

#endif
