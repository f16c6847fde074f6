// The first view: how all controllers do, and what to look at first.

import { arranged } from "./arranging.js";
import { h } from "./dom.js";
import { badge, empty, figure, healthBar, healthCounts, keyLink, mark, sparkline, stateChip } from "./pieces.js";
import { objectsAddress } from "./routes.js";
import { HEALTHS, age, count, many, sentenceNow, span } from "./words.js";

const WORTH_A_LOOK = 6;

export function controllersView({ model }) {
  const { overview } = model;
  if (overview === null) return [empty("Waiting for the first figures…")];
  const { controllers } = overview;
  return [
    h("h1", { class: "unseen", tabindex: "-1" }, "Controllers"),
    summary(overview),
    lookFirst(model),
    h("section", { "aria-labelledby": "controllers-title" },
      h("h2", { id: "controllers-title" }, many(controllers.length, "controller")),
      controllers.length === 0 && empty("This manager has no controllers."),
      h("div", { class: "cards" }, controllers.map((each) => card(each, model)))),
  ];
}

function summary(overview) {
  const objects = Object.fromEntries(HEALTHS.map((name) => [name, sum(overview, (each) => each.objects[name] ?? 0)]));
  const total = HEALTHS.reduce((all, name) => all + objects[name], 0);
  return h("section", { class: "summary panel", "aria-label": "All objects" },
    h("div", { class: "summary-head" },
      h("a", { class: "total", href: objectsAddress({}) }, h("b", {}, count(total)), total === 1 ? " object" : " objects"),
      healthCounts(objects)),
    healthBar(objects),
    shardNote(overview.shards));
}

function shardNote(shards) {
  if (!shards) return null;
  const held = `${count(shards.held)} of ${count(shards.buckets)} buckets`;
  return h("p", { class: "quiet note" }, `This replica works on ${held}; the objects of the others are shown by `,
    h("a", { href: "#/clusters" }, "their replicas"), ".");
}

function sum(overview, of) {
  return overview.controllers.reduce((all, each) => all + of(each), 0);
}

/** The objects that fail, and those that are slowed down. */
function lookFirst(model) {
  const now = model.now();
  const rows = [...arranged(model.listed.filter(needsALook), { sort: "look" }).shown].slice(0, WORTH_A_LOOK);
  if (rows.length === 0) return null;
  return h("section", { "aria-labelledby": "look-title" },
    h("h2", { id: "look-title" }, "Look at these first",
      h("a", { class: "more", href: objectsAddress({ health: "failing" }) }, "all that fail")),
    h("ul", { class: "panel look" }, rows.map((row) =>
      h("li", { key: row.id },
        mark(HEALTHS[row.health]),
        keyLink(row.controller, row.key),
        h("span", { class: "words" }, row.reason || sentenceNow(row, now)),
        stateChip(row, now)))));
}

function needsALook(row) {
  return !row.gone && (row.health === 0 || row.state === "throttled");
}

function card(controller, model) {
  const name = controller.name;
  return h("article", { class: "panel card", key: name },
    h("header", {},
      h("h3", {}, h("a", { href: objectsAddress({ controller: name }) }, h("bdi", {}, name))),
      h("span", { class: "quiet" }, controller.resource),
      controller.cluster && badge(`cluster ${controller.cluster}`),
      controller.paused && badge("paused", "attention", "Its runs wait until it is resumed"),
      controller.behind >= 1 && badge(`${age(controller.behind)} behind`, "attention", "The oldest ready key waits this long")),
    healthBar(controller.objects, name),
    healthCounts(controller.objects, name),
    h("dl", { class: "figures" }, figures(controller)),
    course(model.samples.get(name) ?? []),
    storms(controller));
}

function figures(controller) {
  const { queue, running, workers, runs_last_minute: runs, failures_last_minute: failures, behind } = controller;
  const plain = (value) => (value ? "" : "zero");
  const marked = (value, tone) => (value ? tone : "zero");
  return [
    figure(count(queue.ready), "ready", { tone: plain(queue.ready), title: "Keys that could run now" }),
    figure(count(queue.later), "later", { tone: plain(queue.later), title: "Keys that are due later" }),
    figure(count(queue.backoff), "back-off", {
      tone: marked(queue.backoff, "attention"), title: "Keys that failed and are tried again",
    }),
    figure(`${count(running)} / ${count(workers)}`, "running", {
      tone: plain(running), title: "Runs under way, of so many workers",
    }),
    figure(count(runs), "runs a minute", { tone: plain(runs) }),
    figure(failures === null ? "–" : count(failures), "failures a minute", { tone: marked(failures, "bad") }),
    figure(span(behind), "behind", {
      tone: marked(behind >= 1, "attention"), title: "How long the oldest ready key has waited",
    }),
  ];
}

function course(samples) {
  if (samples.length < 3) return null;
  const minutes = Math.max(1, Math.round((samples.at(-1).at - samples[0].at) / 60));
  const busy = samples.map((each) => each.runs);
  return h("div", { class: "course quiet" }, sparkline(busy, `runs a minute: from ${busy[0]} to ${busy.at(-1)}`),
    `runs a minute, last ${minutes} min`);
}

function storms(controller) {
  if (controller.storms.length === 0) return null;
  return h("div", { class: "storms" },
    h("h4", {}, many(controller.storms.length, "storm")),
    h("ul", {}, controller.storms.map((each) =>
      h("li", { key: each.key }, keyLink(controller.name, each.key), " ",
        h("span", { class: "words" }, each.message),
        each.throttled_for > 0 && h("span", { class: "chip state-throttled" }, `next run in ${span(each.throttled_for)}`)))));
}
