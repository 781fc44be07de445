/* SPDX-License-Identifier: MIT */
/* ladder_page.c - the page: what is in ctl/page/, and the ladder as JSON for it. */
#include <string.h>

#include "ctl/page_text.h"
#include "ladder.h"
#include "ladder_text.h"

/* The rules of .dark once more, for a viewer that wants it dark. */
static void dark_css(FILE *f)
{
	bool in = false;

	fputs("@media (prefers-color-scheme: dark) {\n", f);
	for (unsigned i = 0; picture_css[i]; i++) {
		const char *s = picture_css[i];

		if (!strncmp(s, ".dark ", 6)) {
			in = true;
			fputs(":root ", f);
			s += 6;
		}
		if (in)
			fputs(s, f);
		in = in && !strstr(s, "}\n");
	}
	fputs("}\n", f);
}

void ladder_css(FILE *f, bool viewers_theme)
{
	for (unsigned i = 0; picture_css[i]; i++)
		fputs(picture_css[i], f);
	if (viewers_theme)
		dark_css(f);
}

static void lines(FILE *f, const char *const *line)
{
	for (; *line; line++)
		fputs(*line, f);
}

/* Within a script element no "<" may be: it could end it. */
static int put(const char *text, size_t len, void *f)
{
	for (; len; text++, len--)
		if (*text == '<')
			fputs("\\u003c", f);
		else
			putc(*text, f);
	return 0;
}

bool ladder_html(const struct ladder *l, const struct ladder_style *style, FILE *f)
{
	static const char *const themes[] = { [THEME_AUTO] = "auto", [THEME_LIGHT] = "light", [THEME_DARK] = "dark" };
	json_t *j = ladder_json(l);

	if (!j)
		return false;
	fprintf(f,
		"<!DOCTYPE html>\n<html lang=\"en\" data-theme=\"%s\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
		"script-src 'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
		"<title>ladder</title>\n<style>\n",
		themes[style->theme]);
	ladder_css(f, false);
	lines(f, page_css);
	fputs("</style>\n</head>\n", f);
	lines(f, page_html);
	fputs("<script type=\"application/json\" id=\"data\">", f);
	json_dump_callback(j, put, f, JSON_COMPACT);
	fputs("</script>\n<script>\n", f);
	lines(f, model_js);
	lines(f, svg_js);
	lines(f, draw_js);
	lines(f, ui_js);
	fputs("</script>\n</body>\n</html>\n", f);
	json_decref(j);
	return true;
}
