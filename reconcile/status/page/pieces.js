// What several views show: marks of health, keys, bars, figures.

import { h } from "./dom.js";
import { objectAddress, objectsAddress } from "./routes.js";
import { HEALTHS, count, parts, sentenceNow, until } from "./words.js";

// Shapes as well as colours: not everyone tells red from green.
const MARKS = {
  failing: "M8 1.500 15 14H1zM8 6v4M8 12v.5",
  deleting: "M3 4.500h10M6 4.500V3h4v1.500M4.500 4.500l.6 9h5.800l.6-9",
  progressing: "M13.500 8A5.500 5.500 0 1 1 8 2.500M8 2.500l2.500-1.500M8 2.500l2 2",
  waiting: "M8 2.500a5.500 5.500 0 1 1 0 11 5.500 5.500 0 0 1 0-11M8 5v3.200l2 1.300",
  healthy: "M3 8.500 6.500 12 13 4.500",
};

export function mark(health) {
  const drawing = h("svg:svg", { viewBox: "0 0 16 16", "aria-hidden": "true", class: "mark" },
    h("svg:path", { d: MARKS[health] }));
  return h("span", { class: `health ${health}` }, drawing);
}

export function healthWord(health) {
  return h("span", { class: `health ${health}` }, mark(health), h("span", {}, health));
}

/** An object's name as a link to its life; `bdi`: a name of another script leaves the line around it alone. */
export function keyLink(controller, key, props = {}) {
  return h("a", { href: objectAddress(controller, key), class: "key", ...props }, keyText(key));
}

export function keyText(key) {
  const [namespace, name] = parts(key);
  return h("bdi", {}, namespace && h("span", { class: "quiet" }, `${namespace}/`), h("span", { class: "name" }, name));
}

export function stateChip(row, now) {
  if (row.state === "resting") return null;
  const soon = row.nextAt !== null && ["back-off", "later", "throttled"].includes(row.state);
  return h("span", { class: `chip state-${row.state}` }, soon ? `${row.state} · ${until(row.nextAt, now)}` : row.state);
}

/** Why a key does not run now, as the manager words it. */
export function whyNow(row, now) {
  return sentenceNow(row, now);
}

/** Objects by health as one bar. Its parts are links to the objects. */
export function healthBar(objects, controller) {
  const total = HEALTHS.reduce((sum, name) => sum + (objects[name] ?? 0), 0);
  const label = HEALTHS.filter((name) => objects[name]).map((name) => `${count(objects[name])} ${name}`).join(", ");
  return h("div", { class: "bar", role: "img", "aria-label": label || "no objects" },
    HEALTHS.filter((name) => objects[name]).map((name) =>
      h("a", {
        key: name, class: `part ${name}`, href: objectsAddress({ health: name, controller }), tabindex: "-1",
        title: `${count(objects[name])} ${name}`, style: { "flex-grow": String(objects[name] / total) },
      })));
}

/** How many objects are in each health, as links; what there is none of is left out. */
export function healthCounts(objects, controller) {
  const some = HEALTHS.filter((name) => objects[name]);
  if (some.length === 0) return h("p", { class: "quiet counts" }, "no objects");
  return h("ul", { class: "counts" }, some.map((name) =>
    h("li", { key: name }, h("a", { href: objectsAddress({ health: name, controller }), class: `count ${name}` },
      mark(name), h("b", {}, count(objects[name])), ` ${name}`))));
}

/** A number with its name below. `tone`: a class that makes it stand out. */
export function figure(value, name, { tone = "", title = "" } = {}) {
  return h("div", { class: `figure ${tone}`, title: title || null },
    h("dd", {}, value), h("dt", {}, name));
}

/** The course of a figure over the last minutes. */
export function sparkline(values, label) {
  const width = 96;
  const height = 20;
  if (values.length < 2) return h("span", { class: "spark" });
  const most = Math.max(1, ...values);
  const step = width / (values.length - 1);
  const heightOf = (value) => height - 1 - (value / most) * (height - 2);
  const points = values.map((value, at) => `${(at * step).toFixed(1)},${heightOf(value).toFixed(1)}`);
  return h("svg:svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    h("svg:polyline", { points: points.join(" ") }));
}

export function badge(words, tone = "", title = null) {
  return h("span", { class: `badge ${tone}`, title }, words);
}

export function empty(...words) {
  return h("p", { class: "empty" }, ...words);
}
