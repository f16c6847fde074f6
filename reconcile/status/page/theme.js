// Light, dark, or as the system has it.

const NAME = "reconcile-theme";
const THEMES = ["system", "light", "dark"];

export function storedTheme() {
  try {
    const theme = localStorage.getItem(NAME);
    return THEMES.includes(theme) ? theme : "system";
  } catch {
    return "system"; // a browser may keep pages from storing anything
  }
}

export function nextTheme(theme) {
  return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
}

/** Show the page in a theme, and remember it. */
export function wear(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(NAME, theme);
  } catch {
    // It lasts until the page is closed.
  }
}
