/* An account of the memory of the device that needs most.  SPDX-License-Identifier: Apache-2.0 */
#include "bytes.h"

/* The most that the device's buffers hold at once, by kind. */
static int add_peak(const struct ff_schedule *s, uint32_t device, struct ff_arena *scratch,
		struct ff_held *h, struct ff_error *err)
{
	int64_t *held[2], most[2] = {0, 0};
	int code = ff_held_over_tasks(s, device, scratch, held, err);

	if (code < 0)
		return code;
	for (uint32_t t = 0; t < s->n_tasks; t++)
		if (held[0][t] + held[1][t] > most[0] + most[1]) {
			most[0] = held[0][t];
			most[1] = held[1][t];
		}
	h->bytes[FF_HELD_ACTIVATIONS] += most[0];
	h->bytes[FF_HELD_BUFFERS] += most[1];
	return FF_OK;
}

int ff_held_find(const struct ff_schedule *s, struct ff_arena *scratch, struct ff_held *ret,
		struct ff_error *err)
{
	struct ff_arena_mark mark = ff_arena_mark(scratch);
	struct ff_held h = {.device = 0};
	int code;

	for (uint32_t i = 1; i < s->machine->n_devices; i++)
		if (s->memory_bytes[i] > s->memory_bytes[h.device])
			h.device = i;
	h.all_bytes = s->memory_bytes[h.device];
	ff_held_always(s, h.device, h.bytes);
	code = add_peak(s, h.device, scratch, &h, err);
	ff_arena_rewind(scratch, mark);
	if (code < 0)
		return code;
	h.bytes[FF_HELD_GAPS] = h.all_bytes;
	for (uint32_t k = 0; k < FF_HELD_GAPS; k++)
		h.bytes[FF_HELD_GAPS] -= h.bytes[k];
	*ret = h;
	return FF_OK;
}
