/* SPDX-License-Identifier: MIT */
/*
 * rs_ds.h - datagram rsockets: a UDP socket, whose descriptor is the socket's, and a UD QP for each address
 * that it sends from.
 *
 *	rs_ds_wire.c	headers
 *	rs_ds.c		the calls
 *	rs_ds_qp.c	QPs and what completes on them
 *	rs_ds_dest.c	destinations: which QP of ours and which of the peer's; UDP, by which that is learnt
 */
#ifndef RDMACM_RS_DS_H
#define RDMACM_RS_DS_H

#include "rs.h"
#include "rs_ds_wire.h"

enum { DS_BUCKETS = 64, DS_UDP_QUEUE = 256 };

/* A datagram that has come: in a slot of a QP's, or by UDP, in memory of its own. */
struct ds_in {
	struct ds_in *next;
	struct ds_qp *qp; /* NULL: by UDP */
	uint32_t slot;
	uint32_t len;
	const uint8_t *data;
	union ds_addr from;
};

struct ds_qp {
	struct ds_qp *next;
	union ds_addr local;
	uint8_t hdr[DS_HDR_MAX];
	size_t hdr_len;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *cc;
	struct ibv_cq *cq;
	bool armed;
	uint32_t mtu;
	uint8_t *mem; /* slots to receive in, slots to send from, where headers of the network go */
	size_t mem_len;
	struct ibv_mr *mr;
	struct ds_in *in;       /* of each slot */
	uint32_t *free, free_n; /* slots to send from */
};

struct ds_dest {
	struct ds_dest *next;
	union ds_addr addr;
	struct ds_qp *qp;
	struct ibv_ah *ah; /* NULL: by UDP */
	uint32_t qpn;
	bool tried;
	int64_t tried_at; /* the last attempt to find the way */
};

struct ds {
	int ep;               /* epoll, of the QPs' channels */
	uint32_t in_n, out_n; /* slots of a QP */
	struct ds_qp *qps;
	struct ds_dest *dests[DS_BUCKETS];
	struct ds_dest *peer; /* of rconnect() */
	struct ds_in *first, **last;
	bool gone;      /* the daemon has gone */
	uint32_t udp_n; /* how many of these came by UDP */
};

/* The QP that sends from that address.  0 or an errno. */
int ds_qp_get(struct rsock *, const union ds_addr *local, struct ds_qp **);
void ds_qps_free(struct ds *);
/* Sends what iov holds, len bytes. */
int ds_qp_send(struct rsock *, struct ds_dest *, const struct iovec *iov, size_t len);
void ds_in_add(struct ds *, struct ds_in *);
/* Takes the first waiting datagram away: it has been read. */
void ds_in_drop(struct rsock *);

/* The destination for an address; made if there is none yet.  0 or an errno. */
int ds_dest_get(struct rsock *, const union ds_addr *, struct ds_dest **);
void ds_dests_free(struct ds *);
/* 0 or an errno. */
int ds_udp_send(struct rsock *, struct ds_dest *, enum ds_udp_op, const struct iovec *iov, size_t n, int flags);

#endif
