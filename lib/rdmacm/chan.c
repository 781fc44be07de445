/* SPDX-License-Identifier: MIT */
/*
 * chan.c - event channels: each is a connection to the daemon and a descriptor that the program polls.
 */
#include "cma.h"

#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/high.h>
#include <rdmad/own.h>

int chan_call(struct chan *c, struct cmm_req *req, struct cmm_rep *rep)
{
	int err;

	rep->over = 0;
	err = conn_swap(&c->conn, req, cmm_req_len(req->op), rep, sizeof(*rep), NULL);
	cmm_over_take(c->ch.fd, rep);
	return err;
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cmm_req req = { .op = CMM_OPEN };
	struct cmm_rep rep;
	struct chan *c = calloc(1, sizeof(*c));
	int err;

	if (!c) {
		errno = ENOMEM;
		return NULL;
	}
	/* Both libraries share memory with the daemon in one version, and a QP comes from libibverbs. */
	err = rdmad_verbs_abi == RDMAD_ABI ? conn_open(&c->conn) : EPROTONOSUPPORT;
	if (err)
		goto fail;
	c->conn.fd = fd_away(c->conn.fd, false);
	err = conn_swap(&c->conn, &req, cmm_req_len(req.op), &rep, sizeof(rep), &c->ch.fd);
	if (!err) {
		c->key = rep.open.key;
		c->users = 1;
		return &c->ch;
	}
	conn_close(&c->conn);
fail:
	free(c);
	errno = err == ENOSYS ? ENODEV : err;
	return NULL;
}

void chan_drop(struct chan *c)
{
	if (__atomic_sub_fetch(&c->users, 1, __ATOMIC_ACQ_REL))
		return;
	close(c->ch.fd);
	conn_close(&c->conn);
	free(c);
}

/*
 * The daemon sees the connection end, and so a thread that still waits for events wakes up, and is the last.  If there is none, the
 * descriptor is closed first, as a kernel has it: no event of it comes out of epoll(7) at another thread.
 */
EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct chan *c = to_chan(channel);

	__atomic_store_n(&c->destroyed, true, __ATOMIC_RELEASE);
	if (__atomic_load_n(&c->users, __ATOMIC_ACQUIRE) > 1 && conn_mine(&c->conn))
		shutdown(c->conn.fd, SHUT_RDWR);
	chan_drop(c);
}
