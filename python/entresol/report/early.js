// Before anything is drawn: the choice of light or dark, if one was made.
(() => {
  document.documentElement.classList.add("js");
  try {
    const theme = localStorage.getItem("entresol-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* Storage may be forbidden; the system's choice stands. */ }
})();
