// One object's life: why it does not run now, its runs as chains of cause and effect, and what it owns.

import { h } from "./dom.js";
import { badge, empty, healthWord, keyLink, keyText, mark, stateChip } from "./pieces.js";
import { HEALTHS, ago, count, duration, fullTime, many, sentenceNow, timeOfDay, until, visible } from "./words.js";

const AGAIN = 5000;
const SOON = 150; // a run ends in several steps, each of which changes the row
const READS_SHOWN = 4;
const LONGEST_PATH = 300;
const NEVER_SUCH = new Set([400, 404]);

/** The life of the object on show, kept up to date. */
export class LifeOnShow {
  constructor(session, onChange) {
    this.session = session;
    this.onChange = onChange;
    this.clear();
  }

  clear() {
    clearTimeout(this.timer);
    this.asking?.abort();
    Object.assign(this, { controller: "", key: "", life: null, error: null, timer: null, asking: null, row: "", said: "" });
  }

  show(controller, key) {
    if (controller === this.controller && key === this.key) return;
    this.clear();
    Object.assign(this, { controller, key });
    this.ask();
  }

  /** To be told of the row at each rendering: where it has changed, the life has too. */
  follow(row) {
    const signature = row === null ? "" : [row.state, row.health, row.ended, row.failures, row.reason, row.conditions].join("\n");
    if (signature === this.row) return;
    const isFirst = this.row === "";
    this.row = signature;
    if (!isFirst || this.error !== null) this.askIn(SOON);
  }

  askIn(wait) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), wait);
  }

  async ask() {
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    try {
      const life = await this.session.life(this.controller, this.key, asking.signal);
      if (asking !== this.asking) return;
      Object.assign(this, { life, error: null });
    } catch (error) {
      if (asking !== this.asking) return;
      this.error = error;
      if (NEVER_SUCH.has(error.status)) this.life = null;
    }
    this.asking = null;
    // Who is not known is asked for a token, and with that it goes on.
    if (this.error?.status !== 401) this.askIn(document.hidden ? AGAIN * 6 : AGAIN);
    this.onChange();
  }
}

export function objectView({ model, route, shown, actions }) {
  const { controller = "", key = "" } = route.values;
  const row = model.find(controller, key);
  shown.show(controller, key);
  shown.follow(row);
  const { life, error } = shown;
  const now = model.now();
  return [
    title({ controller, key, row, life }),
    actions.allowed && actionBar({ controller, key, row, life, actions }),
    actions.said && h("p", { class: `said ${actions.failed ? "bad" : ""}` }, actions.said),
    error !== null && h("p", { class: "said bad" }, error.status ? error.message : `No answer: ${error.message}`),
    life === null && error === null && empty("Asking the manager…"),
    life !== null && nowPanel({ row, life, now }),
    life !== null && h("div", { class: "columns" },
      h("section", { "aria-labelledby": "runs-title", class: "life" },
        h("h2", { id: "runs-title" }, "Runs", h("span", { class: "quiet small" }, "newest first")),
        life.runs.length === 0
          ? empty("It has not run since this manager started, or so long ago that its runs are forgotten.")
          : h("ol", { class: "timeline" }, life.runs.map((run) => [runItem(run, life, now), gapBelow(run)]))),
      h("div", { class: "beside" }, conditions(life, now), ownership(life))),
  ];
}

function title({ controller, key, row, life }) {
  const health = life?.health ?? (row === null ? null : HEALTHS[row.health]);
  return h("header", { class: "object-head" },
    h("nav", { "aria-label": "Way back", class: "quiet crumbs" }, h("a", { href: "#/objects" }, "Objects"), " / ",
      h("a", { href: `#/objects?${new URLSearchParams({ controller })}` }, controller)),
    h("h1", { tabindex: "-1" }, health !== null && mark(health), keyText(key)),
    h("p", { class: "quiet facts" }, facts(life)));
}

function facts(life) {
  if (life === null) return "";
  const observed = life.observed === null || life.observed === undefined ? "" : `, observed ${life.observed}`;
  const all = [
    life.kind, life.resource, life.cluster && `cluster ${life.cluster}`,
    life.exists === false && "it is gone from the cache",
    life.created && `made ${ago(life.created, life.now)}`,
    life.deleting_since && `deleted ${ago(life.deleting_since, life.now)}`,
    life.deleting_since && life.finalizers?.length && `held by ${life.finalizers.join(", ")}`,
    life.generation && `generation ${life.generation}${observed}`,
  ];
  return all.filter(Boolean).join(" · ");
}

function actionBar({ controller, key, row, life, actions }) {
  const state = row?.state ?? life?.why?.state ?? "";
  const sentence = row?.sentence ?? life?.why?.sentence ?? "";
  // A paused controller is not resumed key by key.
  const isPaused = state === "paused" && sentence.includes("by hand");
  const button = (action, words, help) => h("button", {
    type: "button", key: action, disabled: actions.busy, title: help, onclick: () => actions.start(action, controller, key),
  }, words);
  return h("div", { class: "actions", role: "group", "aria-label": "Actions" },
    button("trigger", "Run now", "Run it as soon as a worker is free"),
    isPaused
      ? button("resume", "Resume", "Let it run again")
      : button("pause", "Pause…", "Keep it from running until it is resumed"));
}

function nowPanel({ row, life, now }) {
  const health = row === null ? life.health : HEALTHS[row.health];
  const reason = row === null ? life.reason : row.reason;
  // The row is newer than the life, but only the life knows the line where a run waits.
  const isSame = row === null || (row.state === life.why.state && row.nextAt === null);
  const why = isSame ? { ...life.why, nextAt: life.why.next_at, seen: life.now } : row;
  const sentence = sentenceNow(why, now);
  return h("section", { class: `panel now-panel ${health}`, "aria-label": "Now" },
    h("p", { class: "now-health" }, healthWord(health), reason && h("span", { class: "words" }, reason)),
    h("p", { class: "now-why" }, h("b", {}, "Why not now? "),
      why.state === "resting"
        ? "Nothing is to be done: it rests."
        : [stateChip(why, now), " ", h("span", { class: "words" }, sentence)]));
}

// --- runs --------------------------------------------------------------------------------------------

const RESULTS = {
  success: ["done", "healthy"], error: ["failed", "failing"], requeue: ["runs again", "progressing"],
  requeue_after: ["done, asked for another run", "healthy"], cancelled: ["cancelled", "waiting"],
  running: ["running", "progressing"],
};

function runItem(run, life, now) {
  const isRunning = run.ended === null;
  const [word, tone] = RESULTS[isRunning ? "running" : run.result] ?? [run.result, "waiting"];
  const took = duration((run.ended ?? now) - run.started);
  return h("li", { key: run.id || run.started, class: `run ${tone}` },
    h("div", { class: "run-head" },
      mark(tone), h("b", {}, word),
      h("time", { title: fullTime(run.started) }, `${timeOfDay(run.started)} · ${ago(run.ended ?? run.started, now)}`),
      h("span", { class: "quiet" }, isRunning ? `for ${took}` : `took ${took}`),
      run.attempt > 0 && badge(`retry ${run.attempt}`),
      run.id && h("code", { class: "quiet run-id", title: `reconcile id ${run.id}` }, run.id.slice(0, 8))),
    h("dl", { class: "chain" },
      step("woken by", wokenBy(run, life)),
      isRunning ? run.at && step("waits at", h("code", {}, run.at)) : [step("read", reads(run)), step("wrote", writes(run))],
      run.error && step("error", [
        h("span", { class: "words bad" }, run.error), run.at && h("code", { class: "quiet place" }, run.at),
      ]),
      hasNext(run) && step("next", nextRun(run, life, now))));
}

/** What stands below a run where those just before it are not kept. */
function gapBelow(run) {
  return run.left_out > 0 && h("li", { key: `below ${run.id}`, class: "run-gap quiet small" },
    `${count(run.left_out)} ${run.left_out === 1 ? "run is" : "runs are"} not kept`);
}

function step(name, content) {
  return [h("dt", {}, name), h("dd", {}, content)];
}

function wokenBy(run, life) {
  if (!run.woken_by?.length) return h("span", { class: "quiet" }, "nothing is known of it");
  return h("ul", {}, run.woken_by.map((cause) =>
    h("li", {}, h("bdi", {}, cause.what), cause.at !== null && cause.at !== undefined &&
      h("span", { class: "quiet small", title: fullTime(cause.at) }, ` ${before(cause.at, run.started)}`), origin(cause, life))));
}

/** The run that this one follows from: of this object by its id, of another one as a link to it. */
function origin({ from }, life) {
  if (!from) return null;
  const id = from.run.slice(0, 8);
  if (from.key === life.key && from.controller === life.controller) return h("span", { class: "quiet small" }, ` by run ${id}`);
  return h("span", { class: "small" },
    h("span", { class: "quiet" }, ` by run ${id} of ${from.controller} `), keyLink(from.controller, from.key));
}

function before(at, started) {
  const gap = started - at;
  return gap < 0.001 ? "at once" : `${duration(gap)} before`;
}

function reads(run) {
  if (!run.reads?.length) return h("span", { class: "quiet" }, "nothing");
  const item = (read) => h("li", {}, h("bdi", {}, read.key ? `${read.kind} ${read.key}` : `a list of ${read.kind}`));
  const first = run.reads.slice(0, READS_SHOWN);
  const rest = run.reads.slice(READS_SHOWN);
  return [
    h("ul", {}, first.map(item)),
    rest.length > 0 && h("details", {}, h("summary", {}, `${count(rest.length)} more`), h("ul", {}, rest.map(item))),
  ];
}

function writes(run) {
  if (!run.writes?.length) return h("span", { class: "quiet" }, "nothing");
  return h("ul", { class: "writes" }, run.writes.map(writeItem));
}

function writeItem(write) {
  const what = write.verb ? `${write.verb} ${write.kind} ${write.key}` : write.text;
  const number = write.fields?.length ?? 0;
  return h("li", {},
    h("bdi", { class: "write" }, what),
    write.seconds !== null && write.seconds !== undefined && h("span", { class: "quiet small" }, ` ${duration(write.seconds)}`),
    write.secret && h("p", { class: "quiet small" }, "of a Secret nothing is shown"),
    // Where the fields are not known any more, the words of the log say what there is to say.
    !write.fields && !write.secret && write.text && h("p", { class: "quiet small words" }, write.text),
    number > 0 && fieldTable(write.fields, "old", "new", ["before", "after"]));
}

/** The fields that differ; `from` and `to` are what they are called in the data, `words` on the page. */
function fieldTable(fields, from, to, words) {
  const titles = ["field", ...words].map((each) => h("th", { scope: "col" }, each));
  return h("table", { class: "fields" },
    h("thead", {}, h("tr", {}, titles)),
    h("tbody", {}, fields.map((field) => h("tr", {},
      h("th", { scope: "row" }, pathText(field.path)),
      h("td", { class: "old", "data-name": words[0] }, value(field[from])),
      h("td", { class: "new", "data-name": words[1] }, value(field[to]))))));
}

/** A path that is broken between its steps, if it must be. */
function pathText(path) {
  const steps = visible(path, LONGEST_PATH).split(/(?=[.[])/);
  return h("bdi", {}, steps.map((step) => [step, h("wbr", {})]));
}

function value(text) {
  return text === "" || text === undefined ? h("span", { class: "quiet" }, "none") : h("bdi", {}, text);
}

function hasNext(run) {
  return run.next_at !== null && run.next_at !== undefined;
}

/** What followed: of the newest run it is still to come, of an older one it has been. */
function nextRun(run, life, now) {
  const isNewest = run === life.runs[0];
  const gap = Math.max(0, run.next_at - run.ended);
  const words = isNewest
    ? `${run.result === "error" ? "tries again" : "runs again"} ${until(run.next_at, now)}`
    : `${run.result === "error" ? "tried again" : "ran again"} after ${duration(gap)}`;
  return h("span", { title: fullTime(run.next_at) }, words);
}

// --- beside the runs ---------------------------------------------------------------------------------

function conditions(life, now) {
  return h("section", { "aria-labelledby": "conditions-title" },
    h("h2", { id: "conditions-title" }, "Conditions"),
    life.conditions.length === 0
      ? empty("It has no conditions.")
      : h("ul", { class: "panel conditions" }, life.conditions.map((each) =>
        h("li", { key: each.type },
          h("span", { class: "condition-head" },
            h("b", {}, h("bdi", {}, each.type)), badge(each.status, `status-${statusClass(each.status)}`),
            each.reason && h("span", { class: "quiet" }, h("bdi", {}, each.reason)),
            each.since && h("time", { class: "quiet small", title: fullTime(each.since) }, `since ${ago(each.since, now)}`)),
          each.message && h("span", { class: "words" }, each.message)))));
}

function statusClass(status) {
  return { True: "true", False: "false" }[status] ?? "unknown";
}

function ownership(life) {
  const children = life.tree?.children ?? [];
  return h("section", { "aria-labelledby": "owns-title" },
    h("h2", { id: "owns-title" }, "Owns", h("span", { class: "quiet small" }, "desired against live")),
    children.length === 0
      ? empty("Nothing that it owns is in a cache here.")
      : h("div", { class: "panel" }, h("ul", { class: "tree" }, children.map(treeNode)), moreChildren(life.tree)));
}

const DESIRED = {
  same: ["as desired", "true"], differs: ["differs", "false"], missing: ["missing", "false"], unknown: ["", "unknown"],
};

function treeNode(node) {
  const [words, tone] = DESIRED[node.desired] ?? ["", "unknown"];
  const fields = node.fields ?? [];
  return h("li", { key: `${node.kind} ${node.uid} ${node.key}` },
    h("span", { class: "node" }, mark(node.health), h("span", { class: "quiet" }, node.kind), keyText(node.key),
      words && badge(fields.length ? `${words} in ${many(fields.length, "field")}` : words, `status-${tone}`)),
    fields.length > 0 && fieldTable(fields, "desired", "live", ["desired", "live"]),
    node.children.length > 0 && h("ul", {}, node.children.map(treeNode)),
    moreChildren(node));
}

function moreChildren(node) {
  return node.more > 0 && h("p", { class: "quiet small" }, `and ${count(node.more)} more`);
}
