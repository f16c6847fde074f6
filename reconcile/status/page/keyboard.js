// Keys, where nothing that takes text has the focus.

import { showHelp } from "./dialogs.js";

/** `go(address)`, `theme()`, and `list` with `move(step)`, `at`; `view()` is the view on show. */
export function listenToKeys({ go, back, theme, view, move, open, search }) {
  const always = {
    "?": showHelp, "/": search, t: theme,
    1: () => go("#/controllers"), 2: () => go("#/objects"), 3: () => go("#/clusters"),
  };
  const inList = {
    j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: open,
    PageDown: () => move(10), PageUp: () => move(-10), Home: () => move(-Infinity), End: () => move(Infinity),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || document.querySelector("dialog[open]")) return;
    const field = event.target.closest?.("input, select, textarea");
    if (field) return inField(event, field);
    if (event.key === "Escape") return done(event, back);
    // Enter and the arrows belong to a focused link or button, but for the rows themselves.
    const isOwn = event.target.closest?.("a, button, summary") && !event.target.closest("#rows");
    const key = event.key;
    if (view() === "objects" && key in inList && !(isOwn && !"jk".includes(key))) return done(event, inList[key]);
    if (key in always) done(event, always[key]);
  });

  function inField(event, field) {
    if (field.type !== "search") return;
    if (event.key === "Escape" && field.value === "") done(event, () => field.blur());
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") done(event, inList[event.key]);
    else if (event.key === "Enter") done(event, open);
  }
}

function done(event, act) {
  event.preventDefault();
  act();
}
