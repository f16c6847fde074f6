// The bar on top: which manager, whether what is shown is live, and the way to the views.

import { h } from "./dom.js";
import { badge } from "./pieces.js";
import { age } from "./words.js";

const VIEWS = [["controllers", "Controllers"], ["objects", "Objects"], ["clusters", "Clusters"]];
const THEMES = { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

export function header({ model, route, status, theme, onRetry, onToken, onTheme, onHelp }) {
  const { hello, overview } = model;
  const current = route.view === "object" ? "objects" : route.view;
  return [
    h("div", { class: "brand" },
      logo(),
      h("span", { class: "manager" }, h("bdi", {}, hello?.name || "reconcile")),
      hello && h("span", { class: "quiet identity", title: `replica ${hello.identity}, version ${hello.version}` },
        h("bdi", {}, hello.identity)),
      overview && role(overview),
      overview && !overview.ready && badge("not ready", "attention", "The manager's /readyz fails")),
    h("nav", { "aria-label": "Views" }, VIEWS.map(([view, words]) =>
      h("a", { href: `#/${view}`, "aria-current": view === current ? "page" : null }, words))),
    h("div", { class: "tools" },
      connection({ model, status, onRetry, onToken }),
      tool(THEMES[theme], "t", onTheme, themeIcon(theme)),
      tool("Keys and words", "?", onHelp, "?")),
  ];
}

function tool(words, key, onclick, content) {
  return h("button", {
    type: "button", class: "icon", title: words, "aria-label": words, "aria-keyshortcuts": key, onclick,
  }, content);
}

function role(overview) {
  if (overview.shards) return badge("shares the objects", "", "Each replica works on a part of the objects");
  if (overview.leading) return badge("leads", "status-true");
  return badge("on standby", "", overview.leader ? `${overview.leader} leads` : "No replica is known to lead");
}

function connection({ model, status, onRetry, onToken }) {
  if (status.live) return h("span", { class: "live" }, h("span", { class: "dot" }), "Live");
  if (status.words === "") return h("span", { class: "live waiting" }, h("span", { class: "dot" }), "Connecting");
  const stale = model.heardAt === null ? "" : ` · data from ${age((Date.now() - model.heardAt) / 1000)} ago`;
  const wait = status.retryAt === null ? "" : ` · again in ${Math.max(0, Math.ceil((status.retryAt - Date.now()) / 1000))} s`;
  return h("span", { class: "live lost" },
    h("span", { class: "dot" }), h("span", { class: "lost-words" }, `${status.words}${wait}${stale}`),
    status.denied === 401 && h("button", { type: "button", onclick: onToken }, "Give a token"),
    h("button", { type: "button", onclick: onRetry }, "Try now"));
}

const SUN = "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15"
  + "M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1";
const MOON = "M13.500 9.500A6 6 0 0 1 6.500 2.500 6 6 0 1 0 13.500 9.500z";
const DISK = "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2z";
const HALF = "M8 2a6 6 0 0 1 0 12z";
const ARROWS = "M12.500 5.500A5 5 0 0 0 3.400 6.800M3.500 10.500a5 5 0 0 0 9.100-1.300"
  + "M13 2.500v3.300H9.700M3 13.500v-3.300h3.300";

function drawn(...shapes) {
  return h("svg:svg", { viewBox: "0 0 16 16", "aria-hidden": "true", class: "drawn" }, shapes);
}

function logo() {
  return drawn(h("svg:path", { d: ARROWS }));
}

function themeIcon(theme) {
  if (theme === "light") return drawn(h("svg:path", { d: SUN }));
  if (theme === "dark") return drawn(h("svg:path", { d: MOON }));
  return drawn(h("svg:path", { d: DISK }), h("svg:path", { class: "filled", d: HALF }));
}
