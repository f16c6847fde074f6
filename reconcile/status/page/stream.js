// The stream of events from the manager, by fetch: EventSource can send no token.

const SILENCE = 40_000; // the manager sends a comment each 15 s
const LONGEST_WAIT = 15_000;
const LONGEST_EVENT = 32 * 1024 * 1024;
// Then a tab gives its place up: a manager serves few streams at once, and a browser has six connections to it.
const HIDDEN_FOR = 30_000;

/**
 * Follow the stream for as long as the page lives. Calls, all with one value:
 * `onEvent({name, data})`, `onStatus({live, words, retryAt, denied})`.
 */
export class Stream {
  constructor(session, { onEvent, onStatus }) {
    this.session = session;
    this.onEvent = onEvent;
    this.onStatus = onStatus;
    this.failures = 0;
    this.attempt = null;
    this.timer = null;
    this.hidden = null;
    document.addEventListener("visibilitychange", () => this.visibility());
    window.addEventListener("online", () => this.now());
    // A browser keeps pages that one may go back to, with their connections.
    window.addEventListener("pagehide", () => this.rest());
    window.addEventListener("pageshow", (event) => event.persisted && this.now());
  }

  /** Connect at once, whatever is under way. */
  now() {
    clearTimeout(this.timer);
    this.attempt?.abort();
    this.attempt = new AbortController();
    this.connect(this.attempt);
  }

  visibility() {
    clearTimeout(this.hidden);
    if (document.hidden) this.hidden = setTimeout(() => this.rest(), HIDDEN_FOR);
    else if (this.attempt === null) this.now();
  }

  rest() {
    clearTimeout(this.timer);
    this.attempt?.abort();
    this.attempt = null;
    this.onStatus({ live: false, words: "Not followed while this tab is hidden", retryAt: null, denied: 0 });
  }

  async connect(attempt) {
    let failure;
    try {
      failure = await this.follow(attempt);
    } catch (error) {
      failure = { words: inWords(error), denied: 0 };
    }
    if (attempt !== this.attempt) return; // another one is under way
    this.failures += 1;
    // Spread: many pages that follow one manager must not all come back at the same moment.
    const wait = Math.min(LONGEST_WAIT, 500 * 2 ** (this.failures - 1)) * (0.75 + Math.random() / 2);
    const retries = failure.denied === 0 || failure.denied === 503;
    this.onStatus({ live: false, ...failure, retryAt: retries ? Date.now() + wait : null });
    if (retries) this.timer = setTimeout(() => this.now(), wait);
  }

  /** Read events until the stream ends; returns why it ended. */
  async follow(attempt) {
    let quiet = setTimeout(() => attempt.abort(), SILENCE);
    try {
      const answer = await this.session.get("stream", attempt.signal);
      if (!answer.ok) return { words: await reasonOf(answer), denied: answer.status };
      const reader = answer.body.getReader();
      const events = new EventReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return { words: "The manager closed the connection", denied: 0 };
        clearTimeout(quiet);
        quiet = setTimeout(() => attempt.abort(), SILENCE);
        for (const event of events.read(value)) {
          if (attempt !== this.attempt) return { words: "", denied: 0 };
          if (event.name === "hello") {
            this.failures = 0;
            this.onStatus({ live: true, words: "Live", retryAt: null, denied: 0 });
          }
          this.onEvent(event);
        }
      }
    } finally {
      clearTimeout(quiet);
    }
  }
}

/** Turns bytes of `text/event-stream` into events. */
export class EventReader {
  constructor() {
    this.decoder = new TextDecoder();
    this.pending = [];
    this.length = 0;
  }

  /** The events that end in these bytes. Raises where one is longer than any real one. */
  read(bytes) {
    const text = this.decoder.decode(bytes, { stream: true });
    this.pending.push(text);
    this.length += text.length;
    if (this.length > LONGEST_EVENT) throw new Error("an event of the stream is too long");
    // The end may be split between two chunks.
    if (!text.includes("\n")) return [];
    const all = this.pending.join("");
    const end = all.lastIndexOf("\n\n");
    if (end < 0) {
      this.pending = [all];
      return [];
    }
    this.pending = [all.slice(end + 2)];
    this.length = this.pending[0].length;
    return all.slice(0, end).split("\n\n").map(eventOf).filter((event) => event !== null);
  }
}

function eventOf(block) {
  let name = "";
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = line.slice(6);
  }
  return name && data ? { name, data: JSON.parse(data) } : null;
}

/** Why an answer is not the one asked for, in the manager's words where it has some. */
export async function reasonOf(answer) {
  const text = (await answer.text().catch(() => "")).trim().slice(0, 300);
  if (answer.status === 401) return "The API server asks who you are";
  if (answer.status === 403) return text && !text.startsWith("403") ? text : "You have no right to this";
  return text || `The manager answered with status ${answer.status}`;
}

function inWords(error) {
  return error.name === "SyntaxError" ? "The stream cannot be read" : "The manager does not answer";
}
