/* SPDX-License-Identifier: MIT */
/*
 * leaky.c - makes objects and leaves them: leaky HOW [SIGNAL].  HOW is clean (all are destroyed), return, _exit, signal, close
 * (the device is closed with objects on it), devices (only that is opened).  leaky many N close or devices: N
 * contexts, each with a PD or with nothing.
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char memory[8192];

static void *need(void *p, const char *what)
{
	if (!p) {
		perror(what);
		exit(99);
	}
	return p;
}

/* Contexts one after the other, each of which is opened, has a PD if it is to leave one, and is closed. */
static int many(struct ibv_device *dev, int n, bool leave)
{
	while (n-- > 0) {
		struct ibv_context *c = need(ibv_open_device(dev), "open");

		if (leave)
			need(ibv_alloc_pd(c), "pd");
		if (ibv_close_device(c))
			return 98;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "clean";
	struct ibv_device **list = need(ibv_get_device_list(NULL), "devices");
	struct ibv_context *c;
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	if (!strcmp(how, "many") && argc > 3)
		return many(list[0], atoi(argv[2]), !strcmp(argv[3], "close"));
	c = need(ibv_open_device(list[0]), "open");
	if (!strcmp(how, "devices"))
		return 0;
	pd = need(ibv_alloc_pd(c), "pd");
	mr = need(ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE), "mr");
	cq = need(ibv_create_cq(c, 16, NULL, NULL, 0), "cq");
	srq = need(ibv_create_srq(pd, &srq_init), "srq");
	init.send_cq = init.recv_cq = cq;
	qp = need(ibv_create_qp(pd, &init), "qp");
	printf("qpn %#x rkey %#x\n", qp->qp_num, mr->rkey);
	fflush(stdout);
	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "signal"))
		raise(argc > 2 ? atoi(argv[2]) : SIGKILL);
	if (!strcmp(how, "close"))
		return ibv_close_device(c) ? 98 : 0;
	if (!strcmp(how, "return"))
		return 0;
	return ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_destroy_cq(cq) || ibv_dereg_mr(mr) ||
			       ibv_dealloc_pd(pd) || ibv_close_device(c)
		       ? 97
		       : 0;
}
