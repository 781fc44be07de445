#!/bin/sh
# SPDX-License-Identifier: MIT
# bundle.sh SRCDIR WASM: the playground as one page, to standard output.
set -eu
src=$1 wasm=$2
here=$src/contrib/playground labs=$src/contrib/labs

cat <<'END'
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'wasm-unsafe-eval'">
<meta name="viewport" content="width=device-width">
<title>RDMA playground</title>
<style>
END
cat "$src/ctl/page/picture.css" "$here/page.css"
echo '</style>'
echo '</head>'
cat "$here/page.html"
# Within a script element no "<" may be: it could end it. These texts have none but in "less than".
texts() {	# KIND FILE...: each by its name without the suffix
	kind=$1
	shift
	for f; do
		name=${f##*/}
		echo "<script type=\"text/plain\" id=\"$kind-${name%.*}\">"
		cat "$f"
		echo '</script>'
	done
}
texts text "$labs"/*.txt
texts fault "$labs"/*.yaml
echo '<script type="application/wasm" id="core">'
base64 "$wasm"
echo '</script>'
for f in "$src/ctl/page/svg.js" "$here/core.js" "$here/ladder.js" "$here/packet.js" "$here/panels.js" "$here/tours.js" \
	"$here/predict.js" "$here/ui.js"; do
	echo '<script>'
	cat "$f"
	echo '</script>'
done
echo '</body>'
echo '</html>'
