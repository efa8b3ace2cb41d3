/* JSON text, before it is parsed: UTF-8 and grammar.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FF_JSON_TEXT_H
#define FF_JSON_TEXT_H

#include <stddef.h>

#include "ff/error.h"

#define FF_JSON_MAX_DEPTH 64
#define FF_JSON_MAX_BYTES ((size_t)1 << 30)

/* Bytes of the UTF-8 character at `s` (at most `n`); 0 when it is not one. */
size_t ff_utf8_length(const char *s, size_t n);

/* Strict RFC 8259 grammar, nesting of at most FF_JSON_MAX_DEPTH, no NUL (not
 * even escaped), numbers of at most 63 characters.  FF_E_INPUT names
 * file:line:column; columns count characters from 1. */
int ff_json_check_text(const char *file, const char *text, size_t len, struct ff_error *err);

#endif
