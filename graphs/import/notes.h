/* What a user should know of an import.  SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_IMPORT_NOTES_H
#define FF_IMPORT_NOTES_H

#include "importing.h"

/* Sentences on what was made of it. */
int ff_origin_notes(struct ff_import *im);

#endif
