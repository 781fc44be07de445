/* SPDX-License-Identifier: MIT */
/*
 * fabric.c - many small messages by libfabric (item 20): tagged ones that are expected and unexpected, more at once than the
 * queues hold, untagged ones into multi-receive buffers, with CQ data.  Each message comes once, in its order, as it was sent.
 *
 *	fabric PROVIDER SECONDS PORT OWN-ADDRESS [PEER]		without PEER: the end that waits
 *
 * Both ends do the same at the same time, in rounds; a TCP connection exchanges addresses and keeps them in step.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define COUNT     600u /* messages of a round */
#define LEN_MAX   9000u
#define MULTI_LEN (256u << 10)
#define MULTI_N   4u
#define STUCK_S   30
#define UNTAGGED  2u /* of the three kinds of rounds */

enum { EXPECTED, UNEXPECTED };

struct message { /* what an operation is known by */
	struct fi_context2 ctx;
	uint32_t number;
	bool done;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static fi_addr_t peer;
static int tcp;
static uint8_t *out, *in, *multi[MULTI_N];
static struct message sends[COUNT], recvs[COUNT], multis[MULTI_N];
static unsigned round_now, sent_n, got_n, kind_now, posted_n;
static uint64_t total, stuck_at;
static const char *step = "start";

static uint64_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec;
}

static void fail(const char *what, long n)
{
	printf("FAILED round %u (%s): %s: %ld (%s); sent %u, got %u, posted %u of %u\n", round_now, step, what, n,
	       n < 0 ? fi_strerror((int)-n) : "-", sent_n, got_n, posted_n, COUNT);
	fflush(stdout);
	exit(1);
}

#define MUST(call)                        \
	do {                              \
		long rc_ = (call);        \
		if (rc_)                  \
			fail(#call, rc_); \
	} while (0)

/* ---- what a message is -------------------------------------------------------- */

static uint32_t dice(uint32_t a, uint32_t b)
{
	uint32_t x = a * 2654435761u ^ (b + 1) * 2246822519u;

	x ^= x >> 15;
	x *= 2654435769u;
	return x ^ x >> 13;
}

/* Mostly small: a sequence number at least. */
static size_t len_of(unsigned i)
{
	uint32_t d = dice(round_now, i);

	return 4 + (d & 15 ? d >> 8 & 127 : d >> 8 & 31 ? d % 2000 : d % (LEN_MAX - 4));
}

static void fill(uint8_t *p, unsigned i)
{
	size_t len = len_of(i);

	memcpy(p, &i, 4);
	for (size_t k = 4; k < len; k++)
		p[k] = (uint8_t)(i * 7 + round_now + k);
}

static void check(const uint8_t *p, size_t len, unsigned i)
{
	uint32_t number;

	memcpy(&number, p, 4);
	if (number != i)
		fail("another message came, number", number);
	if (len != len_of(i))
		fail("length", (long)len);
	for (size_t k = 4; k < len; k++)
		if (p[k] != (uint8_t)(i * 7 + round_now + k))
			fail("byte", (long)k);
}

/* ---- completions ------------------------------------------------------------- */

static void multi_post(struct message *m)
{
	struct iovec iov = { multi[m - multis], MULTI_LEN };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = m };

	MUST(fi_recvmsg(ep, &msg, FI_MULTI_RECV));
}

static void received(const struct fi_cq_tagged_entry *e)
{
	struct message *m = e->op_context;

	if (kind_now == UNTAGGED) {
		if (e->flags & FI_RECV) {
			if (!(e->flags & FI_REMOTE_CQ_DATA) || e->data != got_n)
				fail("CQ data", (long)e->data);
			check(e->buf, e->len, got_n++);
		}
		if (e->flags & FI_MULTI_RECV)
			multi_post(m);
		return;
	}
	if (m->done)
		fail("completed twice, number", m->number);
	m->done = true;
	check(in + (size_t)m->number * LEN_MAX, e->len, m->number);
	got_n++;
}

static bool progress(void)
{
	struct fi_cq_tagged_entry e[16];
	struct fi_cq_err_entry err = { 0 };
	long n = fi_cq_read(cq, e, 16);

	if (n == -FI_EAGAIN) {
		if (now_s() > stuck_at)
			fail("nothing completes any more, for seconds", STUCK_S);
		return false;
	}
	if (n == -FI_EAVAIL) {
		fi_cq_readerr(cq, &err, 0);
		fail("a completion with an error", -err.err);
	}
	if (n < 0)
		fail("fi_cq_read", n);
	stuck_at = now_s() + STUCK_S;
	for (long i = 0; i < n; i++) {
		if (e[i].flags & FI_SEND)
			sent_n++;
		else
			received(&e[i]);
	}
	return true;
}

/* ---- rounds --------------------------------------------------------------------- */

static void in_step(void)
{
	char c = 'x';

	step = "waiting for the other end";
	if (write(tcp, &c, 1) != 1)
		fail("write", -errno);
	while (recv(tcp, &c, 1, MSG_DONTWAIT) != 1) {
		if (errno != EAGAIN)
			fail("the other end has gone", -errno);
		progress();
	}
}

/* As many as there is room for. */
static void recvs_post(void)
{
	while (posted_n < COUNT) {
		struct message *m = &recvs[posted_n];
		long rc = fi_trecv(ep, in + (size_t)posted_n * LEN_MAX, LEN_MAX, NULL, peer, posted_n, 0, m);

		if (rc == -FI_EAGAIN)
			return;
		if (rc)
			fail("fi_trecv", rc);
		posted_n++;
	}
}

static long send_one(unsigned i)
{
	uint8_t *p = out + (size_t)i * LEN_MAX;
	size_t len = len_of(i);

	if (kind_now == UNTAGGED)
		return fi_senddata(ep, p, len, NULL, i, peer, &sends[i]);
	if (len <= info->tx_attr->inject_size && (i & 3) == 1) {
		long rc = fi_tinject(ep, p, len, peer, i);

		sent_n += !rc;
		return rc;
	}
	return i & 1 ? fi_tsend(ep, p, len, NULL, peer, i, &sends[i])
		     : fi_tsenddata(ep, p, len, NULL, i, peer, i, &sends[i]);
}

static void one_round(void)
{
	kind_now = round_now % 3;
	sent_n = got_n = posted_n = 0;
	for (unsigned i = 0; i < COUNT; i++) {
		recvs[i] = (struct message){ .number = i };
		fill(out + (size_t)i * LEN_MAX, i);
	}
	if (kind_now == EXPECTED)
		recvs_post();
	in_step();
	step = kind_now == EXPECTED ? "expected" : kind_now == UNEXPECTED ? "unexpected" : "multi-receive";
	for (unsigned i = 0; i < COUNT;) {
		long rc = send_one(i);

		if (rc && rc != -FI_EAGAIN)
			fail("send", rc);
		if (rc || !(i % 64))
			progress();
		i += !rc;
		/* Receives that come late: half of what is sent is unexpected. */
		if (kind_now == EXPECTED || (kind_now == UNEXPECTED && i > COUNT / 2))
			recvs_post();
	}
	while (sent_n < COUNT || got_n < COUNT) {
		if (kind_now != UNTAGGED)
			recvs_post();
		progress();
	}
	total += COUNT;
	in_step();
}

/* ---- start -------------------------------------------------------------------------- */

static void tcp_open(const char *port, const char *own, const char *to)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	inet_pton(AF_INET, to ? to : own, &a.sin_addr);
	if (to) {
		for (unsigned i = 0; connect(fd, (struct sockaddr *)&a, sizeof(a)); i++) {
			if (i > 300)
				fail("connect", -errno);
			usleep(100000);
		}
		tcp = fd;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 1))
			fail("bind", -errno);
		tcp = accept(fd, NULL, NULL);
	}
	setsockopt(tcp, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void fabric_open(const char *provider, const char *own)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .size = 4 * COUNT };
	size_t least = LEN_MAX;

	hints->caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = 0;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->fabric_attr->prov_name = strdup(provider);
	MUST(fi_getinfo(FI_VERSION(1, 17), own, "0", FI_SOURCE, hints, &info));
	MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
	MUST(fi_domain(fabric, info, &domain, NULL));
	MUST(fi_av_open(domain, &av_attr, &av, NULL));
	MUST(fi_cq_open(domain, &cq_attr, &cq, NULL));
	MUST(fi_endpoint(domain, info, &ep, NULL));
	MUST(fi_ep_bind(ep, &av->fid, 0));
	MUST(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	MUST(fi_enable(ep));
}

static void names_swap(void)
{
	uint8_t name[256] = { 0 }, theirs[256];
	size_t len = sizeof(name);

	MUST(fi_getname(&ep->fid, name, &len));
	if (write(tcp, name, sizeof(name)) != sizeof(name) ||
	    recv(tcp, theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
		fail("addresses", -errno);
	if (fi_av_insert(av, theirs, 1, &peer, 0, NULL) != 1)
		fail("fi_av_insert", 0);
}

int main(int argc, char **argv)
{
	uint64_t end;
	uint8_t more = 1;

	if (argc < 5)
		return 2;
	out = malloc((size_t)COUNT * LEN_MAX);
	in = malloc((size_t)COUNT * LEN_MAX);
	fabric_open(argv[1], argv[4]);
	tcp_open(argv[3], argv[4], argc > 5 ? argv[5] : NULL);
	names_swap();
	stuck_at = now_s() + STUCK_S;
	for (unsigned i = 0; i < MULTI_N; i++) {
		multi[i] = malloc(MULTI_LEN);
		multi_post(&multis[i]);
	}
	end = now_s() + (uint64_t)atoi(argv[2]);
	for (round_now = 0; more; round_now++) {
		one_round();
		/* The end that waits decides. */
		if (argc > 5) {
			if (recv(tcp, &more, 1, MSG_WAITALL) != 1)
				fail("the other end has gone", -errno);
		} else {
			more = now_s() < end;
			if (write(tcp, &more, 1) != 1)
				fail("write", -errno);
		}
	}
	in_step();
	printf("%llu messages each way in %u rounds\n", (unsigned long long)total, round_now);
	fflush(stdout);
	_exit(0);
}
