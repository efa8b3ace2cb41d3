/* What a rank posts of an exchange.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_COMM_PARCELS_H
#define FF_COMM_PARCELS_H

#include "ff/comm.h"

/* Adds what is sent from here; FF_E_RUN where a parcel has no end here (ff/comm.h). */
int ff_parcels_count(struct ff_comm *c, enum ff_dtype type, const struct ff_parcel *parcel,
		uint32_t n, struct ff_error *err);

#endif
