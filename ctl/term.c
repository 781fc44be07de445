/* SPDX-License-Identifier: MIT */
/* term.c - the screen of rdmactl top: plain ANSI, termios, signals. */
#include "term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER       "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define LEAVE       "\033[0m\033[?25h\033[?1049l"
#define ESC         27
#define SEQUENCE_MS 100 /* the bytes of one key come closer together */

static struct termios before;
static volatile sig_atomic_t taken, ended, stopped;

static void put(const char *s, size_t len)
{
	while (len) {
		ssize_t n = write(STDOUT_FILENO, s, len);

		if (n < 0 && errno != EINTR)
			return;
		s += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

/* Only what a signal handler may call. */
static void leave(void)
{
	if (!taken)
		return;
	taken = 0;
	put(LEAVE, sizeof(LEAVE) - 1);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

static bool enter(void)
{
	struct termios raw = before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw))
		return false;
	taken = 1;
	put(ENTER, sizeof(ENTER) - 1);
	return true;
}

static void on_end(int sig) { ended = sig; }
static void on_stop(int sig) { stopped = sig; }
static void on_size(int) {}

/* A crash shall not leave a terminal behind that shows nothing. */
static void on_crash(int sig)
{
	leave();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void handle(int sig, void (*f)(int))
{
	struct sigaction a = { .sa_handler = f };

	sigaction(sig, &a, NULL);
}

bool term_begin(void)
{
	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before))
		return false;
	for (const int *s = (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, 0 }; *s; s++)
		handle(*s, on_end);
	for (const int *s = (const int[]){ SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, 0 }; *s; s++)
		handle(*s, on_crash);
	handle(SIGTSTP, on_stop);
	handle(SIGWINCH, on_size);
	atexit(term_end);
	return enter();
}

void term_end(void) { leave(); }

void term_size(int *columns, int *lines)
{
	struct winsize w;
	bool known = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col && w.ws_row;

	*columns = known ? w.ws_col : 80;
	*lines = known ? w.ws_row : 24;
}

/* ^Z: the terminal is the shell's until fg. */
static void stop(void)
{
	stopped = 0;
	leave();
	handle(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	handle(SIGTSTP, on_stop);
	enter();
}

/* As term_key(), but byte by byte. */
static int byte(int ms)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	unsigned char c;
	int n;

	if (ended)
		return -1;
	n = poll(&p, 1, ms);
	if (ended)
		return -1;
	if (stopped)
		stop();
	if (n <= 0)
		return 0;
	n = (int)read(STDIN_FILENO, &c, 1);
	return n == 1 ? c : n == 0 || errno != EINTR ? -1 : 0;
}

/* Arrows, wheels and their like send more behind an ESC: they are no key here.  The key ESC is alone. */
static int escape(void)
{
	int c, first;

	while ((c = first = byte(SEQUENCE_MS)) == ESC)
		;
	if (c == '[')
		while ((c = byte(SEQUENCE_MS)) > 0 && (c < '@' || c > '~'))
			;
	else if (c == 'O')
		c = byte(SEQUENCE_MS);
	return c < 0 ? c : first ? 0 : ESC;
}

int term_key(int ms)
{
	int c = byte(ms);

	return c == ESC ? escape() : c;
}

/* One line, cut to columns; colours end with it.  Returns the byte behind it. */
static const char *line(FILE *f, const char *s, int columns)
{
	int at = 0;

	for (; *s && *s != '\n'; s++) {
		if (*s <= 4 && *s >= 1)
			fputs(*s == 1 ? "\033[7m" : *s == 2 ? "\033[0m" : *s == 3 ? "\033[1;31m" : "\033[2m", f);
		else if ((*s & 0xc0) == 0x80 ? at <= columns : ++at <= columns)
			putc(*s, f);
	}
	fputs("\033[0m\033[K", f);
	return s;
}

void term_draw(const char *text)
{
	int columns, lines;
	char *out = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&out, &len);

	if (!f)
		return;
	term_size(&columns, &lines);
	fputs("\033[H", f);
	for (int y = 0; y < lines; y++) {
		text = line(f, text, columns);
		if (!*text)
			break;
		text++;
		if (y + 1 < lines)
			fputs("\r\n", f);
	}
	fputs("\033[J", f);
	if (!fclose(f))
		put(out, len);
	free(out);
}
