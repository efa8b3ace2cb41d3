/* The places of a grid of strategies by hand.  SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

#include <stdio.h>
#include <string.h>

#include "ff/micro.h"
#include "space/space.h"

#define MOST_CHUNKS 12 /* stages that a device has */

static const uint8_t sizes[FF_PLACE_AXES] = {[FF_PLACE_STAGES] = 0, /* as many divisors as there */
		[FF_PLACE_TENSOR] = 0,                              /* are */
		[FF_PLACE_CONTEXT] = 1 + FF_PLACE_INSIDE,
		[FF_PLACE_SPLIT] = 4,
		[FF_PLACE_UPDATES] = 4,
		[FF_PLACE_OVER] = 2,
		[FF_PLACE_AGAIN] = 3,
		[FF_PLACE_MICRO] = 11,
		[FF_PLACE_ORDER] = 1 + FF_PLACE_1F1B + FF_PLACE_CHUNKS};
static const uint32_t largest[] = {[FF_PLACE_STAGES] = 16, [FF_PLACE_TENSOR] = 8};
static const char *const splits[] = {"", ",sequence", ",experts", ",sequence,experts"};
static const char *const updates[] = {"", ",zero-1", ",zero-2", ",zero-3"};
static const char *const over[] = {"", ",hybrid"};
static const char *const recomputed[] = {"", ",recompute=light", ",recompute"};
static const char *const orders[] = {",zb-v", ",zb-h1", ""};

/* Stages that each device has in turn, if a stage of one each would have `blocks` blocks: numbers
 * that divide these, so that stages are equal, and the least others where there are too few. */
static void list_chunks(uint32_t blocks, uint32_t ret[FF_PLACE_CHUNKS])
{
	uint32_t dividing = 0, n = 0;

	for (uint32_t v = 2; v <= MOST_CHUNKS; v++)
		dividing += v <= blocks && blocks % v == 0;
	for (uint32_t v = 2; n < FF_PLACE_CHUNKS; v++) {
		if (v > blocks || blocks % v != 0) {
			if (dividing >= FF_PLACE_CHUNKS - n)
				continue;
		} else {
			dividing--;
		}
		ret[n++] = v;
	}
}

void ff_places_init(struct ff_places *x)
{
	memcpy(x->sizes, sizes, sizeof(sizes));
	for (uint32_t axis = FF_PLACE_STAGES; axis <= FF_PLACE_TENSOR; axis++)
		for (uint32_t i = 1; i <= largest[axis]; i++)
			if (x->machine->n_devices % i == 0)
				x->divisor[axis][x->sizes[axis]++] = i;
	for (uint32_t i = 0; i < x->sizes[FF_PLACE_STAGES]; i++) {
		uint32_t stages = x->divisor[FF_PLACE_STAGES][i];

		list_chunks(x->n_blocks % stages ? 0 : x->n_blocks / stages, x->chunks[i]);
	}
}

uint32_t ff_places_count(const struct ff_places *x)
{
	uint32_t n = 1;

	for (uint32_t i = 0; i < FF_PLACE_AXES; i++)
		n *= x->sizes[i];
	return n;
}

uint32_t ff_place_number(const struct ff_places *x, const struct ff_place *p)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < FF_PLACE_AXES; i++)
		number = number * x->sizes[i] + p->at[i];
	return number;
}

struct ff_place ff_place_at(const struct ff_places *x, uint32_t number)
{
	struct ff_place p;

	for (uint32_t i = FF_PLACE_AXES; i-- > 0; number /= x->sizes[i])
		p.at[i] = (uint8_t)(number % x->sizes[i]);
	return p;
}

static bool is_searched(const struct ff_space *s, uint32_t micro_batches)
{
	const uint32_t *micro;
	uint32_t n = ff_space_micro(s, &micro);

	for (uint32_t i = 0; i < n; i++)
		if (micro[i] == micro_batches)
			return true;
	return false;
}

/* data is 0 where there are fewer devices than shares of products and stages. */
static bool is_even(const struct ff_places *x, uint32_t data)
{
	return data < 2 || (uint32_t)x->graph->batch % data == 0;
}

bool ff_places_have_micro(const struct ff_places *x, uint32_t m, uint32_t data)
{
	uint32_t batch = (uint32_t)x->graph->batch, parts = is_even(x, data) ? m * data : m;

	return m <= FF_MAX_MICRO_BATCHES && batch % parts == 0 && batch / m >= data &&
	       (x->samples || is_searched(x->space, m));
}

/* Gradients alone are not cut over a node: what is cut over all takes as many messages, and less
 * memory. */
static bool may_be_hybrid(const struct ff_places *x, const struct ff_place *p)
{
	uint8_t cut = p->at[FF_PLACE_UPDATES];
	uint32_t tensor = ff_place_tensor(x, p);

	return (cut == FF_PLACE_ZERO_1 || cut == FF_PLACE_ZERO_3) &&
	       ff_machine_shards(x->machine, tensor) && x->machine->nodes[0].count % tensor == 0;
}

/* Places are cut evenly, and among devices of a node alone. */
static bool may_cut_places(const struct ff_places *x, const struct ff_place *p)
{
	uint32_t context = ff_place_context(x, p), tensor = ff_place_tensor(x, p);
	uint32_t parts = context * (p->at[FF_PLACE_SPLIT] & 1 ? tensor : 1);

	return p->at[FF_PLACE_CONTEXT] == FF_PLACE_TOGETHER ||
	       (context > 1 && x->sequence && (uint32_t)x->sequence % parts == 0 &&
			       x->machine->nodes[0].count == context * tensor);
}

bool ff_place_is_there(const struct ff_places *x, const struct ff_place *p)
{
	uint32_t tensor = ff_place_tensor(x, p), stages = ff_place_stages(x, p);
	uint32_t n = x->machine->n_devices, each = tensor * stages * ff_place_context(x, p);

	if (x->samples && (each > 1 || p->at[FF_PLACE_SPLIT]))
		return false;
	if (!may_cut_places(x, p))
		return false;
	if (n % each || (tensor == 1 && (p->at[FF_PLACE_SPLIT] & 1)))
		return false;
	if (p->at[FF_PLACE_OVER] == FF_PLACE_NODE && !may_be_hybrid(x, p))
		return false;
	if (p->at[FF_PLACE_ORDER] != FF_PLACE_1F1B &&
			(stages == 1 || ff_place_micro(x, p) < stages))
		return false;
	return ff_places_have_micro(x, ff_place_micro(x, p), n / each);
}

bool ff_place_step(const struct ff_places *x, struct ff_place *p, uint32_t axis, bool up)
{
	uint8_t *at = &p->at[axis];

	if (axis == FF_PLACE_SPLIT)
		*at ^= up ? 1 : 2;
	else if (up ? *at + 1 == x->sizes[axis] : !*at)
		return false;
	else
		*at = (uint8_t)(up ? *at + 1 : *at - 1);
	return true;
}

uint32_t ff_place_micro(const struct ff_places *x, const struct ff_place *p)
{
	const uint32_t *micro;
	uint32_t n = x->samples ? 0 : ff_space_micro(x->space, &micro);

	return p->at[FF_PLACE_MICRO] < n ? micro[p->at[FF_PLACE_MICRO]]
					 : 1u << p->at[FF_PLACE_MICRO];
}

uint32_t ff_place_stages(const struct ff_places *x, const struct ff_place *p)
{
	return x->divisor[FF_PLACE_STAGES][p->at[FF_PLACE_STAGES]];
}

uint32_t ff_place_tensor(const struct ff_places *x, const struct ff_place *p)
{
	return x->divisor[FF_PLACE_TENSOR][p->at[FF_PLACE_TENSOR]];
}

uint32_t ff_place_context(const struct ff_places *x, const struct ff_place *p)
{
	uint32_t inside = x->machine->nodes[0].count / ff_place_tensor(x, p);

	return p->at[FF_PLACE_CONTEXT] == FF_PLACE_INSIDE && inside ? inside : 1;
}

uint32_t ff_place_data(const struct ff_places *x, const struct ff_place *p)
{
	return x->machine->n_devices / ff_place_tensor(x, p) / ff_place_stages(x, p) /
	       ff_place_context(x, p);
}

uint32_t ff_place_chunks(const struct ff_places *x, const struct ff_place *p)
{
	uint8_t order = p->at[FF_PLACE_ORDER];

	if (order > FF_PLACE_1F1B)
		return x->chunks[p->at[FF_PLACE_STAGES]][order - FF_PLACE_1F1B - 1];
	return order == FF_PLACE_ZB_V ? 2 : 1;
}

void ff_place_name(const struct ff_places *x, const struct ff_place *p, char name[FF_GRID_NAME])
{
	uint32_t context = ff_place_context(x, p), data = ff_place_data(x, p);
	char order[24], shares[24] = "";

	if (context > 1)
		snprintf(shares, sizeof(shares), ",cp=%u", context);

	if (p->at[FF_PLACE_ORDER] > FF_PLACE_1F1B)
		snprintf(order, sizeof(order), ",interleave=%u", ff_place_chunks(x, p));
	else
		snprintf(order, sizeof(order), "%s", orders[p->at[FF_PLACE_ORDER]]);
	snprintf(name, FF_GRID_NAME, "megatron:%u,%u,%u,%u%s%s%s%s%s%s%s", ff_place_tensor(x, p),
			data, ff_place_stages(x, p), ff_place_micro(x, p), shares,
			splits[p->at[FF_PLACE_SPLIT]], updates[p->at[FF_PLACE_UPDATES]],
			over[p->at[FF_PLACE_OVER]], recomputed[p->at[FF_PLACE_AGAIN]], order,
			is_even(x, data) ? "" : ",uneven-batch");
}

void ff_place_fill_stages(const struct ff_places *x, struct ff_place *p)
{
	p->at[FF_PLACE_UPDATES] = FF_PLACE_ZERO_1; /* hardly ever worse than none */
	p->at[FF_PLACE_ORDER] = FF_PLACE_1F1B;
	while (p->at[FF_PLACE_STAGES] && ff_place_micro(x, p) < 2 * ff_place_stages(x, p))
		p->at[FF_PLACE_MICRO]++;
	for (; !ff_place_is_there(x, p) && p->at[FF_PLACE_MICRO]; p->at[FF_PLACE_MICRO]--)
		continue;
	if (!ff_place_is_there(x, p))
		p->at[FF_PLACE_CONTEXT] = FF_PLACE_INSIDE;
}
