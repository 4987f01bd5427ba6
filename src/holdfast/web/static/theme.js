// Runs before the page is drawn, so that the page does not flash in another theme.
"use strict";
(() => {
  document.documentElement.classList.add("js");
  try {
    const chosen = localStorage.getItem("holdfast-theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch { /* storage is forbidden: the theme of the system stays */ }
})();
