/* SPDX-License-Identifier: MIT */
/*
 * ucx_cm.c - UCX endpoints that find each other by the RDMA CM: a listener and a caller, messages both ways.
 *
 *	ucx_cm server ADDRESS PORT	prints "ready", "ok"
 *	ucx_cm client ADDRESS PORT	prints "ok"
 * Run with UCX_TLS=rc_v,self,rdmacm (or ud_v) and UCX_SOCKADDR_TLS_PRIORITY=rdmacm.  Built by the test with -lucp.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>

#define LEN   300000u
#define TAG   7u
#define TURNS 20u

static unsigned char out[LEN], in[LEN];
static ucp_conn_request_h request;
static ucp_worker_h worker;

static void must(ucs_status_t s, const char *what)
{
	if (s == UCS_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, ucs_status_string(s));
	exit(1);
}

static void begin(void)
{
	ucp_params_t p = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
	ucp_worker_params_t w = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				  .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_config_t *config;
	ucp_context_h ctx;

	must(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	must(ucp_init(&p, config, &ctx), "ucp_init");
	ucp_config_release(config);
	must(ucp_worker_create(ctx, &w, &worker), "ucp_worker_create");
}

static void wait_for(void *req, const char *what)
{
	ucs_status_t s = UCS_OK;

	if (UCS_PTR_IS_ERR(req))
		must(UCS_PTR_STATUS(req), what);
	if (!req)
		return;
	while ((s = ucp_request_check_status(req)) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	ucp_request_free(req);
	must(s, what);
}

static void fill(unsigned char *p, unsigned seed)
{
	for (unsigned i = 0; i < LEN; i++)
		p[i] = (unsigned char)((i * 2654435761u + seed) >> 7);
}

static void talk(ucp_ep_h ep)
{
	ucp_request_param_t none = { 0 };
	void *r;

	for (unsigned i = 0; i < TURNS; i++) {
		fill(out, i);
		memset(in, 0, LEN);
		r = ucp_tag_recv_nbx(worker, in, LEN, TAG, ~(ucp_tag_t)0, &none);
		wait_for(ucp_tag_send_nbx(ep, out, LEN, TAG, &none), "send");
		wait_for(r, "receive");
		if (memcmp(in, out, LEN)) {
			fprintf(stderr, "wrong bytes in message %u\n", i);
			exit(1);
		}
	}
}

static void called(ucp_conn_request_h r, void *) { request = r; }

static void broken(void *arg, ucp_ep_h, ucs_status_t s) { *(ucs_status_t *)arg = s; }

int main(int argc, char **argv)
{
	static ucs_status_t lost = UCS_OK;
	struct sockaddr_in sa = { .sin_family = AF_INET };
	ucp_ep_params_t e = { .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
			      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
			      .err_handler = { broken, &lost } };
	ucp_listener_params_t l = { .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
						  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
				    .sockaddr = { (struct sockaddr *)&sa, sizeof(sa) },
				    .conn_handler = { called, NULL } };
	ucp_listener_h listener;
	ucp_ep_h ep;

	if (argc != 4 || inet_pton(AF_INET, argv[2], &sa.sin_addr) != 1)
		return 2;
	sa.sin_port = htons((uint16_t)atoi(argv[3]));
	begin();
	if (!strcmp(argv[1], "server")) {
		must(ucp_listener_create(worker, &l, &listener), "ucp_listener_create");
		puts("ready");
		fflush(stdout);
		while (!request)
			ucp_worker_progress(worker);
		e.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
		e.conn_request = request;
	} else {
		e.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
		e.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
		e.sockaddr.addr = (struct sockaddr *)&sa;
		e.sockaddr.addrlen = sizeof(sa);
	}
	must(ucp_ep_create(worker, &e, &ep), "ucp_ep_create");
	talk(ep);
	if (!strcmp(argv[1], "server"))
		while (lost == UCS_OK) /* the client closes */
			ucp_worker_progress(worker);
	else /* only here: what the server flushed might come when the client is gone */
		wait_for(ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH), "close");
	puts("ok");
	return 0;
}
