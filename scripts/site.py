"""A hook of mkdocs (mkdocs.yml): links of pages to files beside docs/ lead to the repository. `go test ./docs/...` checks that the files are there."""

import re

LINK = re.compile(r"\]\(\.\./([^)\s]+)\)")


def on_page_markdown(markdown, config, **_):
    base = config["repo_url"].rstrip("/") + "/blob/main/"
    return LINK.sub(lambda m: "](" + base + m.group(1) + ")", markdown).replace("](.)", "](" + base + "docs)")
