/* SPDX-License-Identifier: MIT */
#include "t/suite.h"

#include "foe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "stage.h"
#include "t/daemon/client.h"
#include "t/xorshift.h"

#define FDS_SENT 6
#define MAP_MAX  (64u << 20)

uint64_t foe_dice(struct foe *f) { return xorshift(&f->dice); }

uint32_t foe_below(struct foe *f, uint32_t n) { return (uint32_t)(foe_dice(f) >> 16) % n; }

/* ---- answers -------------------------------------------------------------------------- */

union answer {
	struct {
		uint32_t op, seq;
		int32_t err;
		uint32_t fd_n;
	} any;
	struct msg_rep m;
	struct cmm_rep c;
};

static void note_number(struct foe *f, struct foe_link *l, uint32_t op, uint32_t n)
{
	if (l->made_n[op] < FOE_KEEP)
		l->made[op][l->made_n[op]++] = n;
	else
		l->made[op][foe_below(f, FOE_KEEP)] = n;
}

/* The number of what the daemon says it has made. */
static uint32_t number_in(const union answer *a)
{
	if (a->any.op < CMM_OPEN)
		return a->m.obj.handle;
	return a->any.op == CMM_GET_EVENT ? a->c.event.id : a->c.create.id;
}

static void drop_fds(int *fds)
{
	for (unsigned i = 0; i < CALL_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void learn_open(struct foe_link *l, const struct msg_rep *m, int *fds)
{
	void *bell = mmap(NULL, m->open.bell_len, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);

	if (recv(fds[3], &l->token, sizeof(l->token), MSG_PEEK | MSG_DONTWAIT) != sizeof(l->token))
		memset(&l->token, 1, sizeof(l->token));
	l->ctx = true;
	l->key = m->open.key;
	if (bell == MAP_FAILED || l->bell)
		return;
	l->bell = bell;
	l->kick = fds[1];
	fds[1] = -1;
}

/* Where its rings are. */
static struct foe_map shape(const struct msg_rep *m)
{
	switch (m->op) {
	case MSG_CQ_CREATE:
	case MSG_CQ_RESIZE: return (struct foe_map){ .len = m->cq.map_len };
	case MSG_SRQ_CREATE:
		return (struct foe_map){
			.len = m->srq.map_len, .slots = m->srq.slots, .stride = m->srq.stride, .bell = m->srq.bell
		};
	case MSG_QP_CREATE:
		return (struct foe_map){ .len = m->qp.map_len,
					 .slots = m->qp.sq_slots,
					 .stride = m->qp.sq_stride,
					 .off = m->qp.rq_off < m->qp.map_len ? m->qp.rq_off : 0,
					 .slots2 = m->qp.rq_off < m->qp.map_len ? m->qp.rq_slots : 0,
					 .stride2 = m->qp.rq_stride,
					 .bell = m->qp.bell };
	default: return (struct foe_map){ .len = 4096 };
	}
}

/* A slab comes once: what is in it later is found where it is mapped already, if that is still known. */
static bool map_all(struct foe *f, struct foe_map *m, const struct msg_mem *mem, int fd)
{
	const struct foe_map *old = f->map;

	m->slab = mem ? mem->slab : 0;
	m->all_len = m->slab ? mem->all : m->len;
	if (m->all_len > MAP_MAX || (m->slab && (mem->off > mem->all || m->len > mem->all - mem->off)))
		return false;
	if (fd >= 0) {
		m->all = mmap(NULL, m->all_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	} else {
		while (old < f->map + FOE_MAPS && (!old->p || old->link != m->link || !m->slab || old->slab != m->slab))
			old++;
		m->all = old < f->map + FOE_MAPS ? mremap(old->all, 0, m->all_len, MREMAP_MAYMOVE) : MAP_FAILED;
	}
	m->p = m->all == MAP_FAILED ? NULL : m->all + (m->slab ? mem->off : 0);
	return m->p;
}

static const struct msg_mem *mem_of(const struct msg_rep *m)
{
	switch (m->op) {
	case MSG_CQ_CREATE: return &m->cq.mem;
	case MSG_SRQ_CREATE: return &m->srq.mem;
	case MSG_QP_CREATE: return &m->qp.mem;
	default: return NULL;
	}
}

static void learn(struct foe *f, unsigned i, const union answer *a, int *fds)
{
	struct foe_link *l = &f->link[i];
	struct foe_map m;

	if (a->any.op < CMM_OPS)
		__atomic_fetch_add(a->any.err ? &f->tally->refused[a->any.op] : &f->tally->good[a->any.op], 1,
				   __ATOMIC_RELAXED);
	if (a->any.err || a->any.op >= CMM_OPS) {
		drop_fds(fds);
		return;
	}
	note_number(f, l, a->any.op, number_in(a));
	if (a->any.op == MSG_QUERY_GID)
		memcpy(f->gid, a->m.gid.gid, 16);
	if (a->any.op == MSG_OPEN || a->any.op == MSG_IMPORT)
		learn_open(l, &a->m, fds);
	m = shape(&a->m);
	m.link = i;
	if (a->any.op < MSG_OPS && (fds[0] >= 0 || mem_of(&a->m)) && map_all(f, &m, mem_of(&a->m), fds[0]))
		foe_map_add(f, &m);
	for (unsigned k = 0; k < CALL_FDS; k++)
		foe_fd_keep(f, fds[k]);
}

/* ---- connections ------------------------------------------------------------------------ */

static void hang_up(struct foe *f, unsigned i)
{
	struct foe_link *l = &f->link[i];

	foe_map_drop(f, i);
	if (l->bell)
		munmap(l->bell, sizeof(*l->bell));
	if (l->fd >= 0)
		close(l->fd);
	if (l->kick >= 0)
		close(l->kick);
	*l = (struct foe_link){ .fd = -1, .kick = -1 };
}

static bool receive(int fd, union answer *a, int *fds, int flags)
{
	struct iovec iov = { .iov_base = a, .iov_len = sizeof(*a) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(CALL_FDS * sizeof(int))];
	} ctl;
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	struct cmsghdr *cm;
	ssize_t n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC | flags);

	for (unsigned i = 0; i < CALL_FDS; i++)
		fds[i] = -1;
	if (n < (ssize_t)offsetof(struct msg_rep, hello))
		return false;
	cm = CMSG_FIRSTHDR(&mh);
	if (cm)
		memcpy(fds, CMSG_DATA(cm), cm->cmsg_len - CMSG_LEN(0));
	return true;
}

/* Waits for an answer; if there is none in time, the daemon hangs. */
static void hear_one(struct foe *f, unsigned i)
{
	struct pollfd p = { .fd = f->link[i].fd, .events = POLLIN };
	double begun = stage_seconds();
	union answer a;
	int fds[CALL_FDS];

	while (poll(&p, 1, 100) <= 0 && !stage_late(begun, FOE_PATIENCE_S)) /* foe_wake() may interrupt it */
		;
	if (!p.revents) {
		fprintf(stderr, "no answer in %.0f s\n", stage_seconds() - begun);
		_exit(FOE_HANG);
	}
	memset(&a, 0, sizeof(a));
	if (receive(p.fd, &a, fds, MSG_DONTWAIT))
		learn(f, i, &a, fds);
	else
		hang_up(f, i);
}

static bool tell(struct foe *f, unsigned i, const void *msg, size_t len, const int *fds, unsigned n)
{
	if (say(f->link[i].fd, msg, len, fds, n, MSG_DONTWAIT))
		return true;
	if (errno != EAGAIN && errno != ETOOMANYREFS)
		hang_up(f, i);
	return false;
}

/* With what a well-behaved program sends, mostly. */
static void ask(struct foe *f, unsigned i, uint32_t op, const void *msg, size_t len)
{
	bool opens = op == MSG_OPEN || op == MSG_IMPORT, said;
	int fd = -1;

	if (f->link[i].fd < 0)
		return;
	if (opens && !foe_odds(f, 8))
		fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	else if (op == MSG_MR_REG && foe_odds(f, 2))
		fd = f->shared_fd;
	said = tell(f, i, msg, len, &fd, fd >= 0);
	if (opens && fd >= 0)
		close(fd);
	if (said)
		hear_one(f, i);
}

/* As good as a well-behaved program begins. */
static void begin(struct foe *f, unsigned i, uint32_t op)
{
	uint8_t msg[FOE_MSG_MAX];
	struct msg_req *r = (void *)msg;

	memset(msg, 0, sizeof(msg));
	*r = (struct msg_req){ .op = op };
	if (op == MSG_HELLO)
		r->hello.abi = RDMAD_ABI;
	if (op == MSG_OPEN)
		memcpy(r->open.name, f->device, sizeof(r->open.name));
	ask(f, i, op, msg, op >= CMM_OPEN ? cmm_req_len(op) : msg_req_len(op));
}

static void script(struct foe *f, unsigned i, const uint32_t *op, unsigned n)
{
	uint8_t msg[FOE_MSG_MAX];

	f->careful = !foe_odds(f, 4);
	for (unsigned k = 0; k < n && f->link[i].fd >= 0; k++) {
		size_t len = foe_msg(f, &f->link[i], op[k], msg);

		ask(f, i, op[k], msg, len);
	}
	f->careful = false;
}

/* Up to RTS, by the ways of all kinds of QPs; those that are not its own are refused. */
static void climb(struct foe *f, unsigned i)
{
	static const uint8_t rung[] = { 1, 2, 3, 1, 6, 5, 4, 7, 5 };

	f->climber = foe_made(f, &f->link[i], MSG_QP_CREATE);
	for (unsigned k = 0; k < sizeof(rung); k++) {
		f->rung = rung[k] + 1u;
		script(f, i, (const uint32_t[]){ MSG_QP_MODIFY }, 1);
	}
	f->rung = 0;
}

/* Mostly so far that a context or a channel has something in it. */
static void connect_new(struct foe *f, unsigned i)
{
	static const uint32_t context[] = { MSG_QUERY_GID, MSG_PD_ALLOC,  MSG_MR_REG,    MSG_CHANNEL_CREATE,
					    MSG_CQ_CREATE, MSG_QP_CREATE, MSG_QP_CREATE, MSG_SRQ_CREATE };
	static const uint32_t active[] = { CMM_CREATE_ID,     CMM_RESOLVE_ADDR, CMM_GET_EVENT,
					   CMM_RESOLVE_ROUTE, CMM_GET_EVENT,    CMM_CONNECT };
	static const uint32_t passive[] = { CMM_CREATE_ID, CMM_BIND, CMM_LISTEN, CMM_GET_EVENT, CMM_ACCEPT };

	f->link[i].fd = dial_once();
	if (f->link[i].fd < 0 || foe_odds(f, 16))
		return;
	begin(f, i, MSG_HELLO);
	if (foe_odds(f, 16))
		return;
	switch (foe_below(f, 6)) {
	case 0:
		begin(f, i, CMM_OPEN);
		script(f, i, active, 6);
		break;
	case 1:
		begin(f, i, CMM_OPEN);
		script(f, i, passive, 5);
		break;
	case 2: script(f, i, (const uint32_t[]){ MSG_IMPORT }, 1); break;
	default:
		begin(f, i, MSG_OPEN);
		script(f, i, context, 8);
		climb(f, i);
	}
}

/* ---- steps ----------------------------------------------------------------------------- */

/* One request, of any length, with any descriptors. */
static void request(struct foe *f, unsigned i)
{
	uint8_t msg[FOE_MSG_MAX + 64] = { 0 };
	uint32_t op = foe_op(f, &f->link[i]);
	size_t len = foe_msg(f, &f->link[i], op, msg);
	int fds[FDS_SENT];
	unsigned n = foe_odds(f, 3) ? 1 : 0;
	bool said;

	if (foe_odds(f, 32))
		n = foe_below(f, FDS_SENT + 1);
	if (foe_odds(f, 64))
		len = foe_odds(f, 2) ? foe_below(f, (uint32_t)len) : len + 1 + foe_below(f, 60);
	for (unsigned k = 0; k < n; k++)
		if ((fds[k] = foe_fd(f)) < 0)
			n = k;
	said = tell(f, i, msg, len, fds, n);
	for (unsigned k = 0; k < n; k++)
		foe_fd_keep(f, fds[k]);
	if (said && !foe_odds(f, 100)) /* sometimes it does not care */
		hear_one(f, i);
}

/* Requests without end, no answer read. */
static void flood(struct foe *f, unsigned i)
{
	uint8_t msg[FOE_MSG_MAX];

	for (unsigned n = foe_below(f, 300); n && f->link[i].fd >= 0; n--) {
		size_t len = foe_msg(f, &f->link[i], foe_op(f, &f->link[i]), msg);

		if (!tell(f, i, msg, len, NULL, 0))
			break;
	}
	if (foe_odds(f, 2))
		hang_up(f, i);
}

/* The child goes on with what it inherits; the parent dies, or lets go of all. */
static void split(struct foe *f)
{
	pid_t child = f->child ? -1 : fork();

	if (child < 0)
		return;
	if (child) {
		if (foe_odds(f, 2))
			kill(getpid(), SIGKILL);
		for (unsigned i = 0; i < FOE_LINKS; i++)
			hang_up(f, i);
		return;
	}
	f->child = true;
	foe_wake();
	foe_dice(f);
}

static void step(struct foe *f)
{
	unsigned i = foe_below(f, FOE_LINKS);
	uint32_t what = foe_below(f, 1000);

	if (f->link[i].fd < 0)
		connect_new(f, i);
	else if (what < 560)
		request(f, i);
	else if (what < 760)
		foe_post(f);
	else if (what < 880)
		foe_scribble(f);
	else if (what < 930)
		foe_fd_spoil(f);
	else if (what < 980)
		foe_mem_spoil(f);
	else if (what < 992)
		hang_up(f, i);
	else if (what < 995)
		flood(f, i);
	else if (what < 998)
		foe_scribble_aside(f);
	else
		split(f);
}

/* The descriptors that the test has open are nothing to a foe. */
static void let_go(const int *given)
{
	for (int fd = STDERR_FILENO + 1; fd < 1024; fd++) {
		bool keep = false;

		for (unsigned i = 0; i < FOE_GIVEN; i++)
			keep |= fd == given[i];
		if (!keep)
			close(fd);
	}
}

static void wake(int) {}

/* Pipes that it has filled and files that it has opened itself may block it; not for ever. */
void foe_wake(void)
{
	struct sigaction sa = { .sa_handler = wake }; /* without SA_RESTART */
	struct itimerval every = { { 1, 0 }, { 1, 0 } };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static void own_fault(int) { _exit(0); } /* in memory that it has taken from itself */

void foe_play(uint64_t seed, unsigned steps, const int *given, struct foe_tally *tally)
{
	static struct foe f;
	unsigned child_steps = 40;

	f = (struct foe){ .dice = seed | 1, .given = given, .tally = tally };
	for (unsigned i = 0; i < 8; i++)
		foe_dice(&f);
	for (unsigned i = 0; i < FOE_LINKS; i++)
		f.link[i].fd = f.link[i].kick = -1;
	for (unsigned i = 0; i < FOE_FDS; i++)
		f.fd[i] = -1;
	snprintf(f.device, sizeof(f.device), "rdmad0");
	let_go(given);
	foe_mem_make(&f);
	signal(SIGBUS, own_fault);
	signal(SIGSEGV, own_fault);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGIO, SIG_IGN);
	foe_wake();
	for (; steps && (!f.child || child_steps--); steps--) {
		step(&f);
		__atomic_fetch_add(&tally->steps, 1, __ATOMIC_RELAXED);
	}
	if (f.child)
		_exit(0);
}
