// Which objects a list shows, and in which order. Without effects.

import { HEALTHS } from "./words.js";

/** What a list of objects can be sorted by; the first is what is most worth a look. */
export const SORTS = {
  look: ["Worth a look", byLook],
  name: ["Name", byName],
  health: ["Health", (a, b) => a.health - b.health || byLook(a, b)],
  retries: ["Retries", (a, b) => b.failures - a.failures || byName(a, b)],
  run: ["Last run", (a, b) => (b.ended ?? 0) - (a.ended ?? 0) || byName(a, b)],
  next: ["Next run", (a, b) => (a.nextAt ?? Infinity) - (b.nextAt ?? Infinity) || byName(a, b)],
  newest: ["Youngest", (a, b) => (b.created ?? 0) - (a.created ?? 0) || byName(a, b)],
  oldest: ["Oldest", (a, b) => (a.created ?? Infinity) - (b.created ?? Infinity) || byName(a, b)],
};

function byLook(a, b) {
  return a.health - b.health || b.failures - a.failures || byName(a, b);
}

function byName(a, b) {
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  return a.controller < b.controller ? -1 : a.controller > b.controller ? 1 : 0;
}

/**
 * The rows that pass `filter` ({q, health, state, condition, controller, sort}), and how many there are of each
 * health if that filter alone were off. Sorts `rows` in place: they come nearly in order again, which is fast.
 */
export function arranged(rows, filter, hold = false) {
  if (!hold) rows.sort((SORTS[filter.sort] ?? SORTS.look)[1]);
  const words = (filter.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const health = HEALTHS.indexOf(filter.health);
  const counts = HEALTHS.map(() => 0);
  const shown = [];
  for (const row of rows) {
    if (row.gone || !passes(row, filter, words)) continue;
    counts[row.health] += 1;
    if (health < 0 || row.health === health) shown.push(row);
  }
  return { shown, counts };
}

function passes(row, filter, words) {
  if (filter.controller && row.controller !== filter.controller) return false;
  if (filter.state && row.state !== filter.state) return false;
  if (filter.condition && !row.conditions.includes(filter.condition)) return false;
  return words.every((word) => row.text.includes(word));
}

/** The conditions that objects have, the most frequent first; a tenant may have made up thousands. */
export function conditionsOf(rows, most = 40) {
  const counts = new Map();
  for (const row of rows) {
    if (row.gone) continue;
    for (const each of row.conditions) counts.set(each, (counts.get(each) ?? 0) + 1);
  }
  const sorted = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return sorted.slice(0, most).map(([name]) => name);
}
