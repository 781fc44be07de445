/* SPDX-License-Identifier: MIT */
/*
 * client.h - a client of the control socket without the library: it says what it is told to, right or wrong.
 */
#ifndef T_DAEMON_CLIENT_H
#define T_DAEMON_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <rdmad/msg.h>
#include <rdmad/ring.h>

/* ---- a daemon of the test's own -------------------------------------------- */

struct counts { /* of MSG_DUMP stats; counters summed over the devices */
	long contexts, pds, mrs, cqs, srqs, qps, channels, sessions, fds, maps;
	long users; /* who are charged with anything */
};

/* This process and what it starts: a network namespace with nothing but loopback, also without root.  false: not to be had. */
bool own_network(void);
/* Starts ./rdmad ($RDMAD_BIN) at an abstract socket of its own, there if possible, and waits until it answers. */
void daemon_start(void);
void daemon_start_with(const char *option); /* one more of its command line; NULL: none */
/* It must still run; SIGTERM, and it must end with status 0 (a sanitizer's report is another status). */
void daemon_stop(void);
struct counts daemon_counts(void);
long daemon_heap(void); /* bytes of its heap; 0: it does not know */
pid_t daemon_process(void);
const char *daemon_socket(void); /* its name, for $RDMAD_SOCKET */
/* Waits until no object, context or session of another client is left, and descriptors and maps are as at the start. */
void daemon_clean(void);

/* ---- a connection ------------------------------------------------------------ */

int dial(void);      /* connected, nothing said */
int dial_once(void); /* the same; -1: cannot */
int hail(void);      /* and MSG_HELLO */
/* Sends len bytes and descriptors; does not wait.  false: the connection is gone, or (flags MSG_DONTWAIT) full. */
bool say(int fd, const void *req, size_t len, const int *fds, unsigned fd_n, int flags);
/* One reply; descriptors into fds[3] (-1: none).  false: the connection is gone. */
#define CALL_FDS 4 /* of a reply, at most */
bool hear(int fd, struct msg_rep *, int *fds);
/* A request of the right length and its reply: rep->err.  Descriptors that come back are closed if fds is NULL. */
int call(int fd, struct msg_req *, struct msg_rep *, int *fds);

/* The text of MSG_DUMP; the caller's to give back. */
json_t *dump_of(int fd, uint32_t what, uint32_t qpn);
static inline json_t *dump(int fd, uint32_t what) { return dump_of(fd, what, 0); }
json_t *dump_read(int fd); /* the descriptor that came with the reply; it is closed */
/* Does a report of what went wrong say that? */
static inline bool reported(int fd, const char *text)
{
	json_t *j = dump(fd, DUMP_WHY);
	char *all = json_dumps(j, 0);
	bool found = all && strstr(all, text);

	free(all);
	json_decref(j);
	return found;
}
/* Of MSG_DUMP users as fd sees it (-1: as the one who started the daemon): "use" or "limit" of that quota; -1: he does not see that user. */
long user_has(int fd, uid_t, const char *part, const char *key);

/* ---- a context with one of everything ------------------------------------------- */

#define CX_BUF  65536u
#define CX_MAPS 8u

struct cx {
	int fd;
	struct bell *bell;
	int kick, event;
	uint8_t *buf; /* CX_BUF bytes, the MR */
	uint32_t pd, mr, key, channel, cq, srq, qpn, qp_bell, srq_bell;
	int channel_fd;
	struct ring cq_ring, sq, rq, srq_ring;
	uint32_t sq_stride;
	struct {
		void *p;
		size_t len;
		uint64_t slab; /* 0: none */
	} map[CX_MAPS];
	unsigned map_n;
};

void cx_open(struct cx *);                        /* the QP is RC */
void cx_open_type(struct cx *, uint32_t qp_type); /* enum qp_type */
/* The memory of a queue that a reply has made, and its descriptor, which is taken over; -1: there was none. */
uint8_t *cx_mem(struct cx *, const struct msg_mem *, int fd);
/* The QP to RTS, connected to the QP of peer (which may be cx itself). */
void cx_connect(struct cx *, const struct cx *peer);
/* The same, by the GIDs that are given (sgid: one of the device's) and with the PSNs that are given. */
struct cx_way {
	uint8_t sgid[16], dgid[16];
	uint32_t rq_psn, sq_psn;
};
void cx_connect_way(struct cx *, uint32_t dest_qpn, const struct cx_way *);
int cx_state(struct cx *, uint8_t state); /* modifies nothing but the state; errno */
/* The bell is left to the caller. */
static inline void cx_recv_put(struct cx *c, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct recv_wr *wr = ring_slot(&c->rq, c->rq.pos);

	*wr = (struct recv_wr){ .wr_id = wr_id, .sge_n = 1 };
	*(struct sge *)(wr + 1) = (struct sge){ (uintptr_t)c->buf + off, len, c->key };
	ring_publish(&c->rq, 1);
}

void cx_recv(struct cx *, uint64_t wr_id, uint32_t off, uint32_t len);
void cx_send(struct cx *, uint64_t wr_id, uint32_t off, uint32_t len);
void cx_ring(struct cx *, uint32_t bell);
void cx_kick(struct cx *); /* wakes its shard in both ways there are */
/* Waits up to 10 s for a completion.  false: none came. */
bool cx_poll(struct cx *, struct cqe *);
/* One message from cx to cx over its own QP; asserts that it arrives. */
void cx_ping(struct cx *);
/* Closes the connection and everything this side has of it, but buf. */
void cx_close(struct cx *);

#endif
