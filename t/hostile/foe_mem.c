/* SPDX-License-Identifier: MIT */
/*
 * foe_mem.c - what is shared with the daemon: rings posted to and scribbled over, memory that goes away.
 */
#include "foe.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ASIDE_STEPS 2000

void foe_mem_make(struct foe *f)
{
	f->mem = mmap(NULL, FOE_MEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	f->shared_fd = memfd_create("foe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ftruncate(f->shared_fd, FOE_MEM) || fcntl(f->shared_fd, F_ADD_SEALS, F_SEAL_SHRINK))
		abort();
	f->shared = mmap(NULL, FOE_MEM, PROT_READ | PROT_WRITE, MAP_SHARED, f->shared_fd, 0);
	if (f->mem == MAP_FAILED || f->shared == MAP_FAILED)
		abort();
}

void foe_map_add(struct foe *f, const struct foe_map *m)
{
	struct foe_map *at = &f->map[foe_below(f, FOE_MAPS)];

	if (at->p)
		munmap(at->all, at->all_len);
	*at = *m;
}

void foe_map_drop(struct foe *f, unsigned link)
{
	for (unsigned i = 0; i < FOE_MAPS; i++)
		if (f->map[i].p && f->map[i].link == link) {
			munmap(f->map[i].all, f->map[i].all_len);
			f->map[i].p = NULL;
		}
}

static void kick(struct foe *f, struct foe_link *l)
{
	uint64_t n = foe_odds(f, 16) ? UINT64_MAX - 1 : 1;

	if (!l->bell)
		return;
	if (foe_odds(f, 2))
		syscall(SYS_futex, &l->bell->idle, FUTEX_WAKE, 1, NULL, NULL, 0);
	fcntl(l->kick, F_SETFL, O_NONBLOCK); /* so that it does not keep us: the next line does to others what it can */
	if (write(l->kick, &n, sizeof(n)) < 0 || foe_odds(f, 8))
		fcntl(l->kick, F_SETFL, 0);
}

static struct sge an_sge(struct foe *f, const struct foe_link *l)
{
	uint64_t at = (uintptr_t)(foe_odds(f, 2) ? f->mem : f->shared) + foe_below(f, FOE_MEM);

	if (foe_odds(f, 16))
		at = foe_dice(f) >> foe_below(f, 64);
	return (struct sge){ at, foe_odds(f, 16) ? (uint32_t)foe_dice(f) : foe_below(f, 9000),
			     foe_odds(f, 16) ? (uint32_t)foe_dice(f) : foe_made(f, l, MSG_MR_REG) };
}

static void a_send(struct foe *f, const struct foe_link *l, struct send_wr *wr, uint32_t stride)
{
	struct sge *sge = (struct sge *)(wr + 1);

	wr->op = (uint8_t)foe_below(f, 20);
	wr->flags = (uint8_t)foe_below(f, 32);
	wr->sge_n = (uint16_t)foe_below(f, 4);
	wr->inline_len = foe_odds(f, 2) ? 0 : foe_below(f, 300);
	wr->rkey = foe_made(f, l, MSG_MR_REG);
	wr->remote_addr = (uintptr_t)f->mem + foe_below(f, FOE_MEM);
	if (foe_odds(f, 4)) {
		wr->ud.dqpn = foe_made(f, l, MSG_QP_CREATE);
		wr->ud.qkey = 0;
		memcpy(wr->ud.av.dgid, f->gid, 16);
	}
	for (unsigned i = 0; i < wr->sge_n && sizeof(*wr) + (i + 1) * sizeof(*sge) <= stride; i++)
		sge[i] = an_sge(f, l);
}

static void noise(struct foe *f, uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)foe_dice(f);
}

/* A work request into one of the map's rings: sensible, or noise with a sensible index. */
static void a_slot(struct foe *f, const struct foe_link *l, struct foe_map *m, bool second)
{
	uint32_t slots = second ? m->slots2 : m->slots, stride = second ? m->stride2 : m->stride;
	uint32_t *pos = second ? &m->pos2 : &m->pos;
	uint8_t *base = m->p + (second ? m->off : 0);
	struct recv_wr *wr = (void *)(base + sizeof(struct ring_hdr) + (size_t)(*pos & (slots - 1)) * stride);

	if (foe_odds(f, 3))
		noise(f, (uint8_t *)wr, stride < 512 ? stride : 512);
	if (stride >= sizeof(struct send_wr) + sizeof(struct sge) && !second)
		a_send(f, l, (struct send_wr *)wr, stride);
	else if (stride >= sizeof(*wr) + sizeof(struct sge)) {
		*wr = (struct recv_wr){ .wr_id = foe_dice(f), .sge_n = foe_below(f, 3) };
		*(struct sge *)(wr + 1) = an_sge(f, l);
	}
	RING_STORE(&((struct ring_hdr *)base)->prod, ++*pos);
}

void foe_post(struct foe *f)
{
	struct foe_map *m = &f->map[foe_below(f, FOE_MAPS)];
	struct foe_link *l = &f->link[m->link];

	if (!m->p || !m->slots)
		return;
	for (unsigned n = 1 + foe_below(f, 8); n; n--)
		a_slot(f, l, m, m->slots2 && foe_odds(f, 2));
	if (l->bell) {
		uint32_t answer = bell_ring(l->bell, m->bell % BELL_QUEUES);

		kick(f, l);
		bell_kicked(l->bell, answer);
	}
}

/* A few bytes or a page of noise; mostly where the indices are. */
void foe_scribble(struct foe *f)
{
	struct foe_map *m = &f->map[foe_below(f, FOE_MAPS)];
	size_t at, len = foe_odds(f, 8) ? 4096 : 1 + foe_below(f, 16);

	if (!m->p)
		return;
	at = foe_dice(f) % (foe_odds(f, 2) && m->len > 320 ? 320 : m->len);
	if (foe_odds(f, 4))
		at = (at + m->off) % m->len;
	noise(f, m->p + at, len < m->len - at ? len : m->len - at);
	kick(f, &f->link[m->link]);
}

void foe_mem_spoil(struct foe *f)
{
	static const int prot[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
	uint32_t at = foe_below(f, FOE_MEM / 4096) * 4096, len = FOE_MEM - at;
	uint8_t *p = (foe_odds(f, 2) ? f->mem : f->shared) + at;

	switch (foe_below(f, 4)) {
	case 0: mprotect(p, len, prot[foe_below(f, 3)]); break;
	case 1: madvise(p, len, MADV_DONTNEED); break;
	case 2: mmap(p, len, prot[foe_below(f, 3)], MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0); break;
	case 3: fallocate(f->shared_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len); break;
	}
}

void foe_scribble_aside(struct foe *f)
{
	if (f->child || fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	f->child = true;
	foe_wake();
	foe_dice(f);
	for (unsigned i = 0; i < ASIDE_STEPS; i++)
		foe_scribble(f);
	_exit(0);
}
