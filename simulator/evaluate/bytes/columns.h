/* Bytes by device and step: what comes, what goes, and the most that lives.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_SIMULATOR_COLUMNS_H
#define FF_SIMULATOR_COLUMNS_H

#include "evaluate/trial.h"

int ff_columns_create(struct ff_trial *e, struct ff_error *err);
/* For rows that are numbered anew: forgets all bytes. */
int ff_columns_reset(struct ff_trial *e, struct ff_error *err);
/* Puts a buffer into the bundle; and adds all of it: buffers that come with step `first` and go
 * behind step `last`. */
void ff_columns_put(struct ff_trial *e, uint32_t device, int64_t bytes);
void ff_columns_add(struct ff_trial *e, uint32_t first, uint32_t last);
/* The same of buffers of equal bytes on `n` neighbours, while the bundle is empty. */
void ff_columns_add_row(struct ff_trial *e, uint32_t device, uint32_t n, int64_t bytes,
		uint32_t first, uint32_t last);
/* And of `sign` times some bytes by device. */
void ff_columns_add_bytes(struct ff_trial *e, const struct ff_memo_bytes *b, int64_t sign,
		uint32_t first, uint32_t last);
/* From when it is `on` until it is not all that is added is noted; and takes that away.  False:
 * it is too much to have been noted. */
void ff_columns_note(struct ff_trial *e, bool on);
bool ff_columns_undo(struct ff_trial *e);
/* The most that lives on a device at once, which are asked for one after another from the first on;
 * `before`: of the one before it. */
int64_t ff_columns_peak(struct ff_trial *e, uint32_t device, int64_t before);

#endif
