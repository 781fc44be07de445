/* SPDX-License-Identifier: MIT */
/*
 * mem_map.c - mapping a client's dma-buf, SysV segment, or file of the kernel's memory: a memfd, or one of tmpfs or hugetlbfs.
 *
 *	file	|......WINDOW......|......WINDOW......|..      |
 *			^ a region: all of its window, as far as the file goes, is mapped for it, and for the next one there
 *
 * Pages beyond the end of a file that its owner cut short are gone, as those of a hole may be: held.h deals with both.
 */
#include "mem_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../proto/secret.h"
#include "clock.h"
#include "foreign.h"
#include "peer.h"
#include "quota.h"
#include "segment.h"
#include "touch.h"

#define POPULATE_MAX (64ull << 20)  /* a larger one is faulted in as it is used */
#define POPULATE_NS  1000000        /* and so is what this time does not suffice for */
#define PIECE        (256ull << 10) /* whose pages are looked at together */
#define WINDOW       (1ull << 30)   /* a power of two, as large as any page */
#define SEGMENT      2u             /* its id is what the kernel gives for its inode, which a memfd may have, too */
#define PAGE         ((uint64_t)sysconf(_SC_PAGESIZE))

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* A descriptor, as far as it matters here. */
struct source {
	int fd;
	bool memory;         /* of the kernel's; else a dma-buf */
	bool alone;          /* foreign_ends_alone() */
	bool sealed;         /* against writing: no new mapping can be made */
	bool writes;         /* open for reading and writing */
	bool seen;           /* which of its pages are there, if any are */
	bool whole;          /* they all are, or as many */
	uint64_t size, page; /* bytes; its unit */
	dev_t dev;
	ino_t ino;
};

/* Regions look for it; those of one key are in one chain. */
struct key {
	const struct peer *client;
	dev_t dev;
	ino_t ino;
	/* Of a window: where it starts; of a mapping of one region: its page, and 1; of a SysV segment: SEGMENT, too. */
	uint64_t at;
};

/* A mapping, and how many share it. */
struct map_file {
	struct map_file *next, **link; /* of its chain, and what points to it there; NULL: in none */
	struct key key;
	uint64_t start, end; /* of the file */
	struct held *held;
	struct touch *touch;
	unsigned users;
	struct bill bill;
};

/* The client chooses much of a key, but cannot choose the chain without knowing the secret. */
static struct {
	struct map_file **chain;
	size_t n;
	unsigned bits; /* of the number of chains */
	uint64_t secret[2];
} files;

bool map_keeps_size(int fd)
{
	int seals;

	return foreign_is_memfd(fd, &seals) ? seals & F_SEAL_SHRINK : foreign_is_dmabuf(fd);
}

/* ---- what is there --------------------------------------------------------------- */

/* EINVAL: none that could be mapped.  A file on a disk or of a server is not asked: it might not answer. */
static int source_read(struct source *s, int fd)
{
	struct stat st;
	off_t end;
	int seals;

	*s = (struct source){ .fd = fd, .memory = foreign_is_memfd(fd, &seals) };
	if (!s->memory && !foreign_is_dmabuf(fd))
		return EINVAL;
	s->writes = (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	s->page = held_page(fd);
	if (!s->memory) {
		end = lseek(fd, 0, SEEK_END);
		s->size = end > 0 ? (uint64_t)end : 0;
		return foreign_inode(fd, &s->dev, &s->ino);
	}
	if (fstat(fd, &st))
		return errno;
#ifdef F_SEAL_FUTURE_WRITE
	s->sealed = seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE);
#else
	s->sealed = seals & F_SEAL_WRITE;
#endif
	s->size = (uint64_t)st.st_size;
	/* Of others' files, and of huge pages that are not mapped here, the kernel does not tell. */
	s->seen = st.st_blocks && s->page == PAGE && (st.st_mode & S_IWOTH || st.st_uid == geteuid());
	s->whole = (uint64_t)st.st_blocks >= s->size / S_BLKSIZE;
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

/* ---- mappings that are shared ------------------------------------------------------ */

static struct map_file **chain_of(const struct key *k)
{
	uint64_t h = secret_hash(files.secret, k->at);

	h = secret_hash(files.secret, h ^ k->ino);
	h = secret_hash(files.secret, h ^ k->dev);
	h = secret_hash(files.secret, h ^ (uintptr_t)k->client);
	return &files.chain[h & (((size_t)1 << files.bits) - 1)];
}

static bool same(const struct key *a, const struct key *b)
{
	return a->client == b->client && a->dev == b->dev && a->ino == b->ino && a->at == b->at;
}

static void link_in(struct map_file *f)
{
	f->link = chain_of(&f->key);
	f->next = *f->link;
	if (f->next)
		f->next->link = &f->next;
	*f->link = f;
}

static void link_out(struct map_file *f)
{
	if (!f->link)
		return;
	*f->link = f->next;
	if (f->next)
		f->next->link = f->link;
	f->link = NULL;
}

static int chains_grow(void)
{
	struct map_file **old = files.chain;
	size_t old_n = old ? (size_t)1 << files.bits : 0;
	unsigned bits = old ? files.bits + 1 : 6;
	struct map_file **wide = calloc((size_t)1 << bits, sizeof(struct map_file *));

	if (!wide)
		return ENOMEM;
	if (!old && getrandom(files.secret, sizeof(files.secret), 0) != sizeof(files.secret)) {
		free(wide);
		return EAGAIN;
	}
	files.chain = wide;
	files.bits = bits;
	for (size_t i = 0; i < old_n; i++) {
		for (struct map_file *f = old[i], *next; f; f = next) {
			next = f->next;
			link_in(f);
		}
	}
	free(old);
	return 0;
}

/* One that is torn serves the regions that it has, and nobody looks at it again. */
static struct map_file *file_find(const struct key *key, uint64_t start, uint64_t end)
{
	struct map_file *f = files.chain ? *chain_of(key) : NULL, *next;

	for (; f; f = next) {
		next = f->next;
		if (!same(&f->key, key))
			continue;
		if (held_is_torn(f->held, f->held->base, f->held->len))
			link_out(f);
		else if (f->start <= start && f->end >= end)
			return f;
	}
	return NULL;
}

/* One of [start, end), which is not mapped yet; its user is charged with it. */
static int file_new(struct map_file **out, const struct key *key, uint64_t start, uint64_t end)
{
	const size_t heap = sizeof(struct held) + sizeof(struct map_file) + touch_cost(end - start);
	const struct cost cost = { { [QUOTA_MAPS] = HELD_MAPS, [QUOTA_MAP_LEN] = end - start, [QUOTA_HEAP] = heap } };
	struct map_file *f;
	int err = !files.chain || files.n >> files.bits ? chains_grow() : 0;

	if (err)
		return err;
	f = calloc(1, sizeof(*f));
	if (!f)
		return ENOMEM;
	*f = (struct map_file){ .key = *key, .start = start, .end = end };
	err = bill_open(&f->bill, key->client->uid, &cost);
	if (err)
		free(f);
	else
		*out = f;
	return err;
}

/* It is mapped, and regions may look for it; or it could not be, and is given up. */
static int file_done(struct map_file **out, struct map_file *f, int err)
{
	if (err) {
		bill_close(&f->bill);
		free(f);
		return err;
	}
	if (f->held->page == PAGE)
		f->touch = touch_new(f->held->base, f->held->len);
	link_in(f);
	files.n++;
	*out = f;
	return 0;
}

/*
 * A mapping of [start, end), or of [off, to) in it if there is no room for that; with no more than that its user has what
 * he may have.
 */
static int file_map(struct map_file **out, const struct source *s, const struct key *key, uint64_t start, uint64_t end,
		    uint64_t off, uint64_t to)
{
	/* Parts of the window that nobody uses take no huge page from the pool. */
	int flags = s->page > PAGE ? MAP_NORESERVE : 0;
	struct map_file *f;
	int err = file_new(&f, key, start, end);

	if (err)
		return err;
	if (held_map(&f->held, s->fd, start, end - start, flags)) {
		f->start = off;
		f->end = to;
		f->key.at = off | 1 | (key->at & SEGMENT);
		bill_set(&f->bill, QUOTA_MAP_LEN, to - off);
		err = held_map(&f->held, s->fd, off, to - off, flags);
	}
	if (!err)
		f->held->more = !s->alone;
	return file_done(out, f, err);
}

static int file_attach(struct map_file **out, const struct key *key, int shmid, size_t size)
{
	struct map_file *f;
	int err = file_new(&f, key, 0, size);

	if (err)
		return err;
	err = held_attach(&f->held, shmid, size);
	if (err)
		return file_done(out, f, err);
	f->end = f->held->len;
	bill_set(&f->bill, QUOTA_MAP_LEN, f->end);
	/* Only from now on is the id no other segment's. */
	err = segment_look(key->client, shmid, &size);
	if (err)
		held_unmap(f->held);
	return file_done(out, f, err);
}

static void file_drop(struct map_file *f)
{
	if (--f->users)
		return;
	link_out(f);
	files.n--;
	/*
	 * Huge pages are few, and their program may wait for them, as may one of our own user's for the end of a segment; of others
	 * there may be millions.
	 */
	if (f->held->page > PAGE || (f->key.at & SEGMENT && f->key.client->own > 0))
		held_unmap(f->held);
	else
		foreign_unmap(f->held, f->key.client->uid, &f->bill);
	bill_close(&f->bill);
	free(f->touch);
	free(f);
}

static uint64_t pow2_len(uint64_t n) { return n < 2 ? 1 : UINT64_C(1) << (64 - __builtin_clzll(n - 1)); }

/* One that has [off, end) in it. */
static int file_take(struct map_file **out, const struct source *s, const struct peer *client, uint64_t off,
		     uint64_t end, unsigned kind)
{
	uint64_t start = off & ~(WINDOW - 1), most, to = (end + WINDOW - 1) & ~(WINDOW - 1);
	struct key key = { client, s->dev, s->ino, start | kind }, one = key;
	struct map_file *f = NULL;
	int err = 0;

	off &= ~(s->page - 1);
	end = (end + s->page - 1) & ~(s->page - 1);
	one.at = off | 1 | kind;
	if (!s->sealed) {
		f = file_find(&key, off, end);
		f = f ? f : file_find(&one, off, end);
	}
	if (!f) {
		/* A file may grow, and a mapping of it may reach beyond its end; not that of a dma-buf or of huge pages. */
		most = (s->size - start + s->page - 1) & ~(s->page - 1);
		if (s->memory && s->page <= PAGE)
			most = pow2_len(most);
		err = file_map(&f, s, &key, start, start + most < to ? start + most : to, off, end);
	}
	if (err)
		return err;
	f->users++;
	*out = f;
	return 0;
}

/* Of a segment there is one, of all of it. */
static int segment_take(struct map_file **out, struct peer *client, int id, uint64_t end)
{
	struct key key = { .client = client, .ino = (ino_t)id, .at = SEGMENT };
	struct map_file *f;
	size_t size;
	int err = segment_look(client, id, &size);

	if (!err && end > ((size + PAGE - 1) & ~(PAGE - 1)))
		err = EINVAL;
	if (err)
		return err;
	f = file_find(&key, 0, end);
	if (!f) {
		err = segment_prove(client, id);
		if (!err)
			err = file_attach(&f, &key, id, size);
	}
	if (err)
		return err;
	f->users++;
	*out = f;
	return 0;
}

/* ---- the mapping of a region --------------------------------------------------------- */

/* Can there be such a part?  It must lie in its pages as the bytes do in those of the file. */
static bool is_part(const struct map_part *p)
{
	return p->len && p->addr + p->len >= p->addr && !((p->addr ^ p->off) & (PAGE - 1));
}

/* Of the pages of a piece those that are there: the others would be allocated, and be ours. */
static void holes_spare(uint8_t *p, size_t len)
{
	unsigned char there[PIECE / 4096];
	size_t n = (len + PAGE - 1) / PAGE, end;

	if (mincore(p, len, there))
		return;
	for (size_t i = 0; i < n; i = end) {
		for (end = i + 1; end < n && (there[end] & 1) == (there[i] & 1); end++)
			;
		if (there[i] & 1)
			madvise(p + i * PAGE, (end - i) * PAGE, MADV_POPULATE_READ);
	}
}

/* Now, not when a packet comes for it.  Whoever makes holes in a file that is whole has as much of it elsewhere. */
static void populate(const struct source *s, uint8_t *p, uint64_t len)
{
	mono_t until = mono_add(clock_now(), POPULATE_NS);

	for (uint64_t at = 0; at < len && !mono_reached(clock_now(), until); at += PIECE) {
		size_t n = len - at < PIECE ? len - at : PIECE;

		if (s->whole)
			madvise(p + at, n, MADV_POPULATE_READ);
		else
			holes_spare(p + at, n);
	}
}

/* f has been taken for it. */
static void map_fill(struct mem_map *m, struct map_file *f, const struct map_part *p)
{
	*m = (struct mem_map){ p->addr, p->len, f->held->base + (p->off - f->start), f->held, f, f->touch };
}

int map_new(struct mem_map *m, const struct peer *client, int fd, bool segment, const struct map_part *p)
{
	const size_t in_page = p->off & (PAGE - 1);
	struct map_file *f;
	struct source s;
	uint64_t end;
	int err;

	memset(m, 0, sizeof(*m));
	err = source_read(&s, fd);
	if (err)
		return err;
	s.alone = foreign_ends_alone(fd, client->uid);
	end = (s.size + s.page - 1) & ~(s.page - 1); /* all of the last page is there */
	if (!is_part(p) || p->off > end || p->len > end - p->off)
		return EINVAL;
	err = s.writes ? file_take(&f, &s, client, p->off, p->off + p->len, segment ? SEGMENT : 0) : EACCES;
	if (err) /* that it can be mapped is its exporter's choice: memory of GPUs mostly cannot */
		return err == ENOMEM || s.memory ? err : EOPNOTSUPP;
	map_fill(m, f, p);
	if (s.seen && p->len <= POPULATE_MAX)
		populate(&s, m->ptr - in_page, p->len + in_page);
	return 0;
}

int map_new_segment(struct mem_map *m, struct peer *client, int id, const struct map_part *p)
{
	const size_t in_page = p->off & (PAGE - 1);
	struct map_file *f;
	int err;

	memset(m, 0, sizeof(*m));
	if (!is_part(p) || p->off + p->len < p->off)
		return EINVAL;
	err = segment_take(&f, client, id, p->off + p->len);
	if (err)
		return err;
	map_fill(m, f, p);
	if (p->len <= POPULATE_MAX) /* of our own user's program */
		madvise(m->ptr - in_page, p->len + in_page, MADV_POPULATE_READ);
	return 0;
}

void map_free(struct mem_map *m)
{
	if (m->file)
		file_drop(m->file);
	memset(m, 0, sizeof(*m));
}
