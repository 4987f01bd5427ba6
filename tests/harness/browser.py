"""The browser for tests, if there is one."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
NO_BROWSER = "Chromium and its driver are not installed: the dashboard is not seen in a browser"
