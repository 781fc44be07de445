/* SPDX-License-Identifier: MIT */
/* calls.h - what the tests of librspreload share: a connection of two sockets in one program. */
#ifndef T_RSPRELOAD_CALLS_H
#define T_RSPRELOAD_CALLS_H

#include "t/ok.h"
#include "t/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern struct sockaddr_in addr; /* of the listener */

int listener(int flags);
int listener_for(int flags, int backlog);
void *connector(void *fd);
/* A connection; whose rsocket it is tells TCP, which knows of none. */
void pair_open(int listen, int *client, int *server);
void pair_close(int listen, int client, int server);
void say(int fd, const char *text);
void hear(int fd, const char *text);
void say_there(int from, int to); /* "x", and it has come */
/* In a child, as of inetd. */
void executes(int fd, const char *program, const char *arg);
/* The child has the other end, and is cat. */
void echoes(int fd, int listen, pid_t);

#define CALLS_ASK "ask" /* as the program's argument: calls_fork.c executes it */
int calls_ask(void);
#define CALLS_FLUSH "flush" /* the same of calls_file.c, and behind it a port */
int calls_flush(const char *port);
#define CALLS_CAT "cat" /* of calls_spawn.c, and behind it a descriptor */
int calls_cat(const char *number);

void calls_cancel(Suite *);
void calls_close(Suite *);
void calls_connect(Suite *);
void calls_data(Suite *);
void calls_epoll(Suite *);
void calls_file(Suite *);
void calls_fork(Suite *);
void calls_idle(Suite *);
void calls_listen(Suite *);
void calls_reset(Suite *);
void calls_signal(Suite *);
void calls_spawn(Suite *);

#endif
