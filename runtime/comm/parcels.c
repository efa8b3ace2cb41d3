/* What a rank posts of an exchange.  SPDX-License-Identifier: Apache-2.0 */
#include "parcels.h"

int ff_parcels_count(struct ff_comm *c, enum ff_dtype type, const struct ff_parcel *parcel,
		uint32_t n, struct ff_error *err)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct ff_parcel *p = &parcel[i];

		if (c->hosts(c, p->from))
			c->sent_bytes += p->count * ff_dtype_bytes(type);
		else if (!c->hosts(c, p->to))
			return ff_fail(err, FF_E_RUN,
					"a parcel from device %u to %u is not for rank %u to post",
					p->from, p->to, c->rank);
	}
	return FF_OK;
}
