// Texts for people: times, numbers, and what objects call themselves.

export const HEALTHS = ["failing", "deleting", "progressing", "waiting", "healthy"];

const LONGEST = 2000;
// Characters that show nothing, or that make the text around them read in another order.
const UNSEEN = new RegExp("[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e"
  + "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\ufff9-\\ufffb]", "g");

/** A text from a cluster as it is safe to show: of bounded length, and without unseen characters. */
export function visible(text, longest = LONGEST) {
  const cut = text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
  return cut.replace(UNSEEN, (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A duration as the manager words it: `0.4 s`, `12 s`, `5 min`, `3 h`; and `3 d`. */
export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${s.toFixed(0)} s`;
  if (s < 7200) return `${(s / 60).toFixed(0)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(0)} h` : `${(s / 86400).toFixed(0)} d`;
}

/** The same for ages, which change with each look: whole seconds. */
export function age(seconds) {
  const s = Math.max(0, seconds);
  return s < 10 ? `${Math.floor(s)} s` : span(s);
}

export function ago(time, now) {
  return time === null || time === undefined ? "never" : `${age(now - time)} ago`;
}

/** Until a time: `in 4 s`; `now` once it has come. */
export function until(time, now) {
  const left = time - now;
  return left <= 0 ? "now" : `in ${left < 10 ? `${Math.ceil(left)} s` : span(left)}`;
}

export function duration(seconds) {
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return span(seconds);
}

const numbers = new Intl.NumberFormat("en");

export function count(number) {
  return numbers.format(number);
}

/** `1 object`, `2 objects`. */
export function many(number, one, more = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : more}`;
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = number;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${units[at]}`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit",
});

/** The time of a day, by the reader's clock. */
export function timeOfDay(time) {
  return clock.format(new Date(time * 1000));
}

export function fullTime(time) {
  return time === null || time === undefined ? "" : day.format(new Date(time * 1000));
}

const A_TIME = /\b(in|for) \d+(?:\.\d+)? (?:s|min|h)\b/g;

/**
 * A sentence of the manager with the time in it as it is now: "tries again in 5 s" is true for a moment only.
 * `seen`: when the sentence was made, `nextAt`: when the key may run.
 */
export function sentenceNow(row, now) {
  const { sentence, state, nextAt, seen } = row;
  if (!sentence) return "";
  if (nextAt !== null && (state === "back-off" || state === "later")) return replaceTime(sentence, -1, nextAt - now);
  if (nextAt !== null && state === "throttled") return replaceTime(sentence, 0, nextAt - now);
  if (state === "running" || state === "outage") return replaceTime(sentence, 0, null, now - seen);
  return sentence;
}

/** Replace the first (0) or last (-1) time of a sentence by `left`, or make it `later` seconds longer. */
function replaceTime(sentence, which, left, later = 0) {
  const found = [...sentence.matchAll(A_TIME)].at(which);
  if (found === undefined) return sentence;
  const time = left === null ? span(inSeconds(found[0]) + later) : span(left);
  return `${sentence.slice(0, found.index)}${found[1]} ${time}${sentence.slice(found.index + found[0].length)}`;
}

function inSeconds(text) {
  const [, number, unit] = text.split(" ");
  return Number(number) * { s: 1, min: 60, h: 3600 }[unit];
}

/** Namespace and name of a key; no namespace where the kind has none. */
export function parts(key) {
  const slash = key.indexOf("/");
  return slash < 0 ? ["", key] : [key.slice(0, slash), key.slice(slash + 1)];
}

/** Why a key does not run now, in one word each: those of `reconcile explain` and the documentation. */
export const STATES = [
  "resting", "running", "queued", "back-off", "later", "paused", "throttled", "outage", "not-synced", "not-leading", "elsewhere",
];
