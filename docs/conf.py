"""
The site: `sphinx-build -W -n -c docs . build/site`, which needs no network, to build or to read.

The source folder is the repository, so that README.md and the pages in docs/ are the same files here and on a
code host, and a relative link means the same in both. What only a site needs is in docs/_ext.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "reticent"
author = "The reticent authors"
project_copyright = author
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "from_code",
    "markdown_docstrings",
    "repository",
]

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "tests/vectors/*.md", "device-js/README.md", "proofs/README.md"]
exclude_patterns = [".*", "build", "dist", "src", "benchmarks", "examples", "docs/generate"]
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # SQL with the placeholders of Grafana and dbt

# Markdown as a code host reads it: no syntax of its own in the pages.
myst_heading_anchors = 4
myst_enable_extensions = []

# Signatures keep their names short; a docstring says the rest.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "no-value": True}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
nitpick_ignore_regex = [(r"py:(?!obj).*", r".*")]  # types in signatures are links where they are public

html_theme = "furo"
html_title = "reticent"
html_static_path = ["_static"]
html_css_files = ["reticent.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]
pygments_style = "friendly"
pygments_dark_style = "monokai"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

linkcheck_ignore = [r"https?://(127\.0\.0\.1|localhost)\b", r".*\bexample\.(org|com)\b", r"^(?!https?:)"]
linkcheck_timeout = 20
