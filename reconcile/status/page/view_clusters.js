// Clusters with their informers, the shards, and the certificate of the webhooks.

import { h } from "./dom.js";
import { badge, empty } from "./pieces.js";
import { age, bytes, count, many, span } from "./words.js";

const COLUMNS = ["Kind", "Objects", "Memory", "Last news", "Restarts", "Failures"];
const SILENT = 90; // seconds without news after which a watch is suspicious

export function clustersView({ model }) {
  const { overview } = model;
  if (overview === null) return [empty("Waiting for the first figures…")];
  return [
    h("h1", { class: "unseen", tabindex: "-1" }, "Clusters"),
    overview.clusters.map(cluster),
    shards(overview.shards),
    webhooks(overview.webhooks),
  ];
}

function cluster(each) {
  const name = each.name || "This cluster";
  return h("section", { key: `cluster ${each.name}`, class: "cluster" },
    h("h2", {}, h("bdi", {}, each.name ? `Cluster ${name}` : name),
      each.reachable ? badge("API server answers", "status-true") : badge(awayWords(each), "status-false"),
      !each.synced && badge("waits for the first lists", "attention")),
    each.informers.length === 0
      ? empty("No kind is followed there.")
      : h("div", { class: "panel scrolled" }, h("table", { class: "informers" },
        h("thead", {}, h("tr", {}, COLUMNS.map((words) => h("th", { scope: "col" }, words)))),
        h("tbody", {}, each.informers.map(informer)))));
}

function awayWords(each) {
  return each.down_seconds === null ? "API server away" : `API server away for ${span(each.down_seconds)}`;
}

function informer(each) {
  const isSilent = each.silence !== null && each.silence > SILENT;
  return h("tr", { key: each.resource },
    h("th", { scope: "row" }, h("bdi", {}, each.resource), " ", !each.synced && badge("first list under way", "attention")),
    cell("Objects", count(each.objects)),
    cell("Memory", each.bytes === null ? "–" : bytes(each.bytes)),
    cell("Last news", each.silence === null ? "–" : `${age(each.silence)} ago`, isSilent ? "attention" : ""),
    cell("Restarts", count(each.restarts)),
    cell("Failures", count(each.failures), each.failures ? "bad" : ""));
}

function cell(name, words, tone = "") {
  return h("td", { "data-name": name, class: tone }, words);
}

function shards(ring) {
  if (!ring) return null;
  const unowned = ring.buckets - ring.members.reduce((sum, each) => sum + each.held, 0);
  return h("section", { "aria-labelledby": "shards-title" },
    h("h2", { id: "shards-title" }, "Shards", h("span", { class: "quiet small" }, h("bdi", {}, ring.ring)),
      unowned > 0 && badge(`${many(unowned, "bucket")} not held at this moment`, "attention")),
    h("ul", { class: "panel members" }, ring.members.map((each) => member(each, ring))));
}

function member(each, ring) {
  const share = ring.buckets ? each.held / ring.buckets : 0;
  return h("li", { key: each.identity },
    h("span", { class: "member-name" }, h("bdi", {}, each.identity),
      each.identity === ring.identity && badge("this one", "status-true"),
      each.state && h("span", { class: "quiet" }, each.state)),
    h("span", { class: "member-held" }, `${count(each.held)} of ${count(ring.buckets)} buckets`),
    h("span", { class: "bar member-bar", role: "presentation" },
      h("span", { class: "part healthy", style: { "flex-grow": String(share) } }),
      h("span", { class: "part rest", style: { "flex-grow": String(1 - share) } })));
}

function webhooks(facts) {
  if (!facts) return null;
  return h("section", { "aria-labelledby": "webhooks-title" },
    h("h2", { id: "webhooks-title" }, "Webhooks"),
    h("p", { class: "panel" }, certificateWords(facts.certificate_days)));
}

function certificateWords(days) {
  if (days === null || days === undefined) return "There is no certificate yet.";
  if (days <= 0) return badge("The certificate has expired", "status-false");
  return `The certificate is valid for ${days < 2 ? days.toFixed(1) : Math.floor(days)} days more.`;
}
