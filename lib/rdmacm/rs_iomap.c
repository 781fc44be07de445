/* SPDX-License-Identifier: MIT */
/*
 * rs_iomap.c - memory of the program that the peer may write to directly (riomap), and writing to the peer's (riowrite).
 *
 * The owner of the memory writes an entry of the writer's iomap, which says where an offset is.
 */
#include "rs.h"

#include <sys/mman.h>

static bool index_used(const struct rs_link *l, int64_t index)
{
	for (const struct rs_iomap_mr *m = l->maps; m; m = m->next)
		if (m->index == index)
			return true;
	return false;
}

static int64_t index_free(const struct rs_link *l)
{
	for (int64_t i = 0; i < l->peer.iomap_n; i++)
		if (!index_used(l, i))
			return i;
	return -1;
}

static int ctl_wait(struct rsock *rs)
{
	int err = 0;

	while (!err && rs_sends(rs) && (rs->link.ctl_free < 2 || rs->state == RS_ACCEPTING))
		err = rs_wait(rs);
	return err ? err : rs->state == RS_CONNECTED ? 0 : ENOTCONN;
}

static int entry_send(struct rsock *rs, const struct rs_iomap_mr *m, uint64_t offset)
{
	struct rs_link *l = &rs->link;
	struct rs_iomap e = { offset, { (uintptr_t)m->buf, m->mr->rkey, (uint32_t)m->len } };
	uint64_t at = l->peer.sgl.addr + RS_SGL_N * sizeof(struct rs_sge) + (uint64_t)m->index * sizeof(e);

	if (l->peer.swap)
		e.offset = __builtin_bswap64(e.offset);
	e.sge = rs_sge_swap(e.sge, l->peer.swap);
	return rs_push_ctl(rs, rs_msg(RS_OP_IOMAP, (uint32_t)m->index), &e, sizeof(e), at, l->peer.sgl.key);
}

static int map(struct rsock *rs, struct rs_iomap_mr *m, bool remote, off_t *offset)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_WRITE : 0u);
	int err = ctl_wait(rs);

	if (err)
		return err;
	m->index = remote ? index_free(&rs->link) : -1;
	if (remote && m->index < 0)
		return ENOMEM;
	m->mr = ibv_reg_mr(rs->id->pd, m->buf, m->len, access);
	if (!m->mr)
		return errno;
	if (*offset == -1)
		*offset = remote ? (off_t)(uintptr_t)m->buf : 0;
	return remote ? entry_send(rs, m, (uint64_t)*offset) : 0;
}

EXPORT off_t riomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rs_iomap_mr *m;
	struct rsock *rs;
	int err;

	if (!len || len > UINT32_MAX || flags || prot & ~(PROT_WRITE | PROT_NONE))
		return fail(EINVAL);
	m = calloc(1, sizeof(*m));
	rs = m ? rs_lock(fd) : NULL;
	if (!rs) {
		err = m ? errno : ENOMEM;
		free(m);
		return fail(err);
	}
	m->buf = buf;
	m->len = len;
	err = rs->ds ? EOPNOTSUPP : map(rs, m, prot & PROT_WRITE, &offset);
	if (!err) {
		m->next = rs->link.maps;
		rs->link.maps = m;
	} else {
		if (m->mr)
			ibv_dereg_mr(m->mr);
		free(m);
	}
	rs_unlock_put(rs);
	return err ? fail(err) : offset;
}

EXPORT int riounmap(int fd, void *buf, size_t len)
{
	struct rsock *rs = rs_lock(fd);
	struct rs_iomap_mr **p, *m;

	if (!rs)
		return -1;
	for (p = &rs->link.maps; *p && ((*p)->buf != buf || (*p)->len != len); p = &(*p)->next)
		;
	m = *p;
	if (m) {
		*p = m->next;
		ibv_dereg_mr(m->mr);
		free(m);
	}
	rs_unlock_put(rs);
	return m ? 0 : fail(EINVAL);
}

/* ---- the writer's side ----------------------------------------------------------------------- */

/* Where offset is, and how much from there on. */
static size_t entry_find(const struct rsock *rs, uint64_t offset, uint64_t *addr, uint32_t *key)
{
	for (uint32_t i = 0; i < rs->opts.iomap_n; i++) {
		const volatile struct rs_iomap *e = &rs->link.iomap[i];

		if (offset < e->offset || offset - e->offset >= e->sge.len)
			continue;
		*addr = e->sge.addr + (offset - e->offset);
		*key = e->sge.key;
		return e->sge.len - (offset - e->offset);
	}
	return 0;
}

static int write_ready(struct rsock *rs, int flags)
{
	struct rs_link *l = &rs->link;

	for (;;) {
		int err;

		rs_progress_busy(rs);
		if (rs->wr_shut || rs->state == RS_CLOSED)
			return EPIPE;
		if (!rs_sends(rs) && rs->state != RS_CONNECTING)
			return ENOTCONN;
		if (rs->state == RS_CONNECTED && !rs->end_said && l->sq_free && l->send.used < l->send.size)
			return 0;
		if (rs->nonblock || flags & MSG_DONTWAIT)
			return EAGAIN;
		err = rs_wait(rs);
		if (err)
			return err;
	}
}

EXPORT size_t riowrite(int fd, const void *buf, size_t n, off_t offset, int flags)
{
	struct rsock *rs = rs_lock(fd);
	uint64_t addr = 0;
	uint32_t key = 0;
	size_t done = 0;
	int err = 0;

	if (!rs)
		return (size_t)-1;
	if (rs->ds)
		err = EOPNOTSUPP;
	while (done < n && !err) {
		ssize_t part;
		size_t len;

		err = write_ready(rs, flags);
		if (err)
			break;
		len = entry_find(rs, (uint64_t)offset + done, &addr, &key);
		if (!len) {
			err = EINVAL;
			break;
		}
		len = len < n - done ? len : n - done;
		part = rs_push_to(rs, (const uint8_t *)buf + done, len, addr, key);
		if (part < 0)
			err = errno;
		else
			done += (size_t)part;
	}
	rs_unlock_put(rs);
	return done || !err ? done : (size_t)fail(err);
}
