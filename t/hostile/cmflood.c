/* SPDX-License-Identifier: MIT */
/*
 * cmflood.c - strangers ask a server that does not look to be connected, as fast as they can: that keeps nobody else from the
 * daemon.  Prints how long it takes to open a context with a queue pair meanwhile.
 *
 * The flood comes from this very machine and takes its processors; so the time for which the daemon's threads and this one could
 * have run and had none is taken off.
 */
#include "t/suite.h"

#include "forge.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdmad/cmmsg.h>

#define HOME     "127.0.0.1"
#define PORT     7471u
#define REQS     1024u /* each source's, again and again */
#define BATCH    64u
#define SETUPS   30u
#define SETUP_S  0.05          /* without a flood it is a millisecond */
#define SLOW     (SETUPS / 10) /* take longer, at most: nobody but the kernel knows what else a machine does */
#define FLOODERS 2u

enum { LISTENING, FLOODING, SENT, OVER };

static void cmm(int fd, struct cmm_req *req, struct cmm_rep *rep)
{
	ck_assert(say(fd, req, cmm_req_len(req->op), NULL, 0, 0));
	ck_assert_int_eq(recv(fd, rep, sizeof(*rep), 0), sizeof(*rep)); /* a descriptor that comes with it is gone */
	ck_assert_int_eq(rep->err, 0);
}

/* It listens, and fetches nothing. */
static void server(void *)
{
	struct cmm_req req = { .op = CMM_OPEN };
	struct cmm_rep rep;
	uint32_t id;
	int fd = hail();

	cmm(fd, &req, &rep);
	req = (struct cmm_req){ .op = CMM_CREATE_ID, .create = { .ps = CM_PS_TCP, .cookie = 1 } };
	cmm(fd, &req, &rep);
	id = rep.create.id;
	req = (struct cmm_req){ .op = CMM_BIND, .id = id };
	req.bind.addr.in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(PORT) };
	cmm(fd, &req, &rep);
	req = (struct cmm_req){ .op = CMM_LISTEN, .id = id, .listen = { .backlog = 16 } };
	cmm(fd, &req, &rep);
	note_set(LISTENING, 1);
	note_wait(OVER, 1);
	close(fd);
}

static size_t req_pkt(struct forge *f, uint32_t n, uint8_t *pkt)
{
	struct cm_ip ip = { .version = 4, .sport = 1234 };
	struct cm_msg m = { .attr = CM_REQ, .tid = n };

	m.req = (struct cm_req){ .local_id = 0x1000000 + n,
				 .service_id = cm_service_id(CM_PS_TCP, PORT),
				 .ca_guid = 0x1122334455667788u + n,
				 .qpn = 0x100 + n,
				 .remote_timeout = 20,
				 .pkey = 0xffff,
				 .mtu = 3,
				 .max_retries = 15,
				 .path = { .slid = 0xffff, .dlid = 0xffff, .hop_limit = 64, .ack_timeout = 18 } };
	memcpy(m.req.path.sgid, f->route.sgid, 16);
	memcpy(m.req.path.dgid, f->route.dgid, 16);
	memcpy(ip.src, f->route.sgid, 16);
	memcpy(ip.dst, f->route.dgid, 16);
	cm_ip_put(m.req.data, &ip);
	return forge_mad(f, &m, pkt);
}

/* From so many addresses; forever. */
static void flood(void *arg)
{
	static uint8_t pkt[REQS][FORGE_MAX];
	static struct forge f[64];
	const unsigned sources = *(unsigned *)arg;
	struct mmsghdr mm[BATCH];
	struct iovec iov[BATCH];
	size_t len = 0;

	note_wait(LISTENING, 1);
	for (unsigned i = 0; i < sources; i++) {
		char from[32];

		snprintf(from, sizeof(from), "127.1.%u.%u", (unsigned)getpid() & 0xff, i + 1);
		forge_open(&f[i], from, HOME, false);
	}
	for (unsigned i = 0; i < REQS; i++)
		len = req_pkt(&f[i / BATCH % sources], i, pkt[i]);
	for (unsigned n = 0;; n = (n + BATCH) % REQS) {
		struct forge *from = &f[n / BATCH % sources];

		for (unsigned k = 0; k < BATCH; k++) {
			iov[k] = (struct iovec){ pkt[n + k], len };
			mm[k].msg_hdr = (struct msghdr){ .msg_name = &from->to,
							 .msg_namelen = sizeof(from->to),
							 .msg_iov = &iov[k],
							 .msg_iovlen = 1 };
		}
		if (sendmmsg(from->fd, mm, BATCH, 0) > 0)
			__atomic_add_fetch(&note->n[SENT], BATCH, __ATOMIC_RELAXED);
		note_set(FLOODING, 1);
	}
}

/* Of one set-up, without the time in queues of processors. */
static double setup_s(void)
{
	double took = stage_seconds(), waited = stage_queued();
	struct cx c;

	cx_open(&c);
	cx_close(&c);
	took = stage_seconds() - took;
	waited = stage_queued() - waited;
	return took > waited ? took - waited : 0;
}

static void flooded(unsigned sources)
{
	double most = 0, sum = 0, begun, took;
	unsigned slow = 0;
	pid_t s, a[FLOODERS];

	stage_open(NULL);
	s = part_begin(UID_VICTIM, server, NULL);
	for (unsigned i = 0; i < FLOODERS; i++)
		a[i] = part_begin(UID_ATTACKER, flood, &sources);
	note_wait(FLOODING, 1);
	begun = stage_seconds();
	for (unsigned i = 0; i < SETUPS; i++) {
		took = setup_s();
		sum += took;
		slow += took > SETUP_S;
		most = took > most ? took : most;
		stage_goes_on(1);
	}
	printf("%u sources, %.0f REQs a second sent: a set-up takes %.1f ms, %.1f at most\n", FLOODERS * sources,
	       note->n[SENT] / (stage_seconds() - begun), sum / SETUPS * 1e3, most * 1e3);
	ck_assert_msg(slow <= SLOW, "%u of %u set-ups took longer than %.0f ms", slow, SETUPS, SETUP_S * 1e3);
	for (begun = stage_seconds(); sources == 1 && !stage_counter("cm_req_dropped");)
		ck_assert_msg(!stage_late(begun, 20), "no request of a source that never stops is dropped");
	for (unsigned i = 0; i < FLOODERS; i++)
		part_kill(a[i]);
	note_set(OVER, 1);
	part_end(s);
	stage_close();
}

START_TEST(one_source) { flooded(1); }
END_TEST
START_TEST(many_sources) { flooded(64); }
END_TEST

STAGE_MAIN("hostile: cmflood", one_source, many_sources)
