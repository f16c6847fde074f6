// All objects: searched, filtered and sorted. Only the rows in sight are in the document.

import { SORTS, arranged, conditionsOf } from "./arranging.js";
import { h } from "./dom.js";
import { empty, keyText, mark, stateChip } from "./pieces.js";
import { objectAddress, objectsAddress } from "./routes.js";
import { HEALTHS, STATES, age, ago, count, fullTime, many, sentenceNow } from "./words.js";

const SPARE = 8; // rows above and below those in sight, for fast scrolling
const HEADING = 31; // px, as in the styles; a phone has none
const HELD_FOR = 1500; // ms after the pointer moved over the list in which its order stays

const narrow = matchMedia("(max-width: 760px)");

/** What the list remembers between two renderings; the filter is in the address. */
export class ObjectsList {
  constructor() {
    this.at = null; // the active row
    this.scroller = null;
    this.pointed = -Infinity;
    this.conditions = [];
    this.conditionsAt = -Infinity;
    this.shown = [];
    this.filter = "";
    this.filtersOpen = false;
  }

  rowHeight() {
    return narrow.matches ? 64 : 38;
  }

  /** Of the part of the list in which rows are seen: the heading stays on top of it. */
  sight() {
    return this.scroller ? this.scroller.clientHeight - (narrow.matches ? 0 : HEADING) : 800;
  }

  /** Rows must not jump away from under a pointer that is about to press one of them. */
  holds() {
    return performance.now() - this.pointed < HELD_FOR;
  }

  /** Move the active row by `step`, and into sight. */
  move(step) {
    if (this.shown.length === 0) return;
    const at = this.at === null ? -1 : this.shown.indexOf(this.at);
    const next = Math.max(0, Math.min(this.shown.length - 1, at < 0 ? 0 : at + step));
    this.at = this.shown[next];
    this.reveal(next);
  }

  reveal(index) {
    const { scroller } = this;
    if (!scroller) return;
    const height = this.rowHeight();
    const top = index * height;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + height > scroller.scrollTop + this.sight()) scroller.scrollTop = top + height - this.sight();
  }

  knownConditions(model) {
    // Counted anew now and then only: it reads all rows, and the answer rarely changes.
    if (performance.now() - this.conditionsAt > 3000) {
      this.conditions = conditionsOf(model.listed);
      this.conditionsAt = performance.now();
    }
    return this.conditions;
  }
}

export function objectsView({ model, route, list, render, go }) {
  const filter = route.values;
  const address = objectsAddress(filter);
  const { shown, counts } = arranged(model.listed, filter, list.holds() && list.filter === address);
  if (list.filter !== address && list.scroller) list.scroller.scrollTop = 0;
  list.filter = address;
  list.shown = shown;
  // What a search finds, its Enter opens; and a row that is gone cannot stay the active one.
  if (list.at === null || list.at.gone || !shown.includes(list.at)) list.at = null;
  const change = (values) => go(objectsAddress({ ...filter, ...values }), { replace: true });
  return [
    h("h1", { class: "unseen", tabindex: "-1" }, "Objects"),
    toolbar({ filter, counts, change, model, list, render }),
    rowsInSight({ shown, model, list, render, filter, change }),
    h("p", { class: "foot quiet" }, footWords(shown, model, list)),
  ];
}

function footWords(shown, model, list) {
  const loading = model.complete ? "" : "; more are coming";
  const held = list.holds() && shown.length > 1 ? " · the order is held while you point at the list" : "";
  return `${count(shown.length)} of ${many(model.rows.size, "object")}${loading}${held}`;
}

const SORT_CHOICES = Object.entries(SORTS).map(([value, [words]]) => [value, words]);

function toolbar({ filter, counts, change, model, list, render }) {
  const controllers = (model.hello?.controllers ?? []).map((name) => [name, name]);
  return h("div", { class: "toolbar", role: "search" },
    h("input", {
      type: "search", id: "search", placeholder: "Search names, reasons, errors", "aria-label": "Search objects",
      "aria-keyshortcuts": "/", autocomplete: "off", spellcheck: "false", maxlength: "200",
      value: filter.q ?? "", oninput: (event) => change({ q: event.target.value }),
    }),
    h("button", {
      class: "filters-button", type: "button", "aria-expanded": String(list.filtersOpen), "aria-controls": "filters",
      onclick: () => { list.filtersOpen = !list.filtersOpen; render(); },
    }, "Filters"),
    h("div", { class: list.filtersOpen ? "filters open" : "filters", id: "filters" },
      h("div", { class: "healths", role: "group", "aria-label": "Health" },
        HEALTHS.map((name, at) => healthButton(name, counts[at], filter, change))),
      h("div", { class: "selects" },
        select("State", filter.state, STATES.map((name) => [name, name]), (state) => change({ state })),
        select("Condition", filter.condition, conditionChoices(filter, model, list), (condition) => change({ condition })),
        controllers.length > 1 && select("Controller", filter.controller, controllers, (controller) => change({ controller })),
        select("Sort", filter.sort ?? "look", SORT_CHOICES, (sort) => change({ sort }), false))));
}

function healthButton(name, number, filter, change) {
  const isOn = filter.health === name;
  return h("button", {
    type: "button", class: `filter ${name}`, "aria-pressed": String(isOn), onclick: () => change({ health: isOn ? "" : name }),
  }, mark(name), name, h("b", {}, count(number)));
}

function conditionChoices(filter, model, list) {
  const known = list.knownConditions(model);
  const all = filter.condition && !known.includes(filter.condition) ? [filter.condition, ...known] : known;
  return all.map((each) => [each, each]);
}

function select(label, value, choices, onchange, withAll = true) {
  return h("label", { class: "select" }, h("span", {}, label),
    h("select", { value: value ?? "", onchange: (event) => onchange(event.target.value) },
      withAll && h("option", { value: "", key: "" }, "all"),
      choices.map(([name, words]) => h("option", { value: name, key: name }, words))));
}

const COLUMNS = [
  ["health", "Health", ["health"]], ["object", "Object", ["name"]], ["why", "Why", ["look"]],
  ["retries", "Retries", ["retries"]], ["run", "Last run", ["run"]], ["age", "Age", ["newest", "oldest"]],
];

function heading(filter, change) {
  return h("div", { class: "grid-head", "aria-hidden": "true" }, COLUMNS.map(([name, words, sorts]) => {
    const current = sorts.includes(filter.sort ?? "look");
    const next = sorts[(sorts.indexOf(filter.sort) + 1) % sorts.length];
    return h("button", {
      type: "button", tabindex: "-1", class: `cell-${name}${current ? " sorted" : ""}`,
      title: `Sort: ${SORTS[next][0]}`, onclick: () => change({ sort: next }),
    }, words);
  }));
}

function rowsInSight({ shown, model, list, render, filter, change }) {
  const height = list.rowHeight();
  const top = list.scroller?.scrollTop ?? 0;
  const first = Math.max(0, Math.floor(top / height) - SPARE);
  const end = Math.min(shown.length, Math.ceil((top + list.sight()) / height) + SPARE);
  const now = model.now();
  return h("div", {
    id: "rows", class: "rows", role: "listbox", tabindex: "0", "aria-label": "Objects",
    "aria-activedescendant": list.at ? `row-${list.at.id}` : null,
    onscroll: render, onpointermove: () => { list.pointed = performance.now(); },
    onpointerleave: () => { list.pointed = -Infinity; render(); },
  },
  heading(filter, change),
  shown.length === 0 && emptyList(model, filter),
  h("div", { class: "all-rows", role: "presentation", style: { height: `${shown.length * height}px` } },
    shown.slice(first, end).map((row, at) =>
      rowOf(row, { now, top: (first + at) * height, place: first + at + 1, of: shown.length, isActive: row === list.at }))));
}

function emptyList(model, filter) {
  if (!model.complete) return empty("Objects are coming…");
  const filtered = Object.entries(filter).some(([name, value]) => name !== "sort" && value);
  if (!filtered) return empty("There are no objects yet.");
  return empty("No object is like that. ", h("a", { href: "#/objects" }, "Show all"));
}

function rowOf(row, { now, top, place, of, isActive }) {
  const health = HEALTHS[row.health];
  const why = row.reason || sentenceNow(row, now) || row.conditions.join(", ");
  return h("a", {
    key: row.id, id: `row-${row.id}`, class: isActive ? "row active" : "row", href: objectAddress(row.controller, row.key),
    role: "option", tabindex: "-1", "aria-selected": String(isActive), "aria-setsize": String(of), "aria-posinset": String(place),
    style: { transform: `translateY(${top}px)` },
  },
  h("span", { class: `cell-health health ${health}` }, mark(health), h("span", { class: "word" }, health)),
  h("span", { class: "cell-object" }, keyText(row.key), h("span", { class: "controller quiet" }, row.controller)),
  h("span", { class: "cell-why" }, stateChip(row, now), h("span", { class: "words", title: why || null }, why)),
  h("span", { class: `cell-retries ${row.failures ? "bad" : "quiet"}` }, row.failures ? `${count(row.failures)}×` : "–"),
  h("span", { class: "cell-run quiet", title: fullTime(row.ended) || null }, row.ended === null ? "–" : ago(row.ended, now)),
  h("span", { class: "cell-age quiet", title: fullTime(row.created) || null },
    row.created === null ? "–" : age(now - row.created)));
}
