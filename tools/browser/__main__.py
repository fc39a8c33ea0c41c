"""Install the browser that the tests of the page start, pinned, once.

python -m tools.browser
"""

from __future__ import annotations

from tools.browser.program import install_browser

if __name__ == "__main__":
    install_browser()
