/* SPDX-License-Identifier: MIT */
/* bench-ref.h - what the files of bench-ref share. */
#ifndef BENCH_REF_H
#define BENCH_REF_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define RUN_NS 500000000ull

uint64_t now_ns(void);
_Noreturn void die(const char *what); /* by errno */
/* len bytes of memory, touched; kind: MAP_PRIVATE or MAP_SHARED */
void *pages(size_t len, int kind);
/* An address of IPv4; host NULL: any. */
struct sockaddr_in address(const char *host, const char *port);
int udp_socket(void);
int usage(void);

/* gso-recv PORT [LEN]; gso-send HOST PORT SEG N [LEN [M]] */
int gso_recv_main(int argc, char **argv);
int gso_send_main(int argc, char **argv);

#endif
