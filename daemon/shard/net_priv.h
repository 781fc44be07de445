/* SPDX-License-Identifier: MIT */
/* net_priv.h - the UDP edge from inside, for the files net*.c. */
#ifndef DAEMON_NET_PRIV_H
#define DAEMON_NET_PRIV_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <rdmad/gid.h>

#include "../../proto/hca.h"
#include "../../proto/icrc.h"
#include "net.h"
#include "net_refusal.h"

#define NET_TTL     64      /* of a socket, unless a route asks for another */
#define TRAIN_PKTS  64u     /* segments of a GSO send that every kernel takes (UDP_MAX_SEGMENTS) */
#define TRAIN_BYTES 65464u  /* a UDP payload's most, over IPv4 and IPv6 */
#define NET_HOT_NS  200000u /* how long a socket is read in each turn after something came */
#define TOKEN_LEN   8u      /* net_token, behind the ICRC of what shards of this daemon send each other */
#define RUN_LEN     65536u  /* a run's most */
#define RUNS_READ   32u     /* by one system call, when each is a packet alone */
#define RUNS_TURN   64u     /* of one socket in one turn: completions, ACKs, timers and other sockets wait meanwhile */
#define SENDERS     16u     /* a power of two: flows to a socket whose facts are kept */
#define HEARD       1024u   /* a power of two */
#define REFUSALS    32u
#define GIDS_HASH   4096u /* a power of two, twice DEVICES_MAX * RDMAD_GIDS */

/* A socket that packets of a GID leave by. */
struct net_out {
	int fd;
	uint16_t port;     /* of the source */
	unsigned slot;     /* that of the net_sock, whose socket it is; or SEND_SLOT: it is one of its own */
	int tos, priority; /* of the last packets sent, if priorities differ */

	/* net_late.c */
	struct unsent *late; /* what there is no room for, in order */
	struct held *held;   /* and who gave it; the last one's next, if there is one: */
	struct held **held_end;
	mono_t moved[2];      /* when something of them was sent last: to peers that were not heard, and others */
	struct net_out *next; /* of those that have some */
};

/* An address and port that packets come from. */
struct sender {
	uint8_t gid[16];
	uint16_t port;
	bool own;              /* an address of this daemon: with a token, or not at all */
	struct icrc_flow flow; /* len 0: nothing is known */
};

/* A GID on the wire. */
struct net_sock {
	int fd;
	unsigned slot;
	struct device *dev;
	uint8_t gid[16];
	unsigned ifindex;
	bool ipv6;
	bool group;          /* gid is a multicast group's */
	mono_t hot_until;    /* something came recently: read it each turn */
	bool flows;          /* something came in the last turn */
	uint8_t lone;        /* packets in a row that the kernel did not couple with others, RUNS_READ at most */
	struct net_out *out; /* 1 to net_ports, of a group none */
	unsigned out_n;
	bool unlabelled,
		bare; /* somebody of the host has leased a flow label: the kernel refuses those of programs; and ours */
	struct sender *sender; /* of what is being received */
	struct sender senders[SENDERS];
};

/* Datagrams to one peer, not sent yet.  Followed by or pointing to their bytes, which lie one behind the other. */
struct batch {
	struct net_sock *sock;
	struct net_out *out; /* of sock */
	struct hca *hca;     /* of the first: errors are counted there, */
	uint32_t qpn;        /* and told of as of its QP; 0: it has none */
	struct route route;
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} to;
	socklen_t to_len;
	bool gso;     /* one GSO send (packet i has identification i); else one by one (all have 0) */
	uint8_t tail; /* TOKEN_LEN if they are for another shard, else 0 */
	bool closed;  /* a shorter packet was the last that fits */
	unsigned n;
	size_t len;
	uint16_t pkt_len[TRAIN_PKTS];
};

/*
 * One that still grows.  Payload mostly begins with a page, its copy half a page away: a processor takes a read of what has the same
 * place in a page as something it is about to write for a read of that, and waits.
 */
struct train {
	struct batch b;
	struct icrc_flow flow;
	struct train *next; /* of those that are under way */
	bool listed;
	_Alignas(4096) uint8_t away[2048];
	uint8_t buf[TRAIN_BYTES + 4 * PKT_HDR_MAX];
};

/* A batch that the socket had no room for. */
struct unsent {
	struct unsent *next;
	mono_t since;
	size_t room; /* bytes of data */
	struct batch b;
	uint8_t data[];
};

/*
 * What one recvmsg(2), or recvmmsg(2), has read: runs of datagrams, each of one sender and coupled together by the kernel.
 * And how far this turn is.
 */
struct net_run {
	unsigned at;    /* whose they are: sock[at] */
	unsigned reads; /* of that socket in this turn, and their runs and bytes */
	unsigned runs;
	size_t sum;
	unsigned n; /* runs of the last one: vec->msg[0 .. n-1] */
};

/*
 * Room for what is read.  A run takes up to 64 KiB; of pages that no run reaches there are none in memory.  The odd length keeps
 * headers of short packets out of each other's way in the cache.
 */
struct net_vec {
	struct mmsghdr msg[RUNS_READ];
	struct iovec iov[RUNS_READ];
	struct sockaddr_storage from[RUNS_READ];
	union {
		struct cmsghdr align;
		uint8_t buf[CMSG_SPACE(sizeof(int)) * 4];
	} cmsg[RUNS_READ];
	_Alignas(64) uint8_t buf[RUNS_READ][RUN_LEN + 320];
};

_Static_assert(DEVICES_MAX *RDMAD_GIDS + GROUPS_MAX <= NET_SLOTS, "a slot for each GID and each group");

/*
 * Anybody on the host can send from its addresses, port 4791 included.  Datagrams that a shard has really sent to
 * another one end in this number; it is made when the daemon starts, and nobody else is shown it.
 */
extern uint64_t net_token;

struct gid_slot {
	uint8_t gid[16];
	struct device *dev;    /* NULL: free */
	struct net_sock *sock; /* NULL: not on the wire */
};

struct net {
	struct shard *shard;
	struct io *io;
	bool gso4; /* IPv4 identifications of GSO sends are as we want them */
	unsigned sock_n;
	struct net_sock *sock[NET_SLOTS]; /* the first sock_n */
	struct net_sock *by_slot[NET_SLOTS];
	struct net_group *groups;
	struct gid_slot gids[GIDS_HASH];
	uint8_t told[DEVICES_MAX * RDMAD_GIDS][16]; /* which GID of each row HCAs were told to be local; or zeros */
	struct { /* what net_device_to() was asked for last, and what it said: most are hosts' that are nobody's here */
		uint8_t gid[16];
		struct device *dev;
		bool known;
	} to;

	/* net_tx.c */
	const struct gid_slot *from; /* the last GID that was sent from; NULL: it is to be looked for */
	struct train *train;         /* one for each source port */
	unsigned train_n;
	struct { /* the one that was chosen last, and by what; NULL: it is to be chosen */
		struct train *train;
		const struct net_sock *sock;
		uint32_t flow_label, sqpn, dqpn;
	} last;
	struct train *under_way, **under_way_end; /* trains that have packets, in the order of the first ones */

	/* net_late.c */
	struct net_out *full;          /* sockets that there was no room in */
	const struct net_out *awaited; /* the first of them */
	bool retry;                    /* a socket has become ready: there may be room */
	mono_t retry_at;
	size_t late_len;          /* bytes that wait */
	uint8_t heard[HEARD][16]; /* GIDs of peers, by hash: the last ones */

	struct refusal refusals[REFUSALS]; /* of different queue pairs: the last ones */

	/* net_rx.c */
	struct net_run run;
	struct burst pkt; /* the packet just parsed: zeroing a new one each time would cost as much as parsing */
	struct icrc_rx icrc;
	struct net_vec *vec;
};

#endif
