/* SPDX-License-Identifier: MIT */
/*
 * ucx_rails.c - UCX over two rails, one of which goes down for good: what UCX does of itself, and what a program can do.
 *
 *	ucx_rails	messages from a client to a server in this process; rdmad0 and rdmad1
 * The endpoint has both rails.  UCX ends it with the first of them; so the program makes one on the rail that is left, and sends
 * again what was not sent.  Prints which message failed and how, and the sum.  Built by the test with -lucp -libverbs.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define LEN      8192u
#define MESSAGES 200u

struct side {
	ucp_context_h ctx;
	ucp_worker_h worker;
	ucp_address_t *address;
	size_t address_len;
};

static unsigned char out[LEN], in[LEN];
static ucs_status_t lost; /* of the endpoint */

static void must(ucs_status_t s, const char *what)
{
	if (s == UCS_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, ucs_status_string(s));
	exit(1);
}

static void side_make(struct side *s, const char *rails)
{
	ucp_params_t p = { .field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG };
	ucp_worker_params_t w = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				  .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_config_t *config;

	must(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	must(ucp_config_modify(config, "NET_DEVICES", rails), "NET_DEVICES");
	must(ucp_init(&p, config, &s->ctx), "ucp_init");
	ucp_config_release(config);
	must(ucp_worker_create(s->ctx, &w, &s->worker), "ucp_worker_create");
	must(ucp_worker_get_address(s->worker, &s->address, &s->address_len), "ucp_worker_get_address");
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	(void)arg;
	(void)ep;
	lost = status;
}

static ucp_ep_h connect_to(const struct side *from, const struct side *to)
{
	ucp_ep_params_t p = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
					    UCP_EP_PARAM_FIELD_ERR_HANDLER,
			      .address = to->address,
			      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
			      .err_handler = { .cb = on_error } };
	ucp_ep_h ep;

	must(ucp_ep_create(from->worker, &p, &ep), "ucp_ep_create");
	return ep;
}

static ucs_status_t state(void *req)
{
	if (UCS_PTR_IS_ERR(req))
		return UCS_PTR_STATUS(req);
	return req ? ucp_request_check_status(req) : UCS_OK;
}

static void done(void *req)
{
	if (req && !UCS_PTR_IS_ERR(req))
		ucp_request_free(req);
}

/* One message, until it has arrived or the endpoint is lost. */
static ucs_status_t message(const struct side *client, const struct side *server, ucp_ep_h ep, unsigned n,
			    ucp_tag_t tag)
{
	ucp_request_param_t none = { 0 };
	void *r, *s;

	memset(out, (int)(n * 7 + 1), sizeof(out));
	memset(in, 0, sizeof(in));
	r = ucp_tag_recv_nbx(server->worker, in, LEN, tag, (ucp_tag_t)-1, &none);
	s = ucp_tag_send_nbx(ep, out, LEN, tag, &none);
	while (!lost && state(r) == UCS_INPROGRESS) {
		ucp_worker_progress(client->worker);
		ucp_worker_progress(server->worker);
	}
	if (lost && state(r) == UCS_INPROGRESS) {
		ucp_request_cancel(server->worker, r);
		while (state(r) == UCS_INPROGRESS)
			ucp_worker_progress(server->worker);
	}
	done(s);
	if (state(r) != UCS_OK || memcmp(in, out, LEN) != 0) {
		done(r);
		return lost ? lost : UCS_ERR_IO_ERROR;
	}
	done(r);
	return UCS_OK;
}

static int is_active(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_port_attr port = { 0 };
	struct ibv_context *c = NULL;

	for (unsigned i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			c = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!c || ibv_query_port(c, 1, &port))
		return 0;
	ibv_close_device(c);
	return port.state == IBV_PORT_ACTIVE;
}

int main(void)
{
	static struct side sides[2][2];
	struct side *client = &sides[0][0], *server = &sides[0][1];
	const char *left = NULL;
	unsigned again = 0;
	ucs_status_t s;
	ucp_ep_h ep;

	side_make(client, "rdmad0:1,rdmad1:1");
	side_make(server, "rdmad0:1,rdmad1:1");
	ep = connect_to(client, server);
	for (unsigned n = 0; n < MESSAGES; n++) {
		s = message(client, server, ep, n, n);
		if (s == UCS_OK)
			continue;
		if (left)
			return fprintf(stderr, "message %u: %s, on the rail that was left\n", n, ucs_status_string(s)),
			       1;
		left = is_active("rdmad0") ? "rdmad0:1" : is_active("rdmad1") ? "rdmad1:1" : NULL;
		if (!left || is_active("rdmad0") == is_active("rdmad1"))
			return fprintf(stderr, "message %u: %s, and not one rail is left\n", n, ucs_status_string(s)),
			       1;
		printf("UCX: the endpoint with two rails has failed: %s; %s is active\n", ucs_status_string(s), left);
		lost = UCS_OK;
		client = &sides[1][0];
		server = &sides[1][1];
		side_make(client, left);
		side_make(server, left);
		ep = connect_to(client, server);
		s = message(client, server, ep, n, MESSAGES + n);
		must(s, "the message that was lost");
		again++;
	}
	printf("%u messages arrived, %u of them by a second endpoint's first try\n", MESSAGES, again);
	return 0;
}
