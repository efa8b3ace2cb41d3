/* NCCL among ranks in one process and in several on one host.  SPDX-License-Identifier: Apache-2.0
 *
 * What a rank calls at once (a call, or those of a group) is one operation of its stream.  When
 * that is its turn it first says what it was called for, and with it what it sends; then it waits
 * until all whom it concerns have said so, which drives their streams where they are in this
 * process; then it checks that all were called for the same, and takes what it receives. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include <nccl.h>

#include "board.hpp"
#include "bundle.hpp"

using namespace talk;

namespace
{

/* ---- posting ---- */

struct Posted {
	ncclComm *comm;
	cudaStream_t stream;
	Call call;
};

thread_local int depth;
thread_local std::vector<Posted> posted;
thread_local std::vector<ncclComm *> joining;

bool known(ncclComm_t c)
{
	return std::find(comms.begin(), comms.end(), c) != comms.end();
}

ncclResult_t enqueue(std::vector<Posted> all)
{
	while (!all.empty()) {
		auto b = std::make_shared<Bundle>();
		twin::Op op;

		b->comm = all[0].comm;
		b->stream = all[0].stream;
		for (auto at = all.begin(); at != all.end();) {
			if (at->comm != b->comm || at->stream != b->stream) {
				++at;
				continue;
			}
			b->calls.push_back(at->call);
			at = all.erase(at);
		}
		for (Call &c : b->calls)
			c.header.captured ^= b->stream->capture != nullptr;
		op.what = names[b->calls[0].header.kind];
		op.joint = b;
		if (twin::enqueue(b->stream, std::move(op)) != cudaSuccess)
			return ncclUnhandledCudaError;
		if (b->stream->capture) {
			b->captured = true;
			b->comm->captured++;
			continue;
		}
		b->number = b->stream->issued;
		b->post();
	}
	twin::changed.notify_all();
	return ncclSuccess;
}

/* Arrays that overlap must be in place. */
bool in_place(const Call &c, int rank)
{
	uint64_t size = size_of(c.header.type), s = sends(c, rank) * size,
		 r = receives(c, rank) * size;
	auto *send = static_cast<const char *>(c.send);
	auto *recv = static_cast<const char *>(c.recv);

	if (!s || !r || send + s <= recv || recv + r <= send)
		return true;
	if (c.header.kind == ALL_GATHER)
		return send == recv + uint64_t(rank) * s;
	if (c.header.kind == REDUCE_SCATTER)
		return recv == send + uint64_t(rank) * r;
	return send == recv;
}

/* Ranks of the same communicator in this process. */
bool has_neighbours(const ncclComm *comm)
{
	for (const ncclComm *c : comms)
		if (c != comm && c->folder == comm->folder)
			return true;
	return false;
}

ncclResult_t check(const Call &c, ncclComm_t comm, cudaStream_t stream)
{
	const Header &h = c.header;

	if (!known(comm))
		return complain(ncclInvalidArgument, "there is no such communicator");
	if (!twin::known(stream) || stream->device != comm->device)
		return complain(ncclInvalidArgument, "a stream is not the communicator's device's");
	if (stream->capture && has_neighbours(comm))
		return complain(ncclInvalidUsage, "several ranks of one process communicate in "
						  "graphs, whose launches "
						  "may wait for each other for ever");
	if (!posted.empty() && bool(posted[0].stream->capture) != bool(stream->capture))
		return complain(ncclInvalidUsage, "a group is captured in part");
	if (!size_of(h.type) || (reduces(h.kind) && (h.op < 0 || h.op > ncclMin)) ||
			(reduces(h.kind) && h.type != ncclFloat32 && h.type != ncclFloat64 &&
					h.type != ncclBfloat16 && h.type != ncclInt32 &&
					h.type != ncclUint8))
		return complain(ncclInvalidArgument, "the double has no such type or operation");
	if (h.root < 0 || h.root >= comm->n || c.peer < 0 || c.peer >= comm->n)
		return complain(ncclInvalidArgument, "there is no such rank");
	if (!in_place(c, comm->rank))
		return complain(ncclInvalidArgument, "arrays overlap and are not in place");
	return ncclSuccess;
}

/* Faults of a call; true: there is none. */
bool distort(Call *c, cudaStream_t *stream)
{
	Header *h = &c->header;

	if (h->count > 1 && twin::planted("a call of NCCL's has a count too small"))
		h->count--;
	if (twin::planted("a call of NCCL's has a count too large"))
		h->count += 64;
	if (twin::planted("a call of NCCL's has another type"))
		h->type = h->type == ncclFloat32 ? ncclInt32 : ncclFloat32;
	if (reduces(h->kind) && twin::planted("a call of NCCL's reduces otherwise"))
		h->op = h->op == ncclSum ? ncclMax : ncclSum;
	if (twin::planted("a call of NCCL's is captured by one rank alone"))
		h->captured ^= 1;
	if (h->kind == ALL_REDUCE && twin::planted("another call of NCCL's is made"))
		h->kind = BROADCAST;
	if ((h->kind == BROADCAST || h->kind == REDUCE) &&
			twin::planted("a call of NCCL's has another root"))
		h->root = !h->root;
	if ((h->kind == SEND || h->kind == RECEIVE) &&
			twin::planted("a message of NCCL's has another end"))
		c->peer = 2;
	if (c->recv && twin::planted("NCCL receives where it should not"))
		c->recv = static_cast<char *>(c->recv) + 4;
	if (c->send && twin::planted("NCCL sends what it should not"))
		c->send = static_cast<const char *>(c->send) + 4;
	if (twin::planted("a call of NCCL's is on the default stream"))
		*stream = nullptr;
	if (twin::known(*stream) && twin::planted("a call of NCCL's is on another stream"))
		*stream = twin::beside(*stream);
	return twin::planted("a call of NCCL's is missing");
}

ncclResult_t post(Call c, ncclComm_t comm, cudaStream_t stream)
{
	twin::Call call("NCCL");
	ncclResult_t code;

	if (call.code != cudaSuccess)
		return ncclUnhandledCudaError;
	c.header.ranks = known(comm) ? comm->n : 0;
	if (distort(&c, &stream))
		return ncclSuccess;
	code = check(c, comm, stream);
	if (code != ncclSuccess)
		return code;
	posted.push_back({comm, stream, c});
	return depth ? ncclSuccess : enqueue(std::move(posted));
}

Call collective(Kind kind, const void *send, void *recv, uint64_t count, ncclDataType_t type,
		int op, int root)
{
	Call c = {};

	c.header.kind = kind;
	c.header.count = count;
	c.header.type = type;
	c.header.op = op;
	c.header.root = root;
	c.send = send;
	c.recv = recv;
	return c;
}

/* ---- communicators ---- */

struct Person {
	int64_t process, device;
	char host[64];
};

std::string person_name(int rank)
{
	return "i" + std::to_string(rank);
}

void introduce(const ncclComm *c)
{
	std::vector<char> text(sizeof(Person));
	const char *host = getenv("NCCL_HOSTID");
	Person p = {};

	p.process = getpid();
	p.device = c->device;
	snprintf(p.host, sizeof(p.host), "%s", host ? host : "");
	memcpy(text.data(), &p, sizeof(p));
	twin::board_put(c->folder, person_name(c->rank), text, true, 0);
}

/* Waits until all ranks are there; two of a host on one device are refused. */
ncclResult_t assemble(ncclComm *c, twin::Lock &lock)
{
	double until = twin::clock_ms() + timeout_ms();
	std::vector<Person> all(size_t(c->n));
	std::vector<char> text;

	for (int r = 0; r < c->n; r++) {
		while (!twin::board_get(c->folder, person_name(r), true, &text)) {
			if (twin::clock_ms() > until)
				return complain(ncclSystemError,
						"a communicator waits in vain for all its ranks");
			lock.unlock();
			usleep(100);
			lock.lock();
		}
		memcpy(&all[size_t(r)], text.data(), sizeof(Person));
		c->wide |= all[size_t(r)].process != getpid();
		for (int k = 0; k < r; k++)
			if (all[size_t(k)].device == all[size_t(r)].device &&
					!strcmp(all[size_t(k)].host, all[size_t(r)].host))
				return complain(ncclInvalidUsage,
						"two ranks are on one device of one host");
	}
	return ncclSuccess;
}

ncclResult_t assemble_all(twin::Lock &lock)
{
	std::vector<ncclComm *> all = std::move(joining);
	ncclResult_t code = ncclSuccess;

	joining.clear();
	for (const ncclComm *c : all)
		introduce(c);
	for (size_t i = 0; i < all.size() && code == ncclSuccess; i++)
		code = assemble(all[i], lock);
	return code;
}

/* As NCCL does from 2.26 on, which has no end of it. */
ncclResult_t wait_for_graphs(const ncclComm *c, twin::Lock &lock)
{
	double until = twin::clock_ms() + timeout_ms();

	while (c->captured) {
		if (twin::clock_ms() > until)
			return complain(ncclInvalidUsage,
					"an abort waits in vain for graphs to go that communicate "
					"by it");
		lock.unlock();
		usleep(100);
		lock.lock();
	}
	return ncclSuccess;
}

ncclResult_t leave(ncclComm_t c, bool abort)
{
	twin::Call call("ncclCommDestroy");
	std::vector<char> text;
	bool last = true;

	if (!known(c))
		return complain(ncclInvalidArgument, "there is no such communicator");
	if (abort && twin::lacks("abort"))
		return ncclSuccess; /* and its kernels go on */
	if (c->captured && !abort)
		return complain(ncclInvalidUsage, "a communicator goes before the graphs that "
						  "communicate by it: NCCL waits for those");
	if (!c->pending.empty() && !abort && twin::failure() == cudaSuccess)
		return complain(ncclInvalidUsage, "a communicator goes before its work is done");
	for (Bundle *b : c->pending)
		b->comm = nullptr;
	c->pending.clear();
	c->unsaid.clear();
	if (wait_for_graphs(c, call.lock) != ncclSuccess)
		return ncclInvalidUsage;
	comms.erase(std::find(comms.begin(), comms.end(), c));
	twin::board_put(c->folder, "bye" + std::to_string(c->rank), {}, true, 0);
	for (int r = 0; r < c->n && last; r++)
		last = twin::board_get(c->folder, "bye" + std::to_string(r), true, &text);
	if (last)
		twin::board_remove(c->folder);
	delete c;
	return ncclSuccess;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code)
{
	static const char *const texts[] = {"no error", "unhandled cuda error",
			"unhandled system error", "internal error", "invalid argument",
			"invalid usage", "remote process exited or there was a network error",
			"NCCL operation in progress"};

	return code >= 0 && code < 8 ? texts[code] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t)
{
	return "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	twin::Call call("ncclGetUniqueId");

	if (twin::lacks("meetings"))
		return complain(ncclSystemError, "no network interface is found");
	memset(id, 0, sizeof(*id));
	snprintf(id->internal, sizeof(id->internal), "%s", twin::board_new().c_str());
	return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *ret, int n, ncclUniqueId id, int rank)
{
	twin::Call call("ncclCommInitRank");

	if (twin::capturing())
		return complain(ncclInvalidUsage, "a communicator is made in a capture");
	auto *c = new ncclComm{};

	c->folder = id.internal;
	c->n = n;
	c->rank = rank;
	c->device = twin::device() + twin::planted("a communicator is another device's");
	*ret = c;
	if (twin::planted("two ranks of a communicator are one"))
		rank = c->rank = !rank;
	if (n < 1 || rank < 0 || rank >= n || local(c->folder, rank)) {
		delete c;
		*ret = nullptr;
		return complain(ncclInvalidArgument, "a rank is twice there or out of range");
	}
	comms.push_back(c);
	joining.push_back(c);
	return depth ? ncclSuccess : assemble_all(call.lock);
}

ncclResult_t ncclCommInitRankConfig(
		ncclComm_t *ret, int n, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	if (config && (config->size != sizeof(*config) || config->magic != 0xcafebeef))
		return complain(ncclInvalidArgument, "a configuration is not initialised");
	return ncclCommInitRank(ret, n, id, rank);
}

ncclResult_t ncclCommFinalize(ncclComm_t)
{
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
	return leave(c, false);
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
	return leave(c, true);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error)
{
	*error = known(c) ? c->error : ncclInvalidArgument;
	return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
	*n = c->n;
	return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
	*rank = c->rank;
	return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
	twin::Call call("ncclGroupStart");

	depth += !twin::planted("a group of NCCL's is not begun");
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	twin::Call call("ncclGroupEnd");
	std::vector<Posted> all;
	ncclResult_t code;

	if (twin::planted("a group of NCCL's is not ended"))
		return ncclSuccess;
	if (!depth)
		return complain(ncclInvalidUsage, "a group ends that has not begun");
	if (--depth)
		return ncclSuccess;
	all = std::move(posted);
	posted.clear();
	code = assemble_all(call.lock);
	return code == ncclSuccess ? enqueue(std::move(all)) : code;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(ALL_REDUCE, send, recv, count, type, op, 0), comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(REDUCE_SCATTER, send, recv, count, type, op, 0), comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(ALL_GATHER, send, recv, count, type, 0, 0), comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
		int root, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(BROADCAST, send, recv, count, type, 0, root), comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
		ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	return post(collective(REDUCE, send, recv, count, type, op, root), comm, stream);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
		ncclComm_t comm, cudaStream_t stream)
{
	Call c = collective(SEND, send, nullptr, count, type, 0, 0);

	c.peer = peer;
	return post(c, comm, stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		cudaStream_t stream)
{
	Call c = collective(RECEIVE, nullptr, recv, count, type, 0, 0);

	c.peer = peer;
	return post(c, comm, stream);
}

} // extern "C"
