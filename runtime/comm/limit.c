/* How long a rank waits for others.  SPDX-License-Identifier: Apache-2.0 */
#include "limit.h"

#include <math.h>
#include <stdlib.h>

#define PRESET_S 600

int ff_comm_limit(double *seconds, struct ff_error *err)
{
	const char *text = getenv("FF_COMM_TIMEOUT");
	double s = PRESET_S;
	char *end;

	if (text) {
		s = strtod(text, &end);
		if (end == text || *end || !isfinite(s) || s < 0)
			return ff_fail(err, FF_E_INPUT,
					"FF_COMM_TIMEOUT=%.100s: expected seconds, or 0 for ever",
					text);
	}
	*seconds = s;
	return FF_OK;
}
