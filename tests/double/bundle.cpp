/* Ranks say what they are called for, agree, and take what is theirs.
 * SPDX-License-Identifier: Apache-2.0 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "board.hpp"
#include "bundle.hpp"
#include "elements.hpp"

namespace talk
{

const char *const names[] = {"an all-reduce", "a reduce-scatter", "an all-gather", "a broadcast",
		"a reduction", "a send", "a receive"};

std::vector<ncclComm *> comms;

ncclResult_t complain(ncclResult_t code, const char *text)
{
	twin::complain(cudaSuccess, "NCCL: %s", text);
	return code;
}

double timeout_ms()
{
	const char *text = getenv("FF_DOUBLE_TIMEOUT");

	return text ? atof(text) * 1e3 : 20e3;
}

size_t size_of(int32_t type)
{
	static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 0, 4, 8, 2};

	return type >= 0 && type < 10 ? bytes[type] : 0;
}

ncclComm *local(const std::string &folder, int rank)
{
	for (ncclComm *c : comms)
		if (c->folder == folder && c->rank == rank)
			return c;
	return nullptr;
}

/* ---- arithmetic ---- */

/* Of NaN and a number ncclMax and ncclMin give the number, as fmaxf() and fminf() do
 * (reduce_kernel.h of NCCL, which its manual does not say). */
template <typename T> static T chosen(bool largest, T x, T y)
{
	if (x != x || y != y)
		return x != x ? y : x;
	return (x < y) == largest ? y : x;
}

template <typename T> static void reduce(int32_t op, T *sum, const T *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = op == ncclSum    ? T(sum[i] + x[i])
			 : op == ncclProd ? T(sum[i] * x[i])
					  : chosen(op == ncclMax, sum[i], x[i]);
}

/* Rounded at each addition, as from rank to rank. */
static void reduce_bf16(int32_t op, uint16_t *sum, const uint16_t *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float a = twin::from_bf16(sum[i]), b = twin::from_bf16(x[i]);

		reduce(op, &a, &b, 1);
		sum[i] = twin::to_bf16(a);
	}
}

static void reduce(const Header &h, char *sum, const char *x, size_t n)
{
	switch (h.type) {
	case ncclFloat32:
		return reduce(h.op, reinterpret_cast<float *>(sum),
				reinterpret_cast<const float *>(x), n);
	case ncclFloat64:
		return reduce(h.op, reinterpret_cast<double *>(sum),
				reinterpret_cast<const double *>(x), n);
	case ncclBfloat16:
		return reduce_bf16(h.op, reinterpret_cast<uint16_t *>(sum),
				reinterpret_cast<const uint16_t *>(x), n);
	case ncclInt32:
		return reduce(h.op, reinterpret_cast<int32_t *>(sum),
				reinterpret_cast<const int32_t *>(x), n);
	case ncclUint8:
		return reduce(h.op, reinterpret_cast<uint8_t *>(sum),
				reinterpret_cast<const uint8_t *>(x), n);
	}
}

bool reduces(Kind k)
{
	return k == ALL_REDUCE || k == REDUCE_SCATTER || k == REDUCE;
}

uint64_t sends(const Call &c, int rank)
{
	const Header &h = c.header;

	if (h.kind == RECEIVE || (h.kind == BROADCAST && rank != h.root))
		return 0;
	return h.kind == REDUCE_SCATTER ? h.count * uint64_t(h.ranks) : h.count;
}

uint64_t receives(const Call &c, int rank)
{
	const Header &h = c.header;

	if (h.kind == SEND || (h.kind == REDUCE && rank != h.root))
		return 0;
	return h.kind == ALL_GATHER ? h.count * uint64_t(h.ranks) : h.count;
}

static std::string collective_name(const Call &c, int rank)
{
	return "c" + std::to_string(c.number) + "." + std::to_string(rank);
}

/* What the sender leaves, and what the receiver. */
static std::string message_name(bool sender, int from, int to, uint64_t number)
{
	return (sender ? "s" : "r") + std::to_string(from) + "." + std::to_string(to) + "." +
	       std::to_string(number);
}

static void remove(std::vector<Bundle *> &from, const Bundle *b)
{
	auto at = std::find(from.begin(), from.end(), b);

	if (at != from.end())
		from.erase(at);
}

void Bundle::forget()
{
	if (!comm)
		return;
	remove(comm->unsaid, this);
	remove(comm->pending, this);
}

cudaError_t Bundle::broken(ncclResult_t code)
{
	comm->error = code;
	return twin::fail(cudaErrorLaunchFailure);
}

/* Its name, for whom, and how many read it. */
cudaError_t Bundle::say()
{
	said = true;
	remove(comm->unsaid, this);
	return twin::guarded("NCCL", [this] {
		for (const Call &c : calls) {
			size_t bytes = sends(c, comm->rank) * size_of(c.header.type);
			std::vector<char> text(sizeof(c.header) + bytes);

			if (!twin::reachable(names[c.header.kind], c.send, bytes))
				return cudaErrorIllegalAddress;
			memcpy(text.data(), &c.header, sizeof(c.header));
			if (bytes)
				memcpy(text.data() + sizeof(c.header), c.send, bytes);
			if (c.header.kind == SEND)
				twin::board_put(comm->folder,
						message_name(true, comm->rank, c.peer, c.number),
						text, comm->wide, 1);
			else if (c.header.kind == RECEIVE)
				twin::board_put(comm->folder,
						message_name(false, c.peer, comm->rank, c.number),
						text, comm->wide, 1);
			else
				twin::board_put(comm->folder, collective_name(c, comm->rank), text,
						comm->wide, comm->n);
		}
		return cudaSuccess;
	});
}

/* The first that a rank of this process has not said; its stream is driven there. */
static bool drive(ncclComm *peer, twin::Lock &lock)
{
	Bundle *b = peer->unsaid.empty() ? nullptr : peer->unsaid.front();

	if (!b)
		return false;
	if (b->stream->done + 1 < b->number)
		twin::force(b->stream, b->number - 1, lock);
	else if (!b->stream->busy && !b->said)
		b->say();
	else
		return false;
	return true;
}

/* What `rank` says under this name. */
cudaError_t Bundle::wait_for(
		int rank, const std::string &name, std::vector<char> *ret, twin::Lock &lock)
{
	double until = twin::clock_ms() + timeout_ms();
	char text[200];

	while (!twin::board_get(comm->folder, name, comm->wide, ret)) {
		ncclComm *peer = local(comm->folder, rank);

		if (twin::failure() != cudaSuccess)
			return twin::failure();
		if (peer && drive(peer, lock))
			continue;
		if (twin::clock_ms() > until) {
			snprintf(text, sizeof(text),
					"rank %d waits in vain for rank %d to begin %s (%s)",
					comm->rank, rank, names[calls[0].header.kind],
					name.c_str());
			complain(ncclSystemError, text);
			return broken(ncclSystemError);
		}
		if (comm->wide && twin::go_on_beside(stream, lock))
			continue;
		twin::gate(false);
		lock.unlock();
		usleep(50);
		lock.lock();
	}
	return cudaSuccess;
}

cudaError_t Bundle::agree(const Call &c, int rank, const std::vector<char> &said_there)
{
	char text[300];
	Header h;

	memcpy(&h, said_there.data(), sizeof(h));
	if (c.header.kind == SEND || c.header.kind == RECEIVE)
		h.kind = c.header.kind;
	if (!memcmp(&h, &c.header, sizeof(h)))
		return cudaSuccess;
	/* "Using NCCL with CUDA Graphs", NCCL User Guide: uniform over all ranks that take part */
	if (h.captured != c.header.captured) {
		snprintf(text, sizeof(text), "%s is in a graph on rank %d, and not on rank %d",
				names[c.header.kind], h.captured ? rank : comm->rank,
				h.captured ? comm->rank : rank);
		complain(ncclInvalidUsage, text);
		return broken(ncclInvalidUsage);
	}
	snprintf(text, sizeof(text),
			"rank %d calls %s of %llu elements of type %d (operation %d, root %d, %d "
			"ranks), rank %d %s of %llu of type %d (operation %d, root %d, %d ranks)",
			comm->rank, names[c.header.kind],
			static_cast<unsigned long long>(c.header.count), c.header.type, c.header.op,
			c.header.root, c.header.ranks, rank, names[h.kind],
			static_cast<unsigned long long>(h.count), h.type, h.op, h.root, h.ranks);
	complain(ncclInvalidUsage, text);
	return broken(ncclInvalidUsage);
}

/* Reduced from another rank on each time. */
cudaError_t Bundle::write(const Call &c, const std::vector<std::vector<char>> &all)
{
	const Header &h = c.header;
	size_t size = size_of(h.type), bytes = receives(c, comm->rank) * size;
	size_t skip = sizeof(h) + (h.kind == REDUCE_SCATTER ? size_t(comm->rank) * bytes : 0);
	size_t first = c.number % size_t(comm->n);
	char *to = static_cast<char *>(c.recv);
	std::vector<char> sum(bytes);

	if (!bytes)
		return cudaSuccess;
	if (!twin::reachable(names[h.kind], to, bytes))
		return cudaErrorIllegalAddress;
	if (h.kind == ALL_GATHER)
		for (size_t r = 0; r < all.size(); r++)
			memcpy(to + r * h.count * size, all[r].data() + skip, h.count * size);
	else if (!reduces(h.kind))
		memcpy(to, all[h.kind == BROADCAST ? size_t(h.root) : 0].data() + skip, bytes);
	else {
		memcpy(sum.data(), all[first].data() + skip, bytes);
		for (size_t k = 1; k < all.size(); k++)
			reduce(h, sum.data(), all[(first + k) % all.size()].data() + skip,
					bytes / size);
		memcpy(to, sum.data(), bytes);
	}
	return cudaSuccess;
}

cudaError_t Bundle::take_message(const Call &c, twin::Lock &lock)
{
	bool sender = c.header.kind == SEND;
	int from = sender ? comm->rank : c.peer, to = sender ? c.peer : comm->rank;
	std::string name = message_name(!sender, from, to, c.number);
	std::vector<std::vector<char>> all(1);
	cudaError_t code = wait_for(c.peer, name, &all[0], lock);

	if (code == cudaSuccess)
		code = agree(c, c.peer, all[0]);
	if (code == cudaSuccess && comm->wide)
		twin::board_drop(comm->folder, name);
	if (code != cudaSuccess || sender)
		return code;
	return twin::guarded("NCCL", [&] { return write(c, all); });
}

cudaError_t Bundle::take(const Call &c, twin::Lock &lock)
{
	std::vector<std::vector<char>> all(size_t(comm->n));
	Call before = c;

	if (c.header.kind == SEND || c.header.kind == RECEIVE)
		return take_message(c, lock);
	for (int r = 0; r < comm->n; r++) {
		cudaError_t code = wait_for(r, collective_name(c, r), &all[size_t(r)], lock);

		if (code == cudaSuccess)
			code = agree(c, r, all[size_t(r)]);
		if (code != cudaSuccess)
			return code;
	}
	/* who got here has read what came long before */
	if (comm->wide && c.number >= 8) {
		before.number -= 8;
		twin::board_drop(comm->folder, collective_name(before, comm->rank));
	}
	return twin::guarded("NCCL", [&] { return write(c, all); });
}

void Bundle::post()
{
	static std::map<int, uint64_t> turns;

	turn = ++turns[comm->device];
	for (Call &c : calls)
		c.number = c.header.kind == SEND      ? comm->sent[c.peer]++
			   : c.header.kind == RECEIVE ? comm->received[c.peer]++
						      : comm->collectives++;
	comm->unsaid.push_back(this);
	comm->pending.push_back(this);
}

std::shared_ptr<twin::Joint> Bundle::again(CUstream_st *on, uint64_t at)
{
	auto b = std::make_shared<Bundle>();

	b->comm = comm;
	b->stream = on;
	b->number = at;
	b->calls = calls;
	b->launched = true;
	b->post();
	return b;
}

/* The first of those before it that have not begun; whatever the communicators are. */
static Bundle *first_before(const Bundle *of)
{
	Bundle *first = nullptr;

	for (const ncclComm *c : comms)
		if (c->device == of->comm->device && !c->unsaid.empty() &&
				c->unsaid.front()->turn < (first ? first : of)->turn)
			first = c->unsaid.front();
	return first;
}

/* As NCCL begins what goes to several communicators where NCCL_LAUNCH_ORDER_IMPLICIT is 1. */
bool Bundle::in_turn() const
{
	return !comm || !comm->wide || !first_before(this);
}

cudaError_t Bundle::wait_for_turn(twin::Lock &lock)
{
	double until = twin::clock_ms() + timeout_ms();

	while (!in_turn() && twin::failure() == cudaSuccess) {
		Bundle *b = first_before(this);

		if (!b->stream->busy && (b->launched || b->stream->done + 1 < b->number)) {
			twin::force(b->stream, b->launched ? b->number : b->number - 1, lock);
		} else if (!b->stream->busy) {
			b->say();
		} else if (!twin::go_on_beside(stream, lock)) {
			if (twin::clock_ms() > until) {
				complain(ncclSystemError, "what was posted before waits in vain "
							  "for what was posted behind it");
				return broken(ncclSystemError);
			}
			twin::gate(false);
			lock.unlock();
			usleep(50);
			lock.lock();
		}
	}
	return twin::failure();
}

/* What it was called for ends with its communicator. */
cudaError_t Bundle::meet(twin::Lock &lock)
{
	cudaError_t code = said || !comm ? cudaSuccess : wait_for_turn(lock);

	if (code == cudaSuccess && comm && !said)
		code = say();

	for (size_t i = 0; i < calls.size() && code == cudaSuccess && comm; i++) {
		code = take(calls[i], lock);
		twin::spend(calls[i].header.count);
	}
	forget();
	return code;
}

/* Others that are in other processes must have said so; who is in this one is driven. */
bool Bundle::ready()
{
	bool all = said || in_turn();

	if (!comm || !comm->wide || (all && !said && say() != cudaSuccess))
		return true;
	for (const Call &c : calls) {
		bool message = c.header.kind == SEND || c.header.kind == RECEIVE;
		bool sender = c.header.kind == SEND;

		if (message)
			all &= local(comm->folder, c.peer) ||
			       twin::board_has(comm->folder,
					       message_name(!sender, sender ? comm->rank : c.peer,
							       sender ? c.peer : comm->rank,
							       c.number));
		for (int r = 0; r < comm->n && !message; r++)
			all &= local(comm->folder, r) ||
			       twin::board_has(comm->folder, collective_name(c, r));
	}
	if (!asked_ms)
		asked_ms = twin::clock_ms();
	return all || twin::clock_ms() > asked_ms + timeout_ms();
}

} // namespace talk
