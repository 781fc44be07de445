/* SPDX-License-Identifier: MIT */
/*
 * spawn.c - children that are made by posix_spawn() and by vfork(), mostly to execute a program that has a connection as its standard
 * input and output.
 */
#include "pre.h"

void conn_pass(int fd)
{
	struct conn *c = conn_get(fd);

	if (!c)
		return;
	if (conn_state(c) == CONN_RDMA)
		bridge_open(c);
	conn_share(fd, c);
	conn_put(c);
}

/* A child uses what it is given another number of. */
EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int new)
{
	conn_pass(fd);
	return real()->posix_spawn_file_actions_adddup2(actions, fd, new);
}

/*
 * A child by vfork() has its parent's memory, and descriptors of its own: a connection could not be handed to it.  So while there are
 * connections it is one by fork(), as POSIX allows.  A function that called the real one would return twice, the second time through a
 * frame that the child has written over: therefore ours only chooses, and leaves no frame.
 */
#if defined(__x86_64__) || defined(__aarch64__)
static bool has_connection(int fd)
{
	struct conn *c = conn_own(fd);
	bool has = c && (conn_state(c) == CONN_RDMA || conn_state(c) == CONN_CONNECTING);

	if (c)
		conn_put(c);
	return has || heir_kind(fd) == HEIR_STREAM;
}

typedef pid_t maker(void);
maker *vfork_which(void);

__attribute__((used, visibility("hidden"))) maker *vfork_which(void)
{
	int fd = 0, top = conn_top() > heir_top() ? conn_top() : heir_top();

	while (fd < top && !has_connection(fd))
		fd++;
	return fd < top ? fork : real()->vfork;
}

__asm__(".pushsection .text\n"
	"	.globl vfork\n"
	"	.type vfork, %function\n"
	"vfork:\n"
#ifdef __x86_64__
	"	endbr64\n"
	"	subq $8, %rsp\n"
	"	call vfork_which\n"
	"	addq $8, %rsp\n"
	"	jmp *%rax\n"
#else
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-16]!\n"
	"	bl vfork_which\n"
	"	ldp x29, x30, [sp], #16\n"
	"	mov x16, x0\n"
	"	br x16\n"
#endif
	"	.size vfork, . - vfork\n"
	"	.popsection\n");
#endif
