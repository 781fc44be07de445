/* SPDX-License-Identifier: MIT */
/*
 * vdata.h - what the rooms of vdata share.
 *
 * vdata is a verbs program like any other: it knows verbs.h and is linked with the system's libibverbs.
 * Two of them, joined by TCP, move data by every operation of a service and compare every byte
 * (vdata_move.c, vdata_dgram.c), or do something wrong and look at the status (vdata_err.c).
 */
#ifndef VDATA_H
#define VDATA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VD_PSN_NEAR_WRAP 0xfffff0u /* first PSN: every run goes over the end of the number space */

struct vd_opt {
	const char *dev;
	const char *peer;    /* NULL: server */
	const char *without; /* what not to do, a letter for each: see usage */
	const char *err;     /* case of vdata_err.c; NULL: move data */
	int gid_index;
	int tcp_port;
	enum ibv_qp_type type;
	unsigned threads;
	unsigned rounds;
	size_t max; /* longest message */
	uint64_t seed;
	unsigned mtu; /* bytes; 0: the port's */
	unsigned timeout;
	bool events; /* sleep on the completion channel */
	bool lossy;  /* UC, UD: messages may be missing, what arrives must be right */
	bool srq;
	bool lenient; /* error cases: what is otherwise than specified is told, and the case goes on */
};

struct vd_node { /* of this process; read only once the threads run */
	const struct vd_opt *opt;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	union ibv_gid gid;
	uint64_t *counter;             /* FETCH_ADD by all threads of the peer */
	_Atomic uint64_t counter_want; /* what they say they added */
	struct ibv_mr *counter_mr;
};

struct vd_mem { /* memory of the peer */
	uint64_t addr;
	uint32_t rkey, len;
};

struct vd_addr { /* what each end tells the other */
	uint8_t gid[16];
	uint32_t qpn, psn, mtu, qkey;
	struct vd_mem src, dst, words, counter;
};

struct vd_piece { /* a work request's data in memory, cut at random */
	struct ibv_sge sge[4];
	int n;
};

struct vd_want { /* of a QP; zero means the default */
	enum ibv_qp_type type;
	unsigned depth, cqe;
	int access;
	unsigned rd_atom, timeout, retry, rnr_retry, min_rnr;
	bool no_responder; /* max_dest_rd_atomic 0 */
	bool srq;
};

struct vd_qp {
	const struct vd_node *node;
	int fd; /* TCP to the peer's thread */
	struct vd_want want;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct ibv_ah *ah; /* UD */
	struct vd_addr mine, peer;
	unsigned mtu;    /* bytes */
	unsigned events; /* not yet acknowledged */
	uint32_t inline_max;
};

_Noreturn void vd_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static inline bool vd_does(const struct vd_opt *o, char what)
{
	for (const char *p = o->without; *p; p++)
		if (*p == what)
			return false;
	return true;
}

/* Bytes both ways; returns when both have called it, so it is a barrier as well. */
void vd_swap(int fd, const void *mine, void *theirs, size_t len);
void vd_barrier(int fd);
int vd_listen(const struct vd_opt *);
int vd_accept(int listener);
int vd_connect(const struct vd_opt *);

void vd_node_open(struct vd_node *, const struct vd_opt *);
void vd_node_close(struct vd_node *);

/* CQ and QP in INIT; mine is filled in but for memory.  vd_qp_connect() swaps addresses and goes to RTS. */
void vd_qp_open(struct vd_qp *, const struct vd_node *, int fd, const struct vd_want *);
void vd_qp_connect(struct vd_qp *);
void vd_qp_close(struct vd_qp *);
void vd_recv(struct vd_qp *, struct ibv_recv_wr *); /* to the SRQ if there is one */
/* Waits for a completion, at most ms; 0: none came. */
int vd_poll(struct vd_qp *, struct ibv_wc *, int ms);
uint64_t vd_now_ms(void);

/* A stream of numbers; equal seeds, equal streams. */
struct vd_rng {
	uint64_t s;
};
uint64_t vd_rand(struct vd_rng *);
static inline uint64_t vd_below(struct vd_rng *r, uint64_t n) { return vd_rand(r) % n; }
/* The pseudo-random bytes [0, len) of a key: what a buffer must hold. */
void vd_fill(uint8_t *, size_t len, uint64_t key);
uint64_t vd_key(uint64_t seed, unsigned lane, unsigned round, unsigned side);
size_t vd_size(struct vd_rng *, size_t max, unsigned mtu); /* a length: edges of words, packets, pages are likely */

void vd_move(struct vd_node *, int fd, unsigned lane, bool client);  /* RC; UC without loss */
void vd_dgram(struct vd_node *, int fd, unsigned lane, bool client); /* UD; UC with loss */
bool vd_err(struct vd_node *, int fd, bool client);                  /* false: no such case */
void vd_err_list(void);

#endif
