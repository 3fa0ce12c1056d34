// Before anything is drawn: the theme that was chosen, so that the page does not flash.
"use strict";
try {
  const theme = localStorage.getItem("strata.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // No storage: the system's theme it is.
}
