// What the stream has told so far.

import { HEALTHS, visible } from "./words.js";

const SAMPLES = 120; // of each controller, one a second at most
const LONGEST_TEXT = 500;
const MOST_DROPPED = 500; // rows that are gone, kept in the list until it is worth to make it anew

export class Model {
  constructor() {
    this.hello = null;
    this.overview = null;
    this.rows = new Map();
    this.complete = false;
    this.listed = []; // all rows, in the order of the last sort
    this.dropped = 0;
    this.samples = new Map();
    this.behind = 0; // seconds from the browser's clock to the manager's
    this.incoming = null;
    this.heardAt = null;
  }

  /** Seconds since 1970 by the manager's clock, which may differ from the browser's. */
  now() {
    return Date.now() / 1000 + this.behind;
  }

  /** Take an event of the stream. */
  take({ name, data }) {
    this.heardAt = Date.now();
    if (name === "hello") this.takeHello(data);
    else if (name === "overview") this.takeOverview(data);
    else if (name === "rows") this.takeRows(data);
  }

  controllerName(index) {
    return this.hello?.controllers[index] ?? "";
  }

  controller(name) {
    return this.overview?.controllers.find((each) => each.name === name) ?? null;
  }

  /** The row of an object, by the names that a link has. */
  find(controller, key) {
    return this.listed.find((row) => !row.gone && row.key === key && row.controller === controller) ?? null;
  }

  takeHello(data) {
    this.hello = data;
    this.setClock(data.now);
    // Rows of before stay on the page until all new ones are there: it would flicker otherwise.
    this.incoming = this.complete ? new Map() : this.rows;
    if (!this.complete) this.reset();
  }

  reset() {
    this.rows = new Map();
    this.incoming = this.rows;
    this.listed = [];
  }

  takeOverview(data) {
    this.overview = data;
    this.setClock(data.now);
    for (const each of data.controllers) this.sample(each, data.now);
  }

  setClock(now) {
    this.behind = now - Date.now() / 1000;
  }

  sample(controller, now) {
    const samples = this.samples.get(controller.name) ?? [];
    const { queue, runs_last_minute: runs, failures_last_minute: failures } = controller;
    samples.push({ at: now, waiting: queue.ready, runs, failures: failures ?? 0, behind: controller.behind });
    if (samples.length > SAMPLES) samples.shift();
    this.samples.set(controller.name, samples);
  }

  takeRows({ rows, gone, last }) {
    const into = this.incoming ?? this.rows;
    const isShown = into === this.rows;
    const now = this.now();
    for (const cells of rows) {
      const row = this.rowOf(cells, now);
      const known = into.get(row.id);
      if (known !== undefined) Object.assign(known, row);
      else {
        into.set(row.id, row);
        if (isShown) this.listed.push(row);
      }
    }
    for (const id of gone ?? []) this.drop(into, id);
    if (last && this.incoming !== null) this.finish(isShown);
  }

  finish(isShown) {
    if (!isShown) {
      for (const row of this.listed) row.gone = true;
      this.rows = this.incoming;
      this.listed = [...this.rows.values()];
    }
    this.incoming = null;
    this.complete = true;
  }

  drop(rows, id) {
    const row = rows.get(id);
    if (row === undefined) return;
    row.gone = true; // lists leave it out until it is taken from them
    rows.delete(id);
    this.dropped += 1;
    if (this.dropped < MOST_DROPPED) return;
    this.listed = this.listed.filter((each) => !each.gone);
    this.dropped = 0;
  }

  rowOf(cells, now) {
    const [id, index, key, health, reason, state, sentence, created, ended, failures, nextAt, conditions] = cells;
    const controller = this.controllerName(index);
    const row = {
      id, controller, key, health, state, created, ended, failures, nextAt, seen: now, gone: false,
      reason: visible(reason, LONGEST_TEXT),
      sentence: visible(sentence, LONGEST_TEXT),
      conditions: conditions ?? [],
    };
    row.text = `${key} ${row.reason} ${row.sentence} ${HEALTHS[health]}`.toLowerCase();
    return row;
  }
}
