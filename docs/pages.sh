#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# pages: puts README and the pages below it into the folder of documents of a package. A scheduler's page comes with its
# files. Links to manuals, and to pages about the sources, become text: a package has neither as files here.
#
#   pages.sh FOLDER
set -eu
out=$1
mkdir -p "$out/contrib/python"
out=$(realpath "$out")
cd "$(dirname "$0")/.."
cp README.md NEWS.md SECURITY.md "$out"
cp -R docs "$out"
rm "$out/docs/pages.sh"
for page in contrib/*/README.md; do
    folder=${page%/README.md}
    if [ "$folder" = contrib/python ]; then
        cp "$page" "$out/$folder"
    else
        cp -R "$folder" "$out/contrib"
    fi
done
sed -i -e '/^## Try it, test it/,/^## /{/^## Try it\|^[^#]\|^$/d}' -e '/^- How it is built/d' -e 's/^- Manuals, all in `man.`:/- Manuals:/' \
    "$out/README.md"
find "$out" -name '*.md' -exec sed -Ezi 's!\[([^][]*)\]\((\.\./)*(man/[^)]*|DESIGN\.md|CONTRIBUTING\.md|wheels\.sh)\)!\1!g' {} +
