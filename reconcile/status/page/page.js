// The status page of a manager. This module brings the parts together; each of the others has one job.

import { askForToken, confirmAction, showHelp } from "./dialogs.js";
import { h, patch } from "./dom.js";
import { header } from "./header.js";
import { listenToKeys } from "./keyboard.js";
import { Model } from "./model.js";
import { empty } from "./pieces.js";
import { objectAddress, routeOf } from "./routes.js";
import { Session } from "./session.js";
import { Stream } from "./stream.js";
import { nextTheme, storedTheme, wear } from "./theme.js";
import { clustersView } from "./view_clusters.js";
import { controllersView } from "./view_controllers.js";
import { LifeOnShow, objectView } from "./view_object.js";
import { ObjectsList, objectsView } from "./view_objects.js";
import { visible } from "./words.js";

const VIEWS = { controllers: controllersView, objects: objectsView, object: objectView, clusters: clustersView };

class Page {
  constructor() {
    this.model = new Model();
    this.route = routeOf(location.hash);
    this.status = { live: false, words: "", retryAt: null, denied: 0 };
    this.theme = storedTheme();
    this.session = new Session(() => this.needToken());
    this.stream = new Stream(this.session, {
      onEvent: (event) => this.onEvent(event), onStatus: (status) => this.onStatus(status),
    });
    this.life = new LifeOnShow(this.session, () => this.render());
    this.list = new ObjectsList();
    this.action = { busy: false, said: "", failed: false };
    this.planned = false;
    this.tokenRefused = false;
    this.scrolled = new Map();
  }

  start() {
    wear(this.theme);
    window.addEventListener("hashchange", () => this.navigate());
    window.addEventListener("resize", () => this.render());
    listenToKeys({
      go: (address) => this.go(address), back: () => this.back(), theme: () => this.changeTheme(),
      view: () => this.route.view, search: () => this.search(),
      move: (step) => { this.list.move(step); this.render(); }, open: () => this.openActive(),
    });
    this.render();
    this.stream.now();
    this.tick();
  }

  // --- what comes in ---------------------------------------------------------------------------------

  onEvent(event) {
    this.model.take(event);
    this.render();
  }

  onStatus(status) {
    const was = this.status;
    this.status = status;
    if (status.live && was.words !== "" && !was.live) announce("Live again");
    else if (!status.live && was.live) announce(`Not live: ${status.words}`);
    document.body.classList.toggle("stale", !status.live && this.model.overview !== null);
    this.render();
  }

  /** Ask for a token, unless the reader did not want to give one: then a button offers it. */
  needToken(isWanted = false) {
    if (this.tokenRefused && !isWanted) return;
    askForToken(this.session.token !== "", (token) => {
      this.tokenRefused = token === "";
      if (this.tokenRefused) return;
      this.session.token = token;
      this.stream.failures = 0;
      this.stream.now();
      if (this.route.view === "object") this.life.ask();
    });
  }

  // --- going around ----------------------------------------------------------------------------------

  go(address, { replace = false } = {}) {
    if (replace) {
      history.replaceState(null, "", address);
      this.route = routeOf(address);
      this.render();
    } else if (location.hash !== address) location.hash = address;
  }

  back() {
    if (this.route.view === "object" && this.scrolled.has("objects")) history.back();
    else this.go(this.route.view === "object" ? "#/objects" : "#/controllers");
  }

  navigate() {
    const before = this.route;
    this.scrolled.set(before.view, this.list.scroller?.scrollTop ?? 0);
    this.route = routeOf(location.hash);
    if (this.route.view !== "object") this.life.clear();
    if (!this.action.busy) this.action = { busy: false, said: "", failed: false };
    this.draw();
    if (this.route.view === before.view && this.route.view !== "object") return;
    if (this.route.view === "objects") this.restoreScroll();
    else scrollTo(0, 0);
    // A screen reader reads the new view's title; the list takes j and k at once.
    const first = this.route.view === "objects" ? document.getElementById("rows") : document.querySelector("main h1");
    first?.focus({ preventScroll: true });
  }

  restoreScroll() {
    if (this.list.scroller) this.list.scroller.scrollTop = this.scrolled.get("objects") ?? 0;
    this.draw();
  }

  search() {
    if (this.route.view !== "objects") {
      this.go("#/objects");
      this.navigate();
    }
    const field = document.getElementById("search");
    field?.focus();
    field?.select();
  }

  openActive() {
    const row = this.list.at ?? this.list.shown[0];
    if (row !== undefined) this.go(objectAddress(row.controller, row.key));
  }

  changeTheme() {
    this.theme = nextTheme(this.theme);
    wear(this.theme);
    announce(`Theme: ${this.theme}`);
    this.render();
  }

  // --- actions ---------------------------------------------------------------------------------------

  startAction(action, controller, key) {
    if (action !== "pause") return this.act(action, controller, key);
    confirmAction(`Pause ${key}?`, "It does not run until it is resumed here, or the manager restarts.", "Pause", () =>
      this.act(action, controller, key));
  }

  async act(action, controller, key) {
    this.action = { busy: true, said: "", failed: false };
    this.render();
    const cluster = this.model.controller(controller)?.cluster;
    try {
      await this.session.act(action, controller, cluster ? `${cluster}:${key}` : key);
      this.said({ trigger: "It is queued to run.", pause: "It is paused.", resume: "It runs again." }[action], false);
      this.life.askIn(300);
    } catch (error) {
      this.said(error.status ? error.message : "The manager does not answer.", true);
    }
  }

  said(words, failed) {
    this.action = { busy: false, said: words, failed };
    announce(words);
    this.render();
  }

  // --- drawing ---------------------------------------------------------------------------------------

  /** Draw with the next frame; many changes until then are one. */
  render() {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      this.draw();
    });
  }

  draw() {
    const { model, route, status, theme, list } = this;
    patch(document.getElementById("top"), header({
      model, route, status, theme, onRetry: () => this.stream.now(), onToken: () => this.needToken(true),
      onTheme: () => this.changeTheme(), onHelp: showHelp,
    }));
    const context = {
      model, route, list, shown: this.life, render: () => this.render(), go: (address, how) => this.go(address, how),
      actions: { ...this.action, allowed: model.hello?.actions === true, start: (...what) => this.startAction(...what) },
    };
    // A key each view: none inherits the elements of another, with what is open or scrolled in them.
    const key = route.view === "object" ? location.hash : route.view;
    patch(document.getElementById("main"), [h("div", { key, class: `view ${route.view}` }, viewOrWords(context))]);
    list.scroller = document.getElementById("rows");
    document.title = titleOf(model, route);
  }

  /** Times such as "3 s ago" go on when nothing else happens. */
  tick() {
    setTimeout(() => {
      if (!document.hidden) this.render();
      this.tick();
    }, 1000 - (Date.now() % 1000));
  }
}

/** A view, or why there is none: data that no view expected must not leave an old picture on the page. */
function viewOrWords(context) {
  try {
    return VIEWS[context.route.view](context);
  } catch (error) {
    reportError(error);
    return [empty(`This view cannot be shown: ${error.message}`)];
  }
}

function titleOf(model, route) {
  const failing = model.overview?.controllers.reduce((sum, each) => sum + (each.objects.failing ?? 0), 0) ?? 0;
  const name = model.hello?.name || "reconcile";
  const what = route.view === "object" ? `${route.values.key ?? ""} · ${name}` : name;
  return visible(failing ? `(${failing}) ${what}` : what, 120);
}

function announce(words) {
  document.getElementById("announcer").textContent = words;
}

new Page().start();
