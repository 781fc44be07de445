/* SPDX-License-Identifier: MIT */
/*
 * replay.c - the main() of a fuzz target without libFuzzer: runs it over the files that are named, or over
 * its corpus, $srcdir/t/fuzz/corpus/CORPUS.  A target that finds fault aborts.
 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void replay(const char *path)
{
	uint8_t *data;
	long len;
	FILE *f = fopen(path, "rb");

	if (!f || fseek(f, 0, SEEK_END) || (len = ftell(f)) < 0) {
		perror(path);
		exit(99);
	}
	rewind(f);
	data = malloc((size_t)len + 1);
	if (!data || fread(data, 1, (size_t)len, f) != (size_t)len) {
		perror(path);
		exit(99);
	}
	fclose(f);
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput(data, (size_t)len);
	free(data);
}

int main(int argc, char **argv)
{
	const char *src = getenv("srcdir");
	char dir[4096], path[8192];
	unsigned n = 0;
	struct dirent *e;
	DIR *d;

	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	if (argc > 1)
		return 0;
	snprintf(dir, sizeof(dir), "%s/t/fuzz/corpus/" CORPUS, src ? src : ".");
	d = opendir(dir);
	if (!d) {
		perror(dir);
		return 99;
	}
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		replay(path);
		n++;
	}
	closedir(d);
	printf("%u inputs of %s\n", n, dir);
	return n ? 0 : 1;
}
