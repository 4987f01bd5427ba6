"""Hooks that mkdocs calls when it builds the site.

Some pages, such as README.md, are outside docs/, where a reader of the repository
expects them. These hooks make them pages of the site, and adapt the links to them and from them.
"""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
    "bench/NOTES.md": "bench-notes.md",
    "examples/README.md": "examples/index.md",
}
EXAMPLES = {
    f"examples/{readme.parent.name}/README.md": f"examples/{readme.parent.name}.md"
    for readme in sorted(ROOT.glob("examples/*/README.md"))
}
PAGES |= EXAMPLES
LANGUAGES = {".py": "python", ".toml": "toml", ".conf": "text", ".txt": "text"}
MERMAID = Path("javascripts/mermaid.min.js")
LINK = re.compile(r"(?<=\]\()[^)\s]+(?=\))|(?<=<img src=\")[^\"]+(?=\")")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add decisions and examples in their order, and Mermaid if `make site` could fetch it."""
    decisions = sorted(Path(config.docs_dir).glob("decisions/[0-9]*.md"))
    shown = ["decisions/README.md", *(f"decisions/{page.name}" for page in decisions)]
    if config.nav is not None:
        config.nav = replace_leaf(config.nav, "decisions/", shown)
        examples = [PAGES["examples/README.md"], *EXAMPLES.values()]
        config.nav = replace_leaf(config.nav, "examples/", examples)
    if (ROOT / "build" / MERMAID.name).exists():
        config.extra_javascript.append(str(MERMAID))
    else:  # the theme would load it from another host in the browser
        fences = config.mdx_configs["pymdownx.superfences"]
        fences["custom_fences"] = []
    return config


def replace_leaf(nav: object, leaf: str, shown: list[str]) -> object:
    if isinstance(nav, list):
        return [replace_leaf(each, leaf, shown) for each in nav]
    if isinstance(nav, dict):
        return {title: replace_leaf(each, leaf, shown) for title, each in nav.items()}
    return shown if nav == leaf else nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=page_of(name, page)))
    mermaid = ROOT / "build" / MERMAID.name
    if mermaid.exists():
        files.append(File.generated(config, str(MERMAID), content=mermaid.read_bytes()))
    return files


def page_of(name: str, page: str) -> str:
    """The text of a file outside docs/ as a page. The page of an example shows all its files."""
    text = LINK.sub(lambda found: inside(found[0], name, page), (ROOT / name).read_text())
    if name in EXAMPLES:
        folder = (ROOT / name).parent
        for file in sorted(folder.rglob("*")):
            if language := LANGUAGES.get(file.suffix):
                text += f"\n## {file.relative_to(folder)}\n\n"
                text += f"```{language}\n{file.read_text()}```\n"
    return text


def inside(link: str, name: str, page: str) -> str:
    """Adapt a link of a file outside docs/ for its place in docs/."""
    path, hash, anchor = link.partition("#")
    if not path or ":" in path:
        return link
    path = normpath(join(dirname(name), path))
    if path == "docs/decisions":
        path = "docs/decisions/README.md"
    return relpath(PAGES.get(path, path.removeprefix("docs/")), dirname(page)) + hash + anchor


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links from docs/ to the pages outside of it."""
    up = "../" * page.file.src_uri.count("/")
    for name, target in PAGES.items():
        markdown = markdown.replace(f"]({up}../{name}", f"]({up}{target}")
    return markdown
